/* SPDX-License-Identifier: MIT */
/*
 * Attached sessions: they switch on probes of a process, and read the hits of these probes. An
 * attached session ends with the process that has started it.
 */
#ifndef PROBE_SESSION_H
#define PROBE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "catalogue.h"
#include "error.h"
#include "hit.h"
#include "target.h" /* includes session.h at its end */

#ifdef __cplusplus
extern "C" {
#endif

struct probe_session;
struct probe_watch;

enum probe_session_kind {
	PROBE_SESSION_COUNT,  /* hits are counted in the target */
	PROBE_SESSION_RECORD, /* hits are counted, and each leaves a record: probe_session_poll() */
	PROBE_SESSION_GATHER  /* hits are added up in the target: probe_session_rows() */
};

enum { PROBE_STRING_BYTES_MAX = 8192, PROBE_KEYS_MAX = 4, PROBE_ARGS_MAX = 32 };
enum { PROBE_KEYS_DEFAULT = 4096 /* the value of keys_max if it is 0 */ };

/* Which probes of a session are start events, and which are end events. */
enum probe_pairing {
	PROBE_PAIRING_NONE,
	PROBE_PAIRING_LISTED, /* patterns[2k] is a start event, patterns[2k + 1] its end event */
	PROBE_PAIRING_ONE,    /* patterns[0] is the start event, each later pattern an end event */
	PROBE_PAIRING_NAMES   /* by names: X__start and X__done; see probectl-trace(1) */
};

/* The figures that the target adds up (struct probe_row), besides the number of hits. */
struct probe_gather {
	bool sum, extremes, last, histogram;
	/*
	 * An expression (probectl-trace(1), FILTERS) whose values are added up. If NULL, nothing is
	 * added up, except the times of pairs.
	 */
	const char *value;
	/*
	 * Expressions; each combination of their values has a row of its own. The words comm,
	 * ustack and probe are keys, too.
	 */
	const char *keys[PROBE_KEYS_MAX];
	size_t key_count;
	size_t keys_max; /* most different keys on each CPU; 0 for PROBE_KEYS_DEFAULT */
	enum probe_pairing pairing;
	/*
	 * An expression. An end event belongs to the start event that has the same value, or the
	 * same text (str(argN)). A hit whose text is longer than string_bytes, or unreadable, is
	 * lost. If `match` is NULL, both events must be in the same thread.
	 */
	const char *match;
	const char *match_end; /* the expression for end events; NULL if it is `match`, too */
};

/* How the call stack of each hit is taken (struct probe_stack). */
enum probe_stack_kind {
	PROBE_STACK_NONE,
	/*
	 * Each record has a copy of the top of the stack, which is unwound when the record is read.
	 * For PROBE_SESSION_RECORD. Needs libdw (elfutils), but neither frame pointers nor debug
	 * information.
	 */
	PROBE_STACK_COPY,
	/*
	 * The return addresses that a walk along the frame pointers finds. With
	 * PROBE_SESSION_RECORD, each record has them. With PROBE_SESSION_GATHER without keys, hits
	 * are counted by them (probe_session_stack()). The program and its libraries must be
	 * compiled with -fno-omit-frame-pointer.
	 */
	PROBE_STACK_FRAMES
};

/* The largest allowed value of probe_session_options.wait_ns. */
#define PROBE_WAIT_MAX_NS 1000000000

/* The role of a probe in its pair, in a session of any kind (gather.pairing). */
enum probe_role { PROBE_ROLE_NONE, PROBE_ROLE_BEGIN, PROBE_ROLE_END };

/* A filter for the probes with a role that match a pattern. */
struct probe_filter_rule {
	enum probe_role role;
	const struct probe_pattern *pattern; /* NULL: all probes match */
	const char *filter;		     /* NULL: no filter */
};

/* Zero is the default of each option. Strings are borrowed until the session is freed. */
struct probe_session_options {
	enum probe_session_kind kind;
	enum probe_stack_kind stack;
	uint16_t stack_bytes; /* size of the copy for PROBE_STACK_COPY, up to 32768; 0 for 8192 */
	/*
	 * With PROBE_SESSION_RECORD, a stack and pairs (gather.pairing): only start events have
	 * stacks, and probes without a partner are left out. Start and end events leave records of
	 * their own.
	 */
	bool begin_stacks;
	bool lines;		    /* frames have source lines, which takes time to look up */
	struct probe_gather gather; /* for PROBE_SESSION_GATHER */
	const char *filter;	    /* an expression: hits for which it is 0 are ignored */
	/* With `filter` and PROBE_SESSION_RECORD: hits have the value of the filter. */
	bool filter_value;
	/*
	 * With PROBE_SESSION_RECORD without `spans` and `overwrite`: hits must pass these filters,
	 * too. The last rule for a probe holds. Borrowed until the session is freed.
	 */
	const struct probe_filter_rule *filters;
	size_t filter_count;
	/*
	 * With PROBE_SESSION_RECORD and pairs (gather.pairing): hits are spans. The captured
	 * arguments of a start event are kept in the process until the end event. The hit of the
	 * end event has the arguments of both events (struct probe_hit). A span that takes less
	 * than span_min_ns leaves no record. A span's stack is that of its end event.
	 */
	bool spans;
	uint64_t span_min_ns;
	uint32_t sample_every; /* take every Nth hit on each CPU; 0 for every hit */
	uint32_t sample_rate;  /* take at most this many hits a second; 0 for every hit */
	bool overwrite;	       /* a full ring drops its oldest records, not new ones */
	/*
	 * The longest time that a hit waits for room if its ring is full, at most
	 * PROBE_WAIT_MAX_NS; 0 if the hit is lost at once. For PROBE_SESSION_RECORD without
	 * `overwrite`, `until_full` and `spans`. If no room was made during a wait, no hit waits
	 * until probe_session_poll() has made room. If other hits took the room that was made, the
	 * hit waits again, in all up to ten times as long. Hits that still wait when the session
	 * ends are not part of it. probe_session_waited() returns how many hits have waited; the
	 * descriptor of probe_session_fd() becomes readable when a hit begins to wait.
	 */
	uint64_t wait_ns;
	/*
	 * With `overwrite`: the absolute path of a file that holds the rings. The file outlives the
	 * process, so that probe_remains_open() can read it afterwards. The process itself creates
	 * the file, in its own file system. The file must not exist, and its name must end in
	 * ".probectl". It is removed when the session ends.
	 */
	const char *file;
	/*
	 * With `switched`, hits leave records only while the session is switched on
	 * (probe_session_switch()); at first it is off. With `until_full`, a hit that finds no room
	 * switches the session off, on all CPUs.
	 */
	bool switched, until_full;
	size_t ring_bytes; /* ring of each CPU, rounded up to a power of two; 0 for 4 MiB */
	/*
	 * Rings may be smaller than ring_bytes if the control group of the process has too little
	 * memory left. If ring_bytes is 0, they may always be smaller.
	 */
	bool may_shrink;
	unsigned int together; /* number of sessions that start together, and share the memory */
	uint16_t string_bytes; /* maximum of a string, PROBE_STRING_BYTES_MAX at most; 0 for 256 */
	/* Try each pointer-sized argument as a pointer to text (PROBE_VALUE_TEXT). */
	bool guess_strings;
	/*
	 * Describes probes and their arguments, or NULL. Expressions may then use the names of
	 * arguments and the words for numbers; PROBE_PAIRING_NAMES finds the catalogue's pairs. The
	 * catalogue must outlive the session.
	 */
	const struct probe_catalogue *catalogue;
	/*
	 * For a probe in the catalogue, and a pattern without a list of arguments: arguments that
	 * are strings are captured as strings, and arguments that are only their lengths are left
	 * out.
	 */
	bool described;
	/*
	 * For a probe in the catalogue, without `described` and guess_strings: hits have all
	 * arguments that the note has. Arguments that are strings also have their text
	 * (PROBE_VALUE_TEXT, `known`), and bytes (PROBE_VALUE_BYTES) stand for their address.
	 */
	bool texts;
	/* Switch on the probes of libraries opened later, before constructors run. */
	bool follow_libraries;
	/*
	 * If not NULL: programs that the process starts are held until probe_watch_next() returns
	 * them. With follow_children, this includes programs that the process's children start. The
	 * thread that polls the session must call probe_watch_next(). The watch must outlive the
	 * session.
	 */
	struct probe_watch *watch;
	/*
	 * Hits of forked children are reported, too, with follow_libraries also in libraries that
	 * only a child opens; not with call stacks or names of addresses: then these probes are
	 * refused (probe_session_report()).
	 */
	bool follow_children;
	bool frames; /* hits of functions have the address of the frame */
};

/* A probe of a session. */
struct probe_session_probe {
	const char *provider, *name, *path;
	enum probe_role role;
	uint32_t pair;	    /* number of the probe's pair in this session; unused without a role */
	uint64_t hits;	    /* as of the last probe_session_poll() or _stop() */
	uint64_t lost;	    /* lost hits: no room in the ring, or for the key */
	uint64_t unmatched; /* end events without a start event */
	/* for an end event, once the session has ended: start events without an end */
	uint64_t in_flight;
	struct probe_coverage coverage;
	/*
	 * The probe's description in options->catalogue: argument i of a hit is
	 * meaning->args[args[i]], if args[i] is below meaning->arg_count. NULL if the catalogue
	 * does not have the probe.
	 */
	const struct probe_meaning *meaning;
	unsigned char args[PROBE_ARGS_MAX];
};

/*
 * Starts a session of the calling process: switches on probes of the target. The session ends with
 * probe_session_stop(). If the calling process dies, the next controller removes the session.
 *
 * With options->follow_libraries, a pattern may match no probe yet (probe_session_unmatched()), and
 * a session without patterns only follows libraries.
 *
 * Errors: as probe_target_enable(); PROBE_ERROR_USAGE (options that make no sense, a mistake in an
 * expression).
 */
PROBE_MUST_CHECK struct probe_error *probe_session_start(struct probe_target *target,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report, struct probe_session **ret);

/*
 * Starts `count` sessions in one target, as probe_session_start() does for each of options[].
 * Sessions share one stub at each site if they filter and sample their hits alike and at most one
 * of them is a PROBE_SESSION_RECORD: one more count then costs a third of what it costs in a stub
 * of its own. Sessions that share stubs end together: probe_session_stop() of one ends all, and
 * probe_session_select() and probe_session_leave() are refused. They may be read and freed in any
 * order; stop them first. What cannot be done in one stub, such as reading too many arguments, is
 * done in one stub for each session. reports[] has a report for each session, initialised with {0};
 * for sessions that share stubs, all but the first report have only the numbers of probes and
 * sites. After an error, no session runs. Errors: as probe_session_start().
 */
PROBE_MUST_CHECK struct probe_error *probe_sessions_start(struct probe_target *target,
	const struct probe_request *request, const struct probe_session_options *const *options,
	size_t count, struct probe_report *reports, struct probe_session **ret);

/* Returns the first pattern that has matched no probe yet, or the number of patterns. */
size_t probe_session_unmatched(const struct probe_session *session);
/* Tells whether the pattern of this index has matched a probe. */
bool probe_session_matched(const struct probe_session *session, size_t pattern);

/*
 * Returns a report on libraries that the target has opened since the session began. Refused sites
 * there are not errors. A thread that opens a library waits for probe_session_poll(), but for two
 * seconds at most: if hits may be missing because the wait was too short, the report has a note.
 * Owned by the session.
 */
const struct probe_report *probe_session_report(const struct probe_session *session);

/*
 * Calls `visit` for each available record, oldest first, and updates the counts. Never blocks.
 * `visit` returns false to stop early; the next call continues with the next record. If `visit` is
 * NULL, records stay in their rings. *more_ret (may be NULL) becomes true if there were records:
 * then poll again soon. The records of a target that has exited can still be read. Errors:
 * PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM, and the errors of patching a library that the target has
 * opened.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_poll(struct probe_session *session,
	bool (*visit)(const struct probe_hit *hit, void *data), void *data, bool *more_ret);

/*
 * Counts the processes whose hits each session has. ret[i] is the number for sessions[i]: the
 * target, if it has not ended, and all processes forked from it that have not executed another
 * program. After the target has ended, the session can continue until this number is 0. It is
 * always 0 without options->follow_children. The function looks once at all processes of the
 * machine. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_sessions_heirs(
	struct probe_session *const *sessions, size_t count, size_t *ret);

/*
 * Returns how many hits a session with options->overwrite has recorded. The number includes hits
 * that have been overwritten since. It is 0 for other sessions.
 */
uint64_t probe_session_recorded(struct probe_session *session);

/*
 * Switches one probe of a session, or the whole session, on or off. `probe` is the index of the
 * probe, or SIZE_MAX for the session. The session needs options->switched. A hit leaves a record if
 * both its probe and the session are on. At first, all probes are on, and the session is off.
 * Switching takes one store and stops nothing: a hit that is being recorded at this moment may
 * still arrive. An index that does not exist is ignored.
 */
void probe_session_switch(struct probe_session *session, size_t probe, bool on);
/* Tells whether the session as a whole is switched on. */
bool probe_session_is_on(const struct probe_session *session);

/*
 * Returns how many hits have waited for room in their rings (probe_session_options.wait_ns),
 * including hits that were lost after the wait. *ns_ret becomes the sum of all waits, in
 * nanoseconds.
 */
uint64_t probe_session_waited(const struct probe_session *session, uint64_t *ns_ret);

/*
 * Returns how often damaged records were dropped. Something in the target had written over the
 * shared memory; the number of missing hits is unknown.
 */
uint64_t probe_session_damaged(const struct probe_session *session);

/*
 * Calls `visit` for each record in the rings of a session with options->overwrite, oldest first.
 * The records stay there. (probe_session_poll() visits no record of such a session.) Also works
 * after the target has ended. Errors: PROBE_ERROR_USAGE (a session without this option),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_snapshot(struct probe_session *session,
	bool (*visit)(const struct probe_hit *hit, void *data), void *data);

enum probe_site_event {
	PROBE_SITE_BAD,	 /* the site does not hold its patch: hits are not counted */
	PROBE_SITE_BACK, /* the site holds its patch again: hits are counted */
	PROBE_SITE_LEFT	 /* the session has ended without restoring it: see probe_bad_site.left */
};

