/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sdt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/live.h"
#include "tests/unit/room.h"

const char *const live_names[3] = {"alpha", "beta", "gamma"};

/* ---- The target ------------------------------------------------------------------------- */

long live_value(long i)
{
	return i * 7919 % 100003 - 50000;
}

/* Not where the free address that its long nop can jump to would be at the end of a page. */
static __attribute__((noinline, aligned(2048))) void hit_value(long i)
{
	DTRACE_PROBE3(live, value, live_value(i), (unsigned int)(i % KINDS), live_names[i % 3]);
	ROOM();
}

static __attribute__((noinline)) void start(int id)
{
	DTRACE_PROBE1(live, op__start, id);
	ROOM();
}

static __attribute__((noinline)) void done(int id)
{
	DTRACE_PROBE1(live, op__done, id);
	ROOM();
}

static void *hit_values(void *unused)
{
	for (long i = 0; i < HITS; i++)
		hit_value(i);
	return unused;
}

static __attribute__((noinline)) void recurse(int depth)
{
	start(depth);
	if (depth > 1)
		recurse(depth - 1);
	done(depth);
}

static void *recurse_often(void *unused)
{
	for (int i = 0; i < ROUNDS; i++)
		recurse(DEPTH);
	return unused;
}

static void *start_requests(void *unused)
{
	for (int i = 0; i < REQUESTS; i++)
		start(i);
	return unused;
}

static void *end_requests(void *unused)
{
	for (int i = REQUESTS; i-- > LEFT;)
		done(i);
	return unused;
}

static void in_threads(void *(*work)(void *), int count)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			abort();
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

/* A forked child makes as many hits as its parent. */
static void start_in_child(void)
{
	pid_t child;

	start(1);
	child = fork();
	if (child == 0) {
		start(2);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

/* One ring gets all of these hits, except where a sequence was aborted. */
static void hit_on_one_processor(void)
{
	cpu_set_t all, one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_getaffinity(0, sizeof(all), &all) || sched_setaffinity(0, sizeof(one), &one))
		abort();
	hit_values(NULL);
	if (sched_setaffinity(0, sizeof(all), &all))
		abort();
}

static void obey(char command)
{
	switch (command) {
	case 'v':
		in_threads(hit_values, THREADS);
		break;
	case 'r':
		in_threads(recurse_often, THREADS);
		done(0);
		start(0);
		break;
	case 'q': /* one after another: begin and end are in different threads */
		in_threads(start_requests, 1);
		in_threads(end_requests, 1);
		done(REQUESTS + 1);
		break;
	case 'f':
		start_in_child();
		break;
	case '1':
		start(1);
		break;
	default: /* one thread, in order */
		hit_on_one_processor();
	}
}

/* ---- Its controller --------------------------------------------------------------------- */

void live_ok(struct probe_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

int live_setup(void **state)
{
	struct live *l = calloc(1, sizeof(*l));
	int commands[2], replies[2];

	assert_non_null(l);
	assert_int_equal(pipe(commands) | pipe(replies), 0);
	l->pid = fork();
	assert_true(l->pid >= 0);
	if (l->pid == 0) {
		char command;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(commands[1]);
		while (read(commands[0], &command, 1) == 1) {
			obey(command);
			if (write(replies[1], &command, 1) != 1)
				break;
		}
		_exit(0);
	}
	close(commands[0]);
	close(replies[1]);
	l->commands = commands[1];
	l->replies = replies[0];
	live_ok(probe_target_open(l->pid, NULL, &l->target));
	*state = l;
	return 0;
}

void live_order(struct live *l, char command)
{
	char reply;

	assert_int_equal(write(l->commands, &command, 1), 1);
	assert_int_equal(read(l->replies, &reply, 1), 1);
	assert_int_equal(reply, command);
}

void live_end_session(struct live *l)
{
	free(l->rows);
	l->rows = NULL;
	probe_session_free(l->session);
	l->session = NULL;
}

int live_teardown(void **state)
{
	struct live *l = *state;
	int status;

	live_end_session(l);
	/* If it still exists, it is unharmed. */
	if (probe_target_alive(l->target))
		live_order(l, 'r');
	close(l->commands);
	close(l->replies);
	waitpid(l->pid, &status, 0);
	probe_target_close(l->target);
	free(l);
	return 0;
}

struct probe_error *live_begin(struct live *l, const char *pattern,
	const struct probe_session_options *options, struct probe_report *report)
{
	struct probe_pattern *parsed;
	struct probe_error *error;
	struct probe_request request = {
		.patterns = (const struct probe_pattern *const *)&parsed, .pattern_count = 1};

	live_ok(probe_pattern_parse(pattern, &parsed));
	error = probe_session_start(l->target, &request, options, report, &l->session);
	/* Only a session that follows libraries checks its patterns again. */
	probe_pattern_free(parsed);
	return error;
}

/* Runs a session over one command, and gets its rows. */
void live_gather(struct live *l, const char *pattern, const struct probe_session_options *options,
	char command)
{
	struct probe_report report = {0};

	live_ok(live_begin(l, pattern, options, &report));
	probe_report_deinit(&report);
	live_order(l, command);
	live_ok(probe_session_stop(l->session));
	live_ok(probe_session_rows(l->session, &l->rows, &l->count));
}

const struct probe_session_probe *live_probe(const struct live *l, const char *name)
{
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(l->session, &count);

	for (size_t i = 0; i < count; i++)
		if (strcmp(probes[i].name, name) == 0)
			return &probes[i];
	fail_msg("the session has no probe %s", name);
	return NULL;
}

bool live_follow(const struct probe_hit *hit, void *data)
{
	struct live_flight *f = data;

	assert_true(hit->time_ns >= f->last_time);
	f->last_time = hit->time_ns;
	f->last = (long)hit->args[0].i;
	f->count++;
	return true;
}
