/* SPDX-License-Identifier: MIT */
/*
 * Rows of tracers, exported as metrics for Performance Co-Pilot: memory mapped values (mmv(5)),
 * which pmcd(1) reads. docs/fleet.md shows their use.
 *
 * The metrics of a tracer are mmv.probectl.TRACER.*, with an instance for each row of each process,
 * PID/provider:name. All exporters on a host use the same names, numbers and instance domains, so
 * their metrics form one set.
 */
#ifndef PROBE_PCP_H
#define PROBE_PCP_H

#include <sys/types.h>

#include "error.h"
#include "table.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_pcp;

/*
 * Creates an exporter for the rows of a view (probe_tracer_view()), which have `key_count` keys.
 * Removes the files of exporters that were killed. Nothing is visible before the first
 * probe_pcp_update(). Errors: PROBE_ERROR_UNSUPPORTED (this libprobe was built without PCP, or
 * libpcp_mmv is not installed), PROBE_ERROR_PERMISSION and PROBE_ERROR_SYSTEM (the folder of
 * metrics), PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_pcp_open(
	const struct probe_view *view, size_t key_count, struct probe_pcp **ret);

/*
 * Adds everything that a process has gathered so far. `program` is the name of the process, or NULL
 * if it is no longer known. The exporter takes ownership of the table, also after an error.
 * Percentiles and extremes are those of the hits since the last call. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_pcp_add(
	struct probe_pcp *pcp, pid_t pid, const char *program, struct probe_table *table);

/*
 * Like probe_pcp_add(), between two calls of it: counts, totals and last values become those of the
 * table. Rates, averages, percentiles and extremes stay those of the last interval. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_pcp_renew(
	struct probe_pcp *pcp, pid_t pid, const char *program, struct probe_table *table);

/*
 * Tells the exporter that a process has ended, and that nothing more is added. The rows of the
 * process stay as they are. If the process found no room in the exporter, the memory that the
 * exporter keeps for the process is freed.
 */
void probe_pcp_end(struct probe_pcp *pcp, pid_t pid);

/*
 * Publishes the added rows. After an error, the values published before stay visible, and the next
 * call tries again. Errors: PROBE_ERROR_SYSTEM, PROBE_ERROR_PERMISSION (the folder of metrics).
 */
PROBE_MUST_CHECK struct probe_error *probe_pcp_update(struct probe_pcp *pcp);

/* Returns the name of the metrics: "mmv.probectl.count". Owned by the exporter. */
const char *probe_pcp_name(const struct probe_pcp *pcp);

/*
 * Returns the number of rows that found no room: PCP accepts 10,000 values and 10,000 labels from
 * an exporter.
 */
size_t probe_pcp_left_out(const struct probe_pcp *pcp);

/* Removes the metrics, and frees the exporter. NULL is allowed. */
void probe_pcp_close(struct probe_pcp *pcp);

#ifdef __cplusplus
}
#endif
#endif
