/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "arch/windows.h"
#include "libprobe/base/array.h"

void arch_windows_init(
	struct arch_windows *windows, const uint64_t *sites, size_t count, uint8_t jump_length)
{
	*windows =
		(struct arch_windows){.sites = sites, .count = count, .jump_length = jump_length};
	for (size_t i = 0; i < count; i++)
		for (uint8_t k = 1; k < jump_length; k++) {
			uint64_t bit = (sites[i] + k) >> 2 & ((1 << WINDOWS_FILTER_BITS) - 1);

			windows->filter[bit / 64] |= UINT64_C(1) << (bit % 64);
		}
}

size_t arch_windows_search(const struct arch_windows *windows, uint64_t address)
{
	/* The first site at or above the address. */
	size_t low =
		array_search(windows->sites, windows->count, sizeof(*windows->sites), 0, address);

	if (low > 0 && address - windows->sites[low - 1] < windows->jump_length)
		return low - 1;
	return SIZE_MAX;
}
