/* SPDX-License-Identifier: MIT */
/*
 * Events of a record or a stream in the formats of other tools; what each of them
 * says is told in probectl-export(1).
 */
#ifndef PROBE_EXPORT_H
#define PROBE_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "event.h"
#include "pattern.h"

#ifdef __cplusplus
extern "C" {
#endif

enum probe_export_format {
	PROBE_EXPORT_JSON,	 /* one object a line, as `probectl trace --json` */
	PROBE_EXPORT_CSV,	 /* RFC 4180 */
	PROBE_EXPORT_FOLDED,	 /* stacks of pairs, for flame graphs */
	PROBE_EXPORT_TRACE_EVENT /* for Perfetto and Chrome */
};

/* The format of a name, or of one of its aliases; false where there is none. */
bool probe_export_format(const char *name, enum probe_export_format *ret);

/* Zero is what nobody asked for. Strings and patterns are borrowed. */
struct probe_export_options {
	/* Pairs and points are told apart by this argument's value too: "arg0", "str(arg1)". */
	const char *key;
	/* Ends belong to begins with the same value of "arg0", or "arg0:arg1"; NULL: same thread */
	const char *match;
	/* Values over time: the argument counter_args[i] of what counters[i] matches. */
	const struct probe_pattern *const *counters;
	const unsigned int *counter_args;
	size_t counter_count;
	bool hits;	/* folded stacks count hits, also of probes that are no pair */
	size_t columns; /* of CSV, for arguments; 0: as many as the widest hit has (kept in a file
			   that has no name until the end) */
};

struct probe_export;

/*
 * Begins to write to a descriptor, which stays the caller's; `name` is used in
 * messages and is copied. Errors: PROBE_ERROR_USAGE (the options), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_export_create(enum probe_export_format format,
	const struct probe_export_options *options, int fd, const char *name,
	struct probe_export **ret);
/* Discards what has not been written. NULL is allowed. */
void probe_export_free(struct probe_export *exporter);

/*
 * Adds an event; they come in order of time. Waits for whoever reads. Errors:
 * PROBE_ERROR_SYSTEM (with EPIPE: nobody reads any more; SIGPIPE must be ignored),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_export_event(
	struct probe_export *exporter, const struct probe_event *event);

/* After the last event: writes everything. Errors as above. */
PROBE_MUST_CHECK struct probe_error *probe_export_finish(struct probe_export *exporter);

#ifdef __cplusplus
}
#endif
#endif
