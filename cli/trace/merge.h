/* SPDX-License-Identifier: MIT */
/* Hits of several targets, collected in one poll round and put into order of time. */
#ifndef CLI_TRACE_MERGE_H
#define CLI_TRACE_MERGE_H

#include <stdbool.h>
#include <stddef.h>

#include "probe/target.h"

struct merge;

/* NULL without memory. */
struct merge *merge_create(void);
void merge_free(struct merge *merge);

/* Copies a hit of target number `target`, with all it points to. False without memory. */
bool merge_add(struct merge *merge, size_t target, const struct probe_hit *hit);

/* So many are waiting that they should be taken out before more are added. */
bool merge_full(const struct merge *merge);

/*
 * Calls `visit` with every hit, oldest first, until it returns false; forgets
 * them all. Hits of the same time keep the order in which they were added.
 */
void merge_drain(struct merge *merge,
	bool (*visit)(size_t target, const struct probe_hit *hit, void *data), void *data);

#endif
