/* SPDX-License-Identifier: MIT */
/* A thread with priority: what it forks has none, and it is scheduled afterwards as it was before.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/ptrace/ptrace.h"
#include "tests/unit/skip.h"

enum { NOBODY = 65534 };

/* How a forked child is scheduled. */
static int policy_of_child(void)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0)
		_exit(sched_getscheduler(0));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_children(void **state)
{
	void *urgent;
	int child;

	(void)state;
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
	urgent = urgent_begin();
	child = policy_of_child();
	urgent_end(urgent);
	assert_int_equal(child, SCHED_OTHER);
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

/* Who may have the priority may be one who may not take back that children have none. */
static void test_without_rights(void **state)
{
	pid_t child;
	int status;

	(void)state;
	if (geteuid() != 0)
		skip_because("needs root");
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		void *urgent = urgent_begin();

		if (setuid(NOBODY))
			_exit(1);
		urgent_end(urgent);
		_exit(sched_getscheduler(0) & ~SCHED_RESET_ON_FORK ? 2 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_children),
		cmocka_unit_test(test_without_rights),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
