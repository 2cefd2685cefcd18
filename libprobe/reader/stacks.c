/* SPDX-License-Identifier: MIT */
/*
 * Call stacks of a record: addresses in the context of an event. Events that come before it in the
 * stream have named them, if the record is ours (libprobe/record/ctf_stacks.c); in other records,
 * they stay addresses.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/reader/reader.h"
#include "libprobe/record/ctf.h"

/* Fields of an event that names a frame, in their order. */
enum { FRAME_IP, FRAME_MODULE, FRAME_SYMBOL, FRAME_OFFSET, FRAME_FUNCTION, FRAME_FILE, FRAME_LINE };
static const struct {
	const char *name;
	bool is_text;
} fields[] = {
	[FRAME_IP] = {"ip", false},
	[FRAME_MODULE] = {"module", true},
	[FRAME_SYMBOL] = {"symbol", true},
	[FRAME_OFFSET] = {"offset", false},
	[FRAME_FUNCTION] = {"function", false},
	[FRAME_FILE] = {"file", true},
	[FRAME_LINE] = {"line", false},
};
enum { FRAME_FIELDS = sizeof(fields) / sizeof(fields[0]) };

struct known_frame {
	const bt_stream *stream;
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

bool reader_stacks_is_frame(const struct babeltrace *bt, const bt_event_class *class)
{
	const bt_field_class *payload = bt->event_class_borrow_payload_field_class_const(class);
	const char *name = bt->event_class_get_name(class);

	if (!payload || !name || strcmp(name, "probectl:frame") != 0 ||
		bt->field_class_structure_get_member_count(payload) != FRAME_FIELDS)
		return false;
	for (uint64_t i = 0; i < FRAME_FIELDS; i++) {
		const bt_field_class_structure_member *member =
			bt->field_class_structure_borrow_member_by_index_const(payload, i);
		bt_field_class_type type = bt->field_class_get_type(
			bt->field_class_structure_member_borrow_field_class_const(member));

		if (strcmp(bt->field_class_structure_member_get_name(member), fields[i].name) !=
				0 ||
			!bt_field_class_type_is(
				type, fields[i].is_text ? BT_FIELD_CLASS_TYPE_STRING
							: BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER))
			return false;
	}
	return true;
}

/* The place of a frame in the tree, where an older name is gone; NULL without memory. */
static struct known_frame *place_of(
	struct reader_stacks *stacks, const bt_stream *stream, uint64_t ip)
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

/* NULL: it is not known. */
static const char *next_text(char **at, const char *text)
{
	char *to = *at;

	*at = stpcpy(to, text) + 1;
	return strcmp(text, CTF_UNKNOWN) == 0 ? NULL : to;
}

bool reader_stacks_name(struct reader_stacks *stacks, const bt_event *event)
{
	const struct babeltrace *bt = stacks->bt;
	const bt_field *payload = bt->event_borrow_payload_field_const(event);
	const char *texts[FRAME_FIELDS] = {0};
	uint64_t numbers[FRAME_FIELDS] = {0};
	struct known_frame *known;
	size_t size = 0;
	char *at;

	for (uint64_t i = 0; i < FRAME_FIELDS; i++) {
		const bt_field *field =
			bt->field_structure_borrow_member_field_by_index_const(payload, i);

		if (fields[i].is_text)
			texts[i] = babeltrace_text(bt, field);
		else
			numbers[i] = bt->field_integer_unsigned_get_value(field);
		size += texts[i] ? strlen(texts[i]) + 1 : 0;
	}
	known = place_of(stacks, bt->event_borrow_stream_const(event), numbers[FRAME_IP]);
	at = known ? malloc(size) : NULL;
	if (!at)
		return false;
	known->text = at;
	known->frame = (struct probe_frame){.ip = numbers[FRAME_IP],
		.module = next_text(&at, texts[FRAME_MODULE]),
		.symbol = next_text(&at, texts[FRAME_SYMBOL]),
		.offset = numbers[FRAME_OFFSET],
		.function = numbers[FRAME_FUNCTION],
		.file = next_text(&at, texts[FRAME_FILE]),
		.line = (int)numbers[FRAME_LINE]};
	return true;
}

/* ---- Stacks -------------------------------------------------------------------------- */

static const struct probe_frame *frame_of(
	struct reader_stacks *stacks, const bt_stream *stream, uint64_t ip, size_t index)
{
	const struct known_frame wanted = {.stream = stream, .frame.ip = ip};
	void **place = tfind(&wanted, &stacks->tree, compare);

	if (place)
		return &(*(struct known_frame **)place)->frame;
	stacks->unnamed[index] = (struct probe_frame){.ip = ip, .offset = ip};
	return &stacks->unnamed[index];
}

const struct probe_stack *reader_stacks_take(struct reader_stacks *stacks, const bt_event *event,
	const bt_field *addresses, const bt_field *end)
{
	const struct babeltrace *bt = stacks->bt;
	const bt_stream *stream = bt->event_borrow_stream_const(event);
	uint64_t count = bt->field_array_get_length(addresses);
	uint64_t how = end ? bt->field_integer_unsigned_get_value(end) : PROBE_STACK_WHOLE;
	size_t i = 0;

	if (!count)
		return NULL;
	for (; i < count && i < PROBE_FRAMES_MAX; i++)
		stacks->frames[i] = frame_of(stacks, stream,
			bt->field_integer_unsigned_get_value(
				bt->field_array_borrow_element_field_by_index_const(addresses, i)),
			i);
	stacks->stack = (struct probe_stack){.frames = stacks->frames,
		.count = i,
		.end = how <= PROBE_STACK_LOST ? (enum probe_stack_end)how : PROBE_STACK_LOST};
	if (i < count)
		stacks->stack.end = PROBE_STACK_TRUNCATED;
	return &stacks->stack;
}
