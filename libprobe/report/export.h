/* SPDX-License-Identifier: MIT */
/* What a format of `export` has to say: one table of operations for each. */
#ifndef LIBPROBE_REPORT_EXPORT_H
#define LIBPROBE_REPORT_EXPORT_H

#include "libprobe/base/buffer.h"
#include "libprobe/base/error.h"
#include "libprobe/report/key.h"
#include "probe/export.h"
#include "probe/spans.h"

/* The options, parsed. */
struct export_settings {
	const struct probe_export_options *options;
	struct key keys[PROBE_EXPORT_KEYS_MAX];
	size_t key_count;
	int match, match_end; /* numbers of arguments, or -1 */
};

struct export_format {
	const char *names[4]; /* the first is the one that is documented first */
	/* `out` is where all of them append; it lives as long as the state. */
	struct probe_error *(*create)(
		const struct export_settings *settings, struct buffer *out, void **ret);
	void (*free)(void *state); /* NULL is allowed */
	struct probe_error *(*event)(void *state, const struct probe_event *event);
	/*
	 * Called again and again until it says that it is done: what was added is
	 * written in between.
	 */
	struct probe_error *(*finish)(void *state, bool *done_ret);
};

extern const struct export_format export_json;
extern const struct export_format export_csv;
extern const struct export_format export_folded;
extern const struct export_format export_trace_event;
extern const struct export_format export_flamegraph;

/* A value as a person reads it; nothing if it is null. */
void export_value_text(struct buffer *out, const struct probe_value *value);
/*
 * The values of the keys that the event has, as a person reads them, each after a blank.
 */
void export_key_text(struct buffer *out, const struct probe_event *event,
	const struct export_settings *settings);

#endif
