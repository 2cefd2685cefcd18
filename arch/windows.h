/* SPDX-License-Identifier: MIT */
/*
 * Windows of sites: the addresses inside a site's coming jump, [site + 1, site + jump_length),
 * where no code may jump.
 */
#ifndef ARCH_WINDOWS_H
#define ARCH_WINDOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WINDOWS_FILTER_BITS = 16 };

struct arch_windows {
	const uint64_t *sites; /* sorted, distinct; borrowed */
	size_t count;
	uint8_t jump_length;
	/*
	 * A bit for each 4 bytes of addresses, modulo 2^16: if clear, the address is in no window.
	 */
	uint64_t filter[(1 << WINDOWS_FILTER_BITS) / 64];
};

void arch_windows_init(
	struct arch_windows *windows, const uint64_t *sites, size_t count, uint8_t jump_length);

/*
 * Returns the highest site whose window contains an address, before which are others; or SIZE_MAX.
 */
size_t arch_windows_find(const struct arch_windows *windows, uint64_t address);

#endif
