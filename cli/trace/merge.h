/* SPDX-License-Identifier: MIT */
/*
 * Hits of several targets, put into the order of time. Each target is read up to an instant of its
 * own; what is later than the first of these waits here for what the others still have.
 */
#ifndef CLI_TRACE_MERGE_H
#define CLI_TRACE_MERGE_H

#include <stdbool.h>
#include <stddef.h>

#include "probe/target.h"

struct merge;

/* NULL without memory. */
struct merge *merge_create(void);
void merge_free(struct merge *merge);

/*
 * Copies a hit of target number `target`, with all it points to, and the name of its thread, or
 * NULL. False without memory.
 */
bool merge_add(struct merge *merge, size_t target, const struct probe_hit *hit, const char *comm);

/* Copies all hits of another merge, as hits of this target. False without memory. */
bool merge_add_all(struct merge *merge, size_t target, const struct merge *from);
/* The memory that the hits take. */
size_t merge_bytes(const struct merge *merge);
/* Forgets the oldest hits, until those that are left take at most so much; returns how many. */
size_t merge_trim(struct merge *merge, size_t bytes);

/* So many hits of this target are waiting that its next ones should stay where they are. */
bool merge_full(const struct merge *merge, size_t target);
/* Are hits of this target waiting? */
bool merge_holds(const struct merge *merge, size_t target);
/* Are any? */
bool merge_is_empty(const struct merge *merge);

/*
 * The time up to which the hits of full targets are here: they have later ones, which were not
 * added. UINT64_MAX if none is full.
 */
uint64_t merge_known_ns(const struct merge *merge);

/* Target number `target`, of which no hit is waiting, is no more: those behind it move up. */
void merge_remove(struct merge *merge, size_t target);

/*
 * Calls `visit` with every hit up to this time, oldest first; later ones go on waiting. If it
 * returns false, all are forgotten. Hits of the same time keep the order in which they were added.
 */
typedef bool merge_visit(size_t target, const struct probe_hit *hit, const char *comm, void *data);
void merge_drain(struct merge *merge, uint64_t until_ns, merge_visit *visit, void *data);

#endif
