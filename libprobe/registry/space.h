/* SPDX-License-Identifier: MIT */
/* Free address space of a target. */
#ifndef LIBPROBE_REGISTRY_SPACE_H
#define LIBPROBE_REGISTRY_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "libprobe/process/maps.h"

/*
 * An address for `size` bytes of code that can reach all of [reach_start, reach_end), and be
 * reached from there; 0: there is none. Keeps away from the heap and the main stack, which grow.
 */
uint64_t space_find(
	const struct maps *maps, uint64_t size, uint64_t reach_start, uint64_t reach_end);

/* Are all pages of [start, end) free, and away from everything that grows? */
bool space_is_free(const struct maps *maps, uint64_t start, uint64_t end);

#endif
