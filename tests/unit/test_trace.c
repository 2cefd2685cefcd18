/* SPDX-License-Identifier: MIT */
/* The parts of `probectl trace`: merging by time, thread names, what a program's end means. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/trace/comm.h"
#include "cli/trace/merge.h"

enum { MANY = 10000, NSEC_PER_SEC = 1000000000 };

/* ---- Merging ---------------------------------------------------------------- */

/* What came out of a merge. */
struct seen {
	size_t count, limit;
	uint64_t last_ns;
	char text[256];
};

static bool see(size_t target, const struct probe_hit *hit, void *data)
{
	struct seen *seen = data;
	size_t length = strlen(seen->text);

	assert_true(hit->time_ns >= seen->last_ns);
	seen->last_ns = hit->time_ns;
	if (hit->arg_count)
		snprintf(seen->text + length, sizeof(seen->text) - length, "%zu@%d:%.*s ", target,
			(int)hit->time_ns, (int)hit->args[1].length, hit->args[1].bytes);
	return ++seen->count != seen->limit;
}

/* The string's memory is used again at once, as a session does. */
static void add(struct merge *merge, size_t target, uint64_t time_ns, const char *text)
{
	char copy[32];
	struct probe_value args[2] = {
		{.kind = PROBE_VALUE_SIGNED, .i = -1},
		{.kind = PROBE_VALUE_STRING, .bytes = copy, .length = strlen(text)},
	};
	struct probe_hit hit = {.time_ns = time_ns, .args = args, .arg_count = 2};

	memcpy(copy, text, strlen(text));
	assert_true(merge_add(merge, target, &hit));
	memset(copy, 'X', sizeof(copy));
}

static void hits_come_out_by_time(void **state)
{
	struct merge *merge = merge_create();
	struct seen seen = {0};

	(void)state;
	assert_non_null(merge);
	add(merge, 0, 3, "c");
	add(merge, 0, 7, "");
	add(merge, 1, 1, "a");
	add(merge, 1, 3, "d");
	add(merge, 1, 2, "b");
	merge_drain(merge, see, &seen);
	assert_string_equal(seen.text, "1@1:a 1@2:b 0@3:c 1@3:d 0@7: ");
	seen = (struct seen){0};
	merge_drain(merge, see, &seen);
	assert_int_equal(seen.count, 0);
	merge_free(merge);
}

static void a_visitor_may_stop(void **state)
{
	struct merge *merge = merge_create();
	struct seen seen = {.limit = 2};

	(void)state;
	add(merge, 0, 3, "c");
	add(merge, 0, 2, "b");
	add(merge, 0, 1, "a");
	merge_drain(merge, see, &seen);
	assert_string_equal(seen.text, "0@1:a 0@2:b ");
	merge_free(merge);
}

static void many_hits_keep_their_arguments(void **state)
{
	struct probe_value args[2] = {
		{.kind = PROBE_VALUE_NULL},
		{.kind = PROBE_VALUE_BYTES, .bytes = "0123456789", .length = 10},
	};
	struct merge *merge = merge_create();
	struct seen seen = {.limit = 3};

	(void)state;
	for (uint64_t i = 0; i < MANY; i++) {
		struct probe_hit hit = {.time_ns = MANY - i, .args = args, .arg_count = 2};

		args[1].length = 1 + i % 10;
		assert_true(merge_add(merge, 0, &hit));
	}
	merge_drain(merge, see, &seen);
	assert_string_equal(seen.text, "0@1:0123456789 0@2:012345678 0@3:01234567 ");
	merge_free(merge);
}

static void a_merge_says_when_it_is_full(void **state)
{
	struct probe_hit hit = {0};
	struct merge *merge = merge_create();
	struct seen seen = {0};
	size_t added = 0;

	(void)state;
	while (!merge_full(merge)) {
		assert_true(merge_add(merge, 0, &hit));
		added++;
	}
	merge_drain(merge, see, &seen);
	assert_int_equal(seen.count, added);
	assert_false(merge_full(merge));
	merge_free(merge);
}

/* ---- Thread names ----------------------------------------------------------- */

