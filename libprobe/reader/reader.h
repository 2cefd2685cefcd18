/* SPDX-License-Identifier: MIT */
/*
 * The parts of the reader: records of the Common Trace Format (ctf.c), which libbabeltrace2
 * decodes, and the meaning of their events (classes.c); hits as JSON (json.c); and the child
 * process that does all of this (process.c).
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

/* ---- Events of records -------------------------------------------------------------- */

/* What is known of event classes, and the values of the last event read. */
struct reader_classes {
	const struct babeltrace *bt;
	void *tree; /* tsearch(3): struct event_class by its address in libbabeltrace2 */
	struct probe_value *values; /* room for any class's arguments */
	size_t value_room;
	char *bytes; /* aggregates of the event */
	size_t byte_room;
};

void reader_classes_init(struct reader_classes *classes, const struct babeltrace *bt);
/* Drops all classes: their record is about to be closed. */
void reader_classes_deinit(struct reader_classes *classes);

/* Decodes a message about an event. Error: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *reader_classes_event(
	struct reader_classes *classes, const bt_message *message, struct probe_event *ret);

#endif
