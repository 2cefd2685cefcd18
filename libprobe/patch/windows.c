/* SPDX-License-Identifier: MIT */
/*
 * Searches the memory of a process for contexts that a thread may resume.
 *
 * The context of an interrupted thread can be anywhere in writable memory: on the stack of a
 * thread, on a stack that no thread uses now, on an alternate stack, in a structure of a scheduler.
 * How the program uses its memory is unknown, so everything in RAM is read, except
 *
 *   - files that are mapped privately and not writable;
 *   - mappings that are larger than a stack should be: heaps, with more than HEAP_BYTES in
 *     RAM or SPACE_BYTES of addresses;
 *   - devices, and files of a file system that may not answer;
 *   - our own mappings.
 *
 * The pagemap of the process says which pages are in RAM; reading it allocates nothing. A private
 * page that is not in RAM was never written, or was given back, and need not be read. A page that
 * was swapped out is read. For shared memory, the pagemap shows only the pages that this process
 * has touched and not given back. The other pages of shared memory are read from the mapped file
 * (libprobe/process/shared.c), up to HEAP_BYTES of a mapping in memory, and DISK_BYTES of all
 * others. If we may not open the file, up to BLIND_BYTES are read through the process, which may
 * allocate that much memory for pages that were never written. Larger mappings count as buffers:
 * only the pages that the process uses are read.
 *
 * The search is incomplete if a page exists but cannot be read, or if more than ALL_BYTES would
 * have to be read. Then search.unknown says why. Memory that was unmapped meanwhile holds no
 * context.
 *
 * A running process may move a context from memory that is not read yet to memory that was read
 * already. For this, it must resume the context, and another signal must interrupt the thread again
 * on another stack, before the thread has left the place. This is unlikely, because a place is only
 * some ten instructions long.
 *
 * Sources: Documentation/admin-guide/mm/pagemap.rst of Linux; process_vm_readv(2).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "arch/process.h"
#include "libprobe/base/array.h"
#include "libprobe/base/page.h"
#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"

/* ==== Pages =================================================================================== */

/*
 * A program may reserve terabytes, as with a sanitizer, and the pagemap has an entry for each page.
 * PAGEMAP_SCAN, since Linux 6.7, skips ranges without page tables.
 *
 * Sources: Documentation/admin-guide/mm/pagemap.rst of Linux; ioctl_pagemap_scan(2).
 */

enum {
	ENTRIES = 4096,
	RUNS = ENTRIES / 2 + 1, /* the pages of ENTRIES entries cannot form more runs than this */
	IS_PRESENT = 1 << 3,
	IS_SWAPPED = 1 << 4
};

