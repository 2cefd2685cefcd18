/* SPDX-License-Identifier: MIT */
/*
 * Traces: sets of processes, and what is gathered in each of them.
 *
 * A trace starts sessions in its processes, one for each tracer. It follows the programs that the
 * processes start and execute, finds processes that come later, and notices when a process ends.
 * It brings the hits of all processes into one order, adds up what processes that have ended have
 * counted, and says what happens.
 *
 *     probe_trace_create(&options, &trace);
 *     probe_trace_add(trace, target, true);
 *     probe_trace_start(trace);
 *     while (!probe_trace_is_over(trace)) {
 *             wait until probe_trace_fd(trace) is readable, or probe_trace_due_ns(trace) has come
 *             probe_trace_poll(trace);
 *     }
 *     probe_trace_stop(trace, true);
 *     probe_trace_free(trace);
 *
 * A trace starts no thread. One thread must make all calls for a trace. No call waits longer than
 * the functions of probe/session.h and probe/watch.h that it uses.
 */
#ifndef PROBE_TRACE_H
#define PROBE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "hit.h"
#include "processes.h"
#include "session.h"
#include "table.h"
#include "target.h"
#include "watch.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_trace;

/* ---- What is gathered ------------------------------------------------------------ */

/* A trace has a session for each of its tracers in each of its processes. */
struct probe_trace_tracer {
	const struct probe_request *request; /* borrowed */
	/*
	 * The options of the sessions. The trace itself sets `watch` and `together`, and
	 * `follow_libraries` in programs that come later, which may not have opened all libraries.
	 */
	struct probe_session_options options;
	/*
	 * In each process, tracers with `shares` and the same request share stubs where they can
	 * (probe_sessions_start()). Their sessions end together. Not with
	 * probe_trace_options.start.
	 */
	bool shares;
	bool is_unordered; /* hits are visited as they are read, not in the order of time */
	/* Its hits go to a place of their own: if that is full, those of other tracers go on. */
	bool is_apart;
};

/* Hits of one probe of one session that probe_trace_options.hit has got, and told losses. */
struct probe_trace_tally {
	uint64_t hits, lost;
};

/* A session of a trace: one tracer in one process. The trace owns it, and sets all but `data`. */
struct probe_traced {
	void *data; /* the user's own */
	struct probe_target *target;
	struct probe_session *session; /* NULL before the start, and if there is no session */
	size_t tracer;		       /* index in probe_trace_options.tracers */
	int pidfd;		       /* descriptor of the process, or -1 */
	bool named;		       /* as given to probe_trace_add() */
	bool later;	/* the process came later, or executed another program during the trace */
	bool is_on;	/* the session was started and was not stopped yet */
	bool has_ended; /* the process has ended; its session may go on in forked children */
	/* The process has executed another program, which has a struct probe_traced of its own. */
	bool is_replaced;
	bool is_broken; /* the session could not be read, and PROBE_TRACE_FAILED has said so */
	bool is_stuck;	/* its probes could not be switched off, so hits may continue forever */
	/*
	 * May be set by probe_trace_options.start: the user reads the hits of this session
	 * (probe_trace_options.read), switches it, and tells its losses.
	 */
	bool is_read_by_user;
	bool is_kept; /* may be set by the user: do not drop the session, although it has ended */
};

/* ---- What happens ---------------------------------------------------------------- */

enum probe_trace_event {
	/*
	 * A session was started (`report`), or could not be started (`error`). It was neither if it
	 * is not wanted (probe_trace_options.prepare, .start).
	 */
	PROBE_TRACE_STARTED,
	/* A process that came later is traced: `watched`, `late_ns`, `sites`. */
	PROBE_TRACE_CAME,
	/*
	 * A process that came later cannot be traced (`error`). `traced` is NULL if no session was
	 * tried. The event is left out if the process has ended.
	 */
	PROBE_TRACE_UNTRACED,
	/* The session has more probes, refused sites or notes (`report`) than before (`told`). */
	PROBE_TRACE_GREW,
	/* A site was altered, or is intact again: `site`. */
	PROBE_TRACE_SITE,
	/* `count` more hits of `probe` were lost. */
	PROBE_TRACE_LOST,
	/* A session could not be read, switched or stopped: `error`. `traced` may be NULL. */
	PROBE_TRACE_FAILED,
	/* `count` forked children of a process that has ended go on, and so does its session. */
	PROBE_TRACE_HEIRS,
	/* The process has ended. Its session was stopped, and its hits were read. */
	PROBE_TRACE_ENDED,
	/*
	 * The session is about to be stopped. If `is_waiting`, the process is frozen, and the trace
	 * waits for it (probe_sessions_stop()).
	 */
	PROBE_TRACE_STOPPING,
	/*
	 * The session is about to be freed, because its process has ended. Its counts and rows are
	 * kept (probe_trace_probes(), probe_trace_table()). Its stacks are not: read them now.
	 */
	PROBE_TRACE_DROPPED,
	/* Free `traced->data`. If the user has made the session, set traced->session to NULL. */
	PROBE_TRACE_CLOSED
};

