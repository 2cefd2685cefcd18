/* SPDX-License-Identifier: MIT */
/*
 * flags: -pthread
 *
 * Passes the sites of heads_sites.S as often as a line says, and answers "passed N wrong W";
 * at "spin", a thread passes one of them until the next "spin", which answers "spun W".
 */
#include "passes.h"

uint64_t heads_odd(uint64_t value), heads_branch(uint64_t value), heads_entered(uint64_t value),
	heads_first(uint64_t value);
uint64_t heads_spin(const uint32_t *stop);

static uint64_t (*const functions[])(uint64_t) = {
	heads_odd, heads_branch, heads_entered, heads_first};

int main(void)
{
	struct passes passes = {
		.functions = functions,
		.count = sizeof(functions) / sizeof(*functions),
		.first = 1,
		.spin = heads_spin,
	};

	return passes_run(&passes);
}
