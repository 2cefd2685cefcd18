/* SPDX-License-Identifier: MIT */
/*
 * The windows of a set of sites. A window holds the addresses inside the jump that is to be written
 * at a site, [site + 1, site + jump_length): no code may jump there.
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
	 * One bit for each 4-byte granule of addresses, modulo 2^16. If an address's bit is clear,
	 * the address is in no window.
	 */
	uint64_t filter[(1 << WINDOWS_FILTER_BITS) / 64];
};

void arch_windows_init(
	struct arch_windows *windows, const uint64_t *sites, size_t count, uint8_t jump_length);

/*
 * Returns the index of the site whose window contains an address, or SIZE_MAX. If several windows
 * contain it, returns the highest of their sites. The lower ones are right before it.
 */
size_t arch_windows_find(const struct arch_windows *windows, uint64_t address);

#endif
