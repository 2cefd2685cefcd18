/* SPDX-License-Identifier: MIT */
/*
 * A holder that releases the lock while it is looked for is not taken for one of another container,
 * nor for one that has ended.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/base/procfs.h"
#include "libprobe/registry/registry.h"
#include "tests/unit/victim.h"

enum { TRIES = 3000, HELD_US = 100 };

static void sleeper(struct shared *s)
{
	s->ready = 1;
	pause();
}

/* Another controller, which takes the lock over and over. */
static pid_t start_holder(pid_t target)
{
	pid_t pid = fork();
	char path[64];
	int fd;

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "/proc/%d/fdinfo", (int)target);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	for (;;) {
		flock(fd, LOCK_EX);
		usleep(HELD_US);
		flock(fd, LOCK_UN);
		usleep(1);
	}
}

static void released(void **state)
{
	struct victim v;
	char expected[64];
	int busy = 0;
	pid_t holder;

	(void)state;
	victim_start(&v, sleeper);
	holder = start_holder(v.pid);
	snprintf(expected, sizeof(expected), "process %d ", (int)holder);
	for (int i = 0; i < TRIES || !busy; i++) {
		struct probe_patience patience = {0};
		struct probe_target target = {.pid = v.pid,
			.start_time = procfs_start_time(v.pid),
			.mem = -1,
			.patience = &patience};
		struct target_lock lock;
		struct probe_error *error = lock_target(&target, &lock);

		if (!error) {
			lock_release(&lock);
			continue;
		}
		busy++;
		if (error->code != PROBE_ERROR_BUSY ||
			strncmp(error->message, expected, strlen(expected)) != 0)
			fail_msg("%s", error->message);
		probe_error_free(error);
	}
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	victim_end(&v);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(released),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
