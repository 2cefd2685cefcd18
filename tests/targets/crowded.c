/* SPDX-License-Identifier: MIT */
/* Passes the sites of crowded_sites.S as often as a line says, and answers "passed N wrong W". */
#include "target.h"

uint64_t crowded_near(uint64_t value), crowded_folded(uint64_t value),
	crowded_edge1(uint64_t value), crowded_edge2(uint64_t value), crowded_edge3(uint64_t value),
	crowded_edge4(uint64_t value), crowded_edge5(uint64_t value), crowded_edge6(uint64_t value);

static uint64_t (*const functions[])(uint64_t) = {crowded_near, crowded_folded, crowded_edge1,
	crowded_edge2, crowded_edge3, crowded_edge4, crowded_edge5, crowded_edge6};

int main(void)
{
	char line[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	target_allow_tracing();
	printf("ready %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t rounds = strtoull(line, NULL, 10), wrong = 0;

		for (uint64_t i = 0; i < rounds; i++)
			for (size_t k = 0; k < sizeof(functions) / sizeof(*functions); k++)
				wrong += functions[k](i) != i + 10;
		printf("passed %llu wrong %llu\n", (unsigned long long)rounds,
			(unsigned long long)wrong);
	}
	return 0;
}
