/* SPDX-License-Identifier: MIT */
/*
 * A program with data for each CPU (tcmalloc, librseq) changes it in restartable sequences: the
 * kernel aborts one where its thread is preempted, moved or signalled within a range of code. A hit
 * in the middle leaves that range while the thread runs the stub and the moved instructions, and is
 * not aborted there: two threads may then change the same data. So a site in such a range is
 * refused. (The kernel's own breakpoints have the same effect.)
 *
 * The ranges are described by struct rseq_cs of <linux/rseq.h>, wherever a program has them:
 * mostly in a section __rseq_cs, but just as well in a variable that it fills in itself. So
 * the module's data is searched, as it is in memory:
 *
 *	u32 version, flags	0, and a few bits
 *	u64 start		in the module's code
 *	u64 length		from there to the instruction after the last one
 *	u64 abort		in its code, and the signature in the four bytes before
 *
 * Pages that a program has not written since it began are read from its file. No description
 * crosses a page: the kernel's struct is aligned.
 *
 * Descriptions on a stack or on the heap are not found.
 *
 * Sources: rseq(2); include/uapi/linux/rseq.h and rseq_get_rseq_cs() in kernel/rseq.c of
 * Linux; RSEQ_SIG of <sys/rseq.h>, which glibc and librseq have registered.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "arch/process.h"
#include "libprobe/base/array.h"
#include "libprobe/base/page.h"
#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"

enum {
	FLAGS_MAX = 7,
	LENGTH_MAX = 1 << 20,
	CHUNK_WORDS = 8192,
	SEGMENT_MAX = 64 << 20 /* bytes of a segment that are searched */
};

/* struct rseq_cs, as words */
enum { VERSION_FLAGS, START, LENGTH, ABORT, WORDS };

static bool is_code(const struct module *module, uint64_t address)
{
	const struct object_segment *s;

	if (address < module->start || address >= module->end)
		return false;
	s = object_segment_of(module->object, address - module->bias);
	return s && s->executable;
}

static bool is_sequence(pid_t pid, const struct module *module, const uint64_t *words)
{
	uint32_t signature;

	if ((uint32_t)words[VERSION_FLAGS] || words[VERSION_FLAGS] >> 32 > FLAGS_MAX ||
		!words[LENGTH] || words[LENGTH] > LENGTH_MAX || !is_code(module, words[START]) ||
		!is_code(module, words[ABORT]) || words[ABORT] - words[START] < words[LENGTH])
		return false;
	return memory_read(pid, words[ABORT] - sizeof(signature), &signature, sizeof(signature)) ==
		       sizeof(signature) &&
	       signature == arch_process()->rseq_signature;
}

static struct probe_error *search(pid_t pid, const struct module *module, const uint64_t *words,
	size_t count, struct sequences *ret)
{
	for (size_t i = 0; i + WORDS <= count; i++) {
		if (!is_sequence(pid, module, words + i))
			continue;
		if (!ARRAY_ROOM(ret->items, ret->count))
			return probe_error_no_memory();
		ret->items[ret->count++] =
			(struct sequence){words[i + START], words[i + START] + words[i + LENGTH]};
	}
	return NULL;
}

/* Pieces overlap, since a description may lie across the end of one. */
static struct probe_error *search_segment(pid_t pid, int pagemap, struct served *known,
	const struct module *module, const struct object_segment *segment, uint64_t *buffer,
	struct sequences *ret)
{
	const size_t chunk = CHUNK_WORDS * sizeof(*buffer), overlap = (WORDS - 1) * sizeof(*buffer);
	uint64_t at = (segment->address + module->bias + 7) & ~UINT64_C(7);
	uint64_t size = segment->size < SEGMENT_MAX ? segment->size : SEGMENT_MAX;
	uint64_t end = segment->address + module->bias + size;
	uint64_t file_end = segment->address + module->bias + segment->file_size;
	struct probe_error *error = NULL;

	file_end = page_after(file_end);
	while (!error && at < end && end - at > overlap) {
		size_t run = end - at < chunk ? end - at : chunk, got;
		bool is_there = true;

		if (at >= file_end)
			run = memory_run(pagemap, at, run, &is_there);
		else if (file_end - at < run)
			run = file_end - at;
		got = is_there ? memory_read_known(known, at, buffer, run) / sizeof(*buffer) : 0;
		error = search(pid, module, buffer, got, ret);
		at += is_there && run > overlap + 7 ? (run - overlap) & ~(size_t)7
						    : (run + 7) & ~(size_t)7;
	}
	return error;
}

struct probe_error *sequences_read(pid_t pid, const struct module *module, struct sequences *ret)
{
	/* Unwritten data has no addresses, except in a program that is not relocated. */
	bool is_fixed = object_type(module->object) == ET_EXEC;
	uint64_t *buffer = calloc(CHUNK_WORDS, sizeof(*buffer));
	const struct object_segment *segments;
	struct probe_error *error = NULL;
	struct served known AUTO_SERVED;
	size_t count;
	int pagemap;

	served_begin(pid, &known);
	*ret = (struct sequences){0};
	if (!buffer)
		return probe_error_no_memory();
	pagemap = memory_open_pagemap(pid);
	segments = object_segments(module->object, &count);
	for (size_t i = 0; i < count && !error; i++)
		if (!segments[i].executable && (segments[i].writable || is_fixed))
			error = search_segment(
				pid, pagemap, &known, module, &segments[i], buffer, ret);
	if (pagemap >= 0)
		close(pagemap);
	free(buffer);
	if (error)
		sequences_deinit(ret);
	return error;
}

void sequences_deinit(struct sequences *sequences)
{
	free(sequences->items);
	*sequences = (struct sequences){0};
}

bool sequences_hold(const struct sequences *sequences, uint64_t address)
{
	for (size_t i = 0; i < sequences->count; i++)
		if (address - sequences->items[i].start <
			sequences->items[i].end - sequences->items[i].start)
			return true;
	return false;
}