/* How many probes, refusals and notes of a session were told. */
struct probe_trace_told {
	size_t probes, refusals, notes;
};

struct probe_trace_news {
	enum probe_trace_event event;
	struct probe_traced *traced;
	struct probe_error *error; /* the receiver frees it */
	const struct probe_report *report;
	struct probe_trace_told told;
	const struct probe_site_news *site;
	const struct probe_watch_event *watched;
	const struct probe_session_probe *probe;
	/* How long the process had run before it was traced, at most; 0 if it was held. */
	uint64_t late_ns;
	size_t sites; /* of all sessions of the process together */
	uint64_t count;
	bool is_waiting;
};

/* A hit, and the probes of its session. */
struct probe_trace_hit {
	const struct probe_hit *hit;
	/* hit->probe and hit->begin->probe are indices in this array. */
	const struct probe_session_probe *probes;
	const char *comm; /* what probe_trace_options.comm has returned */
	size_t tracer;
	/* NULL for a hit in the flight recorder of a process that was dropped. */
	struct probe_traced *traced;
};

/* How a session was read by probe_trace_options.read. */
struct probe_trace_read {
	bool all;  /* given: nothing may stay in the rings; the process has ended, or the session */
	bool more; /* there may be more to read at once */
	size_t hits;
	/* There were hits, and the rings can wait so long: nanoseconds. UINT64_MAX if not. */
	uint64_t due_ns;
	struct probe_error *error;
};

/* ---- Traces ---------------------------------------------------------------------- */

/* Zero is the default of each option. All functions get `data`, and may be NULL. */
struct probe_trace_options {
	const struct probe_trace_tracer *tracers; /* borrowed; at least one */
	size_t tracer_count;
	bool follow; /* also trace programs that the processes start or execute */
	/* The end of a process ends its sessions at once, even if forked children run on. */
	bool ends_heirs;
	/*
	 * Processes that come later are traced, too, if probe_processes_seek() says so. Otherwise a
	 * program that does not meet the conditions, started by a process of the trace, gets only a
	 * session without patterns, which finds the programs that it starts. May be NULL. Borrowed.
	 */
	struct probe_processes *processes;
	/*
	 * Called before a session is started. *wanted_ret is true: set it to false if this tracer
	 * does not trace the process.
	 */
	struct probe_error *(*prepare)(struct probe_traced *traced, bool *wanted_ret, void *data);
	/*
	 * Starts a session in place of probe_session_start(), and sets traced->session. It may set
	 * no session: then this tracer does not trace the process.
	 */
	struct probe_error *(*start)(struct probe_traced *traced,
		const struct probe_request *request, const struct probe_session_options *options,
		struct probe_report *report, void *data);
	/* Takes one hit. Returns false if no more hits are wanted at all. */
	bool (*hit)(const struct probe_trace_hit *hit, void *data);
	/* Returns the name of a hit's thread, or NULL. Called when the hit is read. */
	const char *(*comm)(const struct probe_hit *hit, void *data);
	/* Reads a session's hits in another way than by `hit`. Returns false if it does not. */
	bool (*read)(struct probe_traced *traced, struct probe_trace_read *read, void *data);
	/*
	 * Returns true if the hits of this session have no room now: they stay in the rings. With
	 * `wait`, it first waits until there is room.
	 */
	bool (*is_full)(const struct probe_traced *traced, bool wait, void *data);
	/* Gets the news. */
	void (*news)(const struct probe_trace_news *news, void *data);
	void *data;
};

/* Creates a trace without processes. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM. */
PROBE_MUST_CHECK struct probe_error *probe_trace_create(
	const struct probe_trace_options *options, struct probe_trace **ret);
/*
 * Frees a trace, its sessions, and its targets. Sessions that were not stopped remain until the
 * next controller removes them. NULL is allowed.
 */
void probe_trace_free(struct probe_trace *trace);

/*
 * Adds a process, which may be held. The trace owns the target, also after an error. `named` is
 * only handed on. Call it before probe_trace_start(). Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_trace_add(
	struct probe_trace *trace, struct probe_target *target, bool named);

/*
 * Adds the processes of probe_trace_options.processes that run now. Those that cannot be opened are
 * told by PROBE_TRACE_UNTRACED. Errors: as probe_processes_find().
 */
PROBE_MUST_CHECK struct probe_error *probe_trace_add_found(struct probe_trace *trace);

