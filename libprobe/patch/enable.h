/* SPDX-License-Identifier: MIT */
/* Switching selected probes within one change, as probe_target_enable() and the others do. */
#ifndef LIBPROBE_PATCH_ENABLE_H
#define LIBPROBE_PATCH_ENABLE_H

#include "libprobe/query/select.h"
#include "libprobe/registry/change.h"

struct transaction;

/*
 * Selects the probes that a request names; each pattern must match. Errors: those of
 * select_probes() and select_unmatched(), PROBE_ERROR_USAGE (an odd list of pairs).
 */
PROBE_MUST_CHECK struct probe_error *enable_select(
	struct change *change, const struct probe_request *request, struct selection *ret);

/*
 * Sets `refused` of the probes that cannot be patched as the process is now: what enabling them by
 * wildcards leaves out. Errors: those of install_plan().
 */
PROBE_MUST_CHECK struct probe_error *enable_mark_refused(struct transaction *transaction,
	struct selection *selection, const struct probe_request *request);

/* Ends of pairs, whose `pattern` is odd, go first: they are on as long as their starts. */
PROBE_MUST_CHECK struct probe_error *enable_order_pairs(struct selection *selection);

/*
 * Counts the probes of a selection up or down by their `times`, or sets their state
 * (request->force). They are left in the selection or not. An error undoes all of it.
 */
PROBE_MUST_CHECK struct probe_error *enable_selected(struct change *change,
	struct selection *selection, const struct probe_request *request,
	struct probe_report *report);
PROBE_MUST_CHECK struct probe_error *disable_selected(struct change *change,
	struct selection *selection, const struct probe_request *request,
	struct probe_report *report);

/* Removes from a report what was counted since, except refused sites. */
void enable_forget(struct probe_report *report, const struct probe_report *before);

#endif
