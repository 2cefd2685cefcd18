/* SPDX-License-Identifier: MIT */
/* Restartable sequences that a kernel does not end: what the trial of it is made of. */
#include <sys/wait.h>
#include <unistd.h>

#include "arch/process.h"
#include "libprobe/ptrace/ptrace.h"
#include "tests/unit/skip.h"

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* The trial leaves nothing: neither a child nor another processor set. */
static void nothing_is_left(void **state)
{
	bool is_sound = rseq_is_sound();

	(void)state;
	if (!arch_process()->sequence)
		assert_true(is_sound);
	assert_int_equal(rseq_is_sound(), is_sound);
	assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
	print_message("sequences are %s\n", is_sound ? "ended" : "not always ended");
}

static void sequences_end(void **state)
{
	uint32_t begun = 0, told = 0;
	enum arch_sequence ended = ARCH_SEQUENCE_ABORTED;
	void *area;

	(void)state;
	if (!arch_process()->sequence)
		skip_because("no kernel is suspected on this machine");
	if (!&__rseq_offset || !&__rseq_size || !__rseq_size)
		skip_because("the C library does not register restartable sequences");
	area = (char *)__builtin_thread_pointer() + __rseq_offset;
	while (ended == ARCH_SEQUENCE_ABORTED)
		ended = arch_process()->sequence(area, &begun, &told, 100);
	assert_int_equal(ended, ARCH_SEQUENCE_OVER);
	assert_int_equal(begun, 1);
	told = 1;
	do
		ended = arch_process()->sequence(area, &begun, &told, 100);
	while (ended == ARCH_SEQUENCE_ABORTED);
	assert_int_equal(ended, ARCH_SEQUENCE_TOLD);
	assert_int_equal(((uint64_t *)area)[1], 0); /* rseq_cs */
}

/* Whatever is waited for, another process takes its place in time. */
static void long_ones_are_aborted(void **state)
{
	uint32_t begun = 0, told = 0;
	pid_t other;

	(void)state;
	if (!arch_process()->sequence)
		skip_because("no kernel is suspected on this machine");
	if (!&__rseq_offset || !&__rseq_size || !__rseq_size)
		skip_because("the C library does not register restartable sequences");
	if (!rseq_is_sound())
		skip_because("this kernel does not end sequences");
	other = fork();
	if (other == 0)
		for (;;)
			;
	while (arch_process()->sequence((char *)__builtin_thread_pointer() + __rseq_offset, &begun,
		       &told, 1000000) != ARCH_SEQUENCE_ABORTED)
		;
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_left),
		cmocka_unit_test(sequences_end),
		cmocka_unit_test(long_ones_are_aborted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