/*
 * Starts the sessions of all processes (probe_take_turns()), and finds processes that come from now
 * on. Each result is told by PROBE_TRACE_STARTED. Tracers without a session in a process are
 * dropped. Release held processes afterwards. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM (no
 * session was tried).
 */
PROBE_MUST_CHECK struct probe_error *probe_trace_start(struct probe_trace *trace);

/*
 * Switches all sessions with options.switched on or off. Hits are part of the trace only while they
 * are on. At first they are off.
 */
void probe_trace_switch(struct probe_trace *trace, bool on);

/*
 * Looks at everything that may have happened: reads hits, follows programs, starts sessions for
 * processes that came, and ends those of processes that have ended. Without `hit` and `read`, only
 * sessions whose process waits are polled. Errors: PROBE_ERROR_MEMORY (the trace should end).
 */
PROBE_MUST_CHECK struct probe_error *probe_trace_poll(struct probe_trace *trace);
/* A descriptor that becomes readable when probe_trace_poll() should be called at once. */
int probe_trace_fd(const struct probe_trace *trace);
/* When probe_trace_poll() should be called at the latest (CLOCK_MONOTONIC). */
uint64_t probe_trace_due_ns(const struct probe_trace *trace);
/* Tells whether no session is on, and none can come. */
bool probe_trace_is_over(const struct probe_trace *trace);

/* Polls all sessions, so that their counts are as of now. */
void probe_trace_refresh(struct probe_trace *trace);
/* Checks the sites of all sessions (probe_session_look()): PROBE_TRACE_SITE. */
void probe_trace_look(struct probe_trace *trace, bool last);
/* Tells the losses that were not told before: PROBE_TRACE_LOST. */
void probe_trace_tell_losses(struct probe_trace *trace);
/*
 * Visits all hits in the flight recorders (options.overwrite), oldest first, with
 * probe_trace_options.hit. They stay there. Those of processes that were dropped are included, as
 * far as memory for them lasts.
 */
void probe_trace_snapshot(struct probe_trace *trace);
/* Returns how many hits of flight recorders were dropped with their processes. */
uint64_t probe_trace_forgotten(const struct probe_trace *trace);

/* Ends one session, and tells PROBE_TRACE_FAILED if that fails. */
void probe_trace_stop_session(struct probe_trace *trace, struct probe_traced *traced);
/*
 * Ends all sessions in parallel, and the search for processes. With `read`, all hits up to the end
 * are read before the function returns. Errors are told by PROBE_TRACE_FAILED.
 */
void probe_trace_stop(struct probe_trace *trace, bool read);

/*
 * Returns the sessions, those of a process one after the other; those of the first processes in the
 * order in which they were started. Owned by the trace, and valid until the next call that polls or
 * starts it. The elements stay where they are as long as they exist.
 */
struct probe_traced *const *probe_trace_sessions(
	const struct probe_trace *trace, size_t *count_ret);

/* A probe of a session, or the sum of a probe over processes that were dropped. */
struct probe_trace_probe {
	const struct probe_traced *traced; /* NULL for a sum */
	size_t tracer;
	const struct probe_session_probe *probe;
	struct probe_trace_tally tally;
};

/*
 * Returns all probes of all sessions, and the sums. Free it with free(). The probes are valid until
 * the next call that polls the trace. Returns NULL if there is no memory.
 */
struct probe_trace_probe *probe_trace_probes(const struct probe_trace *trace, size_t *count_ret);

/*
 * Makes a table of the rows of all sessions of a tracer, also of those that were dropped. Of these,
 * only as many different keys are kept as one session may have; hits of others are in the row of
 * PROBE_VALUE_OTHER (probe_table_limit()). Free it with probe_table_free(). Errors: as
 * probe_table_add().
 */
PROBE_MUST_CHECK struct probe_error *probe_trace_table(
	const struct probe_trace *trace, size_t tracer, struct probe_table **ret);

/* ---- Several processes ----------------------------------------------------------- */

/* The functions that change several processes. The processes are numbered from 0. */
struct probe_turn {
	pid_t (*pid)(void *data, size_t index);
	/* Changes a process. `patience` is for probe_target_set_patience(), or NULL. */
	struct probe_error *(*change)(void *data, size_t index, struct probe_patience *patience);
	/* Called once after the last change of a process. Takes ownership of the error. */
	void (*end)(void *data, size_t index, struct probe_error *error);
	void *data;
};

/*
 * Changes `count` processes, with equal shares of the time for each user and processes with many
 * threads last. Tries locked processes again after all others.
 */
void probe_take_turns(size_t count, const struct probe_turn *turn);

#ifdef __cplusplus
}
#endif
#endif