/* struct pm_scan_arg of <linux/fs.h>, which Debian 12 lacks. */
struct scan {
	uint64_t size, flags;
	uint64_t start, end, walk_end;
	uint64_t vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
_Static_assert(_IOWR('f', 16, struct scan) == SECCOMP_PAGEMAP_SCAN, "the number of the call");

bool pages_open(int pagemap, struct pages *ret)
{
	*ret = (struct pages){.pagemap = pagemap,
		.by_entries = !seccomp_may_call(SECCOMP_OWN_PAGES),
		.entries = array_resident(ENTRIES * sizeof(*ret->entries)),
		.runs = array_resident(RUNS * sizeof(*ret->runs))};
	return ret->entries && ret->runs;
}

void pages_close(struct pages *pages)
{
	free(pages->entries);
	free(pages->runs);
	*pages = (struct pages){0};
}

static size_t scan(const struct pages *p, uint64_t at, uint64_t end, uint64_t *next_ret)
{
	struct scan scan = {.size = sizeof(scan),
		.start = at,
		.end = end,
		.vec = (uintptr_t)p->runs,
		.vec_len = RUNS,
		.category_anyof_mask = IS_PRESENT | IS_SWAPPED,
		.return_mask = IS_PRESENT | IS_SWAPPED};
	int count = ioctl(p->pagemap, SECCOMP_PAGEMAP_SCAN, &scan);

	if (count < 0 || count > RUNS)
		return SIZE_MAX;
	/* With fewer runs than room, the scan reached `end`, even if walk_end is lower. */
	*next_ret = count < RUNS ? page_after(end) : p->runs[count - 1].end;
	return (size_t)count;
}

static size_t read_entries(const struct pages *p, uint64_t at, uint64_t end, uint64_t *next_ret)
{
	const uint64_t page = page_bytes();
	uint64_t pages = page_after(end - at) / page;
	ssize_t length = pread(p->pagemap, p->entries,
		(pages < ENTRIES ? pages : ENTRIES) * sizeof(*p->entries),
		(off_t)(at / page * sizeof(*p->entries)));
	size_t runs = 0;

	if (length < (ssize_t)sizeof(*p->entries))
		return SIZE_MAX;
	pages = (size_t)length / sizeof(*p->entries);
	for (size_t i = 0; i < pages; i++) {
		uint64_t start = at + i * page;

		if (!(p->entries[i] & PAGE_THERE))
			continue;
		if (!runs || p->runs[runs - 1].end != start)
			p->runs[runs++] = (struct pages_run){.start = start};
		p->runs[runs - 1].end = start + page;
	}
	*next_ret = at + pages * page;
	return runs;
}

size_t pages_look(struct pages *p, uint64_t at, uint64_t end, uint64_t *next_ret)
{
	size_t count = p->by_entries ? SIZE_MAX : scan(p, at, end, next_ret);

	if (count != SIZE_MAX)
		return count;
	/* Older kernels have no PAGEMAP_SCAN, and some mappings do not support it. */
	return read_entries(p, at, end, next_ret);
}

/* ==== Search ================================================================================== */

enum {
	CHUNK = 128 << 10,
	FINDS_MAX = 65536,
	PARTS_MAX = 4096,
	/* maximum of layout.state_head */
	HEAD_MAX = 1024,
	ALTERNATE_MAX = 16 << 20, /* maximum size of an alternate stack that is searched whole */
	/* maximum distance from a frame, or its copy, to the floating-point state */
	IN_PLACE_MAX = 64 << 10,
};
#define HEAP_BYTES (UINT64_C(256) << 20)
#define DISK_BYTES (UINT64_C(64) << 20)
#define BLIND_BYTES (UINT64_C(4) << 20)
/* memory that control groups must leave for blind reads */
#define ROOM_BYTES (UINT64_C(16) << 20)
#define SPACE_BYTES (UINT64_C(16) << 30)
#define ALL_BYTES (UINT64_C(2) << 30)

static const char unreadable[] = "some of its memory cannot be read";
static const char too_much[] = "it has more memory than is searched";
static const char no_room[] = "its control group has no memory left to look at what it shares";
static const char too_many[] = "too many words of its memory are such addresses";

struct search_source {
	enum { BY_PAGES, BY_FILE, BLINDLY } way;
	uint64_t bytes; /* how many bytes of the mapping are read, or 0 */
};

/* ---- Finds ------------------------------------------------------------------------------ */

static bool add_find(void *data, uint64_t at, uint64_t word, bool is_context)
{
	struct search *s = data;

	(void)is_context; /* always true here, because `only_images` is set */
	if (s->find_count == FINDS_MAX) {
		s->unknown = too_many;
		return false;
	}
	if (!ARRAY_ROOM(s->finds, s->find_count)) {
		s->no_memory = true;
		return false;
	}
	s->finds[s->find_count++] = (struct search_find){.at = at, .word = word};
	return true;
}

static void describe_find(
	const struct search *s, struct search_find *find, const struct place_image *image)
{
	const struct arch_frame_layout *layout = arch_process()->layout;
	uint64_t distance = image->state - image->at;

	find->is_remote = image->is_remote;
	/* The floating-point state is far away: this is a copy of the context. */
	if (distance < IN_PLACE_MAX || (image->state && !maps_find(&s->maps, image->state)))
		find->state = image->state;
	/* A copy at this distance would overlap the kernel's frame, so it is the frame itself. */
	if (distance >= layout->state_min && distance <= layout->state_max) {
		find->frame = image->at;
		find->frame_end =
			image->sp - image->state < IN_PLACE_MAX ? image->sp : image->state;
	}
}

/*
 * Records memory to search again in the stop: the alternate stack that the image is on, because
 * other threads' contexts are not there, or the whole mapping.
 */
static bool add_part(void *data, const struct place_image *image)
{
	struct search *s = data;
	const struct mapping *m = maps_find(&s->maps, image->at);
	struct search_part part;

	for (size_t i = s->find_count; i-- > 0 && s->finds[i].at > image->at;)
		if (s->finds[i].at == image->at + arch_process()->layout->pc)
			describe_find(s, &s->finds[i], image);
	if (image->is_remote || !m)
		return true;
	part = (struct search_part){m->start, m->end, image->at};
	if (image->at - image->stack < image->stack_end - image->stack &&
		image->stack_end - image->stack <= ALTERNATE_MAX)
		part = (struct search_part){
			image->stack & ~UINT64_C(7), image->stack_end, image->at};
	for (size_t i = s->part_count; i-- > 0;) {
		struct search_part *known = &s->parts[i];

		if (known->start > part.start || known->end < part.end)
			continue;
		known->last = known->last < part.last ? part.last : known->last;
		return true;
	}
	if (s->part_count == PARTS_MAX) {
		s->unknown = too_many;
		return false;
	}
	if (!ARRAY_ROOM(s->parts, s->part_count)) {
		s->no_memory = true;
		return false;
	}
	s->parts[s->part_count++] = part;
	return true;
}

bool search_is_stale(const struct search *s, const struct search_find *find)
{
	const struct arch_frame_layout *layout = arch_process()->layout;
	uint8_t head[HEAD_MAX];
	uint32_t last;
	size_t size;

	if (!find->state)
		return false;
	if (!maps_find(&s->maps, find->state))
		/* the state is not mapped, so rt_sigreturn(2) would fail */
		return true;
	if (memory_read(s->pid, find->state, head, layout->state_head) != layout->state_head)
		return false;
	size = arch_process()->state_size(head);
	return !size ||
	       (memory_read(s->pid, find->state + size, &last, sizeof(last)) == sizeof(last) &&
		       last != layout->state_end);
}

/* ---- Reading --------------------------------------------------------------------------- */

static size_t read_file(int fd, uint64_t offset, void *buffer, size_t size)
{
	ssize_t length = pread(fd, buffer, size, (off_t)offset);

	return length < 0 ? 0 : (size_t)length;
}

/* Reads up to `size` bytes, through `mem` if the process may not read them. Returns how many. */
static size_t read_memory(const struct search *s, uint64_t address, void *buffer, size_t size)
{
	if (s->file >= 0)
		return read_file(s->file, address + s->file_bias, buffer, size);
	return memory_read_forced(s->pid, s->mem, address, buffer, size);
}

/* Does an unreadable page exist? Otherwise it was unmapped meanwhile. */
static bool is_there(const struct search *s, uint64_t address)
{
	uint64_t entry;
	ssize_t length;

	if (s->file >= 0) /* if the file was only made shorter, pread() does not fail */
		return pread(s->file, &entry, 1, (off_t)(address + s->file_bias)) < 0;
	length = pread(
		s->pagemap, &entry, sizeof(entry), (off_t)(address / page_bytes() * sizeof(entry)));

	return length < 0 || (length == sizeof(entry) && entry & PAGE_THERE);
}

/* Searches [start, end), whose pages were just present. */
static bool search_run(struct search *s, uint64_t start, uint64_t end)
{
	const struct place_visitor own = {
		s, add_find, add_part, .only_images = true, .maps = &s->maps};
	const struct place_visitor *visitor = s->visitor ? s->visitor : &own;
	const uint64_t page = page_bytes();
	bool is_page = false; /* a read has failed: now read a single page */

	for (uint64_t at = start; at < end;) {
		size_t most = is_page ? page_of(at) + page - at : CHUNK + PLACE_IMAGE_MAX;
		size_t want = end - at < most ? end - at : most;
		size_t got = read_memory(s, at, s->buffer, want) & ~(size_t)7;
		size_t step = got < CHUNK ? got : CHUNK;

		if (!places_scan(s->places, at, s->buffer, got, step, visitor))
			return false;
		s->bytes += step;
		at += step;
		if (!got && is_page && is_there(s, at)) {
			s->unknown = unreadable;
			return false;
		}
		if (!got && is_page)
			at = page_of(at) + page;
		is_page = !got;
	}
	return true;
}

/* Searches present pages, except s->skipped. */
static void search_present(struct search *s, uint64_t start, uint64_t end)
{
	uint64_t after = s->skipped + page_bytes();

	if (s->skipped >= end || after <= start) {
		search_run(s, start, end);
		return;
	}
	if (s->skipped <= start || search_run(s, start, s->skipped))
		search_run(s, after, end);
}

/* Searches the pages that the process has in memory. */
static void search_pages(struct search *s, uint64_t start, uint64_t end)
{
	/* present pages not searched yet */
	uint64_t from = start, to = start;

	for (uint64_t at = page_of(start); at < end && !s->unknown && !s->no_memory;) {
		size_t count = pages_look(&s->pages, at, end, &at);

		if (count == SIZE_MAX) {
			s->unknown = unreadable;
			return;
		}
		for (size_t i = 0; i < count && !s->unknown && !s->no_memory; i++) {
			const struct pages_run *run = &s->pages.runs[i];

			if (run->start > to) {
				search_present(s, from, to);
				from = run->start;
			}
			to = run->end < end ? run->end : end;
		}
	}
	if (!s->unknown && !s->no_memory)
		search_present(s, from, to);
}

/* Searches the bytes behind the end of a file in its last page, which exist only in memory. */
static void search_tail(struct search *s, uint64_t start, uint64_t end, uint64_t bias, int fd)
{
	struct stat st;
	uint64_t eof, low;

	if (fstat(fd, &st) != 0 || page_of((uint64_t)st.st_size) == (uint64_t)st.st_size)
		return;
	eof = (uint64_t)st.st_size - bias;
	if (eof - start >= end - start)
		return;
	low = page_of(eof) - page_bytes();
	if (low < start || low > eof)
		low = start;
	eof = page_of(eof) + page_bytes();
	search_run(s, low, eof < end ? eof : end);
}

/* Searches the part of a file mapped at [start, end). */
static void search_file(struct search *s, const struct mapping *m, uint64_t start, uint64_t end)
{
	uint64_t bias = m->offset - m->start, from, to;
	int fd = backing_open(&s->backing, m);

	if (fd < 0) {
		s->unknown = unreadable;
		return;
	}
	s->file = fd;
	s->file_bias = bias;
	for (uint64_t at = start; at < end && !s->unknown && !s->no_memory; at = to - bias) {
		if (!backing_next(fd, at + bias, end + bias, &from, &to))
			break;
		from &= ~UINT64_C(7);
		search_run(s, from - bias < start ? start : from - bias, to - bias);
	}
	s->file = -1;
	if (!s->unknown && !s->no_memory)
		search_tail(s, start, end, bias, fd);
	close(fd);
}

/* Returns how [start, end) is read, or BY_PAGES if unknown, and its mapping. */
static int way_of(
	const struct search *s, uint64_t start, uint64_t end, const struct mapping **mapping_ret)
{
	const struct mapping *m = maps_find(&s->maps, start);

	*mapping_ret = m;
	return m && s->sources && end <= m->end ? (int)s->sources[m - s->maps.items].way : BY_PAGES;
}

/* Adds the results to the finds. For use in a stop, too. */
static struct probe_error *search_range(struct search *s, uint64_t start, uint64_t end)
{
	const struct mapping *m;
	int way = way_of(s, start, end, &m);

