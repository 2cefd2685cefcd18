/* SPDX-License-Identifier: MIT */
/*
 * The parts of the reader: records of the Common Trace Format (ctf.c), which libbabeltrace2
 * decodes, the meaning of their events (classes.c) and call stacks (stacks.c); hits as JSON
 * (json.c); and the child process that does all of this (process.c).
 */
#ifndef LIBPROBE_READER_READER_H
#define LIBPROBE_READER_READER_H

#include "libprobe/reader/babeltrace.h"
#include "probe/reader.h"

/* Operations of one kind of source. */
struct reader_ops {
	struct probe_error *(*next)(void *source, struct probe_event *ret, bool *there_ret);
	void (*close)(void *source);
};

/* ---- Records --------------------------------------------------------------------- */

extern const struct reader_ops reader_ctf;
PROBE_MUST_CHECK struct probe_error *reader_ctf_open(const char *path, void **ret);

/* ---- JSON -------------------------------------------------------------------------- */

extern const struct reader_ops reader_json;
PROBE_MUST_CHECK struct probe_error *reader_json_open(int fd, const char *name, void **ret);

/* ---- In a child process ------------------------------------------------------------ */

extern const struct reader_ops reader_process;
/* A record; or, if `json` is not -1, the JSON from that descriptor, called `path` in messages. */
PROBE_MUST_CHECK struct probe_error *reader_process_open(const char *path, int json, void **ret);

/* Takes ownership of an open source; without memory, closes it. */
PROBE_MUST_CHECK struct probe_error *reader_create(
	const struct reader_ops *ops, void *source, struct probe_reader **ret);

/* ---- Call stacks of records (stacks.c) ----------------------------------------------- */

/* What addresses mean, by stream, and the stack of the last event read. */
struct reader_stacks {
	const struct babeltrace *bt;
	void *tree; /* tsearch(3): struct known_frame */
	struct probe_stack stack;
	const struct probe_frame *frames[PROBE_FRAMES_MAX];
	struct probe_frame unnamed[PROBE_FRAMES_MAX];
};

/* Is it the class of events that name frames (probe_ctf_options.stacks)? */
bool reader_stacks_is_frame(const struct babeltrace *bt, const bt_event_class *class);
/* Takes such an event. False without memory. */
bool reader_stacks_name(struct reader_stacks *stacks, const bt_event *event);
/*
 * The stack of an event from the addresses in its context, and the field that says how it ends, or
 * NULL. NULL: it has no stack. *result is valid until the next call.
 */
const struct probe_stack *reader_stacks_take(struct reader_stacks *stacks, const bt_event *event,
	const bt_field *addresses, const bt_field *end);
void reader_stacks_deinit(struct reader_stacks *stacks);

/* ---- Events of records -------------------------------------------------------------- */

/* What is known of event classes, and the values of the last event read. */
struct reader_classes {
	const struct babeltrace *bt;
	void *tree; /* tsearch(3): struct event_class by its address in libbabeltrace2 */
	struct probe_value *values; /* room for any class's arguments */
	size_t value_room;
	char *bytes; /* aggregates of the event */
	size_t byte_room;
	struct reader_stacks stacks;
};

void reader_classes_init(struct reader_classes *classes, const struct babeltrace *bt);
/* Drops all classes: their record is about to be closed. */
void reader_classes_deinit(struct reader_classes *classes);

/*
 * Decodes a message about an event. *is_hit_ret: false if it only says what others mean. Error:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *reader_classes_event(struct reader_classes *classes,
	const bt_message *message, struct probe_event *ret, bool *is_hit_ret);

#endif
