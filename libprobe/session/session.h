/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SESSION_SESSION_H
#define LIBPROBE_SESSION_SESSION_H

#include "libprobe/expr/asked.h"
#include "libprobe/stop/children.h"
#include "libprobe/patch/install.h"
#include "libprobe/base/clock.h"
#include "libprobe/process/edits.h"
#include "libprobe/follow/gate.h"
#include "libprobe/follow/launch.h"
#include "libprobe/expr/record_layout.h"
#include "libprobe/session/recorder.h"
#include "libprobe/session/ring.h"
#include "libprobe/session/unwinder.h"
#include "libprobe/session/snapshot.h"
#include "probe/target.h"

/* A site as records name it, by its index. */
struct session_site {
	uint64_t pc;
	size_t probe;	 /* index of the session's probe */
	uint32_t number; /* in records: its index, but in a session that was opened */
	struct record_layout layout;
	struct bound *bound; /* owned */
};

/* What a session knows of a probe, beside what it shows. */
struct session_probe {
	struct pair_part part;
	struct bound_types types;
	uint64_t key;	   /* see select_key() */
	uint64_t consumed; /* records handed over */
	uint32_t slot;
	bool off; /* by probe_session_select() */
};

/* The sites whose bytes are looked at (look.c). Initialise with {0}. */
struct watched_site;
struct session_watch {
	struct watched_site *sites;
	size_t count;
	struct edits edits; /* a place for each, in the same order */
};

struct probe_session {
	struct probe_target *target; /* borrowed */
	struct probe_request request;
	struct probe_session_options options;
	const struct probe_pattern **patterns; /* a copy of the array; patterns are borrowed */
	bool *matched;
	uint32_t id;
	bool stopped;
	int event;	  /* an eventfd(2) that its gate raises, or -1 */
	struct gate gate; /* at the loader */
	struct waiters_place gate_place;
	uint64_t gate_since_ns;	      /* somebody waits there who could not be served yet; or 0 */
	struct launch_gate exec_gate; /* served by options.watch */
	bool exec_gate_due;	      /* it is to come with libc, which is not mapped yet */
	struct probe_report report;   /* of libraries that were opened later */
	struct seccomp seccomp;	      /* its threads, as they were seen last */
	uint64_t look_again_ns;	      /* nobody looks at them before (CLOCK_MONOTONIC) */
	bool calls_kernel;	      /* some stub makes system calls */
	struct clock clock;
	struct rings rings;
	struct children_cache processes; /* of threads */
	int data;			 /* descriptor of the session's data, or -1 */
	struct snapshot view;
	uint64_t count_again_ns; /* hits are not added up before (CLOCK_MONOTONIC) */
	struct asked asked;
	bool opened;	     /* for reading: another process has started it */
	uint32_t pairs;	     /* numbers of pairs that are taken */
	uint64_t rate_ticks; /* in a second, where options.sample_rate asks for them */
	uint32_t target_pid; /* in the target's namespace; 0: not known, or of several processes */
	struct session_site *sites;
	size_t site_count;
	struct probe_session_probe *probes;
	struct session_probe *known; /* of each of them */
	size_t probe_count;
	size_t record_max; /* bytes of the largest record of any site */
	struct session_watch watch;
	struct unwinder *unwinder; /* with options.stack */
	struct probe_stack stack;  /* of the hit that is being handed over */
	void *reserve;		   /* memory for its end, or NULL; see end.c */
};

/* ---- What its stubs do (stubs.c) ------------------------------------------------ */

/*
 * Decides what each site of a selection is to do; probes that have no part in it
 * are dropped from the selection, and reported. Errors: those of pairs_assign()
 * and bind_site(), PROBE_ERROR_USAGE (records that are too long).
 */
PROBE_MUST_CHECK struct probe_error *session_prepare(struct probe_session *session,
	const struct change *change, struct selection *selection, struct probe_report *report);
/*
 * The same for reading a session that is in the registry, of a selection that
 * holds its probes alone.
 */
PROBE_MUST_CHECK struct probe_error *session_resume(struct probe_session *session,
	const struct arch *arch, const struct selection *selection,
	const struct registry *registry);
/* Undoes it, where the selection is not attached after all: so many there were before. */
void session_unprepare(struct probe_session *session, size_t probes, size_t sites);

/* What reg_probe.part says of a probe. */
uint32_t session_part_word(const struct pair_part *part);

/* The memory that the session needs. */
struct data_needs session_needs(const struct probe_session *session);

/*
 * Makes what was not asked for smaller, so that a new session with counters for `probes`
 * fits into the target's control group, and notes that in the report (room.c).
 * Errors: PROBE_ERROR_REFUSED (it does not fit).
 */
PROBE_MUST_CHECK struct probe_error *session_fit(const struct probe_session *session,
	struct data_needs *needs, size_t probes, struct probe_report *report);

/* ---- Call stacks (stack.c) ------------------------------------------------------ */

/* With options.stack: prepares for them. Errors: those of unwinder_create(). */
PROBE_MUST_CHECK struct probe_error *session_stack_start(
	struct probe_session *session, const struct arch *arch);
