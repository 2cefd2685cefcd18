/* SPDX-License-Identifier: MIT */
/* Hits that wait for room in their rings: --full=wait. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/print/print.h"
#include "cli/trace/options.h"

enum { WAIT_DEFAULT_NS = 100 * 1000 * 1000 };

static const char wait_name[] = "wait", wait_prefix[] = "wait:";

struct probe_error *trace_parse_wait(const char *text, uint64_t *ns_ret)
{
	bool has_time = strncmp(text, wait_prefix, strlen(wait_prefix)) == 0;
	struct probe_error *error = NULL;

	*ns_ret = 0;
	if (!has_time && strcmp(text, wait_name) != 0)
		return NULL;
	*ns_ret = WAIT_DEFAULT_NS;
	if (has_time)
		error = parse_duration(text + strlen(wait_prefix), ns_ret);
	if (!error && *ns_ret && *ns_ret <= PROBE_WAIT_MAX_NS)
		return NULL;
	probe_error_free(error);
	return probe_error_new(PROBE_ERROR_USAGE,
		"--full '%s': '%s' is no time between 1ns and 1s, as in wait:20ms", text,
		text + strlen(wait_prefix));
}

struct probe_error *trace_check_wait(const struct trace *trace, const struct trace_options *options)
{
	for (size_t i = 0; i < trace->tracer_count && options->wait_ns; i++) {
		const struct probe_session_options *its = &trace->tracers[i].options;

		if (its->kind != PROBE_SESSION_RECORD || its->overwrite || its->spans)
			return probe_error_new(PROBE_ERROR_USAGE,
				"--full=wait is for tracers that take each hit by itself: not for "
				"'%s'",
				probe_tracer_name(trace->tracers[i].spec));
	}
	return NULL;
}

static void add(struct trace_waits *sum, const struct probe_session *session)
{
	uint64_t ns;

	if (!session)
		return;
	sum->hits += probe_session_waited(session, &ns);
	sum->ns += ns;
}

void trace_keep_waits(struct trace *trace, const struct trace_target *target)
{
	add(&trace->waits, target->session);
}

void trace_report_waits(const struct trace *trace)
{
	struct trace_waits sum = trace->waits;

	for (size_t i = 0; i < trace->target_count; i++)
		add(&sum, trace->targets[i].session);
	if (!sum.hits)
		return;
	if (trace->settings.json)
		probe_sink_waited(trace->sink, sum.hits, sum.ns);
	if (!trace->settings.quiet)
		fprintf(stderr, "probectl: %" PRIu64 " hit%s waited for room, %.3f s in all\n",
			COUNTED(sum.hits), (double)sum.ns / NSEC_PER_SEC);
}