	start &= ~UINT64_C(7);
	if (way == BY_FILE)
		search_file(s, m, start, end);
	else if (way == BLINDLY)
		search_run(s, start, end);
	else
		search_pages(s, start, end);
	return s->no_memory ? probe_error_no_memory() : NULL;
}

/* Returns the bytes in memory, or UINT64_MAX if unknown. */
static uint64_t measure_pages(struct search *s, uint64_t start, uint64_t end)
{
	uint64_t bytes = 0;

	for (uint64_t at = page_of(start); at < end;) {
		size_t count = pages_look(&s->pages, at, end, &at);

		if (count == SIZE_MAX)
			return UINT64_MAX;
		for (size_t i = 0; i < count; i++)
			bytes += s->pages.runs[i].end - s->pages.runs[i].start;
	}
	return bytes;
}

/* Returns the file's bytes of data for [start, end), or UINT64_MAX if unknown. */
static uint64_t measure_file(
	struct search *s, const struct mapping *m, uint64_t start, uint64_t end)
{
	uint64_t bias = m->offset - m->start, bytes = UINT64_MAX;
	int fd = backing_open(&s->backing, m);

	if (fd >= 0) {
		bytes = backing_data(fd, start + bias, end + bias);
		close(fd);
	}
	return bytes;
}

/* Returns the bytes to read for a search, or UINT64_MAX if unknown. */
static uint64_t search_measure(struct search *s, uint64_t start, uint64_t end)
{
	const struct mapping *m;
	int way = way_of(s, start, end, &m);

	if (way == BY_FILE)
		return measure_file(s, m, start, end);
	return way == BLINDLY ? end - start : measure_pages(s, start, end);
}

/* ---- A whole process --------------------------------------------------------------------- */

static bool begins_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* Can a mapping hold a context? See the top of this file. */
static bool is_candidate(const struct search *s, const struct mapping *m)
{
	if (strcmp(m->path, "/memfd:" SHARED_NAME) == 0 || shared_is_lasting(m) ||
		m->end - m->start > SPACE_BYTES)
		return false;
	if (!*m->path || strcmp(m->path, "[heap]") == 0 || begins_with(m->path, "[stack") ||
		begins_with(m->path, "[anon:"))
		return true;
	if (!m->writable)
		return false;
	return m->is_shared ? backing_kind(&s->backing, m) != BACKING_NONE : *m->path != '[';
}

/* How many bytes of shared memory may still be read from disks, and how many blindly. */
struct limits {
	uint64_t disk, blind;
};

/*
 * Chooses how shared memory is read: from its file if possible, because the process may give back
 * its pages, which the pagemap then lacks.
 */
static void choose_way(
	struct search *s, const struct mapping *m, struct limits *limits, struct search_source *ret)
{
	bool is_disk = backing_kind(&s->backing, m) == BACKING_DISK;
	uint64_t size = m->end - m->start, bytes = measure_file(s, m, m->start, m->end);
	struct cgroup_memory memory;

