/* SPDX-License-Identifier: MIT */
/*
 * A program can serve the page faults of its own memory, or of another process's: QEMU does so
 * after a live migration, CRIU after a lazy restore. A thread that touches a missing page then
 * sleeps in the kernel, in handle_userfault(), until the program has provided the page. So does a
 * controller that reads the memory, and only SIGKILL ends its sleep. If we have stopped the thread
 * that serves the faults, the sleep never ends, and the process stands still.
 *
 * So we consult the pagemap before we read memory:
 *
 *	present, or swapped out  reading does not ask the program
 *	neither                  the mapping decides:
 *	  file on a disk         the kernel reads the file: it registers only anonymous memory,
 *	                         shared memory and huge pages (vma_can_userfault())
 *	  anything else          the flags um (missing) and ui (minor) in /proc/PID/smaps
 *
 * If an entry says "swapped out" and has the write-protect bit, the page may also never have been
 * there (the entry is a marker). Such a page counts as missing.
 *
 * A write to a present page waits only if the page is write-protected (flag uw, bit 57 of its
 * pagemap entry). Since Linux 6.7, a program can ask the kernel to lift the protection itself
 * (UFFD_FEATURE_WP_ASYNC). File mappings can have only that kind of protection.
 *
 * To show smaps, the kernel walks all pages, so smaps is read last. Few processes miss a page where
 * something is read.
 *
 * Sources: userfaultfd(2), proc_pid_smaps(5); Documentation/admin-guide/mm/pagemap.rst and
 * userfaultfd.rst, fs/userfaultfd.c, fs/proc/task_mmu.c of Linux.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/page.h"
#include "libprobe/process/process.h"
#include "libprobe/base/procfs.h"

#define IS_PRESENT (UINT64_C(1) << 63)
#define IS_SWAPPED (UINT64_C(1) << 62)
#define IS_PROTECTED (UINT64_C(1) << 57) /* by userfaultfd */

void served_begin(pid_t pid, struct served *ret)
{
	*ret = (struct served){.pid = pid, .pagemap = memory_open_pagemap(pid)};
}

void served_end(struct served *served)
{
	if (served->pagemap >= 0)
		close(served->pagemap);
	maps_deinit(&served->maps);
	free(served->ranges);
}

/* ---- Pages ----------------------------------------------------------------------------- */

static bool read_entries(struct served *s, uint64_t page, size_t count)
{
	ssize_t length = pread(s->pagemap, s->entries, count * sizeof(*s->entries),
		(off_t)(page * sizeof(*s->entries)));

	s->first = page;
	s->count = length > 0 ? (size_t)length / sizeof(*s->entries) : 0;
	return s->count > 0;
}

/* If the main thread has ended, the process has no pagemap: read another thread's. */
static bool read_living(struct served *s, uint64_t page, size_t count)
{
	pid_t living = procfs_living(s->pid);

	if (living == s->pid)
		return false;
	close(s->pagemap);
	s->pid = living;
	s->pagemap = memory_open_pagemap(living);
	return read_entries(s, page, count);
}

/*
 * The pagemap entry of a page. The caller will ask for `more` pages behind it. If the entry cannot
 * be read, the page counts as present.
 */
static uint64_t entry_of(struct served *s, uint64_t page, size_t more)
{
	size_t count = more < SERVED_ENTRIES && !s->looks_ahead ? more + 1 : SERVED_ENTRIES;

	if (page - s->first < s->count)
		return s->entries[page - s->first];
	if (s->pagemap < 0 || (!read_entries(s, page, count) && !read_living(s, page, count)))
		return IS_PRESENT;
	return s->entries[0];
}

/* ---- Mappings -------------------------------------------------------------------------- */

static bool add_range(struct served *s, uint64_t start, uint64_t end, bool reads)
{
	if (!ARRAY_ROOM(s->ranges, s->range_count))
		return false;
	s->ranges[s->range_count++] = (struct served_range){start, end, reads};
	return true;
}

/* Reads the registered ranges from the flags of all mappings; false if they cannot be read. */
static bool read_ranges(struct served *s)
{
	uint64_t start = 0, end = 0;
	char path[48], *line = NULL;
	size_t room = 0;
	bool ok = true;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)s->pid);
	file = fopen(path, "re");
	while (file && ok && getline(&line, &room, file) > 0) {
		/* Only a mapping's first line begins with a digit, in lower case. */
		if (strchr("0123456789abcdef", line[0])) {
			char *dash;

			start = strtoull(line, &dash, 16);
			end = strtoull(dash + (*dash == '-'), NULL, 16);
		} else if (strncmp(line, "VmFlags:", 8) == 0) {
			bool reads = strstr(line, " um") || strstr(line, " ui");

			if (reads || strstr(line, " uw"))
				ok = add_range(s, start, end, reads);
		}
	}
	free(line);
	ok = ok && file && !ferror(file);
	if (file)
		fclose(file);
	return ok;
}

/*
 * Can a mapping be registered in a way that makes somebody wait? The kernel lifts the protection of
 * file mappings itself.
 */
static bool may_be_registered(const struct served *s, const struct mapping *m)
{
	char type[PROCFS_MOUNT_TYPE];

	if (!m->inode)
		return strncmp(m->path, "[v", 2) != 0; /* vdso, vvar, vsyscall */
	if (m->dev_major)
		return false;
	return !procfs_mount_type(s->pid, m->dev_major, m->dev_minor, type) ||
	       strcmp(type, "tmpfs") == 0 || strcmp(type, "hugetlbfs") == 0;
}

static const struct served_range *range_of(const struct served *s, uint64_t address)
{
	size_t first = ARRAY_SEARCH_ABOVE(s->ranges, s->range_count, end, address);

	return first < s->range_count && s->ranges[first].start <= address ? &s->ranges[first]
									   : NULL;
}

/* May touching the page of an address wait? If this cannot be known, the answer is yes. */
static bool may_wait(struct served *s, uint64_t address, bool is_write, bool is_forced)
{
	const struct served_range *range;
	const struct mapping *m;

	if (s->has_ranges && !s->is_unknown && !range_of(s, address))
		return false;
	if (!s->has_maps) {
		struct probe_error *error = maps_read(s->pid, &s->maps);

		s->has_maps = true;
		s->is_unknown = error != NULL;
		probe_error_free(error);
	}
	m = maps_find(&s->maps, address);
	if (s->is_unknown || !m || (!m->readable && !is_forced) || !may_be_registered(s, m))
		return s->is_unknown;
	if (!s->has_ranges) {
		s->has_ranges = true;
		s->is_unknown = !read_ranges(s);
	}
	range = range_of(s, address);
	return s->is_unknown || (range && (is_write || range->reads));
}

/* ---- Questions ------------------------------------------------------------------------- */

size_t served_readable(struct served *served, uint64_t address, size_t size, bool is_forced)
{
	const uint64_t bytes = page_bytes(), page = address / bytes;
	const size_t more = (address % bytes + size - 1) / bytes;

	for (size_t i = 0; size && i <= more; i++) {
		uint64_t entry = entry_of(served, page + i, more - i);
		bool is_there =
			entry & IS_PRESENT || (entry & IS_SWAPPED && !(entry & IS_PROTECTED));

		if (!is_there && may_wait(served, (page + i) * bytes, false, is_forced))
			return i ? (page + i) * bytes - address : 0;
	}
	return size;
}

bool served_writable(struct served *served, uint64_t address)
{
	uint64_t entry = entry_of(served, address / page_bytes(), 0);

	return (entry & IS_PRESENT && !(entry & IS_PROTECTED)) ||
	       !may_wait(served, address, true, true);
}
