/* SPDX-License-Identifier: MIT */
/*
 * functions PID PATTERN: the functions of a process that a pattern such as fn:libc:open* names, and
 * in which of them it spends its time, in each of the next two seconds.
 */
#include <stdbool.h>
#include <unistd.h>

#include <probe/calls.h>
#include <probe/list.h>
#include <probe/pattern.h>
#include <probe/sink.h>
#include <probe/target.h>

#include "example.h"

struct following {
	struct probe_session *session;
	struct probe_calls *calls;
	uint64_t lost;
};

static bool add_hit(const struct probe_hit *hit, void *data)
{
	const struct following *f = data;
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(f->session, &count);
	const struct probe_event event = probe_event_of_hit(hit, &probes[hit->probe], NULL);

	check(probe_calls_add(f->calls, &event));
	return true;
}

static void read_round(struct following *f)
{
	const struct probe_session_probe *probes;
	uint64_t lost = 0;
	size_t count;

	check(probe_session_poll(f->session, add_hit, f, NULL));
	probes = probe_session_probes(f->session, &count);
	for (size_t i = 0; i < count; i++)
		lost += probes[i].lost;
	check(probe_calls_round(f->calls, lost != f->lost));
	f->lost = lost;
}

/* Prints the calls of the last second. */
static void print_calls(struct probe_calls *calls, struct probe_sink *sink)
{
	const struct probe_view view = {.edges = true};
	struct probe_calls_row *rows;
	size_t count;

	check(probe_calls_rows(calls, true, &rows, &count));
	probe_sink_calls(sink, rows, count, &view);
	free(rows);
	probe_calls_mark(calls);
	while (probe_sink_pending(sink))
		check(probe_sink_flush(sink));
}

static void list(pid_t pid, const struct probe_pattern *pattern)
{
	const struct probe_site *sites;
	struct probe_list *list;
	size_t count;

	check(probe_list_create(&list));
	probe_list_functions(list, &pattern, 1, NULL);
	check(probe_list_add_process(list, pid));
	sites = probe_list_sites(list, &count);
	for (size_t i = 0; i < count; i++)
		if (probe_pattern_matches(pattern, sites[i].path, sites[i].provider, sites[i].name))
			printf("%s:%s has %llu bytes\n", sites[i].provider, sites[i].name,
				(unsigned long long)sites[i].size);
	fflush(stdout);
	probe_list_free(list);
}

int main(int argc, char **argv)
{
	const struct probe_session_options options = {.kind = PROBE_SESSION_RECORD};
	const struct probe_calls_options by_function = {0};
	struct probe_request request = {.pattern_count = 1, .keep_going = true};
	struct probe_report report = {0};
	struct probe_calls_doubts doubts;
	struct probe_pattern *pattern;
	struct probe_target *target;
	struct probe_sink *sink;
	struct following f = {0};

	if (argc != 3)
		return 2;
	check(probe_pattern_parse(argv[2], &pattern));
	list(atoi(argv[1]), pattern);

	/* From now on the pattern means the exits, too: a call is a pair. */
	if (!probe_pattern_pair(pattern)) {
		fprintf(stderr, "%s names no entries of functions\n", argv[2]);
		return 2;
	}
	request.patterns = (const struct probe_pattern *const *)&pattern;
	check(probe_calls_create(&by_function, &f.calls));
	check(probe_sink_create(PROBE_SINK_TEXT, STDOUT_FILENO, "standard output", &sink));
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	check(probe_session_start(target, &request, &options, &report, &f.session));
	probe_report_deinit(&report);
	for (int i = 1; i <= 200; i++) {
		usleep(10000);
		read_round(&f);
		if (i % 100 == 0)
			print_calls(f.calls, sink);
	}
	check(probe_session_stop(f.session));
	if (!probe_target_alive(target)) /* what was open there will not return */
		probe_calls_forget(f.calls, atoi(argv[1]));
	doubts = probe_calls_finish(f.calls);
	printf("%llu begins without an end, %llu ends without a begin\n",
		(unsigned long long)doubts.open, (unsigned long long)doubts.unmatched);
	probe_calls_free(f.calls);
	probe_sink_free(sink);
	probe_session_free(f.session);
	probe_target_close(target);
	probe_pattern_free(pattern);
	return 0;
}
