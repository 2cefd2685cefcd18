/* SPDX-License-Identifier: MIT */
/* Which parts of our arenas are in use, according to the registry. */
#ifndef LIBPROBE_REGISTRY_CODE_H
#define LIBPROBE_REGISTRY_CODE_H

#include "libprobe/registry/registry.h"

/*
 * Finds aligned room for `size` bytes in an arena within reach of a jump of all of [reach_start,
 * reach_end); 0: there is none. What is in use is what the arrays name, the current image and
 * `taken` (extents handed out but not yet in an array; the new one is appended).
 */
struct code_extent {
	uint64_t start, size;
};
struct code_taken {
	struct code_extent *items;
	size_t count;
};
uint64_t code_alloc(const struct registry *registry, struct code_taken *taken, size_t size,
	size_t alignment, uint64_t reach_start, uint64_t reach_end);

/* Does an address lie in an arena that code is allocated in? A single page is a pun's. */
bool code_arena(const struct registry *registry, uint64_t address);

/* Takes `size` bytes there, unless they are in use. */
bool code_take(
	const struct registry *registry, struct code_taken *taken, uint64_t start, size_t size);

/* Keeps in use what was so until now; false without memory. */
bool code_keep(struct code_taken *taken, struct code_extent extent);
/*
 * Forgets what was handed out last, because it is not needed or is in the registry by now; or all
 * of it.
 */
void code_release(struct code_taken *taken);
void code_release_all(struct code_taken *taken);

/* Could a stub at any place of [start, end) jump to and from [reach_start, reach_end)? */
bool code_reaches(uint64_t start, uint64_t end, uint64_t reach_start, uint64_t reach_end);

#endif
