/* SPDX-License-Identifier: MIT */
/*
 * Rows of tracers, exported as metrics for Prometheus: OpenMetrics text, and a server that scrapers
 * ask for it. docs/fleet.md shows their use. The metrics are those of probe/pcp.h in another form:
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
 * Creates an empty set of metrics with room for `rows_max` rows and processes, over all tracers.
 * Each row is one series or more, for as long as the set exists. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_metrics_create(
	size_t rows_max, struct probe_metrics **ret);
/* Frees a set. NULL is allowed. */
void probe_metrics_free(struct probe_metrics *metrics);

/*
 * Adds a tracer's view (probe_tracer_view()), whose rows have `key_count` keys. *ret is the number
 * of the view for probe_metrics_add(). The view's strings must outlive the set. Errors:
 * PROBE_ERROR_USAGE (the set already has such a view), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_metrics_view(struct probe_metrics *metrics,
	const struct probe_view *view, size_t key_count, size_t *ret);

/*
 * Adds everything that a process has gathered so far for one view. `program` is the name of the
 * process, or NULL if it is no longer known. The set takes ownership of the table, also after an
 * error. Extremes are those of the hits since the last call. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_metrics_add(struct probe_metrics *metrics, size_t view,
	pid_t pid, const char *program, struct probe_table *table);

/*
 * Tells the set that a process of a view has ended, and that nothing more is added. The rows of the
 * process stay as they are. If the process found no room in the set, the memory that the set keeps
 * for the process is freed.
 */
void probe_metrics_end(struct probe_metrics *metrics, size_t view, pid_t pid);

/* Returns the number of rows that found no room when their tables were added. */
size_t probe_metrics_left_out(const struct probe_metrics *metrics);

/* Formats: Prometheus's text format, version 0.0.4, and OpenMetrics 1.0. */
enum probe_metrics_format { PROBE_METRICS_TEXT, PROBE_METRICS_OPENMETRICS };

/*
 * Writes the metrics as text. *ret has *length_ret bytes, followed by a NUL; the caller frees it
 * with free(). Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_metrics_text(const struct probe_metrics *metrics,
	enum probe_metrics_format format, char **ret, size_t *length_ret);

/* ---- A server ------------------------------------------------------------------ */

struct probe_metrics_server;

/*
 * Listens at ADDR:PORT for scrapers, which ask for /metrics. The address is an IPv4 address, an
 * IPv6 address in brackets, `localhost`, or `*` for all addresses; without an address, it is
 * 127.0.0.1. Port 0 is any free port. The server has no thread, and never blocks: poll(2) its
 * descriptor, and call probe_metrics_server_run(). Errors: PROBE_ERROR_USAGE (not an address),
 * PROBE_ERROR_SYSTEM and PROBE_ERROR_PERMISSION (the server cannot listen at the address),
 * PROBE_ERROR_UNSUPPORTED (libmicrohttpd is not installed, or was not when this libprobe was
 * built), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_metrics_listen(const struct probe_metrics *metrics,
	const char *address, struct probe_metrics_server **ret);
/* Closes all connections and frees the server, but not the metrics. NULL is allowed. */
void probe_metrics_server_close(struct probe_metrics_server *server);

/* Returns the URL of the server: "http://127.0.0.1:9100/metrics". Owned by the server. */
const char *probe_metrics_server_url(const struct probe_metrics_server *server);
/* Returns the descriptor that is readable when the server has something to do. */
int probe_metrics_server_fd(const struct probe_metrics_server *server);
/*
 * Returns the time (CLOCK_MONOTONIC, in nanoseconds) at which probe_metrics_server_run() must be
 * called at the latest; UINT64_MAX if there is no such time.
 */
uint64_t probe_metrics_server_due_ns(const struct probe_metrics_server *server);
/* Accepts, reads, answers and closes connections, as far as this is possible without waiting. */
void probe_metrics_server_run(struct probe_metrics_server *server);
/*
 * Makes scrapers get the new values. Call it after probe_metrics_add(). Until then all scrapers get
 * the same text, which is written once for all of them.
 */
void probe_metrics_server_renew(struct probe_metrics_server *server);

#ifdef __cplusplus
}
#endif
#endif
