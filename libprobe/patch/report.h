/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PATCH_REPORT_H
#define LIBPROBE_PATCH_REPORT_H

#include "libprobe/names/select.h"
#include "probe/target.h"

/* Adds a refused site, with copies of its strings; `report` may be NULL. */
PROBE_MUST_CHECK struct probe_error *report_refusal(struct probe_report *report,
	const struct select_probe *probe, const struct select_site *site);

/*
 * An error makes a probe of a selection unwanted. The error is freed, and reported once. The caller
 * then drops what is unwanted.
 */
PROBE_MUST_CHECK struct probe_error *report_drop(struct selection *selection,
	struct select_probe *probe, struct probe_error *why, struct probe_report *report);

/* Drops the probes that lack arguments; each is reported once. */
PROBE_MUST_CHECK struct probe_error *report_drop_lacking(
	struct selection *selection, struct probe_report *report);

/* Forgets all refusals but the first `count`. */
void report_forget(struct probe_report *report, size_t count);

/* Adds a note about a session; `report` may be NULL. */
PROBE_MUST_CHECK struct probe_error *report_note(
	struct probe_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
