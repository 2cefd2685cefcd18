/* SPDX-License-Identifier: MIT */
/*
 * Sorts the hits of several targets by time. Each target has been read up to a different time.
 * A hit that is later than the earliest of these times waits here, because another target may
 * still have older hits.
 */
#ifndef CLI_TRACE_MERGE_H
#define CLI_TRACE_MERGE_H

#include <stdbool.h>
#include <stddef.h>

#include "probe/target.h"

struct merge;

/* Creates an empty merge. NULL on lack of memory. */
struct merge *merge_create(void);
void merge_free(struct merge *merge);

/*
 * Copies a hit of target number `target`, with all data it points to, and the name of its
 * thread, which may be NULL. Returns false on lack of memory.
 */
bool merge_add(struct merge *merge, size_t target, const struct probe_hit *hit, const char *comm);

/* Copies all hits of another merge, as hits of this target. Returns false on lack of memory. */
bool merge_add_all(struct merge *merge, size_t target, const struct merge *from);
/* The size of the waiting hits in memory. */
size_t merge_bytes(const struct merge *merge);
/*
 * Drops the oldest hits until the rest take at most `bytes` bytes. Returns the number of
 * dropped hits.
 */
size_t merge_trim(struct merge *merge, size_t bytes);

/* Whether so many hits of this target are waiting that its next hits should stay in its rings. */
bool merge_full(const struct merge *merge, size_t target);
/* Whether hits of this target are waiting. */
bool merge_holds(const struct merge *merge, size_t target);
/* Whether no hits are waiting. */
bool merge_is_empty(const struct merge *merge);

/*
 * The time up to which all hits of full targets have been added; later hits of these targets
 * were not added. UINT64_MAX if no target is full.
 */
uint64_t merge_known_ns(const struct merge *merge);

/*
 * Removes target number `target`, which must have no waiting hits. The numbers of later targets
 * decrease by 1.
 */
void merge_remove(struct merge *merge, size_t target);

/*
 * Calls `visit` for every hit up to until_ns, oldest first; later hits go on waiting. If
 * `visit` returns false, all hits are dropped. Hits of the same time are visited in the order
 * in which they were added.
 */
typedef bool merge_visit(size_t target, const struct probe_hit *hit, const char *comm, void *data);
void merge_drain(struct merge *merge, uint64_t until_ns, merge_visit *visit, void *data);

#endif
