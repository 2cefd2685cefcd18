/* SPDX-License-Identifier: MIT */
/*
 * seek FILE PROBE SECONDS: counts, for so long, the hits of each process that runs a program,
 * whoever starts it.
 */
#include <poll.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include <probe/pattern.h>
#include <probe/target.h>
#include <probe/watch.h>

#include "example.h"

enum { PROCESSES_MAX = 64 };

struct seeking {
	struct probe_request request;
	struct stat file;
	struct probe_watch *watch;
	struct probe_target *targets[PROCESSES_MAX];
	struct probe_session *sessions[PROCESSES_MAX];
	size_t count;
};

static bool runs_file(pid_t pid, bool is_new, void *data)
{
	const struct seeking *s = data;
	struct stat its;
	char path[48];

	(void)is_new;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return stat(path, &its) == 0 && its.st_dev == s->file.st_dev &&
	       its.st_ino == s->file.st_ino;
}

static void add(struct seeking *s, const struct probe_watch_event *event)
{
	const struct probe_session_options options = {.kind = PROBE_SESSION_COUNT,
		.follow_libraries = true,
		.watch = s->watch,
		.follow_children = true};
	struct probe_report report = {0};
	struct probe_error *error;

	if (s->count == PROCESSES_MAX) {
		probe_target_close(event->target);
		return;
	}
	s->targets[s->count] = event->target;
	error = probe_session_start(
		event->target, &s->request, &options, &report, &s->sessions[s->count]);
	probe_report_deinit(&report);
	/* It may have ended just now; probe_watch_finish() says how many did. */
	if (error && !probe_target_alive(event->target)) {
		probe_error_free(error);
		probe_watch_untraced(s->watch, event);
		probe_target_close(event->target);
		return;
	}
	check(error);
	s->count++;
	if (event->held)
		check(probe_target_release(event->target));
}

static void look(struct seeking *s)
{
	struct probe_watch_event event;

	for (size_t i = 0; i < s->count; i++)
		check(probe_session_poll(s->sessions[i], NULL, NULL, NULL));
	for (;;) {
		check(probe_watch_next(s->watch, &event));
		if (!event.target)
			break;
		add(s, &event);
	}
}

static void finish(struct seeking *s, size_t i)
{
	const struct probe_session_probe *probes;
	unsigned long long hits = 0;
	size_t count;

	probes = probe_session_probes(s->sessions[i], &count);
	for (size_t k = 0; k < count; k++)
		hits += probes[k].hits;
	printf("process %zu: %llu hits\n", i + 1, hits);
	probe_session_free(s->sessions[i]);
	probe_target_close(s->targets[i]);
}

/* All of them, before one is reported. */
static void stop(struct seeking *s)
{
	struct probe_error *errors[PROCESSES_MAX];

	probe_sessions_stop(s->sessions, s->count, errors);
	for (size_t i = 0; i < s->count; i++)
		check(errors[i]);
}

int main(int argc, char **argv)
{
	struct seeking s = {.request = {.pattern_count = 1}};
	struct probe_newcomers newcomers = {.is_wanted = runs_file,
		.data = &s,
		.files = (const char *const *)&argv[1],
		.file_count = 1};
	struct probe_pattern *pattern;
	struct probe_error *missed;
	time_t end;

	if (argc != 4 || stat(argv[1], &s.file))
		return 2;
	end = time(NULL) + atoi(argv[3]);
	check(probe_pattern_parse(argv[2], &pattern));
	s.request.patterns = (const struct probe_pattern *const *)&pattern;
	check(probe_watch_create(true, &s.watch));
	check(probe_watch_seek(s.watch, &newcomers));
	printf("seeking\n");
	fflush(stdout);
	while (time(NULL) < end) {
		/* Readable when a process waits for us. */
		struct pollfd wake = {.fd = probe_watch_fd(s.watch), .events = POLLIN};

		look(&s);
		poll(&wake, 1, 1);
	}
	stop(&s);
	for (size_t i = 0; i < s.count; i++)
		finish(&s, i);
	/* Those that came and ended, or could not be held. */
	while ((missed = probe_watch_finish(s.watch))) {
		fprintf(stderr, "%s\n", missed->message);
		probe_error_free(missed);
	}
	probe_watch_free(s.watch);
	probe_pattern_free(pattern);
	return 0;
}
