/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/array.h"
#include "libprobe/base/page.h"
#include "libprobe/base/permission.h"
#include "libprobe/process/process.h"

/* ==== Served ================================================================================== */

/*
 * A program can serve the page faults of its own memory, or of another process's: QEMU does so
 * after a live migration, CRIU after a lazy restore. A thread that touches a missing page then
 * sleeps in the kernel, in handle_userfault(), until the program has provided the page. A
 * controller that reads the memory sleeps, too, and only SIGKILL ends its sleep. If we have stopped
 * the thread that serves the faults, the sleep never ends, and the process stands still.
 *
 * So we consult the pagemap before we read memory:
 *
 * 	present, or swapped out  reading does not ask the program
 * 	neither                  the mapping decides:
 * 	  file on a disk         the kernel reads the file; userfaultfd registers only
 * 	                         anonymous memory, shared memory and huge pages
 * 	                         (vma_can_userfault())
 * 	  anything else          the flags um (missing) and ui (minor) in /proc/PID/smaps
 *
 * If an entry says "swapped out" and has the write-protect bit, the page may also never have been
 * there (the entry is a marker). Such a page counts as missing.
 *
 * A write to a present page waits only if the page is write-protected (flag uw, bit 57 of its
 * pagemap entry). Since Linux 6.7, a program can ask the kernel to lift the protection itself
 * (UFFD_FEATURE_WP_ASYNC). File mappings can have only that kind of protection.
 *
 * To show smaps, the kernel walks all pages, so smaps is read last. This is rarely needed, because
 * in most processes no page that we read is missing.
 *
 * Sources: userfaultfd(2), proc_pid_smaps(5); Documentation/admin-guide/mm/pagemap.rst and
 * userfaultfd.rst, fs/userfaultfd.c, fs/proc/task_mmu.c of Linux.
 */

#define IS_PRESENT (UINT64_C(1) << 63)
#define IS_SWAPPED (UINT64_C(1) << 62)
#define IS_OF_FILE (UINT64_C(1) << 61)
#define IS_PROTECTED (UINT64_C(1) << 57) /* write-protected by userfaultfd */

struct served served_of(pid_t pid)
{
	return (struct served){.pid = pid, .pagemap = memory_open_pagemap(pid)};
}

