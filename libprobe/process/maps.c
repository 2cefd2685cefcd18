/* SPDX-License-Identifier: MIT */
/*
 * Reads /proc/PID/maps. A line is (fs/proc/task_mmu.c, show_map_vma):
 *
 *   start-end rwxp offset major:minor inode      path\n
 *
 * All numbers are hexadecimal except the inode, which is decimal. A newline in a path is printed as
 * "\012"; nothing else is escaped. The path of an unlinked file ends in " (deleted)". The kernel
 * returns about a page of text per read(2), and only each piece is consistent in itself.
 *
 * A JVM has thousands of lines, so the text is read once and the paths point into it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/permission.h"
#include "libprobe/process/process.h"

enum { TEXT_BYTES_START = 64 * 1024, EXEC_TRIES = 10 };

/* ---- The text ------------------------------------------------------------- */

static struct probe_error *system_error(pid_t pid, int err)
{
	switch (err) {
	case ENOENT:
	case ESRCH:
		return procfs_no_process(pid);
	case EACCES:
	case EPERM:
		return permission_maps_error(pid);
	case ENOMEM:
		return probe_error_no_memory();
	default:
		return probe_error_system(err, "cannot read /proc/%d/maps", (int)pid);
	}
}

/* Reads a whole file. The text does not end with a NUL. Returns 0 or an errno. */
static int read_whole(int fd, char **text_ret, size_t *length_ret)
{
	size_t room = TEXT_BYTES_START, length = 0;
	AUTO_FREE char *text = malloc(room);
	ssize_t got;

	while (text && (got = read(fd, text + length, room - length)) != 0) {
		if (got < 0 && errno != EINTR)
			return errno;
		length += got > 0 ? (size_t)got : 0;
		if (length == room) {
			char *more = realloc(text, room *= 2);

			if (!more)
				return ENOMEM;
			text = more;
		}
	}
	*text_ret = text;
	*length_ret = length;
	text = NULL;
	return *text_ret ? 0 : ENOMEM;
}

/* ---- The lines ------------------------------------------------------------ */

/* The rest of a line. The functions below return false if the line is malformed. */
struct cursor {
	char *at, *end;
};

static bool take_number(struct cursor *c, unsigned int base, char delimiter, uint64_t *ret)
{
	uint64_t value = 0;
	char *start = c->at;

	for (; c->at < c->end; c->at++) {
		unsigned int digit = *c->at >= '0' && *c->at <= '9'   ? *c->at - '0'
				     : *c->at >= 'a' && *c->at <= 'f' ? *c->at - 'a' + 10
								      : 16;

		if (digit >= base)
			break;
		if (value > (UINT64_MAX - digit) / base)
			return false;
		value = value * base + digit;
	}
	if (c->at == start)
		return false;
	*ret = value;
	if (c->at == c->end)
		return delimiter == '\0' || delimiter == ' ';
	if (delimiter && *c->at++ != delimiter)
		return false;
	return true;
}

static bool take_small(struct cursor *c, char delimiter, uint32_t *ret)
{
	uint64_t value;

	if (!take_number(c, 16, delimiter, &value) || value > UINT32_MAX)
		return false;
	*ret = (uint32_t)value;
	return true;
}

/* Writes a NUL over the line's end to make the path a string. */
static void take_path(struct cursor *c, struct mapping *ret)
{
	static const char suffix[] = " (deleted)";
	const size_t suffix_length = sizeof(suffix) - 1;
	size_t length;
	char *to;

	while (c->at < c->end && *c->at == ' ')
		c->at++;
	*c->end = '\0';
	length = strlen(c->at);
	if (length > suffix_length && strcmp(c->at + length - suffix_length, suffix) == 0) {
		c->at[length - suffix_length] = '\0';
		ret->deleted = true;
	}
	to = strstr(c->at, "\\012");
	ret->path = c->at;
	/* Convert the kernel's "\012" back into a newline. */
	for (char *from = to; to; from++) {
		bool is_newline = strncmp(from, "\\012", 4) == 0;

		*to = is_newline ? '\n' : *from;
		if (!*to++)
			break;
		from += is_newline ? 3 : 0;
	}
}

