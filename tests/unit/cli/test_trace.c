/* SPDX-License-Identifier: MIT */
/* The parts of `probectl trace`: merging by time, thread names, the program's exit status. */
#include <errno.h>
#include <poll.h>
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
#include "cli/timer.h"
#include "cli/loop.h"
#include "cli/trace/comm.h"
#include "cli/trace/merge.h"

enum { MANY = 10000, UNIT_NS = 1000000 };

/* ---- Merging ---------------------------------------------------------------- */

/* What came out of a merge. */
struct seen {
	size_t count, limit;
	uint64_t last_ns;
	char text[256];
};

static bool see(size_t target, const struct probe_hit *hit, const char *comm, void *data)
{
	struct seen *seen = data;
	size_t length = strlen(seen->text);

	assert_true(hit->time_ns >= seen->last_ns);
	seen->last_ns = hit->time_ns;
	if (hit->arg_count)
		snprintf(seen->text + length, sizeof(seen->text) - length, "%zu@%d:%.*s ", target,
			(int)(hit->time_ns / UNIT_NS), (int)hit->args[1].length,
			hit->args[1].bytes);
	assert_true(!comm || !strcmp(comm, "thread"));
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
	struct probe_hit hit = {.time_ns = time_ns * UNIT_NS, .args = args, .arg_count = 2};

	memcpy(copy, text, strlen(text));
	assert_true(merge_add(merge, target, &hit, "thread"));
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
	merge_drain(merge, UINT64_MAX, see, &seen);
	assert_string_equal(seen.text, "1@1:a 1@2:b 0@3:c 1@3:d 0@7: ");
	seen = (struct seen){0};
	merge_drain(merge, UINT64_MAX, see, &seen);
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
	merge_drain(merge, UINT64_MAX, see, &seen);
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
		struct probe_hit hit = {
			.time_ns = (MANY - i) * UNIT_NS, .args = args, .arg_count = 2};

		args[1].length = 1 + i % 10;
		assert_true(merge_add(merge, 0, &hit, NULL));
	}
	merge_drain(merge, UINT64_MAX, see, &seen);
	assert_string_equal(seen.text, "0@1:0123456789 0@2:012345678 0@3:01234567 ");
	merge_free(merge);
}

/* Hits may be printed more than once, and the newest of them kept. */
static void hits_are_copied_and_the_oldest_forgotten(void **state)
{
	struct merge *kept = merge_create();
	struct seen seen = {0};

	(void)state;
	add(kept, 0, 3, "c");
	add(kept, 0, 1, "a");
	add(kept, 0, 2, "b");
	assert_int_equal(merge_trim(kept, merge_bytes(kept)), 0);
	assert_int_equal(merge_trim(kept, merge_bytes(kept) - 1), 1);
	add(kept, 0, 4, "d");
	for (int i = 0; i < 2; i++) {
		struct merge *merge = merge_create();

		seen = (struct seen){0};
		add(merge, 1, 3, "other");
		assert_true(merge_add_all(merge, 7, kept));
		merge_drain(merge, UINT64_MAX, see, &seen);
		assert_string_equal(seen.text, "7@2:b 1@3:other 7@3:c 7@4:d ");
		merge_free(merge);
	}
	assert_int_equal(merge_trim(kept, 0), 3);
	assert_true(merge_is_empty(kept) && !merge_bytes(kept));
	merge_free(kept);
}

static void a_merge_says_when_it_is_full(void **state)
{
	struct probe_hit hit = {0};
	struct merge *merge = merge_create();
	struct seen seen = {0};
	size_t added = 0;

	(void)state;
	while (!merge_full(merge, 0)) {
		assert_true(merge_add(merge, 0, &hit, NULL));
		added++;
	}
	merge_drain(merge, UINT64_MAX, see, &seen);
	assert_int_equal(seen.count, added);
	assert_false(merge_full(merge, 0));
	merge_free(merge);
}

static void later_hits_wait(void **state)
{
	struct merge *merge = merge_create();
	struct seen seen = {0};

	(void)state;
	add(merge, 0, 9, "late");
	add(merge, 0, 3, "a");
	add(merge, 2, 5, "c");
	add(merge, 2, 9, "later");
	merge_drain(merge, 5 * UNIT_NS, see, &seen);
	assert_string_equal(seen.text, "0@3:a 2@5:c ");
	assert_true(merge_holds(merge, 0) && !merge_holds(merge, 1) && merge_holds(merge, 2));
	/* The one that has none is dropped. What comes now is older than what waits. */
	merge_remove(merge, 1);
	assert_true(merge_holds(merge, 1) && !merge_holds(merge, 2));
	add(merge, 2, 8, "d");
	merge_drain(merge, 8 * UNIT_NS, see, &seen);
	assert_string_equal(seen.text, "0@3:a 2@5:c 2@8:d ");
	assert_false(merge_is_empty(merge));
	merge_drain(merge, UINT64_MAX, see, &seen);
	assert_string_equal(seen.text, "0@3:a 2@5:c 2@8:d 0@9:late 1@9:later ");
	assert_true(merge_is_empty(merge));
	merge_free(merge);
}