/* The change of a site since the last probe_session_look(). */
struct probe_site_news {
	enum probe_site_event event;
	/*
	 * Index into probe_session_probes(); SIZE_MAX for a site that serves to follow libraries or
	 * programs.
	 */
	size_t probe;
	struct probe_bad_site site;
	/*
	 * Times of CLOCK_REALTIME. good_ns: the site was last seen intact (0 if never). bad_ns: the
	 * site was first seen altered. now_ns: this check. Hits stopped counting at some time
	 * between good_ns and bad_ns.
	 */
	uint64_t good_ns, bad_ns, now_ns;
};

/*
 * Checks whether the session's sites still hold their patches. Calls `visit` for each site that has
 * changed since the last call. Call this function about once a second: it makes one system call for
 * a thousand sites, and stops nothing. The counts of probes with altered sites are incomplete
 * (struct probe_coverage). With `last`, sites are reported even if they may be intact again in a
 * moment. The first call after probe_session_stop() reports sites that were not restored. Children
 * of the target are not checked. It is not an error if the target has ended. Errors:
 * PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_look(struct probe_session *session, bool last,
	void (*visit)(const struct probe_site_news *news, void *data), void *data);

/*
 * Replaces the filter, value, keys and matches of *options, the session's options, by texts without
 * names of the catalogue, because the program that opens the session later may have another
 * catalogue. The texts exist as long as the session. Errors: PROBE_ERROR_USAGE (a name stands for
 * different arguments in different probes).
 */