static bool parse_line(struct cursor *c, struct mapping *ret)
{
	if (!take_number(c, 16, '-', &ret->start) || !take_number(c, 16, ' ', &ret->end) ||
		c->end - c->at < 5 || c->at[4] != ' ')
		return false;
	ret->readable = c->at[0] == 'r';
	ret->writable = c->at[1] == 'w';
	ret->executable = c->at[2] == 'x';
	ret->is_shared = c->at[3] == 's';
	c->at += 5;
	if (!take_number(c, 16, ' ', &ret->offset) || !take_small(c, ':', &ret->dev_major) ||
		!take_small(c, ' ', &ret->dev_minor) || !take_number(c, 10, ' ', &ret->inode))
		return false;
	if (ret->start >= ret->end)
		return false;
	take_path(c, ret);
	return true;
}

/*
 * Takes ownership of the text, which has room for a NUL. Drops mappings that are out of order: one
 * that moved between two reads appears twice.
 */
static struct probe_error *parse_text(char *text, size_t length, struct maps *ret)
{
	struct maps maps = {.storage = text};
	struct probe_error *error;
	char *at = text, *end = text + length;
	size_t lines = 1;

	for (const char *c = text; (c = memchr(c, '\n', (size_t)(end - c))); c++)
		lines++;
	maps.items = calloc(lines, sizeof(*maps.items));
	error = maps.items ? NULL : probe_error_no_memory();
	while (at < end && !error) {
		char *line_end = memchr(at, '\n', (size_t)(end - at));
		struct cursor cursor = {at, line_end ? line_end : end};
		struct mapping *mapping = &maps.items[maps.count];

		if (!parse_line(&cursor, mapping))
			error = probe_error_new(PROBE_ERROR_FORMAT,
				"malformed line in /proc/PID/maps at byte %zu",
				(size_t)(at - text));
		at = cursor.end + 1;
		if (maps.count > 0 && mapping->start < maps.items[maps.count - 1].end)
			*mapping = (struct mapping){0};
		else
			maps.count++;
	}
	if (error)
		maps_deinit(&maps);
	else
		*ret = maps;
	return error;
}

struct probe_error *maps_parse(const char *text, size_t length, struct maps *ret)
{
	char *copy = malloc(length + 1);

	*ret = (struct maps){0};
	if (!copy)
		return probe_error_no_memory();
	memcpy(copy, text, length);
	return parse_text(copy, length, ret);
}

