/* SPDX-License-Identifier: MIT */
/* every FILE PROBE HITS: prints so many hits of each process that runs a program and comes now. */
#include <poll.h>
#include <sys/stat.h>

#include <probe/pattern.h>
#include <probe/trace.h>

#include "example.h"

static bool runs_file(pid_t pid, bool is_new, void *data)
{
	const struct stat *wanted = data;
	struct stat its;
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return is_new && !stat(path, &its) && its.st_dev == wanted->st_dev &&
	       its.st_ino == wanted->st_ino;
}

static bool print_hit(const struct probe_trace_hit *hit, void *left)
{
	printf("%d %s\n", (int)hit->hit->pid, hit->probes[hit->hit->probe].name);
	return --*(int *)left > 0;
}

int main(int argc, char **argv)
{
	struct probe_request request = {.pattern_count = 1};
	struct stat file;
	int left = argc == 4 ? atoi(argv[3]) : 0;
	struct probe_newcomers newcomers = {runs_file, &file, (const char *const *)&argv[1], 1};
	struct probe_trace_tracer tracer = {
		.request = &request, .options.kind = PROBE_SESSION_RECORD};
	struct probe_trace_options options = {.tracers = &tracer,
		.tracer_count = 1,
		.follow = true,
		.newcomers = &newcomers,
		.hit = print_hit,
		.data = &left};
	struct probe_pattern *pattern;
	struct probe_trace *trace;

	if (argc != 4 || stat(argv[1], &file))
		return 2;
	check(probe_pattern_parse(argv[2], &pattern));
	request.patterns = (const struct probe_pattern *const *)&pattern;
	check(probe_trace_create(&options, &trace));
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
	probe_pattern_free(pattern);
	return 0;
}