	if (bytes != UINT64_MAX && bytes <= (is_disk ? limits->disk : HEAP_BYTES)) {
		*ret = (struct search_source){BY_FILE, bytes};
		limits->disk -= is_disk ? bytes : 0;
	}
	/* Do not read hugetlbfs: that may allocate its pages, which are large and few. */
	if (bytes != UINT64_MAX || size > limits->blind || begins_with(m->path, "/anon_hugepage"))
		return;
	limits->blind -= size;
	*ret = (struct search_source){BLINDLY, size};
	cgroup_memory(s->pid, &memory);
	if (!is_disk && memory.room < ROOM_BYTES)
		s->unknown = no_room;
}

static void measure_mapping(
	struct search *s, const struct mapping *m, struct limits *limits, struct search_source *ret)
{
	uint64_t present = measure_pages(s, m->start, m->end);

	if (present == UINT64_MAX)
		s->unknown = unreadable;
	*ret = (struct search_source){BY_PAGES, present > HEAP_BYTES ? 0 : present};
	if (m->is_shared)
		choose_way(s, m, limits, ret);
}

/* Decides how each mapping is read. Returns false if out of memory. */
static bool measure(struct search *s)
{
	struct limits limits = {DISK_BYTES, BLIND_BYTES};
	uint64_t all = 0;

	s->sources = calloc(s->maps.count + 1, sizeof(*s->sources));
	for (size_t i = 0; s->sources && i < s->maps.count && !s->unknown; i++) {
		if (is_candidate(s, &s->maps.items[i]))
			measure_mapping(s, &s->maps.items[i], &limits, &s->sources[i]);
		all += s->sources[i].bytes;
	}
	if (!s->unknown && all > ALL_BYTES)
		s->unknown = too_much;
	return s->sources != NULL;
}

/* Forgets finds, but keeps parts. For use in a stop, too. */
static void search_forget(struct search *s)
{
	s->find_count = 0;
	s->bytes = 0;
	s->unknown = NULL;
	s->no_memory = false;
}

static void forget_mappings(struct search *s)
{
	maps_deinit(&s->maps);
	backing_deinit(&s->backing);
	free(s->sources);
	s->sources = NULL;
	s->backing.pid = s->pid;
}

/* Reads the mappings again, and searches all that can hold a context. */
static struct probe_error *search_mappings(struct search *s)
{
	struct probe_error *error;

