/* SPDX-License-Identifier: MIT */
/*
 * Metrics (probe/metrics.h) and spans for collectors of OpenTelemetry: OTLP over HTTP, in JSON.
 * docs/fleet.md shows their use.
 *
 * No function here waits. Messages that a collector cannot take now are sent again later. Up to 256
 * messages and 16 MiB are kept for this; beyond that, the oldest messages are lost, and counted.
 */
#ifndef PROBE_OTLP_H
#define PROBE_OTLP_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "metrics.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_otlp;

/*
 * Prepares to send to a collector at http://HOST:PORT; /v1/metrics and /v1/traces are appended.
 * `headers` are additional headers of each message, in the form of OTEL_EXPORTER_OTLP_HEADERS:
 * NAME=VALUE,NAME=VALUE with %XX for other bytes; or NULL. `trace_arg` is the number of an argument
 * of start events: spans with the same value of this argument are in one trace. It is negative if
 * no argument is used. Nothing is sent yet. Errors: PROBE_ERROR_USAGE (the URL or the headers are
 * malformed), PROBE_ERROR_UNSUPPORTED (libcurl is not installed, or was not when this libprobe was
 * built), PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_otlp_open(
	const char *url, const char *headers, int trace_arg, struct probe_otlp **ret);
/* Frees the sender. Messages that have not been sent are lost. NULL is allowed. */
void probe_otlp_close(struct probe_otlp *otlp);

/* Sends all metrics of a set. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *probe_otlp_metrics(
	struct probe_otlp *otlp, const struct probe_metrics *metrics);

/*
 * Adds a span: a hit with a start event (probe_session_options.spans), and the probes of both
 * events. `program` is the name of the process, or NULL. The arguments of both events become
 * attributes of the span. The span's trace comes from the first of these that exists: an argument
 * that is a W3C `traceparent`, whose span becomes the parent; an argument that is a trace id of 32
 * hexadecimal digits; the value of `trace_arg`. Otherwise the span has a trace of its own. Without
 * memory, the span counts as lost.
 */
void probe_otlp_span(struct probe_otlp *otlp, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *program);
/* Sends the added spans. Large numbers of spans are sent without this call. */
void probe_otlp_flush(struct probe_otlp *otlp);

/*
 * Run the sender in the caller's event loop. probe_otlp_fd() returns the descriptor that is
 * readable when the sender has something to do. probe_otlp_due_ns() returns the time
 * (CLOCK_MONOTONIC) at which probe_otlp_run() must be called at the latest; UINT64_MAX while
 * nothing is to be sent. probe_otlp_run() never waits.
 */
int probe_otlp_fd(const struct probe_otlp *otlp);
uint64_t probe_otlp_due_ns(const struct probe_otlp *otlp);
void probe_otlp_run(struct probe_otlp *otlp);
/* Discards messages that have not been sent: they count as lost. */
void probe_otlp_give_up(struct probe_otlp *otlp);
/* Tells whether some messages have not been sent yet. */
bool probe_otlp_is_busy(const struct probe_otlp *otlp);

/* Numbers of sent and lost spans and points so far. A point is a value of a metric at a time. */
struct probe_otlp_sent {
	uint64_t spans, points;
	uint64_t lost_spans, lost_points;
	/*
	 * Returns why the collector did not take the last message; "" if it took it. Valid until
	 * the next call.
	 */
	const char *why;
};
struct probe_otlp_sent probe_otlp_sent(const struct probe_otlp *otlp);

#ifdef __cplusplus
}
#endif
#endif
