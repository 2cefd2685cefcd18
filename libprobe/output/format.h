/* SPDX-License-Identifier: MIT */
/*
 * What an output format writes: one table of operations per format, each appending to the
 * sink's buffer. Every table has all of them, unless a comment allows NULL.
 */
#ifndef LIBPROBE_OUTPUT_FORMAT_H
#define LIBPROBE_OUTPUT_FORMAT_H

#include "libprobe/base/error.h"
#include "probe/sink.h"
#include "libprobe/base/buffer.h"

/* The wall-clock second that was formatted last: hits come many to a second. */
struct clock_cache {
	int64_t second; /* since the epoch; -1 while nothing is cached */
	char text[16];	/* HH:MM:SS */
};

struct format_context {
	struct buffer out;
	struct clock_cache clock;
	size_t name_width; /* text: of the column of names, which grows with them */
};

struct format {
	/* NULL: it writes nothing at the start. */
	void (*begin)(struct format_context *context, bool header);
	void (*hit)(struct format_context *context, const struct probe_hit *hit,
		const struct probe_session_probe *probe, const char *comm);
	void (*begin_spans)(struct format_context *context, bool header);
	void (*span)(struct format_context *context, const struct probe_hit *hit,
		const struct probe_session_probe *begin, const struct probe_session_probe *end,
		const char *comm);
	void (*lost)(struct format_context *context, const struct probe_session_probe *probe,
		uint64_t lost);
	/* NULL: the format does not report that. */
	void (*waited)(struct format_context *context, uint64_t hits, uint64_t ns);
	void (*site)(struct format_context *context, pid_t pid, const struct probe_site_news *news);
	void (*table)(struct format_context *context, const struct probe_table *table,
		const struct probe_view *view);
	void (*stacks)(struct format_context *context, const struct probe_stacks_row *rows,
		size_t count, const struct probe_view *view);
	/* NULL: it writes nothing at the end. */
	void (*end)(struct format_context *context);
};

/* The same as probe_sink_create(), for any format. */
PROBE_MUST_CHECK struct probe_error *sink_create(
	const struct format *format, int fd, const char *name, struct probe_sink **ret);
struct format_context *sink_context(struct probe_sink *sink);

/* Prints nothing: what goes to a loaded tracer (libprobe/session/host.c). */
extern const struct format format_silent;
extern const struct format format_text;
extern const struct format format_json;

#endif
