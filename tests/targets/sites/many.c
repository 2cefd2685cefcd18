/* SPDX-License-Identifier: MIT */
/*
 * Passes ten thousand probes (many_sites.S) ROUNDS times, between two waits;
 * prints "passed N".
 */
#include "../target.h"

uint64_t many_pass(void);

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? (unsigned int)atoi(argv[1]) : 1;
	uint64_t passed = 0;

	target_allow_tracing();
	target_wait();
	for (unsigned int i = 0; i < rounds; i++)
		passed += many_pass();
	printf("passed %llu\n", (unsigned long long)passed);
	fflush(stdout);
	target_wait();
	return 0;
}