PROBE_MUST_CHECK struct probe_error *probe_session_plain(
	const struct probe_session *session, struct probe_session_options *options);

/*
 * Leaves a session in the target. From now on the session is persistent: it ends with
 * probe_target_end(), or when its probes are disabled. `text` is stored with it, for the process
 * that opens it. The caller can still read the session here, and must free it; probe_session_stop()
 * then does nothing. After an error the session is as before. Errors: PROBE_ERROR_USAGE (the
 * session follows libraries or programs, has switches, or records without options->overwrite; the
 * text is too long), otherwise as probe_session_start().
 */
PROBE_MUST_CHECK struct probe_error *probe_session_leave(
	struct probe_session *session, const char *text);

/*
 * Opens a persistent session, to read its rows, counts and snapshot. The request and the options
 * must be those with which the session was started. Errors: PROBE_ERROR_NOT_FOUND (the session does
 * not exist), PROBE_ERROR_STATE (the session is of another kind), PROBE_ERROR_SYSTEM,
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_open(struct probe_target *target, uint32_t id,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_session **ret);

/*
 * Returns a descriptor that becomes readable when the target waits for the caller: it has opened a
 * library, or a hit waits for room (probe_session_options.wait_ns). Call probe_session_poll() at
 * once. Returns -1 if the session neither follows libraries nor lets hits wait. For programs that
 * the target starts, see probe_watch_fd().
 */