void served_end(struct served *served)
{
	cleanup_fd(&served->pagemap);
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

/* Returns a page's entry, or "present" if it is unreadable. `more` pages will be asked for next. */
static uint64_t entry_of(struct served *s, uint64_t page, size_t more)
{
	size_t count = more < SERVED_ENTRIES && !s->looks_ahead ? more + 1 : SERVED_ENTRIES;
	pid_t living;

	if (page - s->first < s->count)
		return s->entries[page - s->first];
	if (s->pagemap < 0)
		return IS_PRESENT;
	if (read_entries(s, page, count))
		return s->entries[0];
	/* If the main thread has ended, the process has no pagemap: read that of another thread. */
	living = procfs_living(s->pid);
	if (living == s->pid)
		return IS_PRESENT;
	close(s->pagemap);
	s->pid = living;
	s->pagemap = memory_open_pagemap(living);
	return read_entries(s, page, count) ? s->entries[0] : IS_PRESENT;
}

/* ---- Mappings -------------------------------------------------------------------------- */

/* Reads which ranges are registered with userfaultfd, from the flags of all mappings. */
static bool read_ranges(struct served *s)
{
	uint64_t start = 0, end = 0;
	AUTO_FREE char *line = NULL;
	size_t room = 0;
	bool ok = true;
	AUTO_FILE FILE *file = fopen(procfs_path("/proc/%d/smaps", s->pid).text, "re");

	while (file && ok && getline(&line, &room, file) > 0) {
		/* Only a mapping's first line begins with a hexadecimal digit. */
		if (strchr("0123456789abcdef", line[0])) {
			char *dash;

			start = strtoull(line, &dash, 16);
			end = strtoull(dash + (*dash == '-'), NULL, 16);
		} else if (strncmp(line, "VmFlags:", 8) == 0) {
			bool reads = strstr(line, " um") || strstr(line, " ui");

			if (!reads && !strstr(line, " uw"))
				continue;
			ok = ARRAY_ROOM(s->ranges, s->range_count);
			if (ok)
				s->ranges[s->range_count++] =
					(struct served_range){start, end, reads};
		}
	}
	return ok && file && !ferror(file);
}

/*
 * Returns true if userfaultfd can make a reader or writer of a mapping wait. Not for files on a
 * disk, whose protection the kernel lifts itself.
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

/* Returns true if a thread that touches this page may have to wait, or if that is unknown. */
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

bool served_writable(struct served *served, uint64_t address)
{
	uint64_t entry = entry_of(served, address / page_bytes(), 0);

	return (entry & IS_PRESENT && !(entry & IS_PROTECTED)) ||
	       !may_wait(served, address, true, true);
}

/* ==== Memory ================================================================================== */

/* ---- System calls, or /proc/PID/mem ---------------------------------------------------------- */

/*
 * process_vm_readv(2) is missing without CONFIG_CROSS_MEMORY_ATTACH, and may be forbidden by
 * seccomp. /proc/PID/mem needs the same rights and three calls for a read, and ignores protections.
 */
enum way { WAY_UNKNOWN, WAY_CALLS, WAY_FILE };

static _Atomic enum way known_way;

void memory_may_call(bool may)
{
	known_way = may ? WAY_CALLS : WAY_FILE;
}

/*
 * Chooses the calls or /proc/PID/mem. A seccomp filter might kill us for the calls, so if we have
 * filters, memory_may_call() must allow the calls first. Reading our own memory fails only if the
 * kernel lacks the call.
 */
static enum way way(void)
{
	char from = 0, to;
	struct iovec local = {&to, 1}, remote = {&from, 1};

	if (known_way == WAY_UNKNOWN)
		known_way =
			procfs_status_number(gettid(), "Seccomp:") <= 0 &&
					process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1
				? WAY_CALLS
				: WAY_FILE;
	return known_way;
}

enum direction { READ, WRITE };

static int open_mem(pid_t pid, int flags)
{
	return open(procfs_path("/proc/%d/mem", procfs_living(pid)).text, flags | O_CLOEXEC);
}

/* Does what process_vm_readv(2) or process_vm_writev(2) does, with the same error numbers. */
static ssize_t move_by_file(pid_t pid, const struct iovec *local, const struct iovec *remote,
	size_t count, enum direction direction)
{
	AUTO_FD int fd = open_mem(pid, direction == READ ? O_RDONLY : O_WRONLY);
	ssize_t moved = 0;
	int err = 0;

	if (fd < 0) {
		if (errno == EACCES)
			errno = EPERM;
		if (errno == ENOENT)
			errno = ESRCH;
		return -1;
	}
	for (size_t i = 0; i < count; i++) {
		off_t at = (off_t)(uintptr_t)remote[i].iov_base;
		ssize_t length = direction == READ
					 ? pread(fd, local[i].iov_base, local[i].iov_len, at)
					 : pwrite(fd, local[i].iov_base, local[i].iov_len, at);

		if (length > 0)
			moved += length;
		if (length == (ssize_t)local[i].iov_len)
			continue;
		/* A length of 0 says that the process has no memory any more. */
		err = length ? EFAULT : ESRCH;
		break;
	}
	errno = err;
	return moved || !err ? moved : -1;
}

static ssize_t move(pid_t pid, const struct iovec *local, const struct iovec *remote, size_t count,
	enum direction direction)
{
	if (way() == WAY_FILE)
		return move_by_file(pid, local, remote, count, direction);
	return direction == READ ? process_vm_readv(pid, local, count, remote, count, 0)
				 : process_vm_writev(pid, local, count, remote, count, 0);
}

/* ---- Reading --------------------------------------------------------------------------- */

/*
 * Returns how many bytes can be read without waiting for a program. With `is_forced`, the read goes
 * through /proc/PID/mem, which ignores the protection of pages.
 */
static size_t readable(struct served *served, uint64_t address, size_t size, bool is_forced)
{
	const uint64_t bytes = page_bytes(), page = address / bytes;
	const size_t more = (address % bytes + size - 1) / bytes;

	is_forced |= way() == WAY_FILE;
	for (size_t i = 0; size && i <= more; i++) {
		uint64_t entry = entry_of(served, page + i, more - i);
		bool is_there =
			entry & IS_PRESENT || (entry & IS_SWAPPED && !(entry & IS_PROTECTED));

		if (!is_there && may_wait(served, (page + i) * bytes, false, is_forced))
			return i ? (page + i) * bytes - address : 0;
	}
	return size;
}

/* Reads through another thread if the first has ended, and so has lost the memory. */
static ssize_t read_pieces(
	pid_t pid, const struct iovec *local, const struct iovec *remote, size_t count)
{
	ssize_t length = move(pid, local, remote, count, READ);
	pid_t living;

	if (length >= 0 || errno != ESRCH)
		return length;
	living = procfs_living(pid);
	errno = ESRCH;
	return living == pid ? -1 : move(living, local, remote, count, READ);
}

static ssize_t read_piece(pid_t pid, uint64_t address, void *buffer, size_t size)
{
	struct iovec local = {buffer, size}, remote = {(void *)address, size};

	return read_pieces(pid, &local, &remote, 1);
}

size_t memory_read_known(struct served *known, uint64_t address, void *buffer, size_t size)
{
	ssize_t length =
		read_piece(known->pid, address, buffer, readable(known, address, size, false));

	return length < 0 ? 0 : length;
}

size_t memory_read(pid_t pid, uint64_t address, void *buffer, size_t size)
{
	AUTO(served_end) struct served known = served_of(pid);

	return memory_read_known(&known, address, buffer, size);
}

size_t memory_read_forced(pid_t pid, int mem, uint64_t address, void *buffer, size_t size)
{
	AUTO(served_end) struct served known = served_of(pid);
	ssize_t length;

	size = readable(&known, address, size, true);
	length = read_piece(pid, address, buffer, size);
	if (length <= 0)
		length = pread(mem, buffer, size, (off_t)address);
	return length < 0 ? 0 : length;
}

/* Fails unless `size` bytes were moved. If `length` is negative, errno is the reason. */
static struct probe_error *check_length(
	ssize_t length, pid_t pid, const char *needed, uint64_t address, size_t size)
{
	if (length < 0 && errno == ESRCH)
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", pid);
	if (length < 0 && errno == EPERM)
		return permission_trace_error(pid);
	if (length < 0 || (size_t)length != size)
		return probe_error_new(PROBE_ERROR_FORMAT, "process %d has no %zu %s bytes at %#jx",
			pid, size, needed, (uintmax_t)address);
	return NULL;
}

struct probe_error *memory_read_all(pid_t pid, uint64_t address, void *buffer, size_t size)
{
	AUTO(served_end) struct served known = served_of(pid);
	size_t at_once;

	at_once = readable(&known, address, size, false);
	return check_length(
		read_piece(pid, address, buffer, at_once), pid, "readable", address, size);
}

static struct probe_error *unreadable_piece(pid_t pid)
{
	return probe_error_new(
		PROBE_ERROR_FORMAT, "process %d: the memory of a site cannot be read", pid);
}

struct probe_error *memory_read_pieces(pid_t pid, const struct memory_piece *pieces, size_t count)
{
	enum { AT_ONCE = 512 }; /* pieces in one call; below IOV_MAX */
	struct iovec local[AT_ONCE], remote[AT_ONCE];
	AUTO(served_end) struct served served = served_of(pid);

	served.looks_ahead = true;
	while (count) {
		size_t n = count < AT_ONCE ? count : AT_ONCE, size = 0;
		ssize_t length;

		for (size_t i = 0; i < n; i++) {
			if (readable(&served, pieces[i].address, pieces[i].size, false) !=
				pieces[i].size)
				return unreadable_piece(pid);
			local[i] = (struct iovec){pieces[i].buffer, pieces[i].size};
			remote[i] = (struct iovec){(void *)pieces[i].address, pieces[i].size};
			size += pieces[i].size;
		}
		length = read_pieces(pid, local, remote, n);
		if (length < 0 && errno == ESRCH)
			return probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", pid);
		if (length < 0 || (size_t)length != size)
			return unreadable_piece(pid);
		pieces += n;
		count -= n;
	}
	return NULL;
}

/* ---- Writing, and pages in memory ---------------------------------------------------------- */

struct probe_error *memory_write_data(pid_t pid, uint64_t address, const void *buffer, size_t size)
{
	struct iovec local = {(void *)buffer, size}, remote = {(void *)address, size};

	return check_length(move(pid, &local, &remote, 1, WRITE), pid, "writable", address, size);
}

struct probe_error *memory_read_code(int fd, uint64_t address, void *buffer, size_t size)
{
	ssize_t length = pread(fd, buffer, size, (off_t)address);

	if (length == (ssize_t)size)
		return NULL;
	if (length == 0)
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "the process has ended");
	return probe_error_new(PROBE_ERROR_FORMAT, "the process has no %zu readable bytes at %#jx",
		size, (uintmax_t)address);
}

