/* SPDX-License-Identifier: MIT */
/*
 * Recording without looking at hits: what the rings hold is moved into the record as it is
 * (probe_ctf_take()). Hits are handed over one by one where their number is limited (-n), since the
 * oldest ones of all rings are wanted then, and where they need the controller: call stacks, sym().
 */
#include "cli/cli.h"
#include "cli/trace/trace.h"

struct asker {
	const struct trace *trace;
	bool is_gone; /* the program, and with it the names of its threads */
};

static const char *comm_of(void *data, pid_t pid, pid_t tid, uint64_t time_ns)
{
	const struct asker *asker = data;

	return asker->is_gone ? comm_cache_known(asker->trace->comms, pid, tid)
			      : comm_cache_get(asker->trace->comms, pid, tid, time_ns);
}

bool trace_takes(const struct trace *trace, const struct trace_target *target)
{
	return trace->record && !trace->settings.hits_max && !target->rings && !target->by_hit;
}

static bool take(struct trace *trace, struct trace_target *target, enum probe_ctf_amount amount,
	bool is_gone, size_t *hits)
{
	struct asker asker = {trace, is_gone};
	const struct probe_ctf_names names = {comm_of, &asker};
	struct probe_ctf_taken taken;
	struct probe_error *error =
		probe_ctf_take(trace->record, target->session, amount, &names, &taken);

	output_check(trace, error);
	target->by_hit = !taken.can;
	trace->hits += taken.hits;
	*hits += taken.hits;
	trace->active |= taken.active;
	if (taken.due_ns < trace->due_ns)
		trace->due_ns = taken.due_ns;
	return taken.can;
}

bool trace_take(struct trace *trace, struct trace_target *target, bool all, size_t *hits)
{
	return take(trace, target, all ? PROBE_CTF_ALL : PROBE_CTF_MUCH, false, hits);
}

void trace_take_left(struct trace *trace, pid_t pid)
{
	size_t hits = 0;

	for (size_t i = 0; i < trace->target_count && !trace->gone; i++) {
		struct trace_target *target = &trace->targets[i];

		if (target->on && probe_target_pid(target->target) == pid &&
			trace_takes(trace, target))
			take(trace, target, PROBE_CTF_ALL, true, &hits);
	}
}

static bool count_hit(const struct probe_hit *hit, void *data)
{
	struct trace *trace = data;

	(void)hit;
	trace->unwritten++;
	return true;
}

void trace_count_unwritten(struct trace *trace)
{
	for (size_t i = 0; i < trace->target_count; i++) {
		const struct trace_target *target = &trace->targets[i];
		uint64_t before = trace->unwritten;

		/* Once: what cannot be switched off goes on to hit. */
		if (target->rings || target->broken)
			continue;
		trace_fail(trace, probe_session_poll(target->session, count_hit, trace, NULL));
		if (trace->record)
			trace_fail(trace, probe_ctf_discarded(trace->record, target->session,
						  trace->unwritten - before));
	}
}

void trace_take_all(struct trace *trace)
{
	size_t hits = 0;

	for (size_t i = 0; i < trace->target_count && !trace->gone; i++)
		if (trace->targets[i].on && trace_takes(trace, &trace->targets[i]))
			take(trace, &trace->targets[i], PROBE_CTF_NOW, false, &hits);
}
