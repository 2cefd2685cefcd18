/* SPDX-License-Identifier: MIT */
/*
 * Pages of memory. Their size is the kernel's, so it is the same for us and for every process: 4
 * KiB on x86-64, and 4, 16 or 64 KiB on aarch64. Formats that have 4096 bytes somewhere do not
 * depend on it.
 */
#ifndef LIBPROBE_BASE_PAGE_H
#define LIBPROBE_BASE_PAGE_H

#include <stdbool.h>
#include <stdint.h>

uint64_t page_bytes(void);

/* Where the page of an address begins. */
static inline uint64_t page_of(uint64_t address)
{
	return address & ~(page_bytes() - 1);
}

/* The first page that begins at an address or after it. */
static inline uint64_t page_after(uint64_t address)
{
	return page_of(address + page_bytes() - 1);
}

/* Do `length` bytes, at least one, lie on two pages or more? */
static inline bool page_is_crossed(uint64_t address, uint64_t length)
{
	return page_of(address) != page_of(address + length - 1);
}

#endif