struct probe_error *memory_write_code(int fd, uint64_t address, const void *buffer, size_t size)
{
	ssize_t length = pwrite(fd, buffer, size, address);

	if (length == 0) /* the process has no memory any more */
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "the process has ended");
	if (length < 0 && (errno == EIO || errno == EPERM))
		return probe_error_system(errno,
			"cannot write code of the process at %#jx (there is none, it is "
			"shared with other processes, or the boot parameter "
			"proc_mem.force_override forbids it)",
			(uintmax_t)address);
	if (length < 0 || (size_t)length != size)
		return probe_error_system(length < 0 ? errno : EIO,
			"cannot write code of the process at %#jx", (uintmax_t)address);
	return NULL;
}

struct probe_error *memory_open(pid_t pid, int *fd_ret)
{
	*fd_ret = open_mem(pid, O_RDWR);
	if (*fd_ret >= 0)
		return NULL;
	if (errno == EACCES || errno == EPERM)
		return permission_trace_error(pid);
	if (errno == ENOENT)
		return procfs_no_process(pid);
	if (errno == ESRCH) /* it is exiting and has released its memory */
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", pid);
	return probe_error_system(errno, "/proc/%d/mem", pid);
}

bool memory_is_there(int fd)
{
	char byte;

	/* Address 0 need not be mapped: pread() returns 0 only if the memory is gone. */
	return pread(fd, &byte, 1, 0) != 0;
}

