/* SPDX-License-Identifier: MIT */
/*
 * What the tracers of a trace have gathered, as metrics (-t pcp).
 *
 * Metrics are distinguished by process. A started process belongs to the named one if there is only
 * one; otherwise its parent is unknown, and it is a process of its own.
 */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/timer.h"
#include "cli/trace/trace.h"

enum { INTERVAL_NS = 1000000000 };

struct probe_error *exports_open(struct trace *trace)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < trace->tracer_count && !error; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];
		struct probe_view view;

		if (tracer->output != PROBE_TRACER_PCP)
			continue;
		probe_tracer_view(tracer->spec, &tracer->options, &view);
		view.tags = tracer_is_part(tracer);
		error = probe_pcp_open(&view, tracer->options.gather.key_count, &tracer->pcp);
	}
	return error;
}

uint64_t exports_interval_ns(const struct trace *trace)
{
	if (!trace_has_output(trace, PROBE_TRACER_PCP))
		return 0;
	return trace->settings.interval_ns ? trace->settings.interval_ns : INTERVAL_NS;
}

void exports_report(const struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count && !trace->settings.quiet && !trace->loop.child;
		i++)
		if (trace->tracers[i].pcp)
			fprintf(stderr, "probectl: exporting %s (pminfo -f %s)\n",
				probe_pcp_name(trace->tracers[i].pcp),
				probe_pcp_name(trace->tracers[i].pcp));
}

/* ---- Processes ---------------------------------------------------------------- */

/* As whose a target counts. */
static pid_t owner_of(const struct trace *trace, const struct trace_target *target)
{
	size_t named = 0;

	while (named < trace->target_count && !trace->targets[named].later)
		named++;
	if (target->later && named == trace->tracer_count)
		target = &trace->targets[0];
	return probe_target_pid(target->target);
}

static const char *program_of(const struct trace *trace, pid_t pid)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return comm_cache_get(
		trace->comms, pid, pid, (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
}

/* All that the targets from index `first` on have gathered of one process. */
static struct probe_error *export_process(
	struct trace *trace, const struct trace_tracer *tracer, size_t first, pid_t pid)
{
	struct probe_table *table = NULL;
	struct probe_error *error = probe_table_create(tracer->options.gather.key_count, &table);

	for (size_t i = first; i < trace->target_count && !error; i++) {
		const struct trace_target *target = &trace->targets[i];

		if (target->tracer == tracer && !target->broken && owner_of(trace, target) == pid)
			error = probe_table_add(table, target->session, &tracer->options);
	}
	if (error) {
		probe_table_free(table);
		return error;
	}
	return probe_pcp_add(tracer->pcp, pid, program_of(trace, pid), table);
}

/* Does a target before this one belong to the same process? */
static bool is_exported(
	const struct trace *trace, const struct trace_tracer *tracer, size_t index, pid_t pid)
{
	for (size_t i = 0; i < index; i++)
		if (trace->targets[i].tracer == tracer &&
			owner_of(trace, &trace->targets[i]) == pid)
			return true;
	return false;
}

static struct probe_error *export_tracer(struct trace *trace, struct trace_tracer *tracer)
{
	struct probe_error *error = NULL;
	size_t left_out;

	for (size_t i = 0; i < trace->target_count && !error; i++) {
		pid_t pid = owner_of(trace, &trace->targets[i]);

		if (trace->targets[i].tracer == tracer && !is_exported(trace, tracer, i, pid))
			error = export_process(trace, tracer, i, pid);
	}
	if (!error)
		error = probe_pcp_update(tracer->pcp);
	left_out = probe_pcp_left_out(tracer->pcp);
	if (left_out && !tracer->told)
		report_warning("%s: PCP takes 10000 labels and values of an exporter; %zu row%s "
			       "left out",
			probe_pcp_name(tracer->pcp), left_out, left_out == 1 ? " is" : "s are");
	tracer->told |= left_out || error;
	return error;
}

void exports_update(struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];
		bool told = tracer->told;
		struct probe_error *error = tracer->pcp ? export_tracer(trace, tracer) : NULL;

		/* It is tried again every time, and reported once. */
		if (told)
			probe_error_free(error);
		else
			trace_fail(trace, error);
	}
}
