/* SPDX-License-Identifier: MIT */
/*
 * What tracers have gathered, as metrics of Performance Co-Pilot: memory mapped
 * values (mmv(5)), which its pmcd(1) reads. docs/fleet.md tells what becomes of
 * them.
 *
 * The metrics of a tracer are mmv.probectl.TRACER.*, with an instance for each
 * row of a process, PID/provider:name. Names, numbers and instance domains are
 * the same whoever exports, so those of all exporters of a host are one set.
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
 * Prepares the metrics of a view (probe_tracer_view()) of rows with so many keys,
 * and removes what exporters that were killed have left. Nothing is seen until
 * the first probe_pcp_update(). Errors: PROBE_ERROR_UNSUPPORTED (this libprobe was
 * built without PCP, or libpcp_mmv is not installed), PROBE_ERROR_PERMISSION and
 * PROBE_ERROR_SYSTEM (the folder of metrics), PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_pcp_open(
	const struct probe_view *view, size_t key_count, struct probe_pcp **ret);

/*
 * Takes all that a process has gathered so far; `program` is its name, NULL where it
 * is not known any more. The table is taken over, also after an error. Percentiles
 * and extremes become those of what is new in it since the last time.
 * Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_pcp_add(
	struct probe_pcp *pcp, pid_t pid, const char *program, struct probe_table *table);

/*
 * Publishes what was taken. Errors: PROBE_ERROR_SYSTEM, PROBE_ERROR_PERMISSION (the
 * folder): what was published before stays, and the next call tries again.
 */
PROBE_MUST_CHECK struct probe_error *probe_pcp_update(struct probe_pcp *pcp);

/* Where they are seen: "mmv.probectl.count". Owned by pcp. */
const char *probe_pcp_name(const struct probe_pcp *pcp);

/* Rows for which there is no room: PCP takes 10,000 values and as many labels of an exporter. */
size_t probe_pcp_left_out(const struct probe_pcp *pcp);

/* Takes the metrics away. NULL is allowed. */
void probe_pcp_close(struct probe_pcp *pcp);

#ifdef __cplusplus
}
#endif
#endif