/* There may be other modules now. */
void session_stack_refresh(struct probe_session *session);
/* With PROBE_STACK_FRAMES: see unwinder_return_offset(). */
int32_t session_stack_return_offset(const struct probe_session *session, uint64_t pc);
/* The stack in a record of a site, which record_layout_read() found whole; NULL where there is
 * none. */
const struct probe_stack *session_stack_read(struct probe_session *session,
	const struct session_site *site, const struct ring_record *record);

/* What attaches a selection that was prepared, of the session as it is. */
struct install session_attach(struct probe_session *session, struct transaction *transaction,
	struct selection *selection);

/* ---- Seccomp filters (filters.c) ------------------------------------------------ */

/* What was known of the target's threads when stubs were made for them; taken over. */
void session_keep_filters(struct probe_session *session, struct change *change);
/*
 * Now and then: do filters that have come since allow what the stubs call? Errors:
 * PROBE_ERROR_UNSUPPORTED (they do not, or nobody knows: the session has to end).
 */
PROBE_MUST_CHECK struct probe_error *session_look_at_filters(struct probe_session *session);

/* ---- Its sites (look.c) --------------------------------------------------------- */

/* All sites that a registry has of the session are looked at from now on. */
PROBE_MUST_CHECK struct probe_error *session_watch(
	struct probe_session *session, const struct registry *registry);
/* When it has ended: which of them could not be restored. */
void session_note_left(struct probe_session *session, const struct registry *registry);
void session_watch_deinit(struct session_watch *watch);

/* ---- Its parts (session.c) -------------------------------------------------------------- */

/*
 * A session without probes: takes the options over, and parses what is in them. It is to be
 * given back with probe_session_free().
 */
PROBE_MUST_CHECK struct probe_error *session_create(struct probe_target *target,
	uint64_t (*counter)(void), const struct probe_request *request,
	const struct probe_session_options *options, struct probe_session **ret);

/* What the registry says of the probes of a selection, which were added last. */
PROBE_MUST_CHECK struct probe_error *session_take_probes(struct probe_session *session,
	const struct registry *registry, const struct selection *selection);

/* Adds a selection to the session, which is created with the first one. */
PROBE_MUST_CHECK struct probe_error *session_install(struct probe_session *session,
	struct change *change, struct selection *selection, struct probe_report *report);

/* Forgets the probes of a selection that the session has already; child.c, too. */
void session_keep_new(const struct probe_session *session, const struct change *change,
	struct selection *selection);
/* Selects what was asked for: nothing without patterns, the session then only follows. */
PROBE_MUST_CHECK struct probe_error *session_select_asked(
	const struct probe_session *session, struct modules *modules, struct selection *ret);

/* ---- What it follows (follow.c) ---------------------------------------------------------- */

/* Puts its gates into the target, which is locked, and begins to serve them. */
PROBE_MUST_CHECK struct probe_error *session_start_following(
	struct probe_session *session, struct change *change, struct probe_report *report);
/* Probes what the target has opened since. */
PROBE_MUST_CHECK struct probe_error *session_follow(struct probe_session *session);
/*
 * Lets the threads go that wait at the gate of libraries, with those probed; in a forked child,
 * with those named that are not.
 */
PROBE_MUST_CHECK struct probe_error *session_serve_gate(struct probe_session *session);

/* ---- Its end (end.c) --------------------------------------------------------------------- */

/*
 * A session that cannot be ended for want of memory would leave its probes on. So some
 * is kept from the start, never touched, and given back when the end has failed: it is
 * then tried once more.
 */
PROBE_MUST_CHECK struct probe_error *session_reserve(struct probe_session *session);

/* ---- Forked children (child.c) --------------------------------------------------- */

/*
 * A forked child has opened a library: puts the probes that it has there, and that the
 * session has not, into its report, as refused. A child that is gone has none. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *session_note_child(struct probe_session *session, pid_t pid);

/* ---- Reading (read.c) ------------------------------------------------------------ */

/* Sets what all probes have lost, and the ends without a begin. */
void session_count_lost(struct probe_session *session);

/* Is there something to be read? PROBE_ERROR_NOT_FOUND: not any more. */
PROBE_MUST_CHECK struct probe_error *session_check_there(const struct probe_session *session);

/*
 * Copies what is in the rings of a session that overwrites them; see recording_read().
 * *ret is to be given back with recording_deinit(). Errors: as probe_session_snapshot().
 */
PROBE_MUST_CHECK struct probe_error *session_take_recording(
	struct probe_session *session, uint64_t *since, struct recording *ret);
/*
 * Hands over what was copied, from the record of index `from` on, until `visit` returns
 * false. Returns the index to go on with.
 */
size_t session_visit_recording(struct probe_session *session, const struct recording *recording,
	size_t from, bool (*visit)(const struct probe_hit *hit, void *data), void *data);

/* Sets all counts of all probes. */
void session_update_counts(struct probe_session *session);

/*
 * Hands over what is in the rings, as far as it is safe to say what came first;
 * nothing of rings that are overwritten. Was there anything?
 */
bool session_read_rings(struct probe_session *session,
	bool (*visit)(const struct probe_hit *hit, void *data), void *data);

#endif