	forget_mappings(s);
	error = maps_read(s->pid, &s->maps);
	if (error)
		return error;
	if (!measure(s))
		return probe_error_no_memory();
	for (size_t i = 0; i < s->maps.count && !error && !s->unknown; i++)
		if (s->sources[i].bytes)
			error = search_range(s, s->maps.items[i].start, s->maps.items[i].end);
	return error;
}

struct probe_error *search_all(struct search *s)
{
	search_forget(s);
	s->part_count = 0;
	return search_mappings(s);
}

struct probe_error *search_words(
	struct search *s, const struct places *places, const struct place_visitor *visitor)
{
	const struct places *own = s->places;
	struct probe_error *error;

	s->places = places;
	s->visitor = visitor;
	s->unknown = NULL;
	error = search_mappings(s);
	s->places = own;
	s->visitor = NULL;
	return error;
}

struct probe_error *search_open(
	pid_t pid, int mem, const struct places *places, uint64_t skipped, struct search *ret)
{
	*ret = (struct search){
		.pid = pid, .mem = mem, .places = places, .skipped = page_of(skipped), .file = -1};
	ret->pagemap = memory_open_pagemap(pid);
	if (ret->pagemap < 0)
		return errno == ENOENT || errno == ESRCH
			       ? probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", pid)
			       : probe_error_system(errno, "/proc/%d/pagemap", (int)pid);
	ret->buffer = array_resident(CHUNK + PLACE_IMAGE_MAX);
	if (!pages_open(ret->pagemap, &ret->pages) || !ret->buffer)
		return probe_error_no_memory();
	return NULL;
}

void search_close(struct search *s)
{
	if (s->places && s->pagemap >= 0)
		close(s->pagemap);
	free(s->buffer);
	pages_close(&s->pages);
	free(s->finds);
	free(s->parts);
	forget_mappings(s);
	*s = (struct search){0};
}

/* ==== Windows ================================================================================= */

/*
 * A jump replaces several instructions, and a signal may have interrupted a thread between two of
 * them. When the signal handler returns, the thread would come back into the middle of the jump.
 * The interrupted context is usually on the stack of the thread that runs the handler. But a
 * handler may have switched to another user context (swapcontext(3)), as schedulers that preempt
 * user threads do. The context is then on a stack that no thread runs on, or anywhere else.
 *
 *   look     while the target runs, all its memory is searched for contexts that the kernel has
 *            saved for a handler. More may come to the same memory: an alternate stack, or a
 *            mapping
 *   read     all threads stopped: the stacks in use, and the memory that the look found, are
 *            searched for the addresses of the instructions that will be overwritten
 *
 * Below the stack pointer of a thread are frames of handlers that have returned. But the program
 * may also keep other stacks in an array there, so this memory is searched, too.
 *
 * If no signal handler is installed, only the stacks in use are searched, in case a handler was
 * removed while it runs.
 */

enum { WAIT_NS = 2000000 };
/* at most this many bytes are searched in a stop */
#define PARTS_BYTES (UINT64_C(16) << 20)

static const char too_large[] = "they are in more memory than can be searched at once";

const char *windows_reason(struct windows *w, const struct change *change)
{
	struct probe_error *error;
	const char *why;
	char text[160];

	if (w->looked)
		return w->reason;
	w->looked = true;
	if (!frames_has_handlers(change->pid))
		return NULL;
	error = search_open(
		change->pid, change->mem, &w->places, change->registry.guard, &w->search);
	if (!error)
		error = search_all(&w->search);
	why = error ? error->message : w->search.unknown;
	if (why) {
		snprintf(text, sizeof(text),
			"a signal handler may return between the instructions there: %s", why);
		w->reason = target_string(change->target, text);
		if (!w->reason)
			w->reason = "out of memory";
	}
	probe_error_free(error);
	return w->reason;
}

bool windows_add(struct windows *windows, uint64_t start, uint64_t end)
{
	return places_add(&windows->places, start, end);
}

struct probe_error *windows_prepare(struct windows *w, const struct change *change)
{
	places_prepare(&w->places);
	return frames_open(change->pid, &change->maps, &w->places, FRAMES_REACH, &w->frames);
}

/* ---- The stop -------------------------------------------------------------------------- */

/* Searches [start, end) within *left_inout bytes; beyond them, the search is incomplete. */
static struct probe_error *search_some(
	struct windows *w, uint64_t start, uint64_t end, uint64_t *left_inout)
{
	uint64_t size = start < end ? search_measure(&w->search, start, end) : 0;

