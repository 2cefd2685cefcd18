/* SPDX-License-Identifier: MIT */
/*
 * What `probectl record` has done so far, on a terminal: one line, written over once a second. The
 * cursor stays at its beginning, so that what is reported meanwhile takes its place.
 */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/print/print.h"
#include "cli/trace/trace.h"

void progress_show(const struct trace *trace, struct trace_progress *progress)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC), bytes, lost = 0;
	double seconds = (double)(now - progress->last_ns) / NSEC_PER_SEC;

	/* A program that we started may write to the same terminal. */
	if (!trace->record || trace->settings.quiet || trace->loop.child || !isatty(STDERR_FILENO))
		return;
	for (size_t i = 0; i < trace->target_count; i++)
		for (size_t k = 0; k < trace->targets[i].tally_count; k++)
			lost += trace->targets[i].tallies[k].lost;
	bytes = probe_ctf_bytes(trace->record);
	fprintf(stderr, "probectl: %" PRIu64 " hit%s, %.0f/s, %.1f MB, %" PRIu64 " lost\033[K\r",
		COUNTED(trace->hits),
		seconds > 0 ? (double)(trace->hits - progress->hits) / seconds : 0,
		(double)bytes / 1e6, lost);
	*progress = (struct trace_progress){.last_ns = now, .hits = trace->hits, .shown = true};
}

void progress_end(const struct trace_progress *progress)
{
	if (progress->shown)
		fputs("\033[K", stderr);
}
