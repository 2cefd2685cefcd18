/* SPDX-License-Identifier: MIT */
/*
 * A context that is set aside can be anywhere that the program can write: on the stack of a
 * thread, on one that no thread stands on, on an alternate stack, in a structure of a
 * scheduler. Which of its memory the program uses for what cannot be known, so all that is
 * in RAM is read, but for
 *
 *   - files, unless they are in memory: mapped privately and not writable, or shared;
 *   - mappings that are larger than stacks can be expected to be: heaps, with more than
 *     HEAP_BYTES in RAM or SPACE_BYTES of addresses;
 *   - our own.
 *
 * A page that is not in RAM has never been written, or was given back: the pagemap of the
 * process tells, and so nothing is allocated by being looked at. A page that was swapped
 * out is read. Of shared memory the pagemap tells only what this process has touched, and
 * not given back: the rest is not read, as that would allocate what was never written.
 *
 * What cannot be read although it is there makes the search incomplete, and so does too
 * much memory: more than ALL_BYTES. It is what `unknown` says then. Memory that was
 * unmapped meanwhile holds nobody.
 *
 * A process that runs may move a context from what is yet to be read to what has been read.
 * For that it has to resume it, and a signal has to meet it again before it has left the
 * place (some ten instructions), on another stack.
 *
 * Sources: Documentation/admin-guide/mm/pagemap.rst of Linux; process_vm_readv(2).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/array.h"
#include "libprobe/memory.h"
#include "libprobe/registry.h"
#include "libprobe/search.h"

enum {
	PAGE = 4096,
	CHUNK = 128 << 10,
	ENTRIES = 8192, /* pages whose entries are read at once */
	FINDS_MAX = 65536,
	PARTS_MAX = 4096,
	ALTERNATE_MAX = 16 << 20, /* of an alternate stack */
	IMAGE_RIP = 176,	  /* see libprobe/places.c */
	IN_PLACE_MAX = 64 << 10,  /* from a frame to its floating-point state, or from a copy */
	/* struct rt_sigframe, as the kernel aligns it below the floating-point state */
	FRAME_MIN = 440,
	FRAME_MAX = 512,
	STATE_SOFTWARE = 464, /* struct _fpx_sw_bytes in it */
	STATE_MIN = 512,
	STATE_MAX = 16384
};
#define HEAP_BYTES (UINT64_C(256) << 20)
#define SPACE_BYTES (UINT64_C(16) << 30)
#define ALL_BYTES (UINT64_C(2) << 30)
#define STATE_MAGIC1 0x46505853U
#define STATE_MAGIC2 0x46505845U

static const char unreadable[] = "some of its memory cannot be read";
static const char too_much[] = "it has more memory than is searched";
static const char too_many[] = "too many words of its memory are such addresses";

/* ---- What is found ---------------------------------------------------------------------- */

static bool add_find(void *data, uint64_t at, uint64_t word, bool is_context)
{
	struct search *s = data;
	struct search_find *finds;

	(void)is_context; /* only these are told */
	if (s->find_count == FINDS_MAX) {
		s->unknown = too_many;
		return false;
	}
	finds = array_grow(s->finds, s->find_count, sizeof(*finds));
	if (!finds) {
		s->no_memory = true;
		return false;
	}
	s->finds = finds;
	finds[s->find_count++] = (struct search_find){.at = at, .word = word};
	return true;
}

static void describe_find(
	const struct search *s, struct search_find *find, const struct place_image *image)
{
	uint64_t distance = image->state - image->at;

	find->is_remote = image->is_remote;
	/* Of a copy of the context alone, in other memory, nothing more is known. */
	if (distance < IN_PLACE_MAX || (image->state && !maps_find(&s->maps, image->state)))
		find->state = image->state;
	/* A copy in such a distance would overlap the frame that it was made of. */
	if (distance >= FRAME_MIN && distance <= FRAME_MAX && image->rsp > image->state &&
		image->rsp - image->state < IN_PLACE_MAX) {
		find->frame = image->at;
		find->rsp = image->rsp;
	}
}

