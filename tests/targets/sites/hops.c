/* SPDX-License-Identifier: MIT */
/*
 * flags: -pthread
 *
 * Passes the sites of hops_sites.S as often as a line says, and answers "passed N wrong W";
 * at "spin", a thread passes one of them until the next "spin", which answers "spun W".
 */
#include "passes.h"

uint64_t hops_branch(uint64_t value), hops_twice(uint64_t value), hops_row(uint64_t value),
	hops_between(uint64_t value), hops_last(uint64_t value), hops_after(uint64_t value),
	hops_none(uint64_t value);
uint64_t hops_spin(const uint32_t *stop);

static uint64_t (*const functions[])(uint64_t) = {
	hops_branch, hops_twice, hops_row, hops_between, hops_last, hops_after, hops_none};

int main(void)
{
	struct passes passes = {
		.functions = functions,
		.count = sizeof(functions) / sizeof(*functions),
		.first = 1,
		.spin = hops_spin,
	};

	return passes_run(&passes);
}