static void nothing_overtakes_what_a_full_target_has_left(void **state)
{
	struct merge *merge = merge_create();
	struct probe_hit hit = {0};
	struct seen seen = {0};
	uint64_t last_ns;

	(void)state;
	assert_true(merge_known_ns(merge) == UINT64_MAX);
	add(merge, 1, MANY, "newest");
	while (!merge_full(merge, 0)) {
		hit.time_ns++;
		assert_true(merge_add(merge, 0, &hit, NULL));
	}
	last_ns = hit.time_ns;
	assert_false(merge_full(merge, 1));
	assert_true(merge_known_ns(merge) == last_ns);
	merge_drain(merge, merge_known_ns(merge), see, &seen);
	assert_int_equal(seen.count, last_ns);
	assert_true(merge_known_ns(merge) == UINT64_MAX && !merge_holds(merge, 0));
	assert_true(last_ns < UNIT_NS);
	/* It was read first; the other goes on where it was left. */
	add(merge, 0, 1, "next");
	merge_drain(merge, UINT64_MAX, see, &seen);
	assert_int_equal(seen.count, last_ns + 2);
	merge_free(merge);
}

/* ---- Thread names ----------------------------------------------------------- */

static void names_are_read_again_after_a_while(void **state)
{
	struct comm_cache *cache = comm_cache_create();
	pid_t pid = getpid();

	(void)state;
	assert_int_equal(prctl(PR_SET_NAME, "first"), 0);
	assert_string_equal(comm_cache_get(cache, pid, pid, NSEC_PER_SEC), "first");
	assert_int_equal(prctl(PR_SET_NAME, "a\nname of 15 ch"), 0);
	assert_string_equal(
		comm_cache_get(cache, pid, pid, NSEC_PER_SEC + NSEC_PER_SEC / 10 - 1), "first");
	assert_string_equal(comm_cache_get(cache, pid, pid, NSEC_PER_SEC + NSEC_PER_SEC / 10),
		"a\nname of 15 ch");
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
	assert_non_null(comm_cache_get(cache, child, child, 2 * (uint64_t)NSEC_PER_SEC - 1));
	assert_non_null(comm_cache_known(cache, child, child));
	/* A thread that was never seen has no name, and not that of its process. */
	assert_non_null(comm_cache_get(cache, getpid(), getpid(), NSEC_PER_SEC));
	assert_null(comm_cache_get(cache, child, child, 3 * (uint64_t)NSEC_PER_SEC));
	assert_null(comm_cache_get(cache, getpid(), child, NSEC_PER_SEC));
	assert_null(comm_cache_known(cache, getpid(), child));
	assert_null(comm_cache_get(cache, child, child, NSEC_PER_SEC));
	comm_cache_free(cache);
}

/* ---- Programs --------------------------------------------------------------- */

static void open_loop(struct loop *loop, const int *own)
{
	struct probe_error *error = loop_open(loop, own);

	assert_null(error);
}

/* Later tests are to be ended by signals again. */
static void close_loop(struct loop *loop)
{
	sigset_t all;

	loop_close(loop);
	sigfillset(&all);
	sigprocmask(SIG_UNBLOCK, &all, NULL);
}

static void sleep_once(struct loop *loop)
{
	struct probe_error *error = loop_sleep(loop);

	assert_null(error);
}

static void a_programs_end_is_told_as_a_shell_does(void **state)
{
	struct loop loop = {.signal_fd = -1};
	sigset_t signals;

	(void)state;
	open_loop(&loop, NULL);
	sigprocmask(SIG_BLOCK, NULL, &signals);
	assert_true(sigismember(&signals, SIGINT) && sigismember(&signals, SIGCHLD));
	loop.child = fork();
	if (!loop.child)
		_exit(7);
	assert_int_equal(loop_wait_child(&loop), 7);
	loop.child = fork();
	if (!loop.child) {
		raise(SIGKILL);
		_exit(0);
	}
	assert_int_equal(loop_wait_child(&loop), STATUS_SIGNAL + SIGKILL);
	assert_int_equal(loop_wait_child(&loop), STATUS_FAILED);
	close_loop(&loop);
}

static void signals_are_handed_on(void **state)
{
	struct loop loop = {.signal_fd = -1, .child = fork()};

	(void)state;
	if (!loop.child) {
		pause();
		_exit(0);
	}
	open_loop(&loop, NULL);
	raise(SIGINT); /* the terminal's: not handed on */
	raise(SIGTERM);
	assert_int_equal(loop_wait_child(&loop), STATUS_SIGNAL + SIGTERM);
	assert_true(loop.over && loop.interrupted);
	close_loop(&loop);
}

/* ---- The loop --------------------------------------------------------------- */

static void note_signal(int signal, void *data)
{
	*(int *)data = signal;
}

