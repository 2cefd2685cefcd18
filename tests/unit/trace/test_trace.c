/* SPDX-License-Identifier: MIT */
/*
 * A trace of several processes: their hits in one order, the news of their lives, and their counts.
 * The processes run this program, which does what its arguments say.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sdt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/trace.h"
#include "tests/unit/live.h"
#include "tests/unit/room.h"
#include "tests/unit/wait.h"

enum { PROCESSES = 4 };

/* ---- The processes ---------------------------------------------------------- */

static void __attribute__((noinline)) hit(int times)
{
	for (int i = 0; i < times; i++) {
		STAP_PROBE1(set, hit, i);
		ROOM();
	}
}

static int act(char *const argv[])
{
	pid_t child;

	if (strcmp(argv[2], "plain") == 0)
		hit(5);
	if (strcmp(argv[2], "stay") == 0) {
		hit(3);
		pause();
	}
	if (strcmp(argv[2], "fork") == 0) {
		child = fork();
		hit(child ? 1 : 2);
		if (child)
			waitpid(child, NULL, 0);
	}
	if (strcmp(argv[2], "exec") == 0) {
		hit(1);
		execl("/proc/self/exe", "act", "act", "plain", NULL);
	}
	return 0;
}

/* ---- The trace -------------------------------------------------------------- */

struct set {
	struct probe_trace *trace;
	struct probe_trace_tracer tracer;
	struct probe_request request;
	struct probe_pattern *pattern;
	pid_t pids[PROCESSES];
	size_t news[PROBE_TRACE_CLOSED + 1];
	size_t hits;
	uint64_t last_ns;
	int killed_by;
	pid_t came;
};

static bool take_hit(const struct probe_trace_hit *hit, void *data)
{
	struct set *set = data;

	assert_string_equal(hit->probes[hit->hit->probe].name, "hit");
	assert_true(hit->hit->time_ns >= set->last_ns);
	set->last_ns = hit->hit->time_ns;
	set->hits++;
	return true;
}

static void take_news(const struct probe_trace_news *news, void *data)
{
	struct set *set = data;
	struct probe_fate fate;

	live_ok(news->error);
	set->news[news->event]++;
	if (news->event == PROBE_TRACE_CAME)
		set->came = probe_target_pid(news->traced->target);
	if (news->event != PROBE_TRACE_ENDED)
		return;
	probe_target_fate(news->traced->target, news->traced->pidfd, &fate);
	if (fate.signal)
		set->killed_by = fate.signal;
}

static void begin(struct set *set, enum probe_session_kind kind)
{
	static const char *const acts[PROCESSES] = {"plain", "stay", "fork", "exec"};
	struct probe_trace_options options = {.tracers = &set->tracer,
		.tracer_count = 1,
		.follow = true,
		.hit = take_hit,
		.news = take_news,
		.data = set};
	struct probe_target *targets[PROCESSES];

	*set = (struct set){.request = {.pattern_count = 1},
		.tracer.options = {
			.kind = kind, .follow_libraries = true, .follow_children = true}};
	live_ok(probe_pattern_parse("set:hit", &set->pattern));
	set->request.patterns = (const struct probe_pattern *const *)&set->pattern;
	set->tracer.request = &set->request;
	live_ok(probe_trace_create(&options, &set->trace));
	for (size_t i = 0; i < PROCESSES; i++) {
		char *argv[] = {"/proc/self/exe", "act", (char *)acts[i], NULL};

		live_ok(probe_target_spawn(argv, &targets[i]));
		set->pids[i] = probe_target_pid(targets[i]);
		live_ok(probe_trace_add(set->trace, targets[i], true));
	}
	live_ok(probe_trace_start(set->trace));
	assert_int_equal(set->news[PROBE_TRACE_STARTED], PROCESSES);
	for (size_t i = 0; i < PROCESSES; i++)
		live_ok(probe_target_release(targets[i]));
}

static uint64_t counted(const struct set *set, bool summed)
{
	uint64_t hits = 0;
	size_t count;
	struct probe_trace_probe *all = probe_trace_probes(set->trace, &count);

	assert_non_null(all);
	for (size_t i = 0; i < count; i++)
		if (!summed || !all[i].traced)
			hits += all[i].probe->hits;
	free(all);
	return hits;
}

