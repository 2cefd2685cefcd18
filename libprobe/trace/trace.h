/* SPDX-License-Identifier: MIT */
/* The parts of a trace (probe/trace.h): the order of hits, sums, and which processes are meant. */
#ifndef LIBPROBE_TRACE_TRACE_H
#define LIBPROBE_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/buffer.h"
#include "probe/processes.h"
#include "probe/trace.h"
#include "probe/watch.h"

/* ---- Merge (merge.c) ------------------------------------------------------------- */

/*
 * Sorts the hits of several targets by time. Each target was read up to a different time; hits
 * after the earliest of these times wait, because another target may still have older ones.
 */
struct merge;

/* Creates an empty merge. Returns NULL on lack of memory. */
struct merge *merge_create(void);
void merge_free(struct merge *merge);

/*
 * Copies a hit of a target with all its data, and its thread's name (or NULL). Returns false on
 * lack of memory.
 */
bool merge_add(struct merge *merge, size_t target, const struct probe_hit *hit, const char *comm);

/* Copies all hits of another merge, as a target's. Returns false on lack of memory. */
bool merge_add_all(struct merge *merge, size_t target, const struct merge *from);
/* Returns how much memory the waiting hits need, in bytes. */
size_t merge_bytes(const struct merge *merge);
/* Drops the oldest hits until the others fit into `bytes` bytes. Returns how many it dropped. */
size_t merge_trim(struct merge *merge, size_t bytes);

/* Returns true if a target's hits fill its share of memory. More should stay in its rings. */
bool merge_full(const struct merge *merge, size_t target);
/* Returns true if any hit of this target is waiting. */
bool merge_holds(const struct merge *merge, size_t target);
/* Returns true if no hit of any target is waiting. */
bool merge_is_empty(const struct merge *merge);

/* Returns the time up to which all hits of all full targets were added; without any, UINT64_MAX. */
uint64_t merge_known_ns(const struct merge *merge);

/* Removes a target without waiting hits. The numbers of later targets decrease by 1. */
void merge_remove(struct merge *merge, size_t target);

/*
 * Calls `visit` for every hit up to until_ns, oldest first; at the same time, in the order of
 * adding. If `visit` returns false, drops all hits.
 */
typedef bool merge_visit(size_t target, const struct probe_hit *hit, const char *comm, void *data);
void merge_drain(struct merge *merge, uint64_t until_ns, merge_visit *visit, void *data);

/* ---- Sums (sums.c) --------------------------------------------------------------- */

/*
 * Counts of the probes of processes that were dropped, summed over processes, and copies of the
 * hits that were in their flight recorders. Initialise with {0}.
 */
struct sums {
	struct probe_session_probe *probes; /* the strings are owned */
	struct sums_part {
		size_t tracer;
		struct probe_trace_tally tally;
	} * parts; /* for each probe */
	size_t count;
	struct merge *hits; /* probe_hit.probe is an index in `probes`; NULL if there are none */
	uint64_t forgotten; /* number of old hits that were dropped from `hits` */
};
void sums_deinit(struct sums *sums);

/* Adds the counts of a session. `tallies` may have fewer elements than the session has probes. */
PROBE_MUST_CHECK struct probe_error *sums_add(struct sums *sums, const struct probe_traced *traced,
	const struct probe_trace_tally *tallies, size_t tally_count);
/*
 * Copies the hits in the flight recorders of a session, with the names that comm() returns. Only
 * the newest hits are kept. Errors: as probe_session_snapshot().
 */
PROBE_MUST_CHECK struct probe_error *sums_add_hits(struct sums *sums,
	const struct probe_traced *traced,
	const char *(*comm)(const struct probe_hit *hit, void *data), void *data);

/* ---- Processes (processes.c) ----------------------------------------------------- */

/* Says which processes that come later are meant. `processes` must outlive *ret. */
void processes_newcomers(struct probe_processes *processes, struct probe_newcomers *ret);

/*
 * Returns true if processes that come later are sought, and can still come. They cannot if all
 * processes of trees and parents have ended.
 */
bool processes_may_come(const struct probe_processes *processes);
/* Returns true if a process meets the conditions. */
bool processes_meet(struct probe_processes *processes, pid_t pid);

/* ---- Conditions (conditions.c) --------------------------------------------------- */

struct conditions;

/*
 * Makes the conditions from the values in `selection`, which must outlive *ret. Sets *ret to NULL
 * if there are no values. Errors: as probe_processes_create().
 */
PROBE_MUST_CHECK struct probe_error *conditions_create(
	const struct probe_selection *selection, struct conditions **ret);
void conditions_free(struct conditions *conditions);

/* Returns true if a process meets all conditions, or if `conditions` is NULL. */
bool conditions_hold(struct conditions *conditions, pid_t pid);

/* Returns PROBE_ERROR_STATE if a process does not meet the conditions, otherwise NULL. */
PROBE_MUST_CHECK struct probe_error *conditions_check(struct conditions *conditions, pid_t pid);

/*
 * conditions_describe() appends all conditions. conditions_describe_unmet() appends only the first
 * value that none of `pids` matches. It returns false if each value is matched.
 */
void conditions_describe(const struct conditions *conditions, struct buffer *out);
bool conditions_describe_unmet(
	struct conditions *conditions, const pid_t *pids, size_t count, struct buffer *out);

/* ---- Containers (conditions.c) --------------------------------------------------- */

/* Returns true if a process is in the container. `groups` is its /proc/PID/cgroup. */
bool container_has(const char *container, const char *groups);

/*
 * Returns the id of the container with this name in Docker's folder, or NULL. The caller frees it.
 */
char *container_named_in_docker(const char *folder, const char *name);
/*
 * Returns the id of the container with this name in a file of containers/storage (Podman), or NULL.
 */
char *container_named_in_storage(const char *path, const char *name);

#endif
