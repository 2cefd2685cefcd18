/* SPDX-License-Identifier: MIT */
/* Functions connected to one's own probes when the process forks, and when its copies die. */
/* Not under ThreadSanitizer: it knows neither stacks nor code that we make. */
/* Not under AddressSanitizer: its terabytes of memory are searched at each of many changes. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/self/helper/helper.h"
#include "tests/unit/self/self_hits.h"
#include "tests/unit/wait.h"

/* ---- Forks ------------------------------------------------------------------------------ */

static void child_check(bool good)
{
	if (!good)
		_exit(1);
}

/* The child has the functions, too; each process disconnects its own. */
static void test_fork(void **state)
{
	atomic_long calls = 0;
	pid_t child;

	(void)state;
	self_ok(probe_self_register("testcalls:hit", self_count, &calls));
	hit(1);
	child = fork();
	if (child == 0) {
		hit(1);
		child_check(calls == 2);
		self_ok(probe_self_unregister("testcalls:hit", self_count, &calls));
		hit(1);
		child_check(calls == 2);
		self_text_same();
		self_nothing_left();
		self_ok(probe_self_register("testcalls:hit", self_count, &calls));
		hit(1);
		child_check(calls == 3);
		_exit(0);
	}
	self_join(child);
	hit(1);
	assert_int_equal(calls, 2);
	self_ok(probe_self_unregister("testcalls:hit", self_count, &calls));
	self_text_same();
	self_nothing_left();
}

static bool in_child;

static void fork_within(const struct probe_self_hit *h, void *data)
{
	pid_t child = fork();

	(void)h;
	if (child) {
		self_join(child);
		return;
	}
	in_child = true;
	/* The thread in wait_to_go() does not exist in the child. */
	self_ok(probe_self_unregister("testcalls:hit", wait_to_go, data));
	self_ok(probe_self_unregister("testcalls:ping", fork_within, data));
	self_text_same();
}

/* The child of a thread that is in a function, while others are in other functions. */
static void test_fork_within(void **state)
{
	struct probe_report report = {0};
	struct slow slow = {0};
	pthread_t hitter;

	(void)state;
	self_ok(probe_self_register("testcalls:hit", wait_to_go, &slow));
	self_ok(probe_self_register("testcalls:ping", fork_within, &slow));
	assert_int_equal(pthread_create(&hitter, NULL, hit_once, NULL), 0);
	wait_until(slow.entered);
	ping(1);
	if (in_child) {
		/* Nor will it return to its stub; and this one has left its own. */
		self_ok(probe_self_update(&report));
		self_nothing_left();
		_exit(0);
	}
	slow.go = true;
	pthread_join(hitter, NULL);
	self_ok(probe_self_unregister("testcalls:hit", wait_to_go, &slow));
	self_ok(probe_self_unregister("testcalls:ping", fork_within, &slow));
	self_text_same();
	self_nothing_left();
}

struct maker {
	atomic_bool done;
	pid_t children[512];
	size_t count;
};

/* Children that libc does not know of, which keep what they have open. */
static void *make_children(void *data)
{
	struct maker *maker = data;

	while (!maker->done && maker->count < sizeof(maker->children) / sizeof(pid_t)) {
		pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		while (child == 0)
			pause();
		if (child > 0)
			maker->children[maker->count++] = child;
		usleep(300);
	}
	return NULL;
}

/* A change does not wait for those who have inherited its descriptors. */
static void test_children_keep_descriptors(void **state)
{
	static struct maker maker;
	atomic_long calls = 0;
	pthread_t id;

	(void)state;
	assert_int_equal(pthread_create(&id, NULL, make_children, &maker), 0);
	alarm(test_seconds());
	for (int i = 0; i < ROUNDS; i++) {
		time_t begun = time(NULL);

		self_ok(probe_self_register("testcalls:hit", self_count, &calls));
		self_ok(probe_self_unregister("testcalls:hit", self_count, &calls));
		assert_true(time(NULL) - begun < HELPER_SECONDS);
	}
	alarm(0);
	maker.done = true;
	pthread_join(id, NULL);
	for (size_t i = 0; i < maker.count; i++) {
		kill(maker.children[i], SIGKILL);
		waitpid(maker.children[i], NULL, 0);
	}
	print_message("%zu children\n", maker.count);
	self_text_same();
	self_nothing_left();
}

