/* SPDX-License-Identifier: MIT */
/*
 * Shared by the test targets: clocks, permission to be traced, and waiting for the test script.
 *
 * A script drives a target through its standard input: a target that is ready prints one line,
 * and continues when it gets one.
 */
#ifndef TESTS_TARGET_H
#define TESTS_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t target_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Yama's ptrace_scope 1 lets only ancestors trace, which the test is not. */
static inline void target_allow_tracing(void)
{
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

/*
 * Called right after a probe: instructions that a jump can replace and that nothing enters.
 * Without them, the compiler's code may allow only a pun, which is refused if the address it
 * happens to name is taken: the heap begins at another place in each run.
 */
static inline void target_room_behind(void)
{
#ifdef __x86_64__
	__asm__ volatile("xchg %ax, %ax; xchg %ax, %ax; xchg %ax, %ax");
#endif
}

/*
 * Overwrites what calls have left below the stack pointer. Otherwise the frame of a handler that
 * has returned may look alive: some word, left somewhere, may happen to point there.
 */
__attribute__((noinline, unused)) static void target_use_stack(void)
{
	volatile char used[64 << 10];

	for (size_t i = 0; i < sizeof(used); i++)
		used[i] = 0;
}

/*
 * Reads one line, without its newline, byte by byte: the rest stays in the pipe, and children
 * inherit no stdio buffer. False at the end of file.
 */
static inline bool target_read_line(char *line, size_t size)
{
	size_t used = 0;
	char byte;

	while (read(STDIN_FILENO, &byte, 1) == 1) {
		if (byte == '\n') {
			line[used] = '\0';
			return true;
		}
		if (used + 1 < size)
			line[used++] = byte;
	}
	line[used] = '\0';
	return used > 0;
}

/* Reports that it is ready, and waits for a line or the end of the input. */
static inline void target_wait(void)
{
	char line[64];

	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	(void)target_read_line(line, sizeof(line));
}

#endif