static int read_text(pid_t pid, char **text_ret, size_t *length_ret)
{
	AUTO_FD int fd = open(procfs_path("/proc/%d/maps", pid).text, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? errno : read_whole(fd, text_ret, length_ret);
}

struct probe_error *maps_read(pid_t pid, struct maps *ret)
{
	AUTO_FREE char *text = NULL;
	char *terminated;
	size_t length = 0;
	int err = read_text(pid, &text, &length);
	pid_t living = !err && length == 0 ? procfs_living(pid) : pid;

	*ret = (struct maps){0};
	if (living != pid) {
		free(text);
		text = NULL;
		err = read_text(living, &text, &length);
	}
	/* During execve(2), the file shows the old program's memory, which is gone. */
	for (int i = 0; i < EXEC_TRIES && !err && length == 0; i++) {
		if (procfs_status_number(pid, "VmSize:") < 0)
			break;
		free(text);
		text = NULL;
		err = read_text(pid, &text, &length);
	}
	if (err)
		return system_error(pid, err);
	if (length == 0)
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d has no memory: it has exited, or is a kernel thread", (int)pid);
	terminated = realloc(text, length + 1);
	if (!terminated)
		return probe_error_no_memory();
	text = NULL;
	return probe_error_prefix(
		parse_text(terminated, length, ret), "cannot read process %d", (int)pid);
}

/* ---- Parts ---------------------------------------------------------------- */

/* As in include/uapi/linux/fs.h of Linux 6.11, which the C library may not have yet. */
struct procmap_query {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor;
	uint32_t vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
#define PROCMAP_QUERY_CALL _IOWR('f', 17, struct procmap_query)
enum {
	QUERY_READABLE = 1,
	QUERY_WRITABLE = 2,
	QUERY_EXECUTABLE = 4,
	QUERY_SHARED = 8,
	QUERY_OR_NEXT = 0x10,
	QUERY_NAME_MAX = 4096
};

/*
 * Appends lines as in /proc/PID/maps for the mappings in a part, from address *at on. Returns 0 or
 * an errno.
 */
static int query_part(int fd, const struct maps_part *part, uint64_t *at, FILE *out)
{
	uint64_t end = part->start + part->size;
	char name[QUERY_NAME_MAX];

	*at = *at > part->start ? *at : part->start;
	while (*at < end) {
		struct procmap_query query = {.size = sizeof(query),
			.query_flags = QUERY_OR_NEXT,
			.query_addr = *at,
			.vma_name_size = sizeof(name),
			.vma_name_addr = (uint64_t)(uintptr_t)name};

		name[0] = '\0';
		if (ioctl(fd, PROCMAP_QUERY_CALL, &query) < 0)
			return errno == ENOENT ? 0 : errno;
		if (query.vma_start >= end)
			return 0;
		for (char *c = name; (c = strchr(c, '\n'));)
			*c = '?'; /* a newline in a name would end the line */
		if (fprintf(out, "%jx-%jx %c%c%c%c %jx %x:%x %ju %s\n", (uintmax_t)query.vma_start,
			    (uintmax_t)query.vma_end, query.vma_flags & QUERY_READABLE ? 'r' : '-',
			    query.vma_flags & QUERY_WRITABLE ? 'w' : '-',
			    query.vma_flags & QUERY_EXECUTABLE ? 'x' : '-',
			    query.vma_flags & QUERY_SHARED ? 's' : 'p', (uintmax_t)query.vma_offset,
			    query.dev_major, query.dev_minor, (uintmax_t)query.inode,
			    query.vma_name_size ? name : "") < 0)
			return ENOMEM;
		*at = query.vma_end;
	}
	return 0;
}

static int query_text(pid_t pid, const struct maps_part *sorted, size_t count, char **text_ret,
	size_t *length_ret)
{
	FILE *out = open_memstream(text_ret, length_ret);
	AUTO_FD int fd = -1;
	uint64_t at = 0;
	int err = 0;

	if (!out)
		return ENOMEM;
	fd = open(procfs_path("/proc/%d/maps", procfs_living(pid)).text, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		err = errno;
	for (size_t i = 0; i < count && !err; i++)
		err = query_part(fd, &sorted[i], &at, out);
	/* If memory is short, glibc can set the text to NULL without reporting an error. */
	if ((fclose(out) != 0 || !*text_ret) && !err)
		err = ENOMEM;
	return err;
}

struct probe_error *maps_read_parts(
	pid_t pid, const struct maps_part *parts, size_t count, struct maps *ret)
{
	AUTO_FREE struct maps_part *sorted = calloc(count + 1, sizeof(*sorted));
	AUTO_FREE char *text = NULL;
	size_t length = 0;
	int err;

	*ret = (struct maps){0};
	if (!sorted)
		return probe_error_no_memory();
	if (count)
		memcpy(sorted, parts, count * sizeof(*sorted));
	ARRAY_SORT(sorted, count, start);
	err = query_text(pid, sorted, count, &text, &length);
	return err ? maps_read(pid, ret) : maps_parse(text, length, ret);
}

struct probe_error *maps_has_flag(pid_t pid, uint64_t start, const char *flag, bool *ret)
{
	struct procfs_path path = procfs_path("/proc/%d/smaps", procfs_living(pid));
	char line[QUERY_NAME_MAX], wanted[16];
	bool is_it = false;
	uintmax_t from = 0, to;
	AUTO_FILE FILE *file = NULL;

	snprintf(wanted, sizeof(wanted), " %s ", flag);
	*ret = false;
	file = fopen(path.text, "re");
	if (!file)
		return procfs_no_room(errno) ? probe_error_system(errno, "%s", path.text) : NULL;
	while (from <= start && !*ret && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "VmFlags:", 8) == 0)
			*ret = is_it && strstr(line, wanted);
		else if (sscanf(line, "%jx-%jx ", &from, &to) == 2)
			is_it = from == start;
	}
	return NULL;
}

void maps_deinit(struct maps *maps)
{
	free(maps->items);
	free(maps->storage);
	*maps = (struct maps){0};
}

/* ---- Finding -------------------------------------------------------------- */

const struct mapping *maps_find_from(const struct maps *maps, uint64_t address)
{
	size_t first = ARRAY_SEARCH_ABOVE(maps->items, maps->count, end, address);

	return first < maps->count ? &maps->items[first] : NULL;
}

const struct mapping *maps_find(const struct maps *maps, uint64_t address)
{
	const struct mapping *mapping = maps_find_from(maps, address);

	return mapping && mapping->start <= address ? mapping : NULL;
}

bool maps_is_shared(const struct maps *maps, uint64_t address)
{
	const struct mapping *mapping = maps_find(maps, address);

	return mapping && mapping->is_shared;
}
