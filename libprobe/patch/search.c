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
#include "libprobe/base/cleanup.h"
#include "libprobe/base/page.h"
#include "libprobe/patch/patch.h"

/* ==== Places ================================================================================== */

/*
 * A thread that will return to an address has it in memory. For a signal handler, the kernel saves
 * the program counter on the handler's stack, in an image (struct arch_frame_layout).
 *
 * A program may copy an image, or the registers, to any address. An image contains a mark, a word
 * that does not depend on the handler's restorer, and is looked for at each byte. Registers of
 * aarch64 have no mark: there, a word at any byte counts if it is a place between a stack pointer
 * and flags. If data cannot refer to the places, because they are in the middle of a function, each
 * aligned word of a used stack that is a place counts.
 */

enum {
	LINE_SHIFT = 6,
	STACK_DISABLED = 2, /* SS_DISABLE of <signal.h> */
	STACK_ALIGN = 16,
	BLOCK = 64
};

/* ---- Places --------------------------------------------------------------------------- */

bool places_add(struct places *places, uint64_t start, uint64_t end)
{
	if (start >= end)
		return true;
	return ARRAY_ADD(places->items, places->count, (struct place){start, end});
}

void places_prepare(struct places *places)
{
	size_t kept = 0;

	if (!places->count)
		return;
	ARRAY_SORT(places->items, places->count, start);
	for (size_t i = 1; i < places->count; i++) {
		struct place *last = &places->items[kept];

		if (places->items[i].start > last->end)
			places->items[++kept] = places->items[i];
		else if (places->items[i].end > last->end)
			last->end = places->items[i].end;
	}
	places->count = kept + 1;
	places->low = places->items[0].start;
	places->span = places->items[kept].end - places->low;
	for (size_t i = 0; i < places->count; i++) {
		uint64_t last = (places->items[i].end - 1) >> LINE_SHIFT;

		for (uint64_t line = places->items[i].start >> LINE_SHIFT; line <= last; line++) {
			uint64_t bit = line & ((1 << PLACES_FILTER_BITS) - 1);

			places->filter[bit / 64] |= UINT64_C(1) << (bit % 64);
		}
	}
}

bool places_have(const struct places *places, uint64_t address)
{
	uint64_t bit = address >> LINE_SHIFT & ((1 << PLACES_FILTER_BITS) - 1);
	size_t first;

	if (address - places->low >= places->span || !(places->filter[bit / 64] >> (bit % 64) & 1))
		return false;
	first = ARRAY_SEARCH_ABOVE(places->items, places->count, end, address);
	return first < places->count && places->items[first].start <= address;
}

void places_deinit(struct places *places)
{
	free(places->items);
	*places = (struct places){0};
}

/* ---- Looking at memory ------------------------------------------------------------------ */

