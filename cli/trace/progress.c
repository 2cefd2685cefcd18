/* SPDX-License-Identifier: MIT */
/* What `probectl record` has done so far, on a terminal, once a second. */
#include <inttypes.h>

#include "cli/print/print.h"
#include "cli/trace/trace.h"

struct trace_progress trace_progress_start(const struct trace *trace)
{
	/* A program that we started may write to the same terminal. */
	bool wanted = trace->record && trace->full == RECORD_FLUSH && !trace->settings.quiet &&
		      !trace->loop.child;

	return (struct trace_progress){.line = progress_every(wanted ? NSEC_PER_SEC : 0),
		.last_ns = clock_ns(CLOCK_MONOTONIC)};
}

void trace_progress_show(const struct trace *trace, struct trace_progress *progress)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	double seconds = (double)(now - progress->last_ns) / NSEC_PER_SEC;

	if (!progress_due(&progress->line))
		return;
	progress_show(&progress->line, "%" PRIu64 " hit%s, %.0f/s, %.1f MB, %" PRIu64 " lost",
		COUNTED(trace->hits),
		seconds > 0 ? (double)(trace->hits - progress->hits) / seconds : 0,
		(double)probe_ctf_bytes(trace->record) / 1e6, trace_lost(trace));
	progress->last_ns = now;
	progress->hits = trace->hits;
}