/* Where the context lies will be looked at again: an alternate stack holds no other's. */
static bool add_part(void *data, const struct place_image *image)
{
	struct search *s = data;
	const struct mapping *m = maps_find(&s->maps, image->at);
	struct search_part part, *parts;

	for (size_t i = s->find_count; i-- > 0 && s->finds[i].at > image->at;)
		if (s->finds[i].at == image->at + IMAGE_RIP)
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
	parts = array_grow(s->parts, s->part_count, sizeof(*parts));
	if (!parts) {
		s->no_memory = true;
		return false;
	}
	s->parts = parts;
	parts[s->part_count++] = part;
	return true;
}

bool search_is_stale(const struct search *s, const struct search_find *find)
{
	struct {
		uint32_t magic1, extended_size;
		uint64_t features;
		uint32_t size;
	} software;
	uint32_t magic2;

	if (!find->state)
		return false;
	if (!maps_find(&s->maps, find->state))
		return true; /* rt_sigreturn(2) would fail */
	if (memory_read(s->pid, find->state + STATE_SOFTWARE, &software, sizeof(software)) !=
		sizeof(software))
		return false;
	if (software.magic1 != STATE_MAGIC1 || software.size < STATE_MIN ||
		software.size > STATE_MAX)
		return true;
	return memory_read(s->pid, find->state + software.size, &magic2, sizeof(magic2)) ==
		       sizeof(magic2) &&
	       magic2 != STATE_MAGIC2;
}

/* ---- Reading --------------------------------------------------------------------------- */

/* As much as there is, from the start. What the process itself may not read goes by `mem`. */
static size_t read_memory(const struct search *s, uint64_t address, void *buffer, size_t size)
{
	size_t got = memory_read(s->pid, address, buffer, size);
	ssize_t more;

	if (got)
		return got;
	more = pread(s->mem, buffer, size, (off_t)address);
	return more < 0 ? 0 : (size_t)more;
}

/* The entries of `count` pages; how many were read. */
static size_t read_entries(const struct search *s, uint64_t address, size_t count)
{
	size_t size = (count < ENTRIES ? count : ENTRIES) * sizeof(*s->entries);
	ssize_t length =
		pread(s->pagemap, s->entries, size, (off_t)(address / PAGE * sizeof(*s->entries)));

	return length < 0 ? 0 : (size_t)length / sizeof(*s->entries);
}

/* Is a page that could not be read in memory? One that is gone meanwhile is not. */
static bool is_there(const struct search *s, uint64_t address)
{
	uint64_t entry;
	ssize_t length =
		pread(s->pagemap, &entry, sizeof(entry), (off_t)(address / PAGE * sizeof(entry)));

	return length < 0 || (length == sizeof(entry) && entry & PAGE_THERE);
}

/* Searches [start, end), all of which was there when it was asked. */
static bool search_run(struct search *s, uint64_t start, uint64_t end)
{
	const struct place_visitor own = {s, add_find, add_part, .only_images = true};
	const struct place_visitor *visitor = s->visitor ? s->visitor : &own;
	bool is_page = false; /* what could not be read is read page by page */

	for (uint64_t at = start; at < end;) {
		size_t most = is_page ? PAGE - at % PAGE : CHUNK + PLACE_IMAGE_BYTES;
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
			at = (at / PAGE + 1) * PAGE;
		is_page = !got;
	}
	return true;
}

struct probe_error *search_range(struct search *s, uint64_t start, uint64_t end)
{
	uint64_t run = 0; /* where the pages that are there began */

	start &= ~UINT64_C(7);
	for (uint64_t at = start & ~(uint64_t)(PAGE - 1); at < end && !s->unknown;) {
		size_t count = read_entries(s, at, (end - at + PAGE - 1) / PAGE);

		if (!count)
			s->unknown = unreadable;
		for (size_t i = 0; i < count && !s->unknown && !s->no_memory; i++, at += PAGE) {
			bool there = s->entries[i] & PAGE_THERE && at != s->skipped;

			if (there && !run)
				run = at < start ? start : at;
			else if (!there && run && search_run(s, run, at))
				run = 0;
		}
		if (s->no_memory)
			return probe_error_no_memory();
	}
	if (run && !s->unknown)
		search_run(s, run, end);
	return s->no_memory ? probe_error_no_memory() : NULL;
}

