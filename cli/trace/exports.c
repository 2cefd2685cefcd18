/* SPDX-License-Identifier: MIT */
/*
 * What the tracers of a trace have gathered, as metrics (-t pcp, -t metrics).
 *
 * Metrics are distinguished by process. A started process belongs to the named one if there is only
 * one; otherwise its parent is unknown, and it is a process of its own. So is one that was found
 * because it meets the conditions, whoever started it.
 */
#include <poll.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/timer.h"
#include "cli/trace/trace.h"

enum { INTERVAL_NS = 1000000000, ROWS = 2000 };
#define SENT_INTERVAL_NS (5 * (uint64_t)INTERVAL_NS)

static struct probe_error *export_open(struct trace *trace, struct trace_tracer *tracer)
{
	size_t key_count = tracer->options.gather.key_count;
	struct probe_view view;

	probe_tracer_view(tracer->spec, &tracer->options, &view);
	view.tags = tracer_is_part(tracer);
	if (tracer->output == PROBE_TRACER_PCP)
		return probe_pcp_open(&view, key_count, &tracer->pcp);
	return probe_metrics_view(trace->metrics, &view, key_count, &tracer->metrics_view);
}

struct probe_error *exports_open(struct trace *trace)
{
	const struct trace_settings *settings = &trace->settings;
	bool has_metrics = trace_has_output(trace, PROBE_TRACER_METRICS);
	struct probe_error *error = NULL;

	if (has_metrics)
		error = probe_metrics_create(
			settings->rows ? settings->rows : ROWS, &trace->metrics);
	for (size_t i = 0; i < trace->tracer_count && !error; i++)
		if (tracer_is_exported(&trace->tracers[i]))
			error = export_open(trace, &trace->tracers[i]);
	if (!error && settings->listen)
		error = probe_metrics_listen(trace->metrics, settings->listen, &trace->server);
	return error ? error : otlp_open(trace);
}

void exports_close(struct trace *trace)
{
	probe_otlp_close(trace->otlp);
	probe_metrics_server_close(trace->server);
	probe_metrics_free(trace->metrics);
}

void exports_watch(struct trace *trace)
{
	otlp_watch(trace);
	if (!trace->server)
		return;
	loop_watch(&trace->loop, probe_metrics_server_fd(trace->server), POLLIN, NULL);
	loop_until(&trace->loop, probe_metrics_server_due_ns(trace->server));
}

void exports_serve(const struct trace *trace)
{
	if (trace->server)
		probe_metrics_server_run(trace->server);
	if (trace->otlp)
		probe_otlp_run(trace->otlp);
}

bool exports_are_read(const struct trace *trace)
{
	return trace->server || trace_has_output(trace, PROBE_TRACER_PCP);
}

uint64_t exports_interval_ns(const struct trace *trace)
{
	if (!exports_are_read(trace) && !trace->otlp)
		return 0;
	if (trace->settings.interval_ns)
		return trace->settings.interval_ns;
	return exports_are_read(trace) ? INTERVAL_NS : SENT_INTERVAL_NS;
}

void exports_report(const struct trace *trace)
{
	/* Nobody knows a port that the kernel has chosen. */
	if (trace->server && !trace->settings.quiet)
		fprintf(stderr, "probectl: exporting %s\n",
			probe_metrics_server_url(trace->server));
	for (size_t i = 0; i < trace->tracer_count && !trace->settings.quiet && !trace->loop.child;
		i++)
		if (trace->tracers[i].pcp)
			fprintf(stderr, "probectl: exporting %s (pminfo -f %s)\n",
				probe_pcp_name(trace->tracers[i].pcp),
				probe_pcp_name(trace->tracers[i].pcp));
}

/* ---- Processes ---------------------------------------------------------------- */

