/* SPDX-License-Identifier: MIT */
/* Counts by call stack: what the table of allocations (heap.c) is made of. */
#ifndef LIBPROBE_SESSION_STACKS_H
#define LIBPROBE_SESSION_STACKS_H

#include "libprobe/base/error.h"
#include "probe/stacks.h"

/*
 * The same as probe_stacks_add(). *ret is the index of the stack, which it keeps; SIZE_MAX if there
 * was no room for it. Indices are counted from 0 in the order in which stacks come.
 */
PROBE_MUST_CHECK struct probe_error *stacks_count(struct probe_stacks *stacks,
	const struct probe_session_probe *probe, const char *comm, const struct probe_stack *stack,
	uint64_t count, size_t *ret);

/* The row of the stack with this index. */
struct probe_stacks_row stacks_row(const struct probe_stacks *stacks, size_t index);

/* The greatest count first. */
void stacks_sort(struct probe_stacks_row *rows, size_t count);

#endif
