/* SPDX-License-Identifier: MIT */
/*
 * What the test suite of ocaml-probes shows of that controller, of programs that run, and of
 * processes that are forked: test_counterparts.c says which test there each of these is.
 */
/* Not under ThreadSanitizer: it knows no code that we make. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/self.h"
#include "tests/unit/api/asked.h"
#include "tests/unit/api/counterparts.h"
#include "tests/unit/wait.h"

SEMAPHORE(one);
SEMAPHORE(two);
SEMAPHORE(three);

/* Endlessly: three probes in turn. */
WHOLE static int run_endless(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		DTRACE_PROBE(same, one);
		ROOM();
		usleep(200);
		DTRACE_PROBE(same, two);
		ROOM();
		DTRACE_PROBE(same, three);
		ROOM();
	}
	return 0;
}

/* ---- Attached to -------------------------------------------------------------------------- */

static const char *const endless[] = {"same:one", "same:two", "same:three"};

static void are(struct probe_target *target, uint32_t one, uint32_t two, uint32_t three)
{
	assert_int_equal(refcount(target, "one"), one);
	assert_int_equal(refcount(target, "two"), two);
	assert_int_equal(refcount(target, "three"), three);
}

/* Enabled probes are hit, and nothing else is patched. */
static void hit_alone(struct probe_target *target, const char *name)
{
	static const char *const names[] = {"one", "two", "three"};

	for (size_t i = 0; i < 3; i++)
		assert_int_equal(state_of(target, names[i]).patched, strcmp(names[i], name) == 0);
	wait_until(state_of(target, name).hits);
}

static void toggled(void **state)
{
	struct probe_target *target = spawn("endless", NULL, NULL);
	bool stopped;

	(void)state;
	ok(probe_target_release(target));
	are(target, 0, 0, 0);
	for (size_t i = 0; i < 3; i++) {
		ok(change_one(target, probe_target_enable, endless[i]));
		are(target, i == 0, i == 1, i == 2);
		hit_alone(target, endless[i] + strlen("same:"));
		ok(change_one(target, probe_target_disable, endless[i]));
		are(target, 0, 0, 0);
		assert_int_equal(state_of(target, endless[i] + strlen("same:")).patched, 0);
	}
	ok(change_one(target, probe_target_enable, "/^same:(one|two|three)$/"));
	are(target, 1, 1, 1);
	ok(change_all(target, probe_target_disable, false, endless, 3, NULL));
	are(target, 0, 0, 0);
	/* If only counts change, nothing else is stopped. */
	for (int atomic = 0; atomic < 2; atomic++) {
		ok(change_all(target, probe_target_enable, atomic, endless, 3, &stopped));
		assert_true(stopped);
		are(target, 1, 1, 1);
		ok(change_all(target, probe_target_enable, atomic, endless, 2, &stopped));
		assert_int_equal(stopped, atomic);
		are(target, 2, 2, 1);
		ok(change_all(target, probe_target_disable, atomic, endless + 1, 1, &stopped));
		assert_int_equal(stopped, atomic);
		are(target, 2, 1, 1);
		ok(change_all(target, probe_target_disable, atomic, endless, 3, &stopped));
		assert_true(stopped);
		are(target, 1, 0, 0);
		ok(change_all(target, probe_target_disable, atomic, endless, 1, &stopped));
		are(target, 0, 0, 0);
	}
	assert_true(probe_target_alive(target));
	kill_target(target);
}

