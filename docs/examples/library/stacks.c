/* SPDX-License-Identifier: MIT */
/*
 * stacks PID PROBE [frames]: for two seconds, by which calls a probe is reached. With
 * `frames` they are counted in the process, which needs frame pointers, else copied out.
 */
#include <stdbool.h>
#include <unistd.h>

#include <probe/pattern.h>
#include <probe/sink.h>
#include <probe/stacks.h>
#include <probe/target.h>

#include "example.h"

enum { SECONDS = 2 };

struct adding {
	struct probe_session *session;
	struct probe_stacks *stacks;
};

static bool visit(const struct probe_hit *hit, void *data)
{
	struct adding *a = data;
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(a->session, &count);

	check(probe_stacks_add(a->stacks, &probes[hit->probe], NULL, hit->stack, 1));
	return true;
}

/* What is gathered in the process is read as a whole each time. */
static void read_frames(struct adding *a)
{
	struct probe_stack stack;
	struct probe_row *rows;
	size_t count;

	probe_stacks_clear(a->stacks);
	check(probe_stacks_add_session(a->stacks, a->session, NULL));
	check(probe_session_rows(a->session, &rows, &count));
	if (count) {
		check(probe_session_stack(a->session, &rows[0], &stack));
		printf("one of %zu has %zu frames\n", count, stack.count);
	}
	free(rows);
}

static void print(struct probe_sink *sink, struct probe_stacks *stacks)
{
	static const struct probe_view view = {.tracer = "stack", .folded = true};
	struct probe_stacks_row *rows;
	size_t count;

	check(probe_stacks_rows(stacks, true, &rows, &count));
	probe_sink_stacks(sink, rows, count, &view);
	check(probe_sink_flush(sink));
	free(rows);
	/* The next time, only what is new. */
	probe_stacks_mark(stacks);
}

int main(int argc, char **argv)
{
	bool frames = argc > 3;
	const struct probe_session_options options = {
		.kind = frames ? PROBE_SESSION_GATHER : PROBE_SESSION_RECORD,
		.stack = frames ? PROBE_STACK_FRAMES : PROBE_STACK_COPY};
	struct adding a;
	struct probe_report report = {0};
	struct probe_pattern *pattern;
	struct probe_target *target;
	struct probe_sink *sink;

	if (argc < 3)
		return 2;
	check(probe_stacks_create(&a.stacks));
	check(probe_pattern_parse(argv[2], &pattern));
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	check(probe_sink_create(PROBE_SINK_TEXT, STDOUT_FILENO, "standard output", &sink));
	{
		const struct probe_pattern *const patterns[] = {pattern};
		const struct probe_request request = {.patterns = patterns, .pattern_count = 1};

		check(probe_session_start(target, &request, &options, &report, &a.session));
		probe_report_deinit(&report);
	}
	for (int i = 0; i < SECONDS; i++) {
		sleep(1);
		if (frames)
			read_frames(&a);
		else
			check(probe_session_poll(a.session, visit, &a, NULL));
		fflush(stdout);
		print(sink, a.stacks);
	}
	check(probe_session_stop(a.session));
	/* The counts of a session that is freed stay when those of others are read again. */
	if (frames) {
		probe_stacks_clear(a.stacks);
		check(probe_stacks_keep_session(a.stacks, a.session, NULL));
	}
	probe_session_free(a.session);
	printf("%llu hits had no room\n", (unsigned long long)probe_stacks_left_out(a.stacks));
	probe_stacks_free(a.stacks);
	probe_sink_free(sink);
	probe_target_close(target);
	probe_pattern_free(pattern);
	return 0;
}