int memory_open_pagemap(pid_t pid)
{
	return open(procfs_path("/proc/%d/pagemap", pid).text, O_RDONLY | O_CLOEXEC);
}

bool memory_is_own_copy(int pagemap, uint64_t address, bool unknown)
{
	uint64_t entry = 0;

	if (pagemap < 0 ||
		pread(pagemap, &entry, sizeof(entry),
			(off_t)(address / page_bytes() * sizeof(entry))) != sizeof(entry))
		return unknown;
	return entry & IS_SWAPPED || (entry & IS_PRESENT && !(entry & IS_OF_FILE));
}

size_t memory_run(int pagemap, uint64_t address, size_t size, bool *there_ret)
{
	enum { ENTRIES = 32 };
	const uint64_t page = page_bytes();
	uint64_t entries[ENTRIES];
	size_t most = ENTRIES * page - address % page, pages, i = 1;
	ssize_t length;

	*there_ret = true;
	if (size > most)
		size = most;
	pages = (address % page + size + page - 1) / page;
	length = pread(pagemap, entries, pages * sizeof(*entries),
		(off_t)(address / page * sizeof(*entries)));
	if (length != (ssize_t)(pages * sizeof(*entries)))
		return size;
	*there_ret = (entries[0] & PAGE_THERE) != 0;
	while (i < pages && ((entries[i] & PAGE_THERE) != 0) == *there_ret)
		i++;
	return i == pages ? size : i * page - address % page;
}

/* ==== Auxiliary vector ======================================================================== */

/* Sources: proc_pid_auxv(5), getauxval(3). */

ssize_t auxv_read(pid_t pid, struct auxv *ret)
{
	AUTO_FD int fd = open(procfs_path("/proc/%d/auxv", pid).text, O_RDONLY | O_CLOEXEC);

	ret->bytes = -1;
	if (fd < 0)
		return -1;
	ret->bytes = read(fd, ret->items, sizeof(ret->items));
	if (ret->bytes < 0)
		ret->bytes = 0;
	return ret->bytes;
}

bool auxv_read_image(pid_t pid, uint64_t *ret)
{
	struct auxv auxv;

	/* Once the main thread has ended, its auxv file is empty: read another thread's file. */
	if (auxv_read(pid, &auxv) <= 0 && auxv_read(procfs_living(pid), &auxv) <= 0)
		return false;
	*ret = auxv_value(&auxv, AT_RANDOM);
	return true;
}

uint64_t auxv_value(const struct auxv *auxv, uint64_t type)
{
	ssize_t item = (ssize_t)sizeof(auxv->items[0]);

	for (ssize_t i = 0; i < auxv->bytes / item; i++)
		if (auxv->items[i][0] == type)
			return auxv->items[i][1];
	return 0;
}
