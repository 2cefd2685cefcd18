/* SPDX-License-Identifier: MIT */
/* The parts of a trace (probe/trace.h): the order of hits, and which processes are meant. */
#pragma once

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

/* ---- Traces (trace.c, delivery.c) -------------------------------------------------- */

struct traced {
	struct probe_traced its;
	const struct probe_trace_tracer *tracer;
	struct probe_trace_tally *tallies; /* one for each probe */
	size_t tally_count;
	uint64_t turn; /* position in the order in which the first sessions were started */
	/* The process has ended; for probe_sessions_heirs(). */
	bool has_heirs, heirs_known, heirs_told;
	uint64_t heirs_since_ns;
	bool is_wanted; /* the process waits for us: probe_session_fd() is readable */
	/* The session is off, but hits are left in its rings because there was no room. */
	bool is_unread;
	bool is_end_told;
	int fd;			    /* the session's descriptor that the trace watches, or -1 */
	struct probe_report report; /* of a session that was started with another */
	struct probe_trace_told told;
};

struct probe_trace {
	struct probe_trace_options options;
	bool seeks; /* processes that come later are sought */
	/*
	 * The sessions of a process are neighbours. Those of the first processes come first; those
	 * of later processes and programs are added after them.
	 */
	struct probe_traced **items; /* each is a struct traced */
	size_t count;
	struct probe_watch *watch; /* NULL before the start */
	int epoll;		   /* ends of processes, waiting processes, the watch */
	bool is_switched;
	bool is_enough; /* no more hits are wanted */
	/*
	 * Index of the session that is read first. Another one is first in each round, because
	 * there may be room for a limited number of hits per round.
	 */
	size_t first;
	struct merge *merge; /* NULL while there is only one session, or if nothing needs order */
	uint64_t merged_ns;  /* start of the last round that visited hits */
	uint64_t sleep_ns, due_ns;
	uint64_t heirs_due_ns; /* time of the next look for forked children */
	/*
	 * Counts of the probes of processes that were dropped, summed over processes, and copies of
	 * the hits that were in their flight recorders.
	 */
	struct sums {
		struct probe_session_probe *probes; /* the strings are owned */
		struct sums_part {
			size_t tracer;
			struct probe_trace_tally tally;
		} * parts; /* for each probe */
		size_t count;
		struct merge *hits; /* probe_hit.probe is an index in `probes`; may be NULL */
		uint64_t forgotten; /* number of old hits that were dropped from `hits` */
	} sums;
	struct probe_table **rows; /* for each tracer: rows of dropped processes, or NULL */
};

/* One round of polling. */
struct round {
	struct probe_trace *trace;
	size_t at;	 /* index of the session that is being read */
	bool is_blocked; /* there was no room, so not all sessions were read */
	size_t hits, taken;
	uint64_t due_ns; /* as in struct probe_trace_read */
};

/* Returns session number `i`. */
struct traced *traced_at(const struct probe_trace *trace, size_t i);

void delivery_tell(const struct probe_trace *trace, const struct probe_trace_news *news);
/* Tells PROBE_TRACE_FAILED, unless `error` is NULL. `traced` may be NULL. */
void delivery_fail(
	const struct probe_trace *trace, struct traced *traced, struct probe_error *error);

/* Creates trace->merge if hits must be ordered from now on. */
PROBE_MUST_CHECK struct probe_error *delivery_order(struct probe_trace *trace);
/* Calls probe_trace_options.is_full. */
bool delivery_blocked(const struct probe_trace *trace, const struct traced *traced, bool wait);
/* Polls the session at round->at, and reads its hits. *more_ret tells whether there may be more. */
PROBE_MUST_CHECK struct probe_error *delivery_read(struct round *round, bool *more_ret);
/*
 * Reads the hits that are still in the rings of a session after its probes were switched off.
 * Forked children may have added hits meanwhile. If there is no more room, sets `is_unread`; call
 * the function again later.
 */
void delivery_read_rest(struct round *round);
/*
 * Visits the hits that wait for their order, up to until_ns, or to the time up to which all hits
 * of all targets are known. Returns true if any hits waited.
 */
bool delivery_visit(struct probe_trace *trace, uint64_t until_ns);

/* Keeps what is needed of a session that is about to be dropped. Errors are told. */
void delivery_keep(struct probe_trace *trace, size_t i);
/* Frees the hits that wait, and what was kept. */
void delivery_forget(struct probe_trace *trace);

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