int probe_session_fd(const struct probe_session *session);

/*
 * Reads the current rows of a PROBE_SESSION_GATHER, in no particular order. Updates the counts of
 * its probes. Never blocks. *ret is one block with everything that the rows point to; free it with
 * free(). Errors: PROBE_ERROR_MEMORY; for a session of probe_session_open() PROBE_ERROR_NOT_FOUND
 * (the process has ended).
 */
PROBE_MUST_CHECK struct probe_error *probe_session_rows(
	struct probe_session *session, struct probe_row **ret, size_t *count_ret);

/*
 * Returns the call stack of a row, for a session with PROBE_STACK_FRAMES. *ret is valid until the
 * next call for the session. Errors: PROBE_ERROR_USAGE (rows of this session have no stacks),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_stack(
	struct probe_session *session, const struct probe_row *row, struct probe_stack *ret);

/*
 * Returns the session's probes. Owned by the session, and valid until the next call that polls
 * it: the array grows when libraries are opened.
 */
const struct probe_session_probe *probe_session_probes(
	const struct probe_session *session, size_t *count_ret);

/*
 * Removes single probes of the session from the target, or puts them back. on[] has an element for
 * each probe of probe_session_probes(). A probe that is off costs nothing, because its sites are
 * restored; its counts stay, and continue when the probe is on again. In a PROBE_SESSION_GATHER, a
 * pair (gather.pairing) is on only if on[] is true for all of its probes. When a pair is switched
 * on again, earlier start events are forgotten. All probes are switched in one change of the
 * target. *report says what was switched on; after an error, probe_session_is_selected() says which
 * probes are on. Errors: PROBE_ERROR_STATE (the session has ended; a library was closed or
 * replaced), otherwise as probe_session_start().
 */