static void signals_end_a_loop_or_are_its_own(void **state)
{
	static const int own[] = {SIGUSR1, 0};
	static const int ending[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
	int noted = 0;
	struct loop loop = {.signal_fd = -1, .take_signal = note_signal, .data = &noted};

	(void)state;
	open_loop(&loop, own);
	raise(SIGUSR1);
	raise(SIGCHLD);
	sleep_once(&loop);
	assert_int_equal(noted, SIGUSR1);
	assert_false(loop.over || loop.interrupted);
	for (size_t i = 0; i < sizeof(ending) / sizeof(*ending); i++) {
		loop.over = loop.interrupted = false;
		raise(ending[i]);
		sleep_once(&loop);
		assert_true(loop.over && loop.interrupted);
	}
	close_loop(&loop);
}

static void ctrl_backslash_is_for_the_program(void **state)
{
	struct loop loop = {.signal_fd = -1, .child = getpid()};

	(void)state;
	open_loop(&loop, NULL);
	raise(SIGQUIT);
	sleep_once(&loop);
	assert_false(loop.over);
	close_loop(&loop);
}

static void what_is_ignored_stays_so_but_for_ctrl_c(void **state)
{
	static const int own[] = {SIGTSTP, 0};
	struct loop loop = {.signal_fd = -1};
	sigset_t blocked;

	(void)state;
	signal(SIGHUP, SIG_IGN); /* nohup(1) */
	signal(SIGTSTP, SIG_IGN);
	signal(SIGINT, SIG_IGN); /* of what a shell runs with `&` */
	open_loop(&loop, own);
	sigprocmask(SIG_BLOCK, NULL, &blocked);
	assert_false(sigismember(&blocked, SIGHUP) || sigismember(&blocked, SIGTSTP));
	assert_true(sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGTERM));
	raise(SIGINT);
	sleep_once(&loop);
	assert_true(loop.over);
	close_loop(&loop);
	signal(SIGHUP, SIG_DFL);
	signal(SIGTSTP, SIG_DFL);
	signal(SIGINT, SIG_DFL);
}

/* More descriptors than a loop has room for at first; what was watched is forgotten. */
static void a_sleep_says_what_has_come(void **state)
{
	struct loop loop = {.signal_fd = -1};
	bool ready[40] = {false}, left = false, again = false;
	int pipes[40][2];

	(void)state;
	open_loop(&loop, NULL);
	for (size_t i = 0; i < 40; i++) {
		assert_int_equal(pipe(pipes[i]), 0);
		loop_watch(&loop, pipes[i][0], POLLIN, &ready[i]);
	}
	loop_watch(&loop, -1, POLLIN, &again);
	close(pipes[7][0]);
	loop_watch(&loop, pipes[7][1], 0, &left); /* nothing is to be written: the end is told */
	assert_int_equal(write(pipes[33][1], "x", 1), 1);
	sleep_once(&loop);
	for (size_t i = 0; i < 40; i++)
		assert_int_equal(ready[i], i == 33);
	assert_true(left && !again);
	ready[33] = false;
	loop_until(&loop, 0);
	sleep_once(&loop);
	assert_false(ready[33]);
	for (size_t i = 0; i < 40; i++) {
		close(pipes[i][1]);
		if (i != 7)
			close(pipes[i][0]);
	}
	close_loop(&loop);
}

static void a_timer_does_not_make_up_for_what_it_missed(void **state)
{
	struct timer timer = {.next_ns = 100, .every_ns = 10}, never = timer_every(0);

	(void)state;
	assert_false(timer_due(&timer, 99));
	assert_true(timer_due(&timer, 100));
	assert_int_equal(timer.next_ns, 110);
	assert_true(timer_due(&timer, 157));
	assert_int_equal(timer.next_ns, 160);
	assert_false(timer_due(&timer, 159));
	assert_false(timer_due(&never, UINT64_MAX - 1));
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
		cmocka_unit_test(hits_are_copied_and_the_oldest_forgotten),
		cmocka_unit_test(a_merge_says_when_it_is_full),
		cmocka_unit_test(later_hits_wait),
		cmocka_unit_test(nothing_overtakes_what_a_full_target_has_left),
		cmocka_unit_test(names_are_read_again_after_a_while),
		cmocka_unit_test(a_thread_that_is_gone_keeps_its_name),
		cmocka_unit_test(a_programs_end_is_told_as_a_shell_does),
		cmocka_unit_test(signals_are_handed_on),
		cmocka_unit_test(a_program_that_cannot_start_is_126_or_127),
		cmocka_unit_test(signals_end_a_loop_or_are_its_own),
		cmocka_unit_test(ctrl_backslash_is_for_the_program),
		cmocka_unit_test(what_is_ignored_stays_so_but_for_ctrl_c),
		cmocka_unit_test(a_sleep_says_what_has_come),
		cmocka_unit_test(a_timer_does_not_make_up_for_what_it_missed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
