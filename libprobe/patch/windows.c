/* SPDX-License-Identifier: MIT */
/*
 * A jump takes the place of several instructions, and a signal may have interrupted a thread
 * between two of them: it would come back into the middle of the jump. The context is usually on
 * the stack that a thread in a handler runs on. But a handler may have switched to another user
 * context (swapcontext(3)), as schedulers that preempt user threads do. The interrupted context is
 * then on a stack that no thread runs on, or anywhere else.
 *
 *   look     while the target runs, all its memory is searched for what the kernel saves
 *            for a handler. Where that is, more may come: an alternate stack, or a mapping
 *   read     all threads stopped: the stacks in use are searched for the places where such
 *            instructions begin, and so is what was found before
 *
 * Below the stack pointer of a thread are frames of handlers that have returned; but the program
 * may also keep other stacks in an array there, so this is searched, too.
 *
 * If no signal handler is installed, only stacks in use are searched: a handler may have been taken
 * away while it runs.
 */
#include <stdio.h>
#include <time.h>

#include "libprobe/patch/patch.h"
#include "libprobe/registry/registry.h"

enum { WAIT_NS = 2000000 };
#define PARTS_BYTES (UINT64_C(16) << 20) /* searched while all threads are stopped */

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

/* Searches [start, end), at most `left_inout` bytes. */
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
 * The used part of a thread's own stack was read with the frames. What the kernel has mapped
 * after it, merged into one mapping, is other memory.
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
