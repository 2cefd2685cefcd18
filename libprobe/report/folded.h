/* SPDX-License-Identifier: MIT */
/* Stacks of pairs, which are written as lines (folded.c) and drawn (flamegraph.c). */
#ifndef LIBPROBE_REPORT_FOLDED_H
#define LIBPROBE_REPORT_FOLDED_H

#include "libprobe/report/export.h"
#include "libprobe/output/flame.h"

/* Operations of struct export_format. */
PROBE_MUST_CHECK struct probe_error *folded_create(
	const struct export_settings *settings, struct buffer *out, void **ret);
void folded_free(void *state);
PROBE_MUST_CHECK struct probe_error *folded_event(void *state, const struct probe_event *event);

/*
 * The sums of all stacks, by text; called once, after the last event. They belong to the state.
 * Errors: PROBE_ERROR_NOT_FOUND (no pair has ended), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *folded_sums(
	void *state, struct flame_stack **ret, size_t *count_ret);

#endif