static void names_are_read_again_after_a_second(void **state)
{
	struct comm_cache *cache = comm_cache_create();
	pid_t pid = getpid();

	(void)state;
	assert_int_equal(prctl(PR_SET_NAME, "first"), 0);
	assert_string_equal(comm_cache_get(cache, pid, pid, NSEC_PER_SEC), "first");
	assert_int_equal(prctl(PR_SET_NAME, "a\nname of 15 ch"), 0);
	assert_string_equal(
		comm_cache_get(cache, pid, pid, 2 * (uint64_t)NSEC_PER_SEC - 1), "first");
	assert_string_equal(
		comm_cache_get(cache, pid, pid, 2 * (uint64_t)NSEC_PER_SEC), "a\nname of 15 ch");
	comm_cache_free(cache);
}

static void a_thread_that_is_gone_keeps_its_name(void **state)
{
	struct comm_cache *cache = comm_cache_create();
	pid_t child = fork();

	(void)state;
	if (!child) {
		pause();
		_exit(0);
	}
	assert_int_equal(prctl(PR_SET_NAME, "parent"), 0);
	assert_non_null(comm_cache_get(cache, child, child, NSEC_PER_SEC));
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_non_null(comm_cache_get(cache, child, child, 10 * (uint64_t)NSEC_PER_SEC));
	/* A thread never seen before has its process's name; an unknown process has none. */
	assert_string_equal(comm_cache_get(cache, getpid(), child, NSEC_PER_SEC), "parent");
	assert_null(comm_cache_get(cache, child, child, NSEC_PER_SEC));
	comm_cache_free(cache);
}

/* ---- Programs --------------------------------------------------------------- */

static void a_programs_end_is_told_as_a_shell_does(void **state)
{
	sigset_t signals;
	pid_t child;

	(void)state;
	signals_block(&signals);
	assert_true(sigismember(&signals, SIGINT) && sigismember(&signals, SIGCHLD));
	child = fork();
	if (!child)
		_exit(7);
	assert_int_equal(child_wait(child, &signals), 7);
	child = fork();
	if (!child) {
		raise(SIGKILL);
		_exit(0);
	}
	assert_int_equal(child_wait(child, &signals), STATUS_SIGNAL + SIGKILL);
	assert_int_equal(child_wait(child, &signals), STATUS_FAILED);
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
}

static void signals_are_handed_on(void **state)
{
	sigset_t signals;
	pid_t child = fork();

	(void)state;
	if (!child) {
		pause();
		_exit(0);
	}
	signals_block(&signals);
	raise(SIGINT); /* the terminal's: not handed on */
	raise(SIGTERM);
	assert_int_equal(child_wait(child, &signals), STATUS_SIGNAL + SIGTERM);
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
}

static int status_for(int err)
{
	struct probe_error *error = probe_error_system(err, "x");
	int status = child_spawn_status(error);

	probe_error_free(error);
	return status;
}

static void a_program_that_cannot_start_is_126_or_127(void **state)
{
	struct probe_error *error = probe_error_new(PROBE_ERROR_UNSUPPORTED, "x");

	(void)state;
	assert_int_equal(status_for(ENOENT), STATUS_NO_PROGRAM);
	assert_int_equal(status_for(EACCES), STATUS_CANNOT_RUN);
	assert_int_equal(status_for(ENOEXEC), STATUS_CANNOT_RUN);
	assert_int_equal(status_for(ENOMEM), STATUS_FAILED);
	assert_int_equal(child_spawn_status(error), STATUS_FAILED);
	probe_error_free(error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hits_come_out_by_time),
		cmocka_unit_test(a_visitor_may_stop),
		cmocka_unit_test(many_hits_keep_their_arguments),
		cmocka_unit_test(a_merge_says_when_it_is_full),
		cmocka_unit_test(names_are_read_again_after_a_second),
		cmocka_unit_test(a_thread_that_is_gone_keeps_its_name),
		cmocka_unit_test(a_programs_end_is_told_as_a_shell_does),
		cmocka_unit_test(signals_are_handed_on),
		cmocka_unit_test(a_program_that_cannot_start_is_126_or_127),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
