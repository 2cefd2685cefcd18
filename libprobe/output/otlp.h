/* SPDX-License-Identifier: MIT */
/*
 * The parts of OTLP: its messages in JSON (json.c), of metrics (points.c) and of spans (spans.c,
 * trace_id.c), and where they go (otlp.c).
 *
 * JSON, because it needs no library, is what every collector takes beside protobuf, and can be
 * read. It is that of protobuf's messages with OTLP's exceptions: identifiers are hexadecimal, and
 * enumerations are numbers. Whole numbers of 64 bits are strings.
 *
 * https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
 */
#ifndef LIBPROBE_OUTPUT_OTLP_H
#define LIBPROBE_OUTPUT_OTLP_H

#include "libprobe/base/buffer.h"
#include "libprobe/output/client.h"
#include "libprobe/output/metrics.h"
#include "probe/otlp.h"

enum otlp_kind { OTLP_POINTS, OTLP_SPANS };

enum { TRACE_ID_DIGITS = 32, SPAN_ID_DIGITS = 16 };

/* Where a span belongs. Digits are hexadecimal. */
struct otlp_ids {
	char trace[TRACE_ID_DIGITS + 1];
	char span[SPAN_ID_DIGITS + 1];
	char parent[SPAN_ID_DIGITS + 1]; /* "" : none */
};

/* Spans that are not queued yet. */
struct otlp_batch {
	struct buffer out; /* of a buffer_init(), or empty */
	uint64_t count;
	pid_t pid; /* of the last one */
};

struct probe_otlp {
	struct http_client *http;
	int trace_arg;
	uint64_t random; /* the state of a generator */
	struct otlp_batch spans;
	uint64_t lost_spans; /* without memory */
};

/* ---- json.c --------------------------------------------------------------------- */

/* A field of a number or a string, after a comma if it is not the first of its object. */
void otlp_number(struct buffer *out, const char *name, uint64_t value);
void otlp_text(struct buffer *out, const char *name, const char *text);
/* JSON has no number that is not finite: protobuf's has a string. */
void otlp_double(struct buffer *out, const char *name, double value);
/*
 * An attribute of a list, which begins with a bracket. Text is as it is printed elsewhere: bytes
 * that are no text are C escapes.
 */
void otlp_text_attribute(struct buffer *out, const char *key, const char *text, size_t length);
void otlp_value_attribute(struct buffer *out, const char *key, const struct probe_value *value);
void otlp_pid_attribute(struct buffer *out, pid_t pid);
/* "resource":{...}, and the scope in the list `scopes`, up to the list `items` in it. */
void otlp_open_resource(
	struct buffer *out, pid_t pid, const char *program, const char *scopes, const char *items);
void otlp_close_resource(struct buffer *out);

/* ---- points.c, spans.c ------------------------------------------------------------ */

/* Writes a message with all points of a set, and returns their number. */
uint64_t otlp_write_points(
	struct buffer *out, const struct probe_metrics *metrics, uint64_t now_ns);
/* Writes a span into a batch, and closes what is open in it. */
void otlp_write_span(struct otlp_batch *batch, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *program, const struct otlp_ids *ids);
void otlp_end_spans(struct otlp_batch *batch);

/* ---- trace_id.c -------------------------------------------------------------------- */

/* Finds where a span belongs, or makes that up. */
void otlp_ids_of(struct probe_otlp *otlp, const struct probe_hit *hit, struct otlp_ids *ret);

#endif
