/* SPDX-License-Identifier: MIT */
/*
 * A JIT that writes for `perf inject --jit` (`node --perf-prof`, perf's agent for the JVM, LLVM)
 * appends a record for each function to a file, wherever it likes, and maps the first page of that
 * file executable, for no other reason than that it be seen in the process's mappings:
 *
 *	jit-PID.dump	header: "JiTD", version, length of the header, ...
 *			records: kind, length, time, and of
 *			  LOAD	pid, tid, vma, address, size, number, name, code
 *			  MOVE	pid, tid, vma, old address, new address, size, number
 *			others: source lines, unwinding, the end
 *
 * Numbers are of the machine's byte order. PID is the number that the process has in its own
 * namespace. Source: linux/tools/perf/Documentation/jitdump-specification.txt.
 *
 * The file is used if it is a regular file of the process's user or of root, on a file system that
 * answers. It stays open, so what is written at the process's end is found, too. What is in it is
 * not trusted: it is read, not mapped, since the process may truncate it, a few KiB at a time; code
 * is passed over. A record that is not whole yet is read later.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/modules/distant.h"
#include "libprobe/modules/jit_dump.h"
#include "libprobe/modules/mapped_file.h"
#include "libprobe/base/procfs.h"

enum {
	MAGIC = 0x4a695444,
	VERSION = 1,
	LOAD = 0,
	MOVE = 1,
	NAME_BYTES_MAX = 1024, /* the rest of a longer one is cut off */
	NAMES_BYTES_MAX = 32 << 20,
	RECORDS_AT_ONCE = 1 << 18, /* the next ones in the next read */
	WINDOW_BYTES = 4096
};

struct header {
	uint32_t magic, version, bytes, machine, unused, pid;
	uint64_t time, flags;
};

struct record {
	uint32_t kind, bytes;
	uint64_t time;
};

struct load {
	struct record record;
	uint32_t pid, tid;
	uint64_t vma, address, size, number;
};

struct move {
	struct record record;
	uint32_t pid, tid;
	uint64_t vma, from, to, size, number;
};

_Static_assert(sizeof(struct header) == 40 && sizeof(struct record) == 16 &&
		       sizeof(struct load) == 56 && sizeof(struct move) == 64,
	"as in the file");
_Static_assert(sizeof(struct load) + NAME_BYTES_MAX < WINDOW_BYTES, "a name fits");

/* What was read of the file last. */
struct window {
	uint8_t bytes[WINDOW_BYTES];
	uint64_t start;
	size_t length;
};

void jit_dump_init(struct jit_dump *dump)
{
	*dump = (struct jit_dump){.fd = -1};
}

void jit_dump_deinit(struct jit_dump *dump)
{
	if (dump->fd >= 0)
		close(dump->fd);
	free(dump->entries.items);
	free(dump->numbers);
	buffer_deinit(&dump->names);
}

/* ---- The file ------------------------------------------------------------------------ */

static bool is_dump(const struct mapping *mapping, long pid)
{
	const char *slash = strrchr(mapping->path, '/');
	char name[40];

	snprintf(name, sizeof(name), "jit-%ld.dump", pid);
	return mapping->executable && slash && strcmp(slash + 1, name) == 0;
}

static bool is_trusted(int fd, long uid)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && (st.st_uid == 0 || (long)st.st_uid == uid);
}

static int open_mapped(pid_t pid, const struct maps *maps, const struct mapping *mapping)
{
	struct mapped_files files = mapped_files_of(pid, maps);
	int err, fd = -1;

	/* It grows, so a copy would not do. */
	if (!distant_is(pid, mapping->dev_major, mapping->dev_minor))
		fd = mapped_open(&files, mapping, &err);
	mapped_files_deinit(&files);
	return fd;
}

void jit_dump_look(struct jit_dump *dump, pid_t pid)
{
	pid_t living = procfs_living(pid);
	long uid = procfs_status_number(living, "Uid:");
	long own = procfs_status_last_number(pid, "NSpid:");
	struct maps maps = {0};

	if (dump->fd >= 0 || uid < 0 || own <= 0)
		return;
	probe_error_free(maps_read(living, &maps));
	for (size_t i = 0; i < maps.count && dump->fd < 0; i++) {
		if (!is_dump(&maps.items[i], own))
			continue;
		dump->fd = open_mapped(living, &maps, &maps.items[i]);
		if (dump->fd >= 0 && !is_trusted(dump->fd, uid)) {
			close(dump->fd);
			dump->fd = -1;
		}
	}
	maps_deinit(&maps);
}

/* ---- Its records ----------------------------------------------------------------------- */

