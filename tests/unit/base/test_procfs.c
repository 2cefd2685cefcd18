/* SPDX-License-Identifier: MIT */
/* Facts about processes whose names and groups make them hard to parse. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/base/procfs.h"
#include "tests/unit/skip.h"
#include "tests/unit/wait.h"

/* A child that has prepared itself and waits. */
static pid_t child(void (*prepare)(const char *), const char *argument)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prepare(argument);
		_exit(write(ready[1], "", 1) == 1 ? pause() : 1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void set_name(const char *name)
{
	prctl(PR_SET_NAME, name);
}

static void test_names(void **state)
{
	static const char *const names[] = {"plain", ") R 1 (", "a) Z 1 2 3", "((((", "))))",
		"\nTgid:\t1", "Threads:\t99", "", "\xff\n\\"};
	uint64_t own = procfs_start_time(getpid());

	(void)state;
	assert_true(own > 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		pid_t pid = child(set_name, names[i]);
		uint64_t start = procfs_start_time(pid);

		assert_in_range(start, own, own + 100 * 3600);
		assert_true(strchr("SRD", procfs_thread_state(pid, pid)));
		assert_int_equal(procfs_status_number(pid, "Tgid:"), pid);
		assert_int_equal(procfs_status_number(pid, "PPid:"), getpid());
		assert_in_range(
			procfs_status_number(pid, "Threads:"), 1, 2); /* a sanitizer has one */
		end_child(pid);
	}
}

/* So many groups that the lines after theirs are far past the first page. */
static void set_groups(const char *unused)
{
	gid_t groups[4000];

	(void)unused;
	for (size_t i = 0; i < 4000; i++)
		groups[i] = 2000000000 + i;
	if (setgroups(4000, groups))
		_exit(1);
}

static void test_groups(void **state)
{
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip_because("needs root");
	pid = child(set_groups, NULL);
	assert_in_range(procfs_status_number(pid, "Threads:"), 1, 2);
	assert_int_equal(procfs_status_number(pid, "Seccomp:"), 0);
	assert_false(procfs_status_has(pid, "Uid:", "2000003999"));
	errno = 1;
	assert_int_equal(procfs_status_number(pid, "Groups2:"), -1);
	assert_int_equal(errno, 0);
	end_child(pid);
}

static void test_nothing_there(void **state)
{
	char name[32];

	(void)state;
	assert_int_equal(procfs_status_number(1 << 23, "Tgid:"), -1);
	assert_int_equal(procfs_status_number(getpid(), "NoSuchKey:"), -1);
	assert_false(procfs_status_has(1 << 23, "Tgid:", ""));
	assert_int_equal(procfs_start_time(1 << 23), 0);
	assert_int_equal(procfs_thread_state(1 << 23, 1 << 23), 0);
	procfs_comm(1 << 23, name, sizeof(name));
	assert_string_equal(name, "?");
}

static void lock(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		_exit(1);
}

/* Whoever gets the lock of a killed process sees that it ends, even before it is a zombie. */
static void test_exiting(void **state)
{
	char path[] = "/tmp/probe_exiting_XXXXXX";
	int own = mkstemp(path);

	(void)state;
	assert_true(own >= 0);
	for (int i = 0; i < 200; i++) {
		pid_t pid = child(lock, path);

		assert_int_equal(flock(own, LOCK_EX | LOCK_NB), -1);
		assert_false(procfs_is_exiting(pid));
		kill(pid, SIGKILL);
		assert_int_equal(flock(own, LOCK_EX), 0);
		assert_true(procfs_is_exiting(pid));
		flock(own, LOCK_UN);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_false(procfs_is_exiting(pid));
	}
	unlink(path);
	close(own);
}

static void *wait_for_ever(void *unused)
{
	pause();
	return unused;
}

static void test_main_thread_has_ended(void **state)
{
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pthread_create(&thread, NULL, wait_for_ever, NULL))
			_exit(1);
		pthread_exit(NULL);
	}
	wait_until(procfs_thread_state(pid, pid) == 'Z');
	assert_false(procfs_is_exiting(pid));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_open_regular(void **state)
{
	int path_fd = open("/dev/null", O_PATH | O_CLOEXEC), fd;

	(void)state;
	assert_true(path_fd >= 0);
	errno = 0;
	assert_int_equal(procfs_open_regular(path_fd, O_RDONLY), -1);
	assert_int_equal(errno, EINVAL);
	close(path_fd);
	path_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	fd = procfs_open_regular(path_fd, O_RDONLY);
	assert_true(fd >= 0);
	close(fd);
	close(path_fd);
	assert_int_equal(procfs_open_regular(path_fd, O_RDONLY), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_nothing_there),
		cmocka_unit_test(test_exiting),
		cmocka_unit_test(test_main_thread_has_ended),
		cmocka_unit_test(test_open_regular),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
