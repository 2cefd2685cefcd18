/* SPDX-License-Identifier: MIT */
/* Free address space of a target. */
#ifndef LIBPROBE_TARGET_SPACE_H
#define LIBPROBE_TARGET_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "libprobe/process/maps.h"

enum { SPACE_PAGE = 4096 };

/*
 * An address for `size` bytes of code that reaches all of [reach_start,
 * reach_end) and is reached from there; 0 where there is none. Stays clear of
 * what grows: the heap and the main stack.
 */
uint64_t space_find(
	const struct maps *maps, uint64_t size, uint64_t reach_start, uint64_t reach_end);

/* Are all pages of [start, end) free, and not where something grows? */
bool space_is_free(const struct maps *maps, uint64_t start, uint64_t end);

#endif
