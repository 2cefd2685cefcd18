/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "arch/insn.h"
#include "libprobe/base/array.h"

enum arch_move_status arch_move_inside(enum arch_flow flow)
{
	if (flow == ARCH_FLOW_NONE || flow == ARCH_FLOW_BRANCH)
		return ARCH_MOVE_OK;
	return flow == ARCH_FLOW_CALL || flow == ARCH_FLOW_INDIRECT_CALL ? ARCH_MOVE_CALL_INSIDE
									 : ARCH_MOVE_FLOW_INSIDE;
}

void arch_windows_init(
	struct arch_windows *windows, const uint64_t *sites, size_t count, uint8_t jump_length)
{
	windows->sites = sites;
	windows->count = count;
	windows->jump_length = jump_length;
	windows->has_filter = count > WINDOWS_WITHOUT_FILTER;
	if (!windows->has_filter)
		return;
	memset(windows->filter, 0, sizeof(windows->filter));
	for (size_t i = 0; i < count; i++)
		for (uint8_t k = 1; k < jump_length; k++) {
			uint64_t bit = (sites[i] + k) >> 2 & ((1 << WINDOWS_FILTER_BITS) - 1);

			windows->filter[bit / 64] |= UINT64_C(1) << (bit % 64);
		}
}

size_t arch_windows_find(const struct arch_windows *windows, uint64_t address)
{
	uint64_t bit = address >> 2 & ((1 << WINDOWS_FILTER_BITS) - 1);
	size_t above; /* the first site at or above the address */

	if (windows->has_filter && !(windows->filter[bit / 64] >> (bit % 64) & 1))
		return SIZE_MAX;
	above = array_search(windows->sites, windows->count, sizeof(*windows->sites), 0, address);
	if (above > 0 && address - windows->sites[above - 1] < windows->jump_length)
		return above - 1;
	return SIZE_MAX;
}

void arch_scan_target(const struct arch_scan *scan, uint64_t target)
{
	const struct arch_windows *w = scan->windows;
	size_t i = arch_windows_find(w, target);

	for (; i != SIZE_MAX && target - w->sites[i] < w->jump_length; i--)
		scan->reference(scan->data, i, target);
}
