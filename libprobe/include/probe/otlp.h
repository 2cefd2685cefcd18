/* SPDX-License-Identifier: MIT */
/*
 * Metrics (probe/metrics.h) and spans for collectors of OpenTelemetry: OTLP over HTTP, in JSON.
 * docs/fleet.md shows their use.
 *
 * Nothing here waits. What a collector cannot take now is sent again later; what has no room
 * meanwhile (256 messages, 16 MiB) is lost, the oldest first, and counted.
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
 * Prepares to send to a collector, http://HOST:PORT; /v1/metrics and /v1/traces are added.
 * `headers` are further headers of each message, NAME=VALUE,NAME=VALUE with %XX for other bytes, as
 * OTEL_EXPORTER_OTLP_HEADERS has them, or NULL. `trace_arg` is the number of the argument of begins
 * whose value tells traces apart, or negative. Nothing is sent yet. Errors: PROBE_ERROR_USAGE (not
 * such a URL or headers), PROBE_ERROR_UNSUPPORTED (libcurl is not installed, or was not when this
 * libprobe was built), PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_otlp_open(
	const char *url, const char *headers, int trace_arg, struct probe_otlp **ret);
/* What has not been sent is lost. NULL is allowed. */
void probe_otlp_close(struct probe_otlp *otlp);

/* Sends all metrics of a set. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *probe_otlp_metrics(
	struct probe_otlp *otlp, const struct probe_metrics *metrics);

/*
 * Adds a span: a hit with a begin (probe_session_options.spans), and the probes of both. `program`
 * is the name of its process, or NULL. The arguments of both are its attributes. Its trace is that
 * of an argument which is a `traceparent` of W3C, whose span is then its parent, or the 32
 * hexadecimal digits of an id; else that of the value of `trace_arg`; else one of its own.
 * Without memory it counts as lost.
 */
void probe_otlp_span(struct probe_otlp *otlp, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *program);
/* Sends the spans that were added; they are sent anyway when there are many. */
void probe_otlp_flush(struct probe_otlp *otlp);

/*
 * As those of a server: probe_metrics_server_fd() and so on. The time is UINT64_MAX while there is
 * nothing to send.
 */
int probe_otlp_fd(const struct probe_otlp *otlp);
uint64_t probe_otlp_due_ns(const struct probe_otlp *otlp);
void probe_otlp_run(struct probe_otlp *otlp);
/* Gives up what has not been sent: it counts as lost. */
void probe_otlp_give_up(struct probe_otlp *otlp);
/* Tells whether something has still to be sent. */
bool probe_otlp_is_busy(const struct probe_otlp *otlp);

/* What became of it so far. A point is a value of a metric at a time. */
struct probe_otlp_sent {
	uint64_t spans, points;
	uint64_t lost_spans, lost_points;
	const char *why; /* the last message was not taken; "": none. Valid until the next call */
};
struct probe_otlp_sent probe_otlp_sent(const struct probe_otlp *otlp);

#ifdef __cplusplus
}
#endif
#endif