/* Waits until `hits` hits were counted and `ended` processes have ended. */
static void poll_until(const struct set *set, uint64_t hits, size_t ended)
{
	while (counted(set, false) < hits || set->news[PROBE_TRACE_ENDED] < ended) {
		struct pollfd ready = {.fd = probe_trace_fd(set->trace), .events = POLLIN};

		live_ok(probe_trace_poll(set->trace));
		poll(&ready, 1, 1);
	}
}

static void end(struct set *set)
{
	probe_trace_stop(set->trace, true);
	probe_trace_free(set->trace);
	probe_pattern_free(set->pattern);
}

static void processes_live_and_die(void **state)
{
	struct set set;

	(void)state;
	begin(&set, PROBE_SESSION_RECORD);
	/* All but the one that stays end; the one that executes another program ends twice. */
	poll_until(&set, 5 + 3 + 3 + 6, PROCESSES);
	assert_false(probe_trace_is_over(set.trace));
	assert_int_equal(set.killed_by, 0);
	assert_int_equal(set.news[PROBE_TRACE_CAME], 1);
	assert_int_equal(set.came, set.pids[3]);
	kill(set.pids[1], SIGKILL);
	poll_until(&set, 0, PROCESSES + 1);
	assert_true(probe_trace_is_over(set.trace));
	assert_int_equal(set.killed_by, SIGKILL);
	for (size_t i = 0; i < PROCESSES; i++)
		assert_int_equal(waitpid(set.pids[i], NULL, 0), set.pids[i]);
	/* The program that was executed came later, so its session is dropped. */
	while (!set.news[PROBE_TRACE_DROPPED])
		live_ok(probe_trace_poll(set.trace));
	assert_int_equal(counted(&set, true), 5);
	assert_int_equal(counted(&set, false), 17);
	end(&set);
	assert_int_equal(set.hits, 17);
	assert_int_equal(set.news[PROBE_TRACE_CLOSED], PROCESSES + 1);
	assert_int_equal(set.news[PROBE_TRACE_LOST] + set.news[PROBE_TRACE_FAILED], 0);
}

static uint64_t rows_of(const struct set *set)
{
	const struct probe_table_row *rows;
	struct probe_table *table;
	uint64_t hits = 0;
	size_t count;

	live_ok(probe_trace_table(set->trace, 0, &table));
	rows = probe_table_rows(table, &count);
	for (size_t i = 0; i < count; i++)
		hits += (uint64_t)rows[i].row.count;
	probe_table_free(table);
	return hits;
}

static void rows_of_dropped_processes_are_summed(void **state)
{
	struct set set;

	(void)state;
	begin(&set, PROBE_SESSION_GATHER);
	while (!set.news[PROBE_TRACE_DROPPED])
		live_ok(probe_trace_poll(set.trace));
	probe_trace_refresh(set.trace);
	assert_int_equal(rows_of(&set), counted(&set, false));
	assert_true(rows_of(&set) >= 5);
	kill(set.pids[1], SIGKILL);
	for (size_t i = 0; i < PROCESSES; i++)
		assert_int_equal(waitpid(set.pids[i], NULL, 0), set.pids[i]);
	end(&set);
}

static void a_trace_ends_before_its_processes(void **state)
{
	size_t count;
	struct set set;

	(void)state;
	begin(&set, PROBE_SESSION_COUNT);
	poll_until(&set, 3, 0);
	probe_trace_stop(set.trace, true);
	assert_true(probe_trace_is_over(set.trace));
	probe_trace_sessions(set.trace, &count);
	assert_true(count >= PROCESSES && counted(&set, false) >= 3);
	assert_int_equal(set.hits, 0);
	end(&set);
	kill(set.pids[1], SIGKILL);
	for (size_t i = 0; i < PROCESSES; i++)
		assert_int_equal(waitpid(set.pids[i], NULL, 0), set.pids[i]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_live_and_die),
		cmocka_unit_test(rows_of_dropped_processes_are_summed),
		cmocka_unit_test(a_trace_ends_before_its_processes),
	};

	if (argc > 2 && strcmp(argv[1], "act") == 0)
		_exit(act(argv)); /* LeakSanitizer would trace the process at its exit */
	alarm(test_seconds());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
