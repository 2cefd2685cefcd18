/* SPDX-License-Identifier: MIT */
/*
 * flights PROBE PID...: flight recorders of several processes. Each keeps its last hits; when the
 * processes have ended, the hits of all are printed in the order of time, and how many there were.
 * A line of input ends the recorder of the first process.
 */
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <probe/pattern.h>
#include <probe/trace.h>

#include "example.h"

enum { PROCESSES_MAX = 64 };

/* Opens the processes, and removes what dead controllers have left there. */
struct opening {
	struct probe_processes *processes;
	const pid_t *pids;
	struct probe_trace *trace;
};

static pid_t pid_of(void *data, size_t index)
{
	const struct opening *opening = data;

	return opening->pids[index];
}

static struct probe_error *repair(void *data, size_t index, struct probe_patience *patience)
{
	struct opening *opening = data;
	struct probe_repair found = {0};
	struct probe_target *target;
	struct probe_error *error =
		probe_processes_open(opening->processes, opening->pids[index], &target);

	if (error)
		return error;
	probe_target_set_patience(target, patience);
	error = probe_target_repair(target, &found);
	probe_target_set_patience(target, NULL);
	if (!error)
		return probe_trace_add(opening->trace, target, true);
	probe_target_close(target);
	return error;
}

static void end_repair(void *data, size_t index, struct probe_error *error)
{
	(void)data;
	(void)index;
	check(error);
}

static bool print_hit(const struct probe_trace_hit *hit, void *data)
{
	(void)data;
	printf("%d %s\n", (int)hit->hit->pid, hit->probes[hit->hit->probe].name);
	return true;
}

static void take_news(const struct probe_trace_news *news, void *data)
{
	(void)data;
	check(news->error);
	if (news->event == PROBE_TRACE_SITE)
		fprintf(stderr, "a site of process %d was altered\n",
			(int)probe_target_pid(news->traced->target));
	if (news->event == PROBE_TRACE_LOST)
		fprintf(stderr, "%d lost hits\n", (int)news->count);
}

/* Polls the trace until all processes have ended. */
static void watch(struct probe_trace *trace)
{
	struct pollfd ready[] = {{.fd = probe_trace_fd(trace), .events = POLLIN},
		{.fd = STDIN_FILENO, .events = POLLIN}};
	struct timespec now;
	char line[64];
	size_t count;

	while (!probe_trace_is_over(trace)) {
		check(probe_trace_poll(trace));
		clock_gettime(CLOCK_MONOTONIC, &now);
		poll(ready, 2,
			probe_trace_due_ns(trace) >
				(uint64_t)now.tv_sec * 1000000000 + now.tv_nsec);
		if (ready[1].revents && read(STDIN_FILENO, line, sizeof(line)) > 0)
			probe_trace_stop_session(trace, probe_trace_sessions(trace, &count)[0]);
		else if (ready[1].revents)
			ready[1].fd = -1;
	}
}

static void report(struct probe_trace *trace)
{
	const struct probe_table_row *rows;
	struct probe_trace_probe *all;
	struct probe_table *table;
	size_t count;

	probe_trace_refresh(trace);
	probe_trace_look(trace, true);
	probe_trace_tell_losses(trace);
	probe_trace_snapshot(trace);
	all = probe_trace_probes(trace, &count);
	for (size_t i = 0; i < count; i++)
		printf("%s is traced\n", all[i].probe->name);
	free(all);
	check(probe_trace_table(trace, 1, &table));
	rows = probe_table_rows(table, &count);
	for (size_t i = 0; i < count; i++)
		printf("%s: %llu hits\n", rows[i].name, (unsigned long long)rows[i].row.count);
	probe_table_free(table);
	if (probe_trace_forgotten(trace))
		fprintf(stderr, "some of processes that have ended were dropped\n");
}

int main(int argc, char **argv)
{
	struct probe_request request = {.pattern_count = 1};
	struct probe_trace_tracer tracers[] = {
		{.request = &request,
			.options = {.kind = PROBE_SESSION_RECORD,
				.overwrite = true,
				.switched = true}},
		{.request = &request, .options.kind = PROBE_SESSION_GATHER},
	};
	struct probe_trace_options options = {
		.tracers = tracers, .tracer_count = 2, .hit = print_hit, .news = take_news};
	struct probe_selection which = {.later = true};
	struct opening opening = {0};
	size_t count, named;
	pid_t pids[PROCESSES_MAX];
	char *conditions;
	const struct probe_turn turn = {pid_of, repair, end_repair, &opening};
	struct probe_pattern *pattern;

	if (argc < 3 || argc > PROCESSES_MAX)
		return 2;
	while (which.pid_count < (size_t)argc - 2) {
		pids[which.pid_count] = atoi(argv[which.pid_count + 2]);
		which.pid_count++;
	}
	which.pids = pids;
	check(probe_processes_create(&which, &opening.processes));
	check(probe_processes_find(opening.processes, &opening.pids, &count, &named));
	check(probe_pattern_parse(argv[1], &pattern));
	request.patterns = (const struct probe_pattern *const *)&pattern;
	check(probe_trace_create(&options, &opening.trace));
	probe_take_turns(count, &turn);
	check(probe_trace_start(opening.trace));
	/* The recorders begin together. */
	probe_trace_switch(opening.trace, true);
	conditions = probe_processes_describe(opening.processes);
	if (probe_processes_seek(opening.processes))
		printf("also each process that %s\n", conditions);
	free(conditions);
	printf("recording\n");
	fflush(stdout);
	watch(opening.trace);
	report(opening.trace);
	probe_trace_stop(opening.trace, false);
	probe_trace_free(opening.trace);
	probe_processes_free(opening.processes);
	probe_pattern_free(pattern);
	return 0;
}
