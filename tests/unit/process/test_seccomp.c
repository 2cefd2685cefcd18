/* SPDX-License-Identifier: MIT */
/* Running filters; and what the filters of this process allow it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/process/process.h"

static uint32_t run(const struct sock_filter *program, size_t length, int number, uint64_t arg0)
{
	struct seccomp_data data = {.nr = number, .args = {arg0}};

	return seccomp_run(program, length, &data);
}

#define RUN(program, number, arg0) run(program, sizeof(program) / sizeof(*(program)), number, arg0)

static void test_verdict_depends_on_the_call(void **state)
{
	static const struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 100, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 9, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	(void)state;
	assert_int_equal(RUN(program, 100, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(RUN(program, 9, 0), SECCOMP_RET_ERRNO | 1);
	assert_int_equal(RUN(program, 10, 0), SECCOMP_RET_ALLOW);
}

static void test_arithmetic_memory_and_registers(void **state)
{
	/* ((arg0 + 3) * 2 ^ 1) >> 1, kept in memory and in X, returned in A */
	static const struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 3),
		BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, 2),
		BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, 1),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 1),
		BPF_STMT(BPF_ST, 5),
		BPF_STMT(BPF_LD | BPF_IMM, 0),
		BPF_STMT(BPF_LDX | BPF_MEM, 5),
		BPF_STMT(BPF_MISC | BPF_TXA, 0),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};

	(void)state;
	assert_int_equal(RUN(program, 0, 39), 42);
}

