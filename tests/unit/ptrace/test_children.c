/* SPDX-License-Identifier: MIT */
/*
 * Which processes are a process's children, and which share its memory, even if a filter denies
 * kcmp(2).
 */
/* Not under ThreadSanitizer: it knows no processes that share memory. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/ptrace/ptrace.h"
#include "tests/unit/wait.h"

/* If a test fails, nobody else ends it. */
static int wait_for_ever(void *unused)
{
	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
	return 0;
}

static void check(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	pid_t shares = clone(wait_for_ever, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	pid_t apart = fork();

	if (apart == 0)
		wait_for_ever(NULL);
	assert_true(shares > 0 && apart > 0);
	assert_true(children_share(getpid(), shares));
	assert_true(children_share(shares, getpid()));
	assert_false(children_share(getpid(), apart));
	assert_false(children_share(shares, apart));
	kill(shares, SIGKILL);
	kill(apart, SIGKILL);
	assert_int_equal(waitpid(shares, NULL, 0), shares);
	assert_int_equal(waitpid(apart, NULL, 0), apart);
	assert_false(children_share(getpid(), apart));
}

/* ---- Children that end while they are listed --------------------------------------------- */

enum { MORTALS = 100, ROUNDS = 100 };

static bool is_listed(pid_t pid)
{
	pid_t *children = children_apart(getpid());
	bool found = false;

	for (size_t i = 0; children && children[i]; i++)
		found = found || children[i] == pid;
	free(children);
	return found;
}

/* Those that end were begun before, so they are listed before it. Nobody waits for them. */
static void test_others_end(void **state)
{
	(void)state;
	signal(SIGCHLD, SIG_IGN);
	for (int round = 0; round < ROUNDS; round++) {
		int end[2];
		pid_t pid;

		assert_int_equal(pipe(end), 0);
		for (int i = 0; i < MORTALS; i++)
			if (fork() == 0) {
				char byte;

				close(end[1]);
				_exit(read(end[0], &byte, 1) > 0);
			}
		pid = fork();
		if (pid == 0) {
			close(end[1]);
			wait_for_ever(NULL);
		}
		assert_true(pid > 0);
		close(end[0]);
		close(end[1]);
		for (int i = 0; i < 20; i++)
			assert_true(is_listed(pid));
		kill(pid, SIGKILL);
		wait_until(kill(pid, 0) != 0);
	}
	signal(SIGCHLD, SIG_DFL);
}

static void test_kcmp(void **state)
{
	(void)state;
	check();
}

/* From here on, calling it is forbidden. */
static void test_without_kcmp(void **state)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kcmp, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};

	(void)state;
	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
	check();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_others_end),
		cmocka_unit_test(test_kcmp),
		cmocka_unit_test(test_without_kcmp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
