/* SPDX-License-Identifier: MIT */
/* Registers of a stopped thread: each is what the thread says of itself, and can be written. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/ptrace/ptrace.h"

enum { MARK = 0x1234, ELSE = 77 };

/* A child that exits with what a system call with a marked argument returns, which fails. */
static pid_t start(void)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		ptrace(PTRACE_TRACEME);
		raise(SIGSTOP);
		_exit((int)syscall(SYS_dup3, MARK, -1, 0, 0, 0));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status));
	return pid;
}

static void go(pid_t pid, int *status_ret)
{
	assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, status_ret, 0), pid);
}

/* Before its call, and after it. */
static void they_are_read_and_written(void **state)
{
	pid_t pid = start();
	struct arch_registers registers, again;
	int status;

	(void)state;
	do {
		go(pid, &status);
		assert_true(WIFSTOPPED(status));
		memset(&registers, 0x55, sizeof(registers));
		assert_true(registers_read(pid, &registers));
	} while (arch_get(&registers, ARCH_CALL) != SYS_dup3);
	assert_int_equal(arch_get(&registers, ARCH_ARG0), MARK);
	assert_true(arch_get(&registers, ARCH_TP) == (uint64_t)__builtin_thread_pointer());
	assert_in_range(arch_get(&registers, ARCH_SP), (uintptr_t)&status - (1 << 20),
		(uintptr_t)&status + (1 << 20));
	assert_true(arch_get(&registers, ARCH_PC) != 0);
	/* Written unchanged, they are as before. */
	assert_true(registers_write(pid, &registers));
	assert_true(registers_read(pid, &again));
	assert_memory_equal(&registers, &again, arch_process()->register_bytes);
	for (int i = 0; i < ARCH_REGISTERS; i++)
		assert_true(arch_get(&registers, i) == arch_get(&again, i));
	/* A call that is none is not made; what it returns can be said afterwards. */
	arch_set(&registers, ARCH_CALL, UINT64_MAX);
	assert_true(registers_write(pid, &registers));
	go(pid, &status);
	assert_true(registers_read(pid, &registers));
	arch_set(&registers, ARCH_RESULT, ELSE);
	assert_true(registers_write(pid, &registers));
	assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), ELSE);
}

static void a_thread_that_is_gone_has_none(void **state)
{
	pid_t pid = start();
	struct arch_registers registers;
	int status;

	(void)state;
	assert_true(registers_read(pid, &registers));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_false(registers_read(pid, &registers));
	assert_false(registers_write(pid, &registers));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_are_read_and_written),
		cmocka_unit_test(a_thread_that_is_gone_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
