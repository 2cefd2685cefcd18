/* SPDX-License-Identifier: MIT */
/* Passes the sites of adjacent_sites.S ROUNDS times between two waits; prints
 * "passed N wrong M". flags: -D_GNU_SOURCE */
#include "../target.h"

uint64_t adjacent_pass(uint64_t value);

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000, wrong = 0;

	target_allow_tracing();
	target_wait();
	for (uint64_t i = 0; i < rounds; i++)
		wrong += adjacent_pass(i) != i + 10;
	printf("passed %llu wrong %llu\n", (unsigned long long)rounds, (unsigned long long)wrong);
	fflush(stdout);
	target_wait();
	return wrong ? 1 : 0;
}
