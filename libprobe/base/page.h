/* SPDX-License-Identifier: MIT */
/*
 * Pages of memory, of the kernel's size: 4 KiB on x86-64; 4, 16 or 64 KiB on aarch64. File formats
 * that contain 4096 bytes do not depend on the kernel's size.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

uint64_t page_bytes(void);

static inline uint64_t page_of(uint64_t address)
{
	return address & ~(page_bytes() - 1);
}

/* Returns the first page that begins at an address or after it. */
static inline uint64_t page_after(uint64_t address)
{
	return page_of(address + page_bytes() - 1);
}

/* Returns true if the bytes (at least one) at `address` span more than one page. */
static inline bool page_is_crossed(uint64_t address, uint64_t length)
{
	return page_of(address) != page_of(address + length - 1);
}
