/* SPDX-License-Identifier: MIT */
/*
 * A jump takes the place of several instructions, and a signal may have interrupted a
 * thread between two of them: it would come back into the middle of the jump. Threads that
 * are in a handler tell by the stacks that they stand on. But a handler may have switched
 * to another user context (swapcontext(3)), as user threads that are preempted do, and then
 * what it has interrupted is on a stack that no thread stands on, or anywhere.
 *
 *   look     while the target runs, all its memory is searched for what the kernel saves
 *            for a handler. Where that is, more may come: an alternate stack, or a mapping
 *   read     all threads stopped: the stacks in use are searched for the places where such
 *            instructions begin, and so is what was found before
 *
 * What handlers that have returned left below the stack pointer of a thread is no such
 * memory, unless user contexts were saved that stand there: on stacks that the program has
 * made in an array.
 *
 * A process without a signal handler has none of that, and is not searched.
 */
#include <stdio.h>

#include "libprobe/target_internal.h"
#include "libprobe/windows.h"

#define PARTS_BYTES (UINT64_C(4) << 20) /* searched while all threads stand still */

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

/* Is it a thread's own stack, and nobody's else? The frames were read. */
static bool is_threads(const struct windows *w, const struct search_part *part)
{
	return frames_is_threads(&w->frames, part->start, part->end) &&
	       !search_has_context(&w->search, part->start);
}

static struct probe_error *search_parts(struct windows *w)
{
	struct probe_error *error = NULL;
	uint64_t left = PARTS_BYTES;

	search_forget(&w->search);
	for (size_t i = 0; i < w->search.part_count && !error && !w->search.unknown; i++) {
		const struct search_part *part = &w->search.parts[i];
		uint64_t size;

		if (is_threads(w, part))
			continue;
		size = search_present(&w->search, part->start, part->end);
		if (size > left) {
			w->search.unknown = too_large;
			break;
		}
		left -= size;
		error = search_range(&w->search, part->start, part->end);
	}
	for (size_t i = 0; i < w->search.find_count && !error; i++) {
		const struct search_find *find = &w->search.finds[i];

		if (!find->is_remote && !search_is_stale(&w->search, find) &&
			!frames_add(&w->frames, find->word))
			error = probe_error_no_memory();
	}
	return error;
}

struct probe_error *windows_read(struct windows *w, const struct change *change)
{
	struct probe_error *error = frames_read(&w->frames, &change->control);
	const char *unknown;

	if (!error && w->places.count && w->search.part_count)
		error = search_parts(w);
	unknown = w->frames.unknown ? w->frames.unknown : w->search.unknown;
	if (error || !unknown)
		return error;
	return probe_error_new(PROBE_ERROR_REFUSED,
		"process %d: a signal handler may return between instructions that are to be "
		"overwritten: %s",
		change->pid, unknown);
}

void windows_close(struct windows *w)
{
	frames_close(&w->frames);
	search_close(&w->search);
	places_deinit(&w->places);
	*w = (struct windows){0};
}