uint64_t search_present(struct search *s, uint64_t start, uint64_t end)
{
	uint64_t pages = 0;

	for (uint64_t at = start & ~(uint64_t)(PAGE - 1); at < end;) {
		size_t count = read_entries(s, at, (end - at + PAGE - 1) / PAGE);

		if (!count)
			return UINT64_MAX;
		for (size_t i = 0; i < count; i++)
			pages += (s->entries[i] & PAGE_THERE) != 0;
		at += count * PAGE;
	}
	return pages * PAGE;
}

/* ---- All of a process -------------------------------------------------------------------- */

static bool begins_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* Can a mapping hold a context? See the top of this file. */
static bool is_candidate(const struct mapping *m)
{
	static const char *const in_memory[] = {
		"/dev/zero", "/memfd:", "/SYSV", "/dev/shm/", "[anon_shmem:"};

	if (strcmp(m->path, "/memfd:" DATA_NAME) == 0 || m->end - m->start > SPACE_BYTES)
		return false;
	if (!*m->path || strcmp(m->path, "[heap]") == 0 || begins_with(m->path, "[stack") ||
		begins_with(m->path, "[anon:"))
		return true;
	if (!m->writable || (*m->path == '[' && !m->is_shared))
		return false;
	for (size_t i = 0; m->is_shared && i < sizeof(in_memory) / sizeof(*in_memory); i++)
		if (begins_with(m->path, in_memory[i]))
			return true;
	return !m->is_shared;
}

/* How much of each candidate is in memory; 0 for what is not searched. */
static uint64_t *measure(struct search *s)
{
	uint64_t *sizes = calloc(s->maps.count + 1, sizeof(*sizes)), all = 0;

	for (size_t i = 0; sizes && i < s->maps.count && !s->unknown; i++) {
		const struct mapping *m = &s->maps.items[i];

		if (!is_candidate(m))
			continue;
		sizes[i] = search_present(s, m->start, m->end);
		if (sizes[i] == UINT64_MAX)
			s->unknown = unreadable;
		else if (sizes[i] > HEAP_BYTES)
			sizes[i] = 0;
		all += sizes[i];
	}
	if (!s->unknown && all > ALL_BYTES)
		s->unknown = too_much;
	return sizes;
}

void search_forget(struct search *s)
{
	s->find_count = 0;
	s->bytes = 0;
	s->unknown = NULL;
	s->no_memory = false;
}

/* Reads the mappings anew, and all that can hold a context. */
static struct probe_error *search_mappings(struct search *s)
{
	struct probe_error *error;
	uint64_t *sizes;

	maps_deinit(&s->maps);
	error = maps_read(s->pid, &s->maps);
	if (error)
		return error;
	sizes = measure(s);
	if (!sizes)
		return probe_error_no_memory();
	for (size_t i = 0; i < s->maps.count && !error && !s->unknown; i++)
		if (sizes[i])
			error = search_range(s, s->maps.items[i].start, s->maps.items[i].end);
	free(sizes);
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
	char path[48];

	*ret = (struct search){.pid = pid,
		.mem = mem,
		.places = places,
		.skipped = skipped & ~(uint64_t)(PAGE - 1)};
	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	ret->pagemap = open(path, O_RDONLY | O_CLOEXEC);
	if (ret->pagemap < 0)
		return errno == ENOENT || errno == ESRCH
			       ? probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", pid)
			       : probe_error_system(errno, "%s", path);
	ret->buffer = malloc(CHUNK + PLACE_IMAGE_BYTES);
	ret->entries = calloc(ENTRIES, sizeof(*ret->entries));
	if (!ret->buffer || !ret->entries)
		return probe_error_no_memory();
	/* So that no page fault is left for when the process stands still. */
	memset(ret->buffer, 0, CHUNK + PLACE_IMAGE_BYTES);
	return NULL;
}

void search_close(struct search *s)
{
	if (s->places && s->pagemap >= 0)
		close(s->pagemap);
	free(s->buffer);
	free(s->entries);
	free(s->finds);
	free(s->parts);
	maps_deinit(&s->maps);
	*s = (struct search){0};
}
