/* SPDX-License-Identifier: MIT */
/*
 * A loop that calls a function with three integers, for function tracers (uftrace, built with
 * -pg): `called HITS` prints the nanoseconds per iteration.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

__attribute__((noinline)) static uint64_t called(uint64_t left, uint64_t done, uint64_t hits)
{
	__asm__ volatile("" ::"r"(left), "r"(done), "r"(hits));
	return done;
}

__attribute__((no_instrument_function)) int main(int argc, char **argv)
{
	uint64_t hits = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
	struct timespec begin, end;
	uint64_t sum = 0;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (uint64_t i = 0; i < hits; i++)
		sum += called(hits - i, i, hits);
	clock_gettime(CLOCK_MONOTONIC, &end);
	__asm__ volatile("" ::"r"(sum));
	printf("%.2f\n", ((double)(end.tv_sec - begin.tv_sec) * 1e9 +
				 (double)(end.tv_nsec - begin.tv_nsec)) /
				 (double)hits);
	return 0;
}
