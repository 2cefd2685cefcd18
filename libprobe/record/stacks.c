/* SPDX-License-Identifier: MIT */
/*
 * Call stacks of a record: addresses in the context of an event. Events that come before it in the
 * stream have named them (libprobe/record/ctf_stacks.c); an address without a name stays one.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/record/record.h"

struct known_frame {
	const void *stream;
	struct probe_frame frame; /* its texts are in `text` */
	char *text;
};

static int compare(const void *a, const void *b)
{
	const struct known_frame *x = a, *y = b;

	if (x->stream != y->stream)
		return (uintptr_t)x->stream < (uintptr_t)y->stream ? -1 : 1;
	return (x->frame.ip > y->frame.ip) - (x->frame.ip < y->frame.ip);
}

static void free_known(void *data)
{
	struct known_frame *known = data;

	free(known->text);
	free(known);
}

void reader_stacks_deinit(struct reader_stacks *stacks)
{
	tdestroy(stacks->tree, free_known);
	stacks->tree = NULL;
}

/* ---- What frames are called ---------------------------------------------------------- */

/* The place of a frame in the tree, where an older name is gone; NULL without memory. */
static struct known_frame *place_of(struct reader_stacks *stacks, const void *stream, uint64_t ip)
{
	struct known_frame wanted = {.stream = stream, .frame.ip = ip}, *known;
	void **place = tfind(&wanted, &stacks->tree, compare);

	if (place) {
		known = *place;
		free(known->text);
		known->text = NULL;
		return known;
	}
	known = malloc(sizeof(*known));
	if (!known)
		return NULL;
	*known = wanted;
	if (tsearch(known, &stacks->tree, compare))
		return known;
	free(known);
	return NULL;
}

static size_t text_size(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static const char *next_text(char **at, const char *text)
{
	char *to = *at;

	if (!text)
		return NULL;
	*at = stpcpy(to, text) + 1;
	return to;
}

bool reader_stacks_name(
	struct reader_stacks *stacks, const void *stream, const struct probe_frame *frame)
{
	struct known_frame *known = place_of(stacks, stream, frame->ip);
	char *at = NULL;

	if (known)
		at = malloc(1 + text_size(frame->module) + text_size(frame->symbol) +
			    text_size(frame->file));
	if (!at)
		return false;
	known->text = at;
	known->frame = *frame;
	known->frame.module = next_text(&at, frame->module);
	known->frame.symbol = next_text(&at, frame->symbol);
	known->frame.file = next_text(&at, frame->file);
	return true;
}

/* ---- Stacks -------------------------------------------------------------------------- */

static const struct probe_frame *frame_of(
	struct reader_stacks *stacks, const void *stream, uint64_t ip, size_t index)
{
	const struct known_frame wanted = {.stream = stream, .frame.ip = ip};
	void **place = tfind(&wanted, &stacks->tree, compare);

	if (place)
		return &(*(struct known_frame **)place)->frame;
	stacks->unnamed[index] = (struct probe_frame){.ip = ip, .offset = ip};
	return &stacks->unnamed[index];
}

const struct probe_stack *reader_stacks_take(struct reader_stacks *stacks, const void *stream,
	const uint8_t *addresses, uint64_t count, uint64_t how)
{
	size_t i = 0;

	for (; i < count && i < PROBE_FRAMES_MAX; i++) {
		uint64_t ip;

		memcpy(&ip, addresses + i * sizeof(ip), sizeof(ip));
		stacks->frames[i] = frame_of(stacks, stream, ip, i);
	}
	stacks->stack = (struct probe_stack){.frames = stacks->frames,
		.count = i,
		.end = how <= PROBE_STACK_LOST ? (enum probe_stack_end)how : PROBE_STACK_LOST};
	if (i < count)
		stacks->stack.end = PROBE_STACK_TRUNCATED;
	return &stacks->stack;
}
