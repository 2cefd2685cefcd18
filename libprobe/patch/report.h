/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PATCH_REPORT_H
#define LIBPROBE_PATCH_REPORT_H

#include "libprobe/names/select.h"
#include "probe/target.h"

/* Adds a refused site, with copies of its strings; `report` may be NULL. */
PROBE_MUST_CHECK struct probe_error *report_refusal(struct probe_report *report,
	const struct select_probe *probe, const struct select_site *site);

/* Forgets all refusals but the first `count`. */
void report_forget(struct probe_report *report, size_t count);

/* Adds something else that is to be told of a session; `report` may be NULL. */
PROBE_MUST_CHECK struct probe_error *report_note(
	struct probe_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
