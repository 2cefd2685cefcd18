/* SPDX-License-Identifier: MIT */
/* The parts of `probectl trace`: thread names, the program's exit status. */
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

#include "cli/processes.h"
#include "cli/cli.h"
#include "cli/loop.h"
#include "cli/trace/tracer_option.h"

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