static uint64_t load(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

struct file_piece {
	uint64_t address;
	const uint8_t *bytes;
	size_t size, step;
	const struct arch_frame_layout *layout;
	const struct places *places;
	const struct place_visitor *visitor;
};

/* Reports the image at offset `at` of a piece of memory. */
static bool tell_image(const struct file_piece *p, size_t at)
{
	const struct place_visitor *visitor = p->visitor;
	const struct arch_frame_layout *layout = p->layout;
	const uint8_t *bytes = p->bytes + at;
	uint64_t stack = load(bytes + layout->stack), length = load(bytes + layout->stack_size);
	uint32_t flags = (uint32_t)load(bytes + layout->stack_flags);
	struct place_image image = {.at = p->address + at,
		.sp = load(bytes + layout->sp),
		.pc = load(bytes + layout->pc),
		.is_remote = flags == ARCH_FRAME_STACK};

	if (layout->state && p->size - at >= layout->bytes)
		image.state = load(bytes + layout->state);
	if (flags != ARCH_FRAME_STACK && flags != STACK_DISABLED && length &&
		stack + length > stack) {
		image.stack = stack;
		image.stack_end = stack + length;
	}
	return !visitor->image || visitor->image(visitor->data, &image);
}

/*
 * Something begins `before` bytes before offset i. Returns true if that is in the piece's first
 * `step` bytes.
 */
static bool begins(const struct file_piece *piece, size_t i, size_t before)
{
	return i >= before && i - before < piece->step;
}

/* Reports the word at offset i if it is a place. `is_context`: it is an image's program counter. */
static bool tell_word(const struct file_piece *p, size_t i, uint64_t word, bool is_context)
{
	return !places_have(p->places, word) ||
	       p->visitor->word(p->visitor->data, p->address + i, word, is_context);
}

static uint64_t unguarded(const struct places *places, uint64_t word)
{
	uint8_t shift = places->guard_shift;

	return (word >> shift | word << (-shift & 63)) ^ places->guard;
}

static bool is_context(const struct file_piece *p, size_t i)
{
	const size_t mark = i + p->layout->mark - p->layout->pc;

	return mark + 8 <= p->size && load(p->bytes + mark) == p->layout->mark_word;
}

/*
 * Returns true if the word at offset i is the program counter of registers without a mark, between
 * a stack pointer and flags. A stack pointer that points into code does not count: a controller's
 * notes about its code look like this.
 */
static bool is_in_registers(const struct file_piece *p, size_t i)
{
	const struct mapping *m;
	uint64_t sp;

	if (!p->layout->flag_bits || i < 8 || i + 16 > p->size || is_context(p, i))
		return false;
	sp = load(p->bytes + i - 8);
	if (!sp || sp % STACK_ALIGN || load(p->bytes + i + 8) & ~p->layout->flag_bits)
		return false;
	m = p->visitor->maps ? maps_find(p->visitor->maps, sp) : NULL;
	return !m || m->writable || !m->executable;
}

/* Reports aligned words at [i, end), except program counters of images or registers. */
static bool look_at_words(const struct file_piece *p, size_t i, size_t end)
{
	const struct places *places = p->places;

	for (; i < end && i < p->step; i += 8) {
		uint64_t word = load(p->bytes + i);

		if (is_context(p, i) || is_in_registers(p, i))
			continue;
		if (!tell_word(p, i, word, false) ||
			(places->guard && !tell_word(p, i, unguarded(places, word), false)))
			return false;
	}
	return true;
}

/* Reports images whose marks begin at [i, end), and copies of registers that include the mark. */
static bool look_at_marks(const struct file_piece *p, size_t i, size_t end)
{
	const struct arch_frame_layout *layout = p->layout;

	for (; i < end && i + 8 <= p->size; i++) {
		const size_t image = i - layout->mark, pc = image + layout->pc;

		if (load(p->bytes + i) != layout->mark_word)
			continue;
		if (begins(p, i, layout->mark - layout->pc) &&
			!tell_word(p, pc, load(p->bytes + pc), true))
			return false;
		if (begins(p, i, layout->mark) && !tell_image(p, image))
			return false;
	}
	return true;
}

/* Reports registers without a mark whose stack pointers are at [i, end). */
static bool look_at_registers(const struct file_piece *p, size_t i, size_t end)
{
	const struct place_visitor *visitor = p->visitor;

	for (; i < end && i < p->step && i + 24 <= p->size; i++) {
		const struct place_image image = {.at = p->address + i,
			.sp = load(p->bytes + i),
			.pc = load(p->bytes + i + 8)};

		if (!places_have(p->places, image.pc) || !is_in_registers(p, i + 8))
			continue;
		if (!visitor->word(visitor->data, image.at + 8, image.pc, true) ||
			(visitor->image && !visitor->image(visitor->data, &image)))
			return false;
	}
	return true;
}

/* Is an aligned word of a block in the range of the places? */
static bool may_have_words(const struct places *places, const uint8_t *block)
{
	uint64_t low = places->low, span = places->span;
	bool any = false;

	for (size_t k = 0; k < BLOCK; k += 8)
		any |= load(block + k) - low < span;
	for (size_t k = 0; places->guard && k < BLOCK; k += 8)
		any |= unguarded(places, load(block + k)) - low < span;
	return any;
}

/*
 * May a mark begin at any byte of a block? Reads BLOCK + 7 bytes, always to the end, so that
 * compilers vectorise it.
 */
static bool may_have_mark(const uint8_t *block, uint64_t mark)
{
	const uint8_t first = (uint8_t)mark, seventh = (uint8_t)(mark >> 48);
	const uint8_t last = (uint8_t)(mark >> 56);
	uint8_t any = 0;

	for (size_t k = 0; k < BLOCK; k++)
		any |= (block[k] == first) & (block[k + 6] == seventh) & (block[k + 7] == last);
	return any;
}

/* May registers begin at any byte of a block? Reads BLOCK + 15 bytes. */
static bool may_have_registers(const struct places *places, const uint8_t *block)
{
	uint64_t low = places->low, span = places->span;
	bool any = false;

	for (size_t k = 0; k < BLOCK; k++)
		any |= load(block + k + 8) - low < span;
	return any;
}

bool places_scan(const struct places *places, uint64_t address, const uint8_t *bytes, size_t size,
	size_t step, const struct place_visitor *visitor)
{
	const struct arch_frame_layout *layout = arch_process()->layout;
	const struct file_piece piece = {address, bytes, size, step, layout, places, visitor};
	bool has_words = !places->are_code && !visitor->only_images, ok = true;

	/* A quick test finds the few blocks that may contain anything. */
	for (size_t i = 0; i < size && ok; i += BLOCK) {
		bool is_last = size - i < BLOCK + 15;
		size_t end = size - i < BLOCK ? size : i + BLOCK;

		if (has_words && (is_last || may_have_words(places, bytes + i)))
			ok = look_at_words(&piece, i, end);
		if (ok && (is_last || may_have_mark(bytes + i, layout->mark_word)))
			ok = look_at_marks(&piece, i, end);
		if (ok && layout->flag_bits && (is_last || may_have_registers(places, bytes + i)))
			ok = look_at_registers(&piece, i, end);
	}
	return ok;
}

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

	/* Older kernels have no PAGEMAP_SCAN, and some mappings do not support it. */
	return count != SIZE_MAX ? count : read_entries(p, at, end, next_ret);
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
	if (!ARRAY_ADD(s->finds, s->find_count, (struct search_find){.at = at, .word = word})) {
		s->no_memory = true;
		return false;
	}
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
	if (!ARRAY_ADD(s->parts, s->part_count, part)) {
		s->no_memory = true;
		return false;
	}
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

/* Reads up to `size` bytes, through `mem` if the process may not read them. Returns how many. */
static size_t read_memory(const struct search *s, uint64_t address, void *buffer, size_t size)
{
	ssize_t length;

	if (s->file < 0)
		return memory_read_forced(s->pid, s->mem, address, buffer, size);
	length = pread(s->file, buffer, size, (off_t)(address + s->file_bias));
	return length < 0 ? 0 : (size_t)length;
}

/* Is the page that could not be read still mapped? If not, it was unmapped in the meantime. */
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

/* Searches the part of a file mapped at [start, end). */
static void search_file(struct search *s, const struct mapping *m, uint64_t start, uint64_t end)
{
	uint64_t bias = m->offset - m->start, from, to;
	AUTO_FD int fd = backing_open(&s->backing, m);
	struct stat st;

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
	/* The bytes behind the end of the file in its last page exist only in memory. */
	if (!s->unknown && !s->no_memory && fstat(fd, &st) == 0 &&
		page_of((uint64_t)st.st_size) != (uint64_t)st.st_size) {
		uint64_t eof = (uint64_t)st.st_size - bias, low = page_of(eof) - page_bytes();
		uint64_t after = page_of(eof) + page_bytes();

		if (eof - start < end - start)
			search_run(s, low < start || low > eof ? start : low,
				after < end ? after : end);
	}
}

/* Returns how [start, end) is read, or BY_PAGES if unknown, and its mapping. */
static int way_of(
	const struct search *s, uint64_t start, uint64_t end, const struct mapping **mapping_ret)
{
	const struct mapping *m = maps_find(&s->maps, start);

	*mapping_ret = m;
	return m && s->sources && end <= m->end ? (int)s->sources[m - s->maps.items].way : BY_PAGES;
}

struct probe_error *search_range(struct search *s, uint64_t start, uint64_t end)
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
	uint64_t bias = m->offset - m->start;
	AUTO_FD int fd = backing_open(&s->backing, m);

	return fd < 0 ? UINT64_MAX : backing_data(fd, start + bias, end + bias);
}

uint64_t search_measure(struct search *s, uint64_t start, uint64_t end)
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

/* Decides how each mapping is read. Returns false if out of memory. */
static bool measure(struct search *s)
{
	struct limits limits = {DISK_BYTES, BLIND_BYTES};
	uint64_t all = 0;

	s->sources = calloc(s->maps.count + 1, sizeof(*s->sources));
	for (size_t i = 0; s->sources && i < s->maps.count && !s->unknown; i++) {
		const struct mapping *m = &s->maps.items[i];
		uint64_t present;

		if (!is_candidate(s, m))
			continue;
		present = measure_pages(s, m->start, m->end);
		if (present == UINT64_MAX)
			s->unknown = unreadable;
		s->sources[i].bytes = present > HEAP_BYTES ? 0 : present;
		if (m->is_shared)
			choose_way(s, m, &limits, &s->sources[i]);
		all += s->sources[i].bytes;
	}
	if (!s->unknown && all > ALL_BYTES)
		s->unknown = too_much;
	return s->sources != NULL;
}

void search_forget(struct search *s)
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
