/* SPDX-License-Identifier: MIT */
/*
 * A tracer of one's own: the slowest pair of each thread, with the arguments that
 * it began with.
 *
 * Build it (PROBECTL is where probectl's sources are; none where it is installed),
 * and say which probes begin and end something:
 *
 *	cc -O2 -fPIC -shared -IPROBECTL/libprobe/include -o slowest.so slowest.c
 *	probectl trace -t ./slowest.so,floor=100 -p PID --pairs auto 'postgresql:query__*'
 *
 * With -i 1 it says every second what was slowest in it. Pairs that took less
 * than `floor` microseconds are not looked at, and a probe that is neither begin
 * nor end is given back at its first hit.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <probe/tracer.h>

enum { THREADS_MAX = 1024, TEXT_MAX = 200 };

struct thread {
	pid_t tid;
	uint64_t begun_ns; /* 0: nothing is in progress */
	uint64_t slowest_ns;
	char what[TEXT_MAX];	/* what is in progress */
	char slowest[TEXT_MAX]; /* and what was slowest */
};

struct state {
	uint64_t floor_ns;
	uint64_t pairs, too_many;
	size_t count;
	struct thread threads[THREADS_MAX];
};

/* "floor=100" */
static const char *create(const char *options, void **state_ret)
{
	struct state *state = calloc(1, sizeof(*state));

	if (!state)
		return "no memory";
	if (!strncmp(options, "floor=", 6))
		state->floor_ns = strtoull(options + 6, NULL, 10) * 1000;
	else if (*options)
		return "its only option is floor=MICROSECONDS";
	*state_ret = state;
	return NULL;
}

static void destroy(void *state)
{
	free(state);
}

/* All threads are of interest. */
static enum probe_tracer_verdict enabled(enum probe_tracer_tag tag, void *state,
	const struct probe_tracee *tracee, const struct probe_tracer_term *term)
{
	(void)tag, (void)state, (void)tracee, (void)term;
	return PROBE_TRACER_TRACE;
}

/* The thread's place, a new one where it has none; NULL where there is no room. */
static struct thread *find(struct state *state, pid_t tid)
{
	for (size_t i = 0; i < state->count; i++) {
		if (state->threads[i].tid == tid)
			return &state->threads[i];
	}
	if (state->count == THREADS_MAX)
		return NULL;
	state->threads[state->count].tid = tid;
	return &state->threads[state->count++];
}

/* The arguments as text: numbers, and strings where the user asked for them. */
static void describe(const struct probe_tracer_term *term, char text[TEXT_MAX])
{
	size_t length = (size_t)snprintf(text, TEXT_MAX, "%s:%s", term->provider, term->name);

	for (size_t i = 0; i < term->arg_count && length < TEXT_MAX; i++) {
		const struct probe_value *value = &term->args[i];
		char *at = text + length;
		size_t room = TEXT_MAX - length;

		if (value->kind == PROBE_VALUE_STRING || value->kind == PROBE_VALUE_TEXT)
			length += (size_t)snprintf(
				at, room, " \"%.*s\"", (int)value->length, value->bytes);
		else if (value->kind == PROBE_VALUE_SIGNED)
			length += (size_t)snprintf(at, room, " %" PRId64, value->i);
		else if (value->kind == PROBE_VALUE_UNSIGNED)
			length += (size_t)snprintf(at, room, " %" PRIu64, value->u);
	}
}

static enum probe_tracer_verdict begin(enum probe_tracer_tag tag, void *data,
	const struct probe_tracee *tracee, const struct probe_tracer_term *term,
	const struct probe_tracer_options *options)
{
	struct state *state = data;
	struct thread *thread = find(state, tracee->tid);

	(void)tag;
	if (!thread) {
		state->too_many++;
		return PROBE_TRACER_DISCARD;
	}
	thread->begun_ns = options->time_ns;
	describe(term, thread->what);
	return PROBE_TRACER_TRACE;
}

static enum probe_tracer_verdict end(enum probe_tracer_tag tag, void *data,
	const struct probe_tracee *tracee, const struct probe_tracer_term *term,
	const struct probe_tracer_options *options)
{
	struct state *state = data;
	struct thread *thread = find(state, tracee->tid);
	uint64_t took_ns;

	(void)tag, (void)term;
	if (!thread || !thread->begun_ns)
		return PROBE_TRACER_DISCARD; /* it began before we came */
	took_ns = options->time_ns - thread->begun_ns;
	thread->begun_ns = 0;
	state->pairs++;
	if (took_ns >= state->floor_ns && took_ns > thread->slowest_ns) {
		thread->slowest_ns = took_ns;
		strcpy(thread->slowest, thread->what);
	}
	return PROBE_TRACER_TRACE;
}

/* Somebody looks: at each interval, and at the end. */
static enum probe_tracer_verdict status(enum probe_tracer_tag tag, void *data,
	const struct probe_tracee *tracee, const struct probe_tracer_term *term,
	const struct probe_tracer_options *options)
{
	struct state *state = data;

	(void)tag, (void)tracee, (void)term, (void)options;
	printf("%" PRIu64 " pairs", state->pairs);
	if (state->too_many)
		printf(", %" PRIu64 " hits of threads beyond %d", state->too_many, THREADS_MAX);
	putchar('\n');
	for (size_t i = 0; i < state->count; i++) {
		struct thread *thread = &state->threads[i];

		if (thread->slowest_ns)
			printf("thread %d: %" PRIu64 ".%03u us  %s\n", (int)thread->tid,
				thread->slowest_ns / 1000,
				(unsigned int)(thread->slowest_ns % 1000), thread->slowest);
		thread->slowest_ns = 0;
	}
	state->pairs = 0;
	return PROBE_TRACER_TRACE;
}

/* What is neither begin nor end: not ours. */
static enum probe_tracer_verdict other(enum probe_tracer_tag tag, void *data,
	const struct probe_tracee *tracee, const struct probe_tracer_term *term,
	const struct probe_tracer_options *options)
{
	(void)tag, (void)data, (void)tracee, (void)term, (void)options;
	return PROBE_TRACER_REMOVE_PROBE;
}

const struct probe_tracer_ops probe_tracer = {
	.abi = PROBE_TRACER_ABI,
	.size = sizeof(struct probe_tracer_ops),
	.name = "slowest",
	.create = create,
	.destroy = destroy,
	.enabled = enabled,
	.trace = other,
	.trace_tag =
		{
			[PROBE_TAG_BEGIN] = begin,
			[PROBE_TAG_END] = end,
			[PROBE_TAG_STATUS] = status,
		},
};
