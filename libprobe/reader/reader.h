/* SPDX-License-Identifier: MIT */
/*
 * The parts of the reader: records of the Common Trace Format (ctf.c), which
 * libbabeltrace2 decodes, and what their events mean (classes.c); hits as JSON
 * (json.c); all of it in a process of its own (process.c).
 */
#ifndef LIBPROBE_READER_READER_H
#define LIBPROBE_READER_READER_H

#include "libprobe/reader/babeltrace.h"
#include "probe/reader.h"

/* What something can be read from: one table for each. */
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

/* ---- In a process of its own ------------------------------------------------------- */

extern const struct reader_ops reader_process;
/* A record; or, if `json` is not -1, the JSON behind that descriptor, by the name `path`. */
PROBE_MUST_CHECK struct probe_error *reader_process_open(const char *path, int json, void **ret);

/* Takes over what has been opened; closes it where there is no memory. */
PROBE_MUST_CHECK struct probe_error *reader_create(
	const struct reader_ops *ops, void *source, struct probe_reader **ret);

/* ---- Events of records -------------------------------------------------------------- */

/* What is known of classes of events, and the values of the event that was read last. */
struct reader_classes {
	const struct babeltrace *bt;
	void *tree;		    /* tsearch(3): struct event_class by its address in bt */
	struct probe_value *values; /* as many as any class has arguments */
	size_t value_room;
	char *bytes; /* aggregates of the event */
	size_t byte_room;
};

void reader_classes_init(struct reader_classes *classes, const struct babeltrace *bt);
/* Forgets all classes: their record is about to be closed. */
void reader_classes_deinit(struct reader_classes *classes);

/* What a message about an event says. PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *reader_classes_event(
	struct reader_classes *classes, const bt_message *message, struct probe_event *ret);

#endif
