/* SPDX-License-Identifier: MIT */
/*
 * flags: -pthread
 *
 * Passes the sites of neighbours_sites.S as often as a line says, and answers "passed N wrong W";
 * at "spin", a thread passes two of them until the next "spin", which answers "spun W".
 */
#include "passes.h"

uint64_t neighbours_row(uint64_t value), neighbours_usdt(uint64_t value),
	neighbours_long(uint64_t value), neighbours_folded(uint64_t value),
	neighbours_entered(uint64_t value), neighbours_call(uint64_t value);
uint64_t neighbours_spin(const uint32_t *stop);

static uint64_t (*const functions[])(uint64_t) = {neighbours_row, neighbours_usdt, neighbours_long,
	neighbours_folded, neighbours_entered, neighbours_call};

int main(void)
{
	struct passes passes = {
		.functions = functions,
		.count = sizeof(functions) / sizeof(*functions),
		.spin = neighbours_spin,
	};

	return passes_run(&passes);
}
