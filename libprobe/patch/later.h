/* SPDX-License-Identifier: MIT */
/* What a target has mapped since its probes were enabled last: struct probe_request, later. */
#ifndef LIBPROBE_PATCH_LATER_H
#define LIBPROBE_PATCH_LATER_H

#include "libprobe/process/modules.h"
#include "libprobe/query/select.h"
#include "probe/target.h"

/* Removes the probes of modules that were noted from a selection, if the request asks for that. */
void later_drop(const struct probe_target *target, const struct probe_request *request,
	struct selection *selection);

/* Makes room for later_note(). Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *later_reserve(
	struct probe_target *target, const struct modules *modules);

/* Notes the modules in which probes have been enabled. */
void later_note(struct probe_target *target, const struct modules *modules);

#endif
