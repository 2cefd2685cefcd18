/* SPDX-License-Identifier: MIT */
/* flags: -pthread */
/* Passes the sites of crowded_sites.S as often as a line says, and answers "passed N wrong W". */
#include "passes.h"

uint64_t crowded_folded(uint64_t value), crowded_edge4(uint64_t value);
#ifdef __x86_64__
uint64_t crowded_near(uint64_t value), crowded_edge1(uint64_t value), crowded_edge2(uint64_t value),
	crowded_edge3(uint64_t value), crowded_edge5(uint64_t value), crowded_edge6(uint64_t value);
#else
uint64_t crowded_edge8(uint64_t value);
#endif

static uint64_t (*const functions[])(uint64_t) = {crowded_folded, crowded_edge4,
#ifdef __x86_64__
	crowded_near, crowded_edge1, crowded_edge2, crowded_edge3, crowded_edge5, crowded_edge6
#else
	crowded_edge8
#endif
};

int main(void)
{
	struct passes passes = {
		.functions = functions,
		.count = sizeof(functions) / sizeof(*functions),
	};

	return passes_run(&passes);
}
