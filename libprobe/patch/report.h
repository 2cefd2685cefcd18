/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PATCH_REPORT_H
#define LIBPROBE_PATCH_REPORT_H

#include "libprobe/query/select.h"
#include "libprobe/registry/change.h"
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

/*
 * Drops the probes of modules that cannot be read, because nothing can be proved about their sites;
 * the report lists each site as refused. Returns PROBE_ERROR_REFUSED if the request does not keep
 * going and a pattern names such a probe exactly, or if nothing else was selected and `served` is
 * not set.
 */
PROBE_MUST_CHECK struct probe_error *report_drop_unread(struct selection *selection,
	const struct probe_request *request, bool served, pid_t pid, struct probe_report *report);

/* Forgets all refusals but the first `count`. */
void report_forget(struct probe_report *report, size_t count);

/* Adds a note about a session; `report` may be NULL. */
PROBE_MUST_CHECK struct probe_error *report_note(
	struct probe_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds notes if the program has taken memory of ours, or has sealed memory that should be freed. */
PROBE_MUST_CHECK struct probe_error *report_memory(
	struct probe_report *report, const struct change *change);
#define REPORT_LOST                                                                                \
	"process %d has mapped memory over that of probectl, or unmapped it: the probes that "     \
	"needed it are off"
#define REPORT_SEALED                                                                              \
	"process %d has sealed %ju KiB of probectl's memory: it stays until the program ends"

#endif
