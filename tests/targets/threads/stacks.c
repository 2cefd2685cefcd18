/* SPDX-License-Identifier: MIT */
/*
 * A known tree of calls, compiled without frame pointers; stacks_frames.c has them.
 * flags: -D_GNU_SOURCE -fomit-frame-pointer -fno-optimize-sibling-calls
 *
 *	stacks [ROUNDS]		waits, calls, prints "hits N", waits
 *
 *	main -> calls -+-> left -> leaf			stacks:call, once a round
 *		       +-> right -> middle -> leaf	stacks:call, twice
 *	main -> recurse (x 5) -> bottom			stacks:recursion, once
 *	main -> deep (x 200) -> bottom			stacks:deep, once
 *	main -> interrupted -> SIGILL -> on_illegal -> on_signal	stacks:signal, once
 *	main -> big -> behind_big			stacks:big, once; big's frame
 *							has BIG_BYTES
 */
#include <signal.h>
#include <string.h>
#include <sys/sdt.h>
#include <ucontext.h>

#include "../target.h"

enum { BIG_BYTES = 20000, RECURSION = 5, DEPTH = 200 };

/* Code after a call keeps it from becoming a tail call. */
#ifndef PROTECTED
#define PROTECTED /* see stacks_signed.c */
#endif
#define CALL PROTECTED __attribute__((noinline, noclone)) static
#define KEEP(value) __asm__ volatile("" : "+r"(value)::"memory")

static volatile unsigned long hits;

CALL unsigned long leaf(unsigned long round)
{
	hits++;
	STAP_PROBE1(stacks, call, round);
	KEEP(round);
	return round;
}

CALL unsigned long middle(unsigned long round)
{
	unsigned long result = leaf(round) + 1;

	KEEP(result);
	return result;
}

CALL unsigned long left(unsigned long round)
{
	unsigned long result = leaf(round) + 2;

	KEEP(result);
	return result;
}

CALL unsigned long right(unsigned long round)
{
	unsigned long result = middle(round);

	KEEP(result);
	result += middle(round + 1);
	KEEP(result);
	return result;
}

CALL unsigned long calls(unsigned long round)
{
	unsigned long result = left(round);

	KEEP(result);
	result += right(round);
	KEEP(result);
	return result;
}

CALL unsigned long bottom(unsigned long depth)
{
	hits++;
	if (depth == RECURSION) {
		STAP_PROBE1(stacks, recursion, depth);
		target_room_behind();
	} else {
		STAP_PROBE1(stacks, deep, depth);
		target_room_behind();
	}
	KEEP(depth);
	return depth;
}

CALL unsigned long recurse(unsigned long left_to_go)
{
	unsigned long result = left_to_go > 1 ? recurse(left_to_go - 1) : bottom(RECURSION);

	KEEP(result);
	return result + 1;
}

CALL unsigned long deep(unsigned long left_to_go)
{
	unsigned long result = left_to_go > 1 ? deep(left_to_go - 1) : bottom(DEPTH);

	KEEP(result);
	return result + 1;
}

CALL void on_signal(int number)
{
	unsigned long value = (unsigned long)number;

	hits++;
	STAP_PROBE1(stacks, signal, value);
	KEEP(value);
}

/* An undefined instruction, and the place behind it. */
#ifdef __x86_64__
#define UNDEFINED "ud2"
#define AFTER_UNDEFINED(context) ((context)->uc_mcontext.gregs[REG_RIP] += 2)
#else
#define UNDEFINED "udf #0"
#define AFTER_UNDEFINED(context) ((context)->uc_mcontext.pc += 4)
#endif

CALL void on_illegal(int number, siginfo_t *info, void *context)
{
	ucontext_t *interrupted_at = context;

	(void)info;
	AFTER_UNDEFINED(interrupted_at);
	on_signal(number);
}

/* Here the signal comes at a known instruction, and not in a call. */
CALL unsigned long interrupted(unsigned long value)
{
	value++;
	__asm__ volatile(UNDEFINED : "+r"(value)::"memory");
	return value;
}

CALL unsigned long behind_big(char *bytes)
{
	unsigned long value = (unsigned char)bytes[BIG_BYTES / 2];

	hits++;
	STAP_PROBE1(stacks, big, value);
	KEEP(value);
	return value;
}

CALL unsigned long big(unsigned long value)
{
	char bytes[BIG_BYTES];

	memset(bytes, (int)value, sizeof(bytes));
	value = behind_big(bytes);
	KEEP(value);
	return value + (unsigned char)bytes[1];
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 100, sum = 0;
	struct sigaction action = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};

	target_allow_tracing();
	sigaction(SIGILL, &action, NULL);
	target_wait();
	for (unsigned long i = 0; i < rounds; i++)
		sum += calls(i);
	sum += recurse(RECURSION);
	sum += deep(DEPTH);
	sum += interrupted(sum);
	sum += big(sum);
	printf("hits %lu\n", hits);
	fflush(stdout);
	target_wait();
	return sum == 0;
}