PROBE_MUST_CHECK struct probe_error *probe_session_select(
	struct probe_session *session, const bool *on, struct probe_report *report);

/* Tells whether the probe of this index is on. False for an index that does not exist. */
bool probe_session_is_selected(const struct probe_session *session, size_t probe);

/*
 * Ends a session: restores the sites and semaphores of the target, and of processes that were
 * forked with copies of them. Some of these processes, whose parents have ended (such as daemons),
 * may be found only when the last session of the calling process ends. Records that are still in
 * the rings can be polled afterwards. It is not an error if the target has ended. Errors: as
 * probe_target_disable().
 */
PROBE_MUST_CHECK struct probe_error *probe_session_stop(struct probe_session *session);
/*
 * Ends `count` sessions, as probe_session_stop() does, and sets errors[i] to the error of
 * sessions[i], or NULL. This function starts a few threads, which change the processes in parallel
 * and end before it returns. Any of them may call the function given to probe_target_on_wait(). No
 * other thread may use the targets meanwhile. Processes in frozen control groups come last. The
 * function waits up to eight seconds in all for them to be thawed, or one second if SIGINT or
 * SIGTERM is blocked and pending.
 */
void probe_sessions_stop(
	struct probe_session *const *sessions, size_t count, struct probe_error **errors);
/*
 * Frees a session. If the session was not stopped, the next controller removes it from the target.
 * NULL is allowed.
 */
void probe_session_free(struct probe_session *session);

#ifdef __cplusplus
}
#endif
#endif
