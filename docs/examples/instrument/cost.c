/* SPDX-License-Identifier: MIT */
/*
 * What probes of <sys/sdt.h> cost a program, while they are off and while they are on.
 *
 *	cc -O2 -o cost cost.c
 *	./cost
 *	probectl trace -q -c -o counts 'cost:*' -- ./cost
 *
 * prints nanoseconds of an iteration, the median of some rounds.
 */
#define _SDT_HAS_SEMAPHORES 1
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sdt.h>
#include <time.h>

/* With the line above, each probe of the file needs one of these, tested or not. */
#define SEMAPHORE(name) volatile unsigned short name##_semaphore __attribute__((section(".probes")))
SEMAPHORE(cost_plain);
SEMAPHORE(cost_values);
SEMAPHORE(cost_computed);
SEMAPHORE(cost_guarded);

enum { ITERATIONS = 5000000, ROUNDS = 9 };

/* Something that only the probe needs. */
static __attribute__((noinline)) uint64_t compute(uint64_t value)
{
	for (int i = 0; i < 10; i++)
		value = value * UINT64_C(6364136223846793005) + 1442695040888963407;
	return value;
}

static __attribute__((noinline)) void loop(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		__asm__ volatile("" ::"r"(i));
}

static __attribute__((noinline)) void loop_plain(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		__asm__ volatile("" ::"r"(i));
		STAP_PROBE(cost, plain);
	}
}

static __attribute__((noinline)) void loop_values(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		STAP_PROBE3(cost, values, i, count - i, count);
}

static __attribute__((noinline)) void loop_computed(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		STAP_PROBE2(cost, computed, i, compute(i));
}

static __attribute__((noinline)) void loop_guarded(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		__asm__ volatile("" ::"r"(i));
		if (__builtin_expect(cost_guarded_semaphore, 0))
			STAP_PROBE2(cost, guarded, i, compute(i));
	}
}

static double run(void (*loop_of)(uint64_t))
{
	struct timespec before, after;

	clock_gettime(CLOCK_MONOTONIC, &before);
	loop_of(ITERATIONS);
	clock_gettime(CLOCK_MONOTONIC, &after);
	return ((double)(after.tv_sec - before.tv_sec) * 1e9 +
		       (double)(after.tv_nsec - before.tv_nsec)) /
	       ITERATIONS;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*loop)(uint64_t);
	} loops[] = {
		{"no probe", loop},
		{"a probe without arguments", loop_plain},
		{"three arguments that are there", loop_values},
		{"an argument that is computed", loop_computed},
		{"the same behind its semaphore", loop_guarded},
	};

	for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
		double ns[ROUNDS];

		for (int k = 0; k < ROUNDS; k++)
			ns[k] = run(loops[i].loop);
		qsort(ns, ROUNDS, sizeof(ns[0]), compare);
		printf("%-32s %6.2f ns\n", loops[i].name, ns[ROUNDS / 2]);
	}
	return 0;
}
