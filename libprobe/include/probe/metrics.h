/* SPDX-License-Identifier: MIT */
/*
 * What tracers gather, as metrics for Prometheus: OpenMetrics text, and a server that scrapers ask
 * for it. docs/fleet.md shows their use. The metrics are those of probe/pcp.h in another form:
 * the same numbers and labels, with histograms instead of percentiles.
 */
#ifndef PROBE_METRICS_H
#define PROBE_METRICS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "table.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_metrics;

/*
 * Creates an empty set of metrics with room for `rows_max` rows and processes, over all tracers:
 * each row is a series, or several, for as long as the set lives. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_metrics_create(
	size_t rows_max, struct probe_metrics **ret);
/* Frees a set. NULL is allowed. */
void probe_metrics_free(struct probe_metrics *metrics);

/*
 * Adds the rows of a tracer's view (probe_tracer_view()), which have `key_count` keys, and returns
 * their number for probe_metrics_add(). The view's strings must outlive the set. Errors:
 * PROBE_ERROR_USAGE (the set has such a view already), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_metrics_view(struct probe_metrics *metrics,
	const struct probe_view *view, size_t key_count, size_t *ret);

/*
 * Adds everything that a process has gathered so far for one view. `program` is its name, or NULL
 * if that is no longer known. The set takes ownership of the table, after an error too. Extremes
 * are those of what is new since the last call. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_metrics_add(struct probe_metrics *metrics, size_t view,
	pid_t pid, const char *program, struct probe_table *table);

/*
 * A process of a view has ended, and nothing more is added: its rows stay as they are, and if there
 * was no room for it, it takes no memory any longer.
 */
void probe_metrics_end(struct probe_metrics *metrics, size_t view, pid_t pid);

/* Returns the number of rows that found no room when their tables were added. */
size_t probe_metrics_left_out(const struct probe_metrics *metrics);

/* Prometheus's own format, version 0.0.4, and that of OpenMetrics 1.0. */
enum probe_metrics_format { PROBE_METRICS_TEXT, PROBE_METRICS_OPENMETRICS };

/*
 * Writes what was added. *ret has *length_ret bytes and a NUL; the caller frees it. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_metrics_text(const struct probe_metrics *metrics,
	enum probe_metrics_format format, char **ret, size_t *length_ret);

/* ---- A server ------------------------------------------------------------------ */

struct probe_metrics_server;

/*
 * Listens at ADDR:PORT for scrapers, which ask for /metrics. The address is one of IPv4, of IPv6
 * in brackets, `localhost`, or `*`, which is all; without one, it is 127.0.0.1. Port 0 is any that
 * is free. The server has no thread, and never blocks: poll(2) its descriptor, and call
 * probe_metrics_server_run(). Errors: PROBE_ERROR_USAGE (not an address), PROBE_ERROR_SYSTEM and
 * PROBE_ERROR_PERMISSION (it cannot be listened at), PROBE_ERROR_UNSUPPORTED (libmicrohttpd is not
 * installed, or was not when this libprobe was built), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_metrics_listen(const struct probe_metrics *metrics,
	const char *address, struct probe_metrics_server **ret);
/* Closes all connections. NULL is allowed; the metrics are the caller's. */
void probe_metrics_server_close(struct probe_metrics_server *server);

/* Returns where it is: "http://127.0.0.1:9100/metrics". Owned by the server. */
const char *probe_metrics_server_url(const struct probe_metrics_server *server);
/* Returns the descriptor that is readable when the server has something to do. */
int probe_metrics_server_fd(const struct probe_metrics_server *server);
/* Returns the time (CLOCK_MONOTONIC) when it has at the latest; UINT64_MAX: no such time. */
uint64_t probe_metrics_server_due_ns(const struct probe_metrics_server *server);
/* Accepts, reads, answers and closes what can be without waiting. */
void probe_metrics_server_run(struct probe_metrics_server *server);
/*
 * To be called after probe_metrics_add(): scrapers get the new values. Until then all get the same
 * text, which is written once, however many ask.
 */
void probe_metrics_server_renew(struct probe_metrics_server *server);

#ifdef __cplusplus
}
#endif
#endif