static void test_malformed_programs_kill(void **state)
{
	static const struct sock_filter past_the_end[] = {BPF_STMT(BPF_JMP | BPF_JA, 1000)};
	static const struct sock_filter odd_load[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 62), BPF_STMT(BPF_RET | BPF_A, 0)};
	static const struct sock_filter far_memory[] = {
		BPF_STMT(BPF_LD | BPF_MEM, 1u << 20), BPF_STMT(BPF_RET | BPF_A, 0)};
	static const struct sock_filter by_zero[] = {
		BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0), BPF_STMT(BPF_RET | BPF_A, 0)};

	(void)state;
	assert_int_equal(RUN(past_the_end, 0, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(RUN(odd_load, 0, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(RUN(far_memory, 0, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(RUN(by_zero, 0, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(run(NULL, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
}

/* ---- In a process under a filter -------------------------------------------------------- */

static void install(int call, uint32_t action)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(99);
}

/* What a child reports about a kind of calls: 0 if it is as expected. */
static int trial(int call, uint32_t action, enum seccomp_kind kind, const char *name, int err)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		struct seccomp_trial found;

		if (call >= 0)
			install(call, action);
		if (seccomp_try(kind, &found))
			_exit(98);
		if (found.allowed)
			_exit(name ? 1 : 0);
		_exit(name && strcmp(found.name, name) == 0 && found.err == err ? 0 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_calls_are_tried(void **state)
{
	static const struct {
		int call;
		enum seccomp_kind kind;
		const char *name;
	} denied[] = {
		{SYS_memfd_create, SECCOMP_MAP, "memfd_create"},
		{SYS_madvise, SECCOMP_MAP, "madvise"},
		{SYS_munmap, SECCOMP_UNMAP, "munmap"},
		{SYS_gettid, SECCOMP_ASK, "gettid"},
		{SYS_futex, SECCOMP_WAIT, "futex"},
		{SYS_getcpu, SECCOMP_CPU, "getcpu"},
		{SYS_mincore, SECCOMP_STACK, "mincore"},
	};
	int mode;

	(void)state;
	for (unsigned int kind = 1; kind <= SECCOMP_ALL; kind <<= 1)
		/* aarch64's kernel knows PR_GET_TSC since Linux 6.12. */
		if (kind != SECCOMP_TIME || prctl(PR_GET_TSC, &mode) == 0)
			assert_int_equal(trial(-1, 0, kind, NULL, 0), 0);
	for (size_t i = 0; i < sizeof(denied) / sizeof(*denied); i++) {
		int call = denied[i].call;
		enum seccomp_kind kind = denied[i].kind;
		const char *name = denied[i].name;

		assert_int_equal(trial(call, SECCOMP_RET_KILL_PROCESS, kind, name, 0), 0);
		assert_int_equal(trial(call, SECCOMP_RET_KILL_THREAD, kind, name, 0), 0);
		assert_int_equal(trial(call, SECCOMP_RET_TRAP, kind, name, 0), 0);
		assert_int_equal(trial(call, SECCOMP_RET_ERRNO | EACCES, kind, name, EACCES), 0);
		assert_int_equal(trial(call, SECCOMP_RET_TRACE, kind, name, ENOSYS), 0);
		assert_int_equal(trial(call, SECCOMP_RET_LOG, kind, NULL, 0), 0);
	}
	/* The result that stubs expect, for a different call. */
	assert_int_equal(trial(SYS_rt_sigprocmask, SECCOMP_RET_ERRNO | EFAULT, SECCOMP_ASK,
				 "rt_sigprocmask", EFAULT),
		0);
}

/* Our own calls: in a process with one of our filters, returns 0 if all is well. */
static int look_at_own(int call, uint32_t action, unsigned int forbidden, const char *why)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		struct probe_error *error;

		install(call, action);
		error = seccomp_check_own();
		if (!error != !why || (error && !strstr(error->message, why)))
			_exit(1);
		for (unsigned int kind = SECCOMP_OWN_TRACE; kind < SECCOMP_OWN_END; kind <<= 1)
			if (!error && seccomp_may_call(kind) != !(kind & forbidden))
				_exit(2);
		/* One more filter: checked again. */
		install(SYS_kcmp, SECCOMP_RET_KILL_PROCESS);
		probe_error_free(error);
		error = seccomp_check_own();
		_exit(!error == !why && !seccomp_may_call(SECCOMP_OWN_KCMP) == !why ? 0 : 3);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static void test_what_is_ours_to_call(void **state)
{
	static const struct {
		int call;
		unsigned int kind;
	} optional[] = {
		{SYS_kcmp, SECCOMP_OWN_KCMP},
		{SYS_sched_getattr, SECCOMP_OWN_URGENT},
		{SYS_sched_setattr, SECCOMP_OWN_URGENT},
		{SYS_sched_setaffinity, SECCOMP_OWN_MOVE},
		{SYS_sched_yield, SECCOMP_OWN_MOVE},
		{SYS_madvise, SECCOMP_OWN_REMOVE},
		{SYS_pidfd_open, SECCOMP_OWN_TAKE},
		{SYS_pidfd_getfd, SECCOMP_OWN_TAKE},
		{SYS_statx, SECCOMP_OWN_DIRECT | SECCOMP_OWN_CACHED},
		{SYS_openat2, SECCOMP_OWN_CACHED},
		{SYS_ioctl, SECCOMP_OWN_PAGES},
	};
	static const uint32_t actions[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD,
		SECCOMP_RET_TRAP, SECCOMP_RET_ERRNO | EPERM};

	(void)state;
	for (size_t k = 0; k < sizeof(actions) / sizeof(*actions); k++) {
		bool kills = k < 3;

		for (size_t i = 0; i < sizeof(optional) / sizeof(*optional); i++)
			assert_int_equal(
				look_at_own(optional[i].call, actions[k], optional[i].kind, NULL),
				0);
		assert_int_equal(look_at_own(SYS_ptrace, actions[k], 0,
					 kills ? "would kill probectl for calling ptrace"
					       : "keeps probectl from calling ptrace"),
			0);
	}
	assert_int_equal(look_at_own(SYS_getcwd, SECCOMP_RET_KILL_PROCESS, 0, NULL), 0);
}

/* The children of a process with a filter have the same one. */
static void test_whose_filters(void **state)
{
	int status;
	pid_t child = fork();

	(void)state;
	assert_false(seccomp_is_same(getpid(), 0));
	if (child == 0) {
		pid_t inner;

		install(SYS_kcmp, SECCOMP_RET_ERRNO | EPERM);
		inner = fork();
		if (inner == 0) {
			pid_t sibling = getppid();

			if (!seccomp_is_same(sibling, 1) || seccomp_is_same(sibling, 2))
				_exit(1);
			/* With one more, it no longer equals the parent's. */
			install(SYS_kcmp, SECCOMP_RET_ERRNO | EPERM);
			_exit(seccomp_is_same(sibling, 1) ? 2 : 0);
		}
		_exit(waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status)
									       : 3);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdict_depends_on_the_call),
		cmocka_unit_test(test_arithmetic_memory_and_registers),
		cmocka_unit_test(test_malformed_programs_kill),
		cmocka_unit_test(test_calls_are_tried),
		cmocka_unit_test(test_what_is_ours_to_call),
		cmocka_unit_test(test_whose_filters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