static void change_and_fork(void)
{
	atomic_long calls = 0;
	int status = 0;
	pid_t child;

	if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
		_exit(77);
	self_fails(probe_self_register("testcalls:hit", self_count, &calls),
		PROBE_ERROR_UNSUPPORTED, "are in another pid namespace");
	child = fork();
	if (child == 0)
		_exit(getpid() == 1 ? 0 : 1);
	child_check(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	_exit(0);
}

/* The first process of a new pid namespace is the program's own child. */
static void test_children_elsewhere(void **state)
{
	int status;
	pid_t child = fork();

	(void)state;
	if (child == 0)
		change_and_fork();
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		print_message("note: this user may not make namespaces\n");
	else
		assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- A copy that dies --------------------------------------------------------------------- */

/* The first child of a process, or 0. */
static pid_t first_child(pid_t pid, pid_t tid)
{
	char path[64];
	int child = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, tid);
	file = fopen(path, "r");
	if (file && fscanf(file, "%d", &child) != 1)
		child = 0;
	if (file)
		fclose(file);
	return child;
}

struct killer {
	pid_t changer; /* the thread whose helpers are killed */
	atomic_bool done;
	atomic_int kills;
};

/* Kills the copies that change this process, a little later each time. */
static void *kill_copies(void *data)
{
	struct killer *killer = data;
	unsigned int wait_us = 0;

	while (!killer->done) {
		pid_t forker = first_child(getpid(), killer->changer);
		pid_t copy = forker ? first_child(forker, forker) : 0;

		if (!copy)
			continue;
		usleep(wait_us);
		wait_us = (wait_us + 130) % 6000;
		killer->kills += kill(copy, SIGKILL) == 0;
		/*
		 * A copy that changes nothing any more, but is still listed, does not count
		 * twice.
		 */
		wait_until(killer->done || first_child(getpid(), killer->changer) != forker);
	}
	return NULL;
}

static void test_copy_dies(void **state)
{
	struct killer killer = {.changer = gettid()};
	pthread_t threads[2], id;
	atomic_long calls = 0;

	(void)state;
	hitters_done = false;
	for (uintptr_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, keep_hitting, (void *)i), 0);
	assert_int_equal(pthread_create(&id, NULL, kill_copies, &killer), 0);
	for (int i = 0; i < 3 * ROUNDS; i++) {
		struct probe_error *error =
			probe_self_register("testcalls:hit", self_count, &calls);

		if (error) {
			self_fails(error, PROBE_ERROR_STATE, "has died: try again");
			continue;
		}
		error = probe_self_unregister("testcalls:hit", self_count, &calls);
		if (error)
			self_fails(error, PROBE_ERROR_STATE, "has died: try again");
	}
	killer.done = true;
	pthread_join(id, NULL);
	print_message("%d copies were killed\n", killer.kills);
	/* The next change finishes what they began. */
	self_ok(probe_self_register("testcalls:hit", self_count, &calls));
	calls = 0;
	hit(1);
	assert_true(calls > 0);
	/* A thread that is in a stub now keeps it until the next change. */
	hitters_done = true;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	self_ok(probe_self_unregister("testcalls:hit", self_count, &calls));
	self_text_same();
	self_nothing_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_fork_within),
		cmocka_unit_test(test_children_keep_descriptors),
		cmocka_unit_test(test_children_elsewhere),
		cmocka_unit_test(test_copy_dies),
	};

	self_text_save();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
