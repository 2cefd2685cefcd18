/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SESSION_SESSION_H
#define LIBPROBE_SESSION_SESSION_H

#include "libprobe/session/named.h"
#include "libprobe/registry/writers.h"
#include "libprobe/patch/install.h"
#include "libprobe/base/clock.h"
#include "libprobe/process/edits.h"
#include "libprobe/process/served.h"
#include "libprobe/follow/gate.h"
#include "libprobe/follow/launch.h"
#include "libprobe/query/record_layout.h"
#include "libprobe/registry/recorder.h"
#include "libprobe/registry/ring.h"
#include "libprobe/session/unwinder.h"
#include "libprobe/registry/snapshot.h"
#include "probe/target.h"

/* A site as records name it, by its index. */
struct session_site {
	uint64_t pc;
	size_t probe;	  /* index of the session's probe */
	uint32_t number;  /* in records: its index, except in a session that was opened */
	const char *args; /* as its note has them; owned by the target */
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

/* The sites whose bytes are checked (look.c). Initialise with {0}. */
struct watched_site;
struct session_watch {
	struct watched_site *sites;
	size_t count;
	struct edits edits;	/* one for each, in the same order */
	struct registry memory; /* memory that the session needs: arenas, its data, the guard */
};

enum { SESSION_COMMAND_BYTES = 16 /* of the kernel's TASK_COMM_LEN */ };

struct probe_session {
	struct probe_target *target; /* borrowed */
	struct probe_request request;
	struct probe_session_options options;
	const struct probe_pattern **patterns; /* a copy of the array; patterns are borrowed */
	bool *matched;
	uint32_t id;
	bool stopped;
	bool lost;	  /* the program has taken memory that it needed; reported */
	bool goes_on;	  /* counted by patch/inherited.c */
	uint64_t image;	  /* of the target: inherited_image() */
	int event;	  /* an eventfd(2) that its gate raises, or -1 */
	struct gate gate; /* at the loader */
	struct waiters_place gate_place;
	uint64_t gate_since_ns; /* a thread waits there that could not be served yet; or 0 */
	bool lapsed;		/* one was not served in time: libraries are to be looked for */
	bool lapse_told;
	uint64_t catch_up_ns; /* libraries are to be probed that could not be in time: when; or 0 */
	struct launch_gate exec_gate; /* served by options.watch */
	struct gate wait;	      /* where hits wait for room (wait.c) */
	uint32_t wait_seen;	      /* how many had begun to when the event was raised last */
	uint64_t wait_ticks;	      /* options.wait_ns, by the clock of records */
	struct probe_report report;   /* of libraries that were opened later */
	struct seccomp seccomp;	      /* its threads, as they were seen last */
	uint64_t look_again_ns;	      /* not checked again before (CLOCK_MONOTONIC) */
	unsigned int calls;	      /* system calls that stubs make: bits of enum seccomp_kind */
	struct clock clock;
	struct rings rings;
	struct writers processes; /* of threads */
	int data;		  /* descriptor of the session's data, or -1 */
	struct snapshot view;
	struct served served;	 /* what view.served points to, if that is set */
	bool counts_damaged;	 /* the target has written over its counts of losses */
	uint64_t count_again_ns; /* hits are not added up before (CLOCK_MONOTONIC) */
	struct asked asked;
	bool opened;			     /* for reading: another process has started it */
	char command[SESSION_COMMAND_BYTES]; /* of a dead one: what its process was called */
	bool dead;	    /* ... and is gone: all there is was read from a file (notes.h) */
	void *notes;	    /* what the names of its probes point into; or NULL */
	uint32_t pairs;	    /* numbers of pairs that are in use */
	uint64_t tick_ns32; /* nanoseconds of a tick, times 2^32, if stubs need it */
	uint64_t *left;	    /* of each pair: begins whose threads are gone (flights.c); owned */
	uint32_t left_count;
	uint64_t flights_again_ns; /* not looked for again before (CLOCK_MONOTONIC) */
	bool flights_counted;	   /* likewise: in_flight of its probes is set */
	size_t keep_bytes;	   /* likewise: what is kept of each begin (struct probe_begun) */
	uint64_t rate_ticks;	   /* in a second, where options.sample_rate asks for them */
	uint32_t target_pid; /* in the target's namespace; 0: not known, or of several processes */
	struct session_site *sites;
	size_t site_count;
	struct probe_session_probe *probes;
	struct session_probe *known; /* of each of them */
	size_t probe_count;
	size_t record_max; /* bytes of the largest record of any site, without a span's begin */
	struct session_watch watch;
	struct naming *naming;	   /* with options.stack, and where addresses have names: sym() */
	struct unwinder *unwinder; /* with options.stack, or ustack among the keys */
	void *key_texts;	   /* see keys.c */
	struct probe_stack stack;  /* of the hit that is being handed over */
	void *reserve;		   /* memory for its end, or NULL; see end.c */
};

/* Do its stubs match begins with ends? Records may only name the role of a probe. */
static inline bool session_has_pairs(const struct probe_session *session)
{
	return session->options.kind == PROBE_SESSION_GATHER || session->options.spans;
}

/* ---- What its stubs do (stubs.c) ------------------------------------------------ */

/*
 * Decides what the stub of each site of a selection does. Probes that are not needed are dropped
 * from the selection and reported. Errors: those of pairs_assign() and bind_site(),
 * PROBE_ERROR_USAGE (records that are too long).
 */
PROBE_MUST_CHECK struct probe_error *session_prepare(struct probe_session *session,
	const struct change *change, struct selection *selection, struct probe_report *report);
/*
 * The same to read a session that is in the registry; the selection holds only its probes.
 */
PROBE_MUST_CHECK struct probe_error *session_resume(struct probe_session *session,
	const struct arch *arch, struct selection *selection, const struct registry *registry);
/* Undoes it if the selection is not attached after all; the arguments are the former counts. */
void session_unprepare(struct probe_session *session, size_t probes, size_t sites);

/*
 * Decides what records hold of a site, site->layout: the list of its pattern, what is known of the
 * probe, or all arguments (captures.c). Errors: those of pattern_captures().
 */
PROBE_MUST_CHECK struct probe_error *session_choose_captures(struct probe_session *session,
	const struct select_probe *probe, const struct record_layout_site *args,
	struct session_site *site);

/* Begins that take the arguments of another probe show them as that probe does. */
void session_name_taken(struct probe_session *session);

/* What reg_probe.part says of a probe. */
uint32_t session_part_word(const struct pair_part *part);

/* Bytes of the largest record. */
static inline size_t session_record_max(const struct probe_session *session)
{
	return session->record_max + (session->options.spans ? 8 + session->keep_bytes : 0);
}

/* The memory that the session needs. */
struct data_needs session_needs(const struct probe_session *session);

/*
 * Reduces sizes that the user did not set, so that a new session with counters for `probes` fits
 * into the target's control group, and notes this in the report (room.c). Errors:
 * PROBE_ERROR_REFUSED (it does not fit).
 */
PROBE_MUST_CHECK struct probe_error *session_fit(const struct probe_session *session,
	struct data_needs *needs, size_t probes, struct probe_report *report);

/* ---- Call stacks (stack.c) ------------------------------------------------------ */

/*
 * Prepares for them, and for names, if they are asked for. Errors: those of naming_create() and
 * unwinder_create().
 */
PROBE_MUST_CHECK struct probe_error *session_stack_start(
	struct probe_session *session, const struct arch *arch);
/* There may be other modules now. */
void session_stack_refresh(struct probe_session *session);
/* If return addresses are wanted: see unwinder_saved(). */
struct unwind_saved session_stack_saved(const struct probe_session *session, uint64_t pc);
/* The stack in a record that record_layout_read() has found whole; NULL: it has none. */
const struct probe_stack *session_stack_read(struct probe_session *session,
	const struct session_site *site, const struct ring_record *record);

/* ---- Names of addresses (names.c) ----------------------------------------------- */

enum { SESSION_NAME_ROOM = 24 /* an address in hex */ };

/* Prepares for them, if something asks for names. Errors: those of naming_create(). */
PROBE_MUST_CHECK struct probe_error *session_names_start(struct probe_session *session);
/* The name of an address, valid as long as the session; or, in `room`, the address itself. */
const char *session_name(
	const struct probe_session *session, uint64_t address, char room[SESSION_NAME_ROOM]);
/* Of a record's values, makes those of sym() texts; `rooms` has an element for each value. */
void session_name_values(const struct probe_session *session, const struct record_layout *layout,
	struct probe_value *values, char (*rooms)[SESSION_NAME_ROOM]);

/* An install for a prepared selection, from the session's state. */
struct install session_attach(struct probe_session *session, struct transaction *transaction,
	struct selection *selection);

/* ---- Begins without an end (flights.c) ------------------------------------------ */

/*
 * Now and then, if the table of begins fills up: gives back the entries of threads of forked
 * children that are gone.
 */
void session_give_back_flights(struct probe_session *session);

/* ---- Seccomp filters (filters.c) ------------------------------------------------ */

/* Copies what was known of the target's threads when the stubs were made. */
void session_keep_filters(struct probe_session *session, struct change *change);
/*
 * Checks now and then whether new filters allow the calls of the stubs. Errors:
 * PROBE_ERROR_UNSUPPORTED (they do not, or it is unknown: the session has to end).
 */
PROBE_MUST_CHECK struct probe_error *session_look_at_filters(struct probe_session *session);

/* ---- Its sites (look.c) --------------------------------------------------------- */

/* From now on, checks all sites that the registry has of the session. */
PROBE_MUST_CHECK struct probe_error *session_watch(
	struct probe_session *session, const struct registry *registry);
/* After its end: notes which of them could not be restored. */
void session_note_left(struct probe_session *session, const struct registry *registry);
void session_watch_deinit(struct session_watch *watch);

/* ---- Its parts (session.c) -------------------------------------------------------------- */

/*
 * Creates a session without probes: copies and parses the options. Free it with
 * probe_session_free().
 */
PROBE_MUST_CHECK struct probe_error *session_create(struct probe_target *target,
	uint64_t (*counter)(void), const struct probe_request *request,
	const struct probe_session_options *options, struct probe_session **ret);

/* Sets what the registry says about the probes of a selection, which were added last. */
PROBE_MUST_CHECK struct probe_error *session_take_probes(struct probe_session *session,
	const struct registry *registry, const struct selection *selection);

/* Adds a selection to the session, which is created with the first one. */
PROBE_MUST_CHECK struct probe_error *session_install(struct probe_session *session,
	struct change *change, struct selection *selection, struct probe_report *report);

/*
 * Drops probes from a selection that the session already has, or whose files cannot be read;
 * child.c uses it, too.
 */
void session_keep_new(const struct probe_session *session, const struct change *change,
	struct selection *selection);
/* Selects the requested probes; none without patterns: the session then only follows. */
PROBE_MUST_CHECK struct probe_error *session_select_asked(
	const struct probe_session *session, struct change *change, struct selection *ret);

/*
 * Of a selection that the session does not have now, installs and drops the probes that it has had
 * at the same address, of the same file: a library that was closed and opened again (select.c).
 */
PROBE_MUST_CHECK struct probe_error *session_install_returned(
	struct probe_session *session, struct change *change, struct selection *selection);

/* ---- What it follows (follow.c) ---------------------------------------------------------- */

/*
 * Before the target is changed, when this thread may have priority, which a new one would inherit:
 * starts what will wait at its gates, and for room.
 */
PROBE_MUST_CHECK struct probe_error *session_prepare_gates(struct probe_session *session);
/* Installs its gates in the target, which is locked, and begins to serve them. */
PROBE_MUST_CHECK struct probe_error *session_start_following(
	struct probe_session *session, struct change *change, struct probe_report *report);
/* Probes what the target has opened since. */
PROBE_MUST_CHECK struct probe_error *session_follow(struct probe_session *session);
/*
 * Releases the threads that wait at the gate of libraries, after probing the libraries; in a forked
 * child, after reporting those that are not probed.
 */
PROBE_MUST_CHECK struct probe_error *session_serve_gate(struct probe_session *session);
/*
 * If a thread was not served in time, adds a note to the session's report, once; those that come
 * are held again.
 */
PROBE_MUST_CHECK struct probe_error *session_note_lapse(struct probe_session *session);
/* Now and then, probes libraries whose threads could not be held until they were probed. */
PROBE_MUST_CHECK struct probe_error *session_catch_up(struct probe_session *session);

/* ---- Hits that wait for room (wait.c) ---------------------------------------------------- */

/* What options.wait_ns asks for. Errors: PROBE_ERROR_USAGE (it does not go with the others). */
PROBE_MUST_CHECK struct probe_error *session_take_wait(struct probe_session *session);
/* Before its first stub is reached, with its memory mapped. Errors: PROBE_ERROR_SYSTEM. */
PROBE_MUST_CHECK struct probe_error *session_open_wait(struct probe_session *session);
/* After its event was cleared: raises it again if more hits wait than when the rings were read. */
void session_note_waiting(struct probe_session *session);

/* ---- Its end (end.c) --------------------------------------------------------------------- */

/*
 * A session that cannot be ended for lack of memory would leave its probes on. So some address
 * space is reserved from the start, and released if the end has failed; then it is tried again.
 */
PROBE_MUST_CHECK struct probe_error *session_reserve(struct probe_session *session);

/* ---- Forked children (child.c) --------------------------------------------------- */

/* Adds all probes of a selection to the session's report as refused; each once for a reason. */
PROBE_MUST_CHECK struct probe_error *session_refuse(
	struct probe_session *session, const struct selection *selection, const char *reason);

/*
 * After a forked child has opened a library: adds the child's probes there that the session lacks
 * to the session's report, as refused. A child that has ended has none. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *session_note_child(struct probe_session *session, pid_t pid);

/* ---- Reading (read.c) ------------------------------------------------------------ */

/* Sets the lost hits of all probes, and their ends without a begin. */
void session_count_lost(struct probe_session *session);

/* Is there anything to read? PROBE_ERROR_NOT_FOUND: not any more. */
PROBE_MUST_CHECK struct probe_error *session_check_there(const struct probe_session *session);

/*
 * Copies what is in the rings of a session that overwrites them; see recording_read().
 * Free *ret with recording_deinit(). Errors: as probe_session_snapshot().
 */
PROBE_MUST_CHECK struct probe_error *session_take_recording(
	struct probe_session *session, struct ring_since *since, struct recording *ret);
/*
 * Hands over the copied records, from index `from` on, until `visit` returns false. Returns the
 * index to continue with.
 */
size_t session_visit_recording(struct probe_session *session, const struct recording *recording,
	size_t from, bool (*visit)(const struct probe_hit *hit, void *data), void *data);

/* Sets all counts of all probes. */
void session_update_counts(struct probe_session *session);

/*
 * Hands over the records in the rings whose order is certain, except in rings that are overwritten.
 * Returns whether there were any.
 */
bool session_read_rings(struct probe_session *session,
	bool (*visit)(const struct probe_hit *hit, void *data), void *data);

#endif
