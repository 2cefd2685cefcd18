/* SPDX-License-Identifier: MIT */
/*
 * flags: -pthread
 *
 * Passes the sites of rows_sites.S as often as a line says, and answers "passed N wrong W"; at
 * "spin", a thread passes a row of them until the next "spin", which answers "spun W".
 */
#include "passes.h"

uint64_t rows_1(uint64_t value), rows_2(uint64_t value), rows_41(uint64_t value),
	rows_400(uint64_t value), rows_branch(uint64_t value), rows_hop(uint64_t value);
uint64_t rows_spin(const uint32_t *stop);

static uint64_t (*const functions[])(uint64_t) = {
	rows_1, rows_2, rows_41, rows_400, rows_branch, rows_hop};

int main(void)
{
	struct passes passes = {
		.functions = functions,
		.count = sizeof(functions) / sizeof(*functions),
		.spin = rows_spin,
	};

	return passes_run(&passes);
}
