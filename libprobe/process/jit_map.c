/* SPDX-License-Identifier: MIT */
/*
 * Finds the names of generated code. Code that a process generates is in no file, so its functions
 * have no symbols. Many runtimes name them in a file that they write for perf (`node
 * --perf-basic-prof`, `python3 -X perf`, agents for the JVM):
 *
 * 	/tmp/perf-PID.map	START SIZE NAME, a line for each function, START and SIZE in hex
 *
 * PID is the process's number in its own pid namespace, and /tmp is the process's own /tmp. The
 * process adds lines as it generates code. The process may put new code where other code was, so
 * the last line that covers an address counts. Source:
 * linux/tools/perf/Documentation/jit-interface.txt.
 *
 * Every user may put a file into /tmp. The file is used only if it is a regular file of the
 * process's user or of root, no link leads to it (beneath.c), and it has no second name, because
 * other users could link the map of another process (link(2)). Its contents are untrusted. They are
 * read, not mapped, because the process may truncate the file, and only up to a limit.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/process/process.h"

/* ---- Entries ------------------------------------------------------------------------------- */

/* Ranges of generated code with names, in the order of the file. */

struct jit_entry {
	uint64_t start, end;
	uint64_t reach; /* once sorted: the largest end of this and all earlier entries */
	size_t order;	/* number of entries added before this one */
	size_t name;	/* offset of the name in the text of the file */
};

struct jit_entries {
	struct jit_entry *items;
	size_t count;
};

enum {
	ENTRIES_MAX = 1 << 20,
	/*
	 * Maximum number of entries examined in a search. Code at one address is rarely replaced
	 * more often.
	 */
	STEPS_MAX = 64
};

static int compare_entries(const void *a, const void *b)
{
	const struct jit_entry *x = a, *y = b;

	return ORDER(x->start, y->start) ?: ORDER(x->order, y->order);
}

enum { REFRESH_NS = 250 * 1000 * 1000, BYTES_MAX = 32 << 20 };

struct jit_map {
	pid_t pid;
	unsigned int generation;
	uint64_t looked_ns;
	dev_t dev;
	ino_t inode;
	char *text;	       /* text of the file; each parsed line ends with a NUL */
	size_t length, parsed; /* bytes read, and bytes parsed */
	struct jit_entries entries;
};

struct jit_map *jit_map_create(pid_t pid)
{
	struct jit_map *map = calloc(1, sizeof(*map));

	if (!map)
		return NULL;
	map->pid = pid;
	return map;
}

void jit_map_free(struct jit_map *map)
{
	if (!map)
		return;
	free(map->text);
	free(map->entries.items);
	free(map);
}

/* ---- The file ------------------------------------------------------------------------ */

static bool is_trusted(const struct stat *st, const void *data)
{
	const long *uid = data;

	return st->st_nlink == 1 && (st->st_uid == 0 || (long)st->st_uid == *uid);
}

static int open_file(const struct jit_map *map)
{
	pid_t living = procfs_living(map->pid);
	long uid = procfs_status_number(living, "Uid:");
	long own = procfs_status_last_number(map->pid, "NSpid:");
	int err;

	if (uid < 0 || own <= 0)
		return -1;
	return beneath_open(procfs_path("/proc/%d/root", living).text,
		procfs_path("/tmp/perf-%ld.map", own).text, is_trusted, &uid, &err);
}

/* Reads the bytes that were added to the file. Returns false if there are none. */
static bool read_more(struct jit_map *map, int fd)
{
	struct stat st;
	size_t size, before;
	ssize_t got = 1;
	char *text;

	if (fstat(fd, &st))
		return false;
	/* Forget all entries if the path has another file or the file was begun again. */
	if (st.st_dev != map->dev || st.st_ino != map->inode || st.st_size < (off_t)map->length) {
		map->dev = st.st_dev;
		map->inode = st.st_ino;
		map->length = map->parsed = map->entries.count = 0;
	}
	size = st.st_size < BYTES_MAX ? (size_t)st.st_size : BYTES_MAX;
	before = map->length;
	if (size <= before)
		return false;
	text = realloc(map->text, size + 1);
	if (!text)
		return false;
	map->text = text;
	while (map->length < size && got > 0) {
		got = pread(fd, text + map->length, size - map->length, (off_t)map->length);
		if (got > 0)
			map->length += (size_t)got;
	}
	return map->length > before;
}

/* ---- Its lines ------------------------------------------------------------------------- */

static bool parse_hex(char **at, uint64_t *ret)
{
	char *end;

	/* strtoull(3) would accept blanks and a sign. */
	if (!strchr("0123456789abcdefABCDEF", **at) || !**at)
		return false;
	errno = 0;
	*ret = strtoull(*at, &end, 16);
	if (errno || *end != ' ')
		return false;
	*at = end + strspn(end, " ");
	return true;
}

/*
 * Parses all complete lines. Skips lines that are not entries, and ranges that are empty, wrap
 * around or exceed the limit. If memory is short, some names are missing.
 */
static void parse_lines(struct jit_map *map)
{
	struct jit_entries *entries = &map->entries;
	uint64_t reach = 0;
	char *end;

	while ((end = memchr(map->text + map->parsed, '\n', map->length - map->parsed))) {
		struct jit_entry entry = {.order = entries->count};
		char *line = map->text + map->parsed;
		uint64_t size;

		*end = '\0';
		map->parsed = (size_t)(end + 1 - map->text);
		if (!parse_hex(&line, &entry.start) || !parse_hex(&line, &size) || !*line ||
			!size || __builtin_add_overflow(entry.start, size, &entry.end) ||
			entries->count == ENTRIES_MAX ||
			!ARRAY_ROOM(entries->items, entries->count))
			continue;
		entry.name = (size_t)(line - map->text);
		entries->items[entries->count++] = entry;
	}
	if (entries->count)
		qsort(entries->items, entries->count, sizeof(*entries->items), compare_entries);
	for (size_t i = 0; i < entries->count; i++) {
		if (entries->items[i].end > reach)
			reach = entries->items[i].end;
		entries->items[i].reach = reach;
	}
}

void jit_map_refresh(struct jit_map *map, bool now)
{
	AUTO_FD int fd = -1;

	if (!now && clock_monotonic_ns() - map->looked_ns < REFRESH_NS)
		return;
	fd = open_file(map);
	if (fd >= 0 && read_more(map, fd)) {
		parse_lines(map);
		map->generation++;
	}
	map->looked_ns = clock_monotonic_ns();
}

unsigned int jit_map_generation(const struct jit_map *map)
{
	return map->generation;
}

const char *jit_map_find(const struct jit_map *map, uint64_t address, uint64_t *start_ret)
{
	const struct jit_entries *entries = &map->entries;
	size_t at = ARRAY_SEARCH_ABOVE(entries->items, entries->count, start, address);
	const struct jit_entry *found = NULL;

	/* Find the newest entry that covers the address: new code may have replaced older code. */
	for (int steps = 0; steps < STEPS_MAX && at-- > 0; steps++) {
		const struct jit_entry *entry = &entries->items[at];

		if (entry->reach <= address)
			break;
		if (entry->end > address && (!found || entry->order > found->order))
			found = entry;
	}
	if (!found)
		return NULL;
	*start_ret = found->start;
	return map->text + found->name;
}
