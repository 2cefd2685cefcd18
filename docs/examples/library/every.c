/* SPDX-License-Identifier: MIT */
/* every FILE PROBE HITS: prints hits of all processes that run FILE, until HITS are printed. */
#include <poll.h>

#include <probe/pattern.h>
#include <probe/trace.h>

#include "example.h"

static bool print_hit(const struct probe_trace_hit *hit, void *left)
{
	printf("%d %s\n", (int)hit->hit->pid, hit->probes[hit->hit->probe].name);
	return --*(int *)left > 0;
}

int main(int argc, char **argv)
{
	int left = argc == 4 ? atoi(argv[3]) : 0;
	const char *const *files = (const char *const *)&argv[1];
	struct probe_selection which = {
		.conditions[PROBE_CONDITION_EXE] = {files, 1}, .later = true};
	struct probe_request request = {.pattern_count = 1};
	struct probe_trace_tracer tracer = {
		.request = &request, .options.kind = PROBE_SESSION_RECORD};
	struct probe_trace_options options = {
		.tracers = &tracer, .tracer_count = 1, .hit = print_hit, .data = &left};
	struct probe_pattern *pattern;
	struct probe_trace *trace;

	if (argc != 4)
		return 2;
	check(probe_pattern_parse(argv[2], &pattern));
	request.patterns = (const struct probe_pattern *const *)&pattern;
	check(probe_processes_create(&which, &options.processes));
	check(probe_trace_create(&options, &trace));
	check(probe_trace_add_found(trace));
	check(probe_trace_start(trace));
	printf("waiting\n");
	fflush(stdout);
	while (left > 0) {
		struct pollfd ready = {.fd = probe_trace_fd(trace), .events = POLLIN};

		check(probe_trace_poll(trace));
		poll(&ready, 1, 1);
	}
	probe_trace_stop(trace, false);
	probe_trace_free(trace);
	probe_processes_free(options.processes);
	probe_pattern_free(pattern);
	return 0;
}