pid_t exports_owner(const struct trace *trace, const struct trace_target *target)
{
	size_t named = 0;

	while (named < trace->target_count && !trace->targets[named].later)
		named++;
	if (target->later && !trace->seeks && named == trace->tracer_count)
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

/* All that was gathered as a process's: what has ended, and the targets from index `first` on. */
static struct probe_error *export_process(struct trace *trace, struct trace_tracer *tracer,
	size_t first, pid_t pid, const char *program)
{
	struct probe_table *table = NULL;
	struct probe_error *error = probe_table_create(tracer->options.gather.key_count, &table);

	for (size_t i = 0; i < tracer->ended_count && !error; i++)
		if (tracer->ended[i].owner == pid)
			error = probe_table_add_table(table, tracer->ended[i].rows);
	for (size_t i = first; i < trace->target_count && !error; i++) {
		const struct trace_target *target = &trace->targets[i];

		if (target->tracer == tracer && !target->broken &&
			exports_owner(trace, target) == pid)
			error = probe_table_add(table, target->session, &tracer->options);
	}
	if (error) {
		probe_table_free(table);
		return error;
	}
	return tracer->pcp ? probe_pcp_add(tracer->pcp, pid, program, table)
			   : probe_metrics_add(
				     trace->metrics, tracer->metrics_view, pid, program, table);
}

/* Does one of the first `count` targets belong to a process? */
static bool any_belongs_to(
	const struct trace *trace, const struct trace_tracer *tracer, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (trace->targets[i].tracer == tracer &&
			exports_owner(trace, &trace->targets[i]) == pid)
			return true;
	return false;
}

/*
 * Processes that have ended are exported twice: what is new since the last time is nothing then.
 * After that their rows stay as they are.
 */
static struct probe_error *export_ended(struct trace *trace, struct trace_tracer *tracer)
{
	struct probe_error *error = NULL;

	for (size_t i = tracer->ended_count; i-- > 0 && !error;) {
		struct trace_ended *ended = &tracer->ended[i];
		pid_t pid = ended->owner;
		bool was_exported = ended->is_exported;

		if (any_belongs_to(trace, tracer, trace->target_count, pid))
			continue;
		error = export_process(trace, tracer, trace->target_count, pid, ended->program);
		ended->is_exported = !error;
		if (error || !was_exported)
			continue;
		if (tracer->pcp)
			probe_pcp_end(tracer->pcp, pid);
		else
			probe_metrics_end(trace->metrics, tracer->metrics_view, pid);
		trace_ended_deinit(ended);
		*ended = tracer->ended[--tracer->ended_count];
	}
	return error;
}

/* Reports rows that are left out as soon as there are some, and at the end if there are more. */
static void report_left_out(
	const char *name, size_t left_out, const char *why, bool at_end, size_t *told)
{
	if (left_out <= *told || (*told && !at_end))
		return;
	report_warning(
		"%s: %s; %zu row%s left out", name, why, left_out, left_out == 1 ? " is" : "s are");
	*told = left_out;
}

static struct probe_error *export_tracer(
	struct trace *trace, struct trace_tracer *tracer, bool at_end)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < trace->target_count && !error; i++) {
		pid_t pid = exports_owner(trace, &trace->targets[i]);

		if (trace->targets[i].tracer == tracer && !any_belongs_to(trace, tracer, i, pid))
			error = export_process(trace, tracer, i, pid, program_of(trace, pid));
	}
	if (!error)
		error = export_ended(trace, tracer);
	if (!error && tracer->pcp)
		error = probe_pcp_update(tracer->pcp);
	if (tracer->pcp)
		report_left_out(probe_pcp_name(tracer->pcp), probe_pcp_left_out(tracer->pcp),
			"PCP takes 10000 labels and values of an exporter", at_end,
			&tracer->left_out_told);
	tracer->told |= error != NULL;
	return error;
}

void exports_update(struct trace *trace, bool at_end)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		struct trace_tracer *tracer = &trace->tracers[i];
		bool told = tracer->told;
		struct probe_error *error =
			tracer_is_exported(tracer) ? export_tracer(trace, tracer, at_end) : NULL;

		/* It is tried again every time, and reported once. */
		if (told)
			probe_error_free(error);
		else
			trace_fail(trace, error);
	}
	otlp_update(trace);
	if (!trace->metrics)
		return;
	if (trace->server)
		probe_metrics_server_renew(trace->server);
	report_left_out("-t metrics", probe_metrics_left_out(trace->metrics),
		"there is room for as many rows as --rows says", at_end, &trace->left_out_told);
}