static void two_targets(void **state)
{
	struct probe_target *first = spawn("endless", NULL, NULL);
	struct probe_target *second = spawn("endless", NULL, NULL);
	char message[160];

	(void)state;
	ok(change_all(first, probe_target_enable, false, endless, 3, NULL));
	ok(probe_target_release(first));
	ok(probe_target_release(second));
	snprintf(message, sizeof(message), "process %d is not held", probe_target_pid(first));
	fails_with(probe_target_release(first), PROBE_ERROR_STATE, message);
	ok(probe_target_attach(first));
	snprintf(message, sizeof(message), "process %d is attached to already",
		probe_target_pid(first));
	fails_with(probe_target_attach(first), PROBE_ERROR_STATE, message);
	/* Each has its own state. */
	snprintf(message, sizeof(message), "process %d is not held", probe_target_pid(second));
	fails_with(probe_target_release(second), PROBE_ERROR_STATE, message);
	are(first, 1, 1, 1);
	are(second, 0, 0, 0);
	ok(change_all(first, probe_target_disable, false, endless, 3, NULL));
	are(first, 0, 0, 0);
	ok(change_all(first, probe_target_enable, true, endless, 3, NULL));
	ok(probe_target_attach(second));
	ok(change_all(second, probe_target_enable, false, endless, 2, NULL));
	are(first, 1, 1, 1);
	are(second, 1, 1, 0);
	ok(probe_target_release(first));
	ok(probe_target_release(second));
	snprintf(message, sizeof(message),
		"same:three is not enabled in process %d (`probectl status -p %d` shows what is; "
		"--keep-going does the rest)",
		probe_target_pid(second), probe_target_pid(second));
	fails_with(change_all(second, probe_target_disable, false, endless, 3, NULL),
		PROBE_ERROR_STATE, message);
	are(second, 1, 1, 0);
	kill_target(first);
	kill_target(second);
}

static void of_itself(void **state)
{
	struct probe_target *target;
	char message[200];

	(void)state;
	ok(probe_target_open(getpid(), NULL, &target));
	snprintf(message, sizeof(message),
		"process %d is the caller itself: use the functions of probe/self.h", getpid());
	fails_with(probe_target_attach(target), PROBE_ERROR_STATE, message);
	fails_with(
		change_one(target, probe_target_enable, "same:asked"), PROBE_ERROR_STATE, message);
	assert_int_equal(refcount(target, "asked"), 0);
	probe_target_close(target);
}

/* ---- Forked --------------------------------------------------------------------------------- */

/* Its exit status says whether the probe was enabled. */
static pid_t fork_asked(int wait_for, bool by_itself)
{
	static const struct probe_report none;
	pid_t pid = fork();
	char byte;

	assert_true(pid >= 0);
	if (pid)
		return pid;
	if (wait_for >= 0 && read(wait_for, &byte, 1) < 0)
		_exit(1);
	if (by_itself) {
		struct probe_report report = none;
		struct probe_pattern *pattern = NULL;
		struct probe_request request = {
			.patterns = (const struct probe_pattern *const *)&pattern,
			.pattern_count = 1};
		struct probe_error *error = probe_pattern_parse("same:asked", &pattern);

		if (!error)
			error = probe_self_enable(&request, &report);
		if (error)
			_exit(1);
	}
	_exit(run_asked(NULL));
}

static void only_the_child(void **state)
{
	struct probe_target *target;
	int ready[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	pid = fork_asked(ready[0], false);
	ok(probe_target_open(pid, "/proc/self/exe", &target));
	ok(change_one(target, probe_target_enable, "same:*"));
	assert_int_equal(write(ready[1], "", 1), 1);
	assert_int_equal(exit_status(pid), 4);
	assert_int_equal(same_asked_semaphore, 0);
	probe_target_close(target);
	close(ready[0]);
	close(ready[1]);
}

static void the_child_itself(void **state)
{
	(void)state;
	assert_int_equal(exit_status(fork_asked(-1, true)), 4);
	assert_int_equal(same_asked_semaphore, 0);
}

static void an_orphan_itself(void **state)
{
	int result[2];
	char status = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(result), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		/* Its child waits until it is an orphan. */
		pid_t parent = getpid();

		if (fork() != 0)
			_exit(0);
		wait_until(getppid() != parent);
		status = (char)exit_status(fork_asked(-1, true));
		_exit(write(result[1], &status, 1) != 1);
	}
	assert_int_equal(exit_status(pid), 0);
	assert_int_equal(read(result[0], &status, 1), 1);
	assert_int_equal(status, 4);
	close(result[0]);
	close(result[1]);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(toggled),
		cmocka_unit_test(two_targets),
		cmocka_unit_test(of_itself),
		cmocka_unit_test(only_the_child),
		cmocka_unit_test(the_child_itself),
		cmocka_unit_test(an_orphan_itself),
	};

	if (argc > 1 && strcmp(argv[1], "endless") == 0)
		return run_endless();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
