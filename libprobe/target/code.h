/* SPDX-License-Identifier: MIT */
/* Which parts of our arenas are in use: what the registry names says it. */
#ifndef LIBPROBE_TARGET_CODE_H
#define LIBPROBE_TARGET_CODE_H

#include "libprobe/target/registry.h"

/*
 * Finds room for `size` bytes, aligned, in the arenas whose every byte is
 * within reach (2 GiB) of all of [reach_start, reach_end); 0 where there is
 * none. What is in use is what the arrays name, the current image and `taken`
 * (extents handed out but not yet in an array; the new one is appended).
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

/* Keeps what was in use until now; false without memory. */
bool code_keep(struct code_taken *taken, struct code_extent extent);
/* What was handed out last is not needed, or named by the registry; or all that was. */
void code_release(struct code_taken *taken);
void code_release_all(struct code_taken *taken);

/* Could a stub at any place of [start, end) jump to and from [reach_start, reach_end)? */
bool code_reaches(uint64_t start, uint64_t end, uint64_t reach_start, uint64_t reach_end);

#endif
