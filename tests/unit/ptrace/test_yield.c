/* SPDX-License-Identifier: MIT */
/* Who gives up a processor that others compute on does so once, and sleeps from then on. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/base/clock.h"
#include "libprobe/ptrace/ptrace.h"

enum { OTHERS = 4 };

static void use_one_processor(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

static pid_t start_other(void)
{
	pid_t parent = getpid(), child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			;
		_exit(0);
	}
	assert_true(child > 0);
	return child;
}

static void test_crowded(void **state)
{
	struct yield yield = {0};
	pid_t others[OTHERS];
	cpu_set_t before;
	int tries = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	use_one_processor();
	for (int i = 0; i < OTHERS; i++)
		others[i] = start_other();
	/* Each takes some microseconds, or is the last one. */
	while (yield_once(&yield))
		tries++;
	for (int i = 0; i < OTHERS; i++) {
		kill(others[i], SIGKILL);
		waitpid(others[i], NULL, 0);
	}
	sched_setaffinity(0, sizeof(before), &before);
	assert_true(tries > 0);
	assert_true(yield.crowded_until_ns > 0);
}

/* It is tried again later. */
static void test_again(void **state)
{
	struct yield yield = {.crowded_until_ns = clock_monotonic_ns() - 1};

	(void)state;
	assert_true(yield_once(&yield));
	yield.crowded_until_ns = UINT64_MAX;
	assert_false(yield_once(&yield));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crowded),
		cmocka_unit_test(test_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
