/* SPDX-License-Identifier: MIT */
/*
 * A signal handler that returns leaves its whole frame below the stack pointer of its thread,
 * until the stack is used again. It looks like the frame of a user thread that a handler has
 * preempted, whose stack is in an array of the program further up:
 *
 *	main's frame    | ...                     |
 *	                | stack 2                 |
 *	                | stack 1:   a thread --> | sp
 *	                | stack 0:   | frame |    |  below it, and will be resumed
 *	                | main, as it was left    |
 *
 * Such a frame is dead
 *
 *   - if it has been damaged (search_is_stale());
 *   - if a thread uses the middle of it as its stack (frames_overlap());
 *   - if nothing refers to it. Code that resumes a stack has a pointer to it somewhere: an
 *     address below the frame, where the handler was, must be loaded into the stack pointer.
 *     So all memory is searched for words that point to REACH_BYTES below the frame, or into
 *     it, also as setjmp(3) of glibc stores them. Those that are in the frame, or in the
 *     stack of the handler right below it, do not count: frames hold pointers to each
 *     other.
 *
 * A stray pointer that a function has left somewhere counts. That costs a leftover, never the
 * target.
 *
 * Source: sysdeps/unix/sysv/linux/x86_64/pointer_guard.h and sysdeps/x86_64/nptl/tls.h
 * (header.pointer_guard) of glibc.
 */
#include <stdlib.h>

#include "libprobe/base/array.h"
#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"

enum { DOUBTS_MAX = 4096, SEARCHES_MAX = 8, REACH_BYTES = 64 << 10, HANDLER_BYTES = 16 << 10 };

void doubts_begin(struct doubts *doubts, const struct control *control)
{
	uint64_t tp = control->count ? arch_get(&control->threads[0].regs, ARCH_TP) : 0, guard;

	if (tp && arch_process()->guard &&
		memory_read(control->pid, tp + arch_process()->guard, &guard, sizeof(guard)) ==
			sizeof(guard))
		doubts->guard = guard;
}

static struct doubt *find_doubt(struct doubts *doubts, const struct search_find *find)
{
	for (size_t i = 0; i < doubts->count; i++)
		if (doubts->items[i].at == find->at && doubts->items[i].word == find->word &&
			doubts->items[i].frame_end == find->frame_end)
			return &doubts->items[i];
	return NULL;
}

/* Without memory it stays a doubt that nothing settles. */
static void add_doubt(struct doubts *doubts, const struct search_find *find)
{
	if (doubts->count == DOUBTS_MAX || !ARRAY_ROOM(doubts->items, doubts->count))
		return;
	doubts->items[doubts->count++] = (struct doubt){.at = find->at,
		.word = find->word,
		.frame = find->frame,
		.frame_end = find->frame_end};
	doubts->any = true;
}

bool doubts_are_live(struct doubts *doubts, const struct frames *frames,
	const struct search *search, const struct search_find *find)
{
	const struct doubt *known;

	if (find->is_remote || frames_overlap(frames, find->frame, find->frame_end) ||
		search_is_stale(search, find))
		return false;
	if (!find->frame || !frames_is_below(frames, find->at))
		return true;
	known = find_doubt(doubts, find);
	if (!known)
		add_doubt(doubts, find);
	return !known || !known->settled || known->is_held;
}

/* ---- Settling ---------------------------------------------------------------------------- */

static bool on_word(void *data, uint64_t at, uint64_t word, bool is_context)
{
	struct doubts *doubts = data;

	(void)is_context;
	for (size_t i = 0; i < doubts->count; i++) {
		struct doubt *doubt = &doubts->items[i];
		bool is_its_own = at >= doubt->frame - HANDLER_BYTES && at < doubt->frame_end;

		if (!doubt->settled && !is_its_own && word < doubt->frame_end &&
			word >= doubt->frame - REACH_BYTES)
			doubt->is_held = true;
	}
	return true;
}

static bool on_image(void *data, const struct place_image *image)
{
	(void)data;
	(void)image;
	return true;
}

static bool add_places(const struct doubts *doubts, struct places *places)
{
	bool ok = true;

	for (size_t i = 0; i < doubts->count && ok; i++)
		ok = doubts->items[i].settled ||
		     places_add(places, doubts->items[i].frame - REACH_BYTES,
			     doubts->items[i].frame_end);
	places_prepare(places);
	places->guard = doubts->guard;
	places->guard_shift = arch_process()->guard_shift;
	return ok;
}

struct probe_error *doubts_settle(struct doubts *doubts, struct search *search, bool *settled_ret)
{
	const struct place_visitor visitor = {doubts, on_word, on_image, .maps = NULL};
	struct probe_error *error = NULL;
	struct places *places;

	*settled_ret = false;
	if (!doubts->any || doubts->searches++ == SEARCHES_MAX)
		return NULL;
	places = calloc(1, sizeof(*places));
	if (!places || !add_places(doubts, places))
		error = probe_error_no_memory();
	if (!error)
		error = search_words(search, places, &visitor);
	for (size_t i = 0; i < doubts->count && !error; i++) {
		struct doubt *doubt = &doubts->items[i];

		doubt->is_held = doubt->is_held || (!doubt->settled && search->unknown);
		doubt->settled = true;
	}
	doubts->any = false;
	*settled_ret = !error;
	if (places)
		places_deinit(places);
	free(places);
	return error;
}

void doubts_deinit(struct doubts *doubts)
{
	free(doubts->items);
	*doubts = (struct doubts){0};
}
