/* SPDX-License-Identifier: MIT */
/*
 * follow PROBE PROGRAM [ARG...]: counts the hits of a program and of all that it, and its
 * children, become by execve(2), each from its first instruction on.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

#include <probe/pattern.h>
#include <probe/target.h>
#include <probe/watch.h>

#include "example.h"

enum { PROGRAMS_MAX = 64 };

struct following {
	struct probe_request request;
	struct probe_watch *watch;
	struct probe_target *targets[PROGRAMS_MAX];
	struct probe_session *sessions[PROGRAMS_MAX];
	size_t count;
};

/* Counts its hits from here on; it is let go if it is held. */
static void add(struct following *f, struct probe_target *target, bool held)
{
	const struct probe_session_options options = {.kind = PROBE_SESSION_COUNT,
		.follow_libraries = true,
		.watch = f->watch,
		.follow_children = true};
	struct probe_report report = {0};
	size_t count;

	if (f->count == PROGRAMS_MAX) {
		probe_target_close(target);
		return;
	}
	f->targets[f->count] = target;
	check(probe_session_start(target, &f->request, &options, &report, &f->sessions[f->count]));
	probe_report_deinit(&report);
	probe_session_probes(f->sessions[f->count++], &count);
	if (held && !count)
		probe_watch_pass_over(f->watch, target);
	if (held)
		check(probe_target_release(target));
}

static void look(struct following *f)
{
	struct probe_watch_event event;

	for (size_t i = 0; i < f->count; i++)
		check(probe_session_poll(f->sessions[i], NULL, NULL, NULL));
	/* What libc was asked to start is held; the rest is found a little later. */
	for (;;) {
		check(probe_watch_next(f->watch, &event));
		if (!event.target)
			break;
		add(f, event.target, event.held);
	}
}

int main(int argc, char **argv)
{
	struct following f = {.request = {.pattern_count = 1}};
	struct probe_pattern *pattern;
	struct probe_target *target;
	size_t left;
	pid_t pid;

	if (argc < 3)
		return 2;
	check(probe_pattern_parse(argv[1], &pattern));
	f.request.patterns = (const struct probe_pattern *const *)&pattern;
	check(probe_watch_create(true, &f.watch));
	check(probe_target_spawn(argv + 2, &target));
	pid = probe_target_pid(target);
	check(probe_watch_add(f.watch, target));
	add(&f, target, true);
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		/* Readable when a process waits for us. */
		struct pollfd wake = {.fd = probe_watch_fd(f.watch), .events = POLLIN};

		look(&f);
		poll(&wake, 1, 1);
	}
	/* Children that were forked may outlive their parents. */
	do {
		size_t heirs[PROGRAMS_MAX];

		look(&f);
		poll(NULL, 0, 10);
		check(probe_sessions_heirs(f.sessions, f.count, heirs));
		left = 0;
		for (size_t i = 0; i < f.count; i++)
			left += heirs[i];
	} while (left);
	for (size_t i = 0; i < f.count; i++) {
		const struct probe_session_probe *probes;
		unsigned long long hits = 0;
		size_t count;

		check(probe_session_stop(f.sessions[i]));
		probes = probe_session_probes(f.sessions[i], &count);
		for (size_t k = 0; k < count; k++)
			hits += probes[k].hits;
		printf("program %zu: %llu hits\n", i + 1, hits);
		probe_session_free(f.sessions[i]);
		probe_target_close(f.targets[i]);
	}
	probe_watch_free(f.watch);
	probe_pattern_free(pattern);
	return 0;
}
