/* SPDX-License-Identifier: MIT */
/* Writes events of a record or a stream in the formats of other tools (probectl-export(1)). */
#ifndef PROBE_EXPORT_H
#define PROBE_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "catalogue.h"
#include "error.h"
#include "event.h"
#include "pattern.h"

#ifdef __cplusplus
extern "C" {
#endif

enum probe_export_format {
	PROBE_EXPORT_JSON,	  /* one object a line, as `probectl trace --json` writes */
	PROBE_EXPORT_CSV,	  /* RFC 4180 */
	PROBE_EXPORT_FOLDED,	  /* stacks of pairs, for programs that draw flame graphs */
	PROBE_EXPORT_TRACE_EVENT, /* for Perfetto and Chrome */
	PROBE_EXPORT_FLAMEGRAPH	  /* the folded stacks, drawn: SVG */
};

enum { PROBE_EXPORT_KEYS_MAX = 8 };

/* Finds a format by its name or an alias. Returns false if no format has this name. */
bool probe_export_format(const char *name, enum probe_export_format *ret);

/* Zero is each option's default. Strings and patterns are borrowed until the exporter is freed. */
struct probe_export_options {
	/*
	 * Keys. Pairs and points with different values of a key are kept apart: "argN" or
	 * "str(argN)", "norm(str(argN))", "sym(argN)", "tid", "pid", "cpu", "comm", "probe"; with a
	 * catalogue also "NAME", "str(NAME)", "norm(NAME)". At most PROBE_EXPORT_KEYS_MAX.
	 */
	const char *const *keys;
	size_t key_count;
	/*
	 * An end event ends the start event with the same value of this argument: "arg0", or
	 * "arg0:arg1" for the start and the end event. If NULL, an end event ends the last start
	 * event of its thread.
	 */
	const char *match;
	bool hits; /* stacks count hits, including hits of probes without a pair */
	/*
	 * CSV: the number of columns for arguments. If 0, there are as many columns as any hit has
	 * arguments; all hits are then kept in a temporary file until the end.
	 */
	size_t columns;
	/*
	 * The catalogue for keys that are names of arguments, for names in JSON, and for arguments
	 * that start and end events of pairs share. Borrowed until the exporter is freed; or NULL.
	 */
	const struct probe_catalogue *catalogue;
};

struct probe_export;

/*
 * Creates an exporter that writes to a descriptor, which the caller closes. `options` may be
 * NULL. `name` is what messages call the output, and is copied. Errors: PROBE_ERROR_USAGE (no
 * such format, options that make no sense), PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_export_create(enum probe_export_format format,
	const struct probe_export_options *options, int fd, const char *name,
	struct probe_export **ret);
/* Frees an exporter. Output that has not been written is lost. NULL is allowed. */
void probe_export_free(struct probe_export *exporter);

/*
 * Adds an event. Events must be added in the order of their times. Waits if the reader of the
 * output is slow. Errors: PROBE_ERROR_SYSTEM (with EPIPE if the output has no reader any more; the
 * caller must ignore SIGPIPE), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_export_event(
	struct probe_export *exporter, const struct probe_event *event);

/* Writes the remaining output, after the last event. Errors: as probe_export_event(). */
PROBE_MUST_CHECK struct probe_error *probe_export_finish(struct probe_export *exporter);

#ifdef __cplusplus
}
#endif
#endif
