/* SPDX-License-Identifier: MIT */
/*
 * Sites of a trace that something else has changed: they are checked from time to time and
 * reported, because their hits are missing from all output.
 */
#include "cli/print/print.h"
#include "cli/trace/trace.h"

struct looking {
	struct trace *trace;
	const struct trace_target *target;
};

/* All tracers have the same sites. */
static void take_news(const struct probe_site_news *news, void *data)
{
	const struct looking *looking = data;
	struct trace *trace = looking->trace;
	pid_t pid = probe_target_pid(looking->target->target);

	if (looking->target->tracer != trace->tracers)
		return;
	trace->failed = true;
	print_site_news(news, pid);
	probe_sink_site(trace->sink, pid, news);
}

void trace_look(struct trace *trace, bool last)
{
	for (size_t i = 0; i < trace->target_count; i++) {
		struct trace_target *target = &trace->targets[i];
		struct looking looking = {trace, target};

		if (target->session && !target->broken && !target->exited)
			trace_fail(trace,
				probe_session_look(target->session, last, take_news, &looking));
	}
}
