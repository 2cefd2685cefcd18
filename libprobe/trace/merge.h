/* SPDX-License-Identifier: MIT */
/*
 * Sorts the hits of several targets by time. At any moment, each target has been read up to a
 * different time; call the earliest of these times T. A hit that is later than T waits here,
 * because another target may still have older hits.
 */
#ifndef LIBPROBE_TRACE_MERGE_H
#define LIBPROBE_TRACE_MERGE_H

#include <stdbool.h>
#include <stddef.h>

#include "probe/target.h"

struct merge;

/* Creates an empty merge. Returns NULL on lack of memory. */
struct merge *merge_create(void);
void merge_free(struct merge *merge);

/*
 * Copies a hit of target number `target`, with all data to which the hit points. Also copies the
 * name of the hit's thread, which may be NULL. Returns false on lack of memory.
 */
bool merge_add(struct merge *merge, size_t target, const struct probe_hit *hit, const char *comm);

/*
 * Copies all hits of another merge, as hits of target number `target`. Returns false on lack of
 * memory.
 */
bool merge_add_all(struct merge *merge, size_t target, const struct merge *from);
/* Returns how much memory the waiting hits need, in bytes. */
size_t merge_bytes(const struct merge *merge);
/*
 * Drops the oldest hits until the remaining ones take at most `bytes` bytes. Returns the number of
 * dropped hits.
 */
size_t merge_trim(struct merge *merge, size_t bytes);

/*
 * Returns true if the target is full: its waiting hits fill their share of memory, and its next
 * hits should stay in its rings.
 */
bool merge_full(const struct merge *merge, size_t target);
/* Returns true if any hit of this target is waiting. */
bool merge_holds(const struct merge *merge, size_t target);
/* Returns true if no hit of any target is waiting. */
bool merge_is_empty(const struct merge *merge);

/*
 * Returns the latest time up to which all hits of all full targets were added (see merge_full()).
 * Returns UINT64_MAX if no target is full.
 */
uint64_t merge_known_ns(const struct merge *merge);

/*
 * Removes target number `target`, which must have no waiting hits. The numbers of all later
 * targets then decrease by 1.
 */
void merge_remove(struct merge *merge, size_t target);

/*
 * Calls `visit` for every hit up to until_ns, oldest first; later hits continue to wait. Hits of
 * the same time are visited in the order in which they were added. If `visit` returns false, all
 * hits are dropped.
 */
typedef bool merge_visit(size_t target, const struct probe_hit *hit, const char *comm, void *data);
void merge_drain(struct merge *merge, uint64_t until_ns, merge_visit *visit, void *data);

#endif