/* `size` bytes of the file at `at`, which is within it; NULL: they cannot be read. */
static const void *look_at(struct window *window, int fd, uint64_t at, size_t size)
{
	ssize_t got;

	if (at >= window->start && at - window->start + size <= window->length)
		return window->bytes + (at - window->start);
	got = pread(fd, window->bytes, sizeof(window->bytes), (off_t)at);
	window->start = at;
	window->length = got > 0 ? (size_t)got : 0;
	return window->length >= size ? window->bytes : NULL;
}

/* Notes a name, of `length` bytes. False without memory, or if there are too many. */
static bool add_name(struct jit_dump *dump, const char *name, size_t length, size_t *ret)
{
	*ret = dump->names.length;
	if (dump->names.length + length >= NAMES_BYTES_MAX)
		return false;
	buffer_bytes(&dump->names, name, length);
	buffer_char(&dump->names, '\0');
	return !dump->names.no_memory;
}

static bool load(struct jit_dump *dump, struct window *window, const struct record *record)
{
	size_t behind = record->bytes - sizeof(struct load);
	size_t room = behind < NAME_BYTES_MAX ? behind : NAME_BYTES_MAX, name, length;
	const void *bytes = look_at(window, dump->fd, dump->at, sizeof(struct load) + room);
	struct load head;

	if (!bytes)
		return false;
	memcpy(&head, bytes, sizeof(head));
	length = strnlen((const char *)bytes + sizeof(head), room);
	if (!length || !head.size || jit_entries_full(&dump->entries))
		return true;
	if (!add_name(dump, (const char *)bytes + sizeof(head), length, &name))
		return false;
	/* Only code whose numbers grow can be moved: so writers number it. */
	if (!dump->number_count || dump->numbers[dump->number_count - 1].number < head.number) {
		if (!ARRAY_ROOM(dump->numbers, dump->number_count))
			return false;
		dump->numbers[dump->number_count++] = (struct jit_number){head.number, name};
	}
	return jit_entries_add(&dump->entries, head.address, head.size, name);
}

static bool move(struct jit_dump *dump, struct window *window)
{
	const void *bytes = look_at(window, dump->fd, dump->at, sizeof(struct move));
	const struct jit_number *function;
	struct move head;

	if (!bytes)
		return false;
	memcpy(&head, bytes, sizeof(head));
	function = ARRAY_FIND(dump->numbers, dump->number_count, number, head.number);
	return !function || jit_entries_add(&dump->entries, head.to, head.size, function->name);
}

/* Reads a record that is whole. False: there is none. */
static bool read_record(struct jit_dump *dump, struct window *window, uint64_t size)
{
	const void *bytes;
	struct record record;

	if (size - dump->at < sizeof(record))
		return false;
	bytes = look_at(window, dump->fd, dump->at, sizeof(record));
	if (!bytes)
		return false;
	memcpy(&record, bytes, sizeof(record));
	dump->is_over = record.bytes < sizeof(record);
	if (dump->is_over || record.bytes > size - dump->at)
		return false;
	if (record.kind == LOAD && record.bytes >= sizeof(struct load))
		dump->is_over = !load(dump, window, &record);
	else if (record.kind == MOVE && record.bytes >= sizeof(struct move))
		dump->is_over = !move(dump, window);
	dump->at += record.bytes;
	return !dump->is_over;
}

/* Once it is written, it says where the records begin. */
static void read_header(struct jit_dump *dump, struct window *window, uint64_t size)
{
	const void *bytes = size < sizeof(struct header)
				    ? NULL
				    : look_at(window, dump->fd, 0, sizeof(struct header));
	struct header header;

	if (!bytes)
		return;
	memcpy(&header, bytes, sizeof(header));
	dump->is_over = header.magic != MAGIC || header.version != VERSION ||
			header.bytes < sizeof(header) || header.bytes > size;
	dump->at = header.bytes;
}

bool jit_dump_read(struct jit_dump *dump)
{
	size_t before = dump->entries.count;
	struct window window = {.length = 0};
	struct stat st;

	if (dump->fd < 0 || dump->is_over || fstat(dump->fd, &st))
		return false;
	if (!dump->at)
		read_header(dump, &window, (uint64_t)st.st_size);
	/* It only grows. */
	dump->is_over |= (uint64_t)st.st_size < dump->at;
	for (int i = 0; i < RECORDS_AT_ONCE && dump->at && !dump->is_over; i++)
		if (!read_record(dump, &window, (uint64_t)st.st_size))
			break;
	if (dump->entries.count == before)
		return false;
	jit_entries_sort(&dump->entries);
	return true;
}

const char *jit_dump_find(const struct jit_dump *dump, uint64_t address, uint64_t *start_ret)
{
	const struct jit_entry *found = jit_entries_find(&dump->entries, address);

	if (!found)
		return NULL;
	*start_ret = found->start;
	return dump->names.data + found->name;
}