	if (size > *left_inout) {
		w->search.unknown = too_large;
		return NULL;
	}
	*left_inout -= size;
	return size ? search_range(&w->search, start, end) : NULL;
}

/*
 * Searches a part again, except the used part of a thread's own stack, which frames_read() has
 * read. The kernel may have merged other memory into the mapping.
 */
static struct probe_error *search_part(
	struct windows *w, const struct search_part *part, uint64_t *left_inout)
{
	const struct frames_stack *own = frames_own_stack(&w->frames, part->start, part->end);
	struct probe_error *error;

	if (!own)
		return search_some(w, part->start, part->end, left_inout);
	error = search_some(w, part->start, own->low, left_inout);
	if (error || w->search.unknown || part->last < own->end)
		return error;
	return search_some(w, own->end, part->end, left_inout);
}

static struct probe_error *search_parts(struct windows *w)
{
	struct probe_error *error = NULL;
	uint64_t left = PARTS_BYTES;

	search_forget(&w->search);
	for (size_t i = 0; i < w->search.part_count && !error && !w->search.unknown; i++)
		error = search_part(w, &w->search.parts[i], &left);
	for (size_t i = 0; i < w->search.find_count && !error; i++)
		if (doubts_are_live(&w->doubts, &w->frames, &w->search, &w->search.finds[i]) &&
			!frames_add(&w->frames, w->search.finds[i].word))
			error = probe_error_no_memory();
	return error;
}

struct probe_error *windows_read(struct windows *w, const struct change *change)
{
	struct probe_error *error = frames_read(&w->frames, &change->control);
	const char *unknown;

	doubts_begin(&w->doubts, &change->control);
	if (!error && w->places.count && w->search.part_count)
		error = search_parts(w);
	unknown = w->frames.unknown ? w->frames.unknown : w->search.unknown;
	if (error || !unknown)
		return error;
	return probe_error_new(PROBE_ERROR_REFUSED,
		"process %d: a signal handler may return between instructions that would be "
		"overwritten: %s",
		change->pid, unknown);
}

struct probe_error *windows_wait(struct windows *w)
{
	struct probe_error *error;
	bool settled;

	error = doubts_settle(&w->doubts, &w->search, &settled);
	if (!error && !settled)
		nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
	return error;
}

void windows_close(struct windows *w)
{
	doubts_deinit(&w->doubts);
	frames_close(&w->frames);
	search_close(&w->search);
	places_deinit(&w->places);
	*w = (struct windows){0};
}
