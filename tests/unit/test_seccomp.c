/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "libprobe/seccomp.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdict_depends_on_the_call),
		cmocka_unit_test(test_arithmetic_memory_and_registers),
		cmocka_unit_test(test_malformed_programs_kill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
