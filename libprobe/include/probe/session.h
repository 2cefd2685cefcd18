/* SPDX-License-Identifier: MIT */
/*
 * Attached sessions: probes of a process that this one switches on, and what their hits leave
 * behind. A session ends with the process that has started it.
 */
#ifndef PROBE_SESSION_H
#define PROBE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "catalogue.h"
#include "error.h"
#include "hit.h"
#include "target.h" /* which includes this one at its end */

#ifdef __cplusplus
extern "C" {
#endif

struct probe_session;
struct probe_watch;

enum probe_session_kind {
	PROBE_SESSION_COUNT,  /* hits are counted in the target */
	PROBE_SESSION_RECORD, /* also, each hit leaves a record: probe_session_poll() */
	PROBE_SESSION_GATHER  /* hits are added up in the target: probe_session_rows() */
};

enum { PROBE_STRING_BYTES_MAX = 8192, PROBE_KEYS_MAX = 4, PROBE_ARGS_MAX = 32 };
enum { PROBE_KEYS_DEFAULT = 4096 /* rows, where a program does not say how many */ };

/* Which probes of a session are begins, and which are ends. */
enum probe_pairing {
	PROBE_PAIRING_NONE,
	PROBE_PAIRING_LISTED, /* patterns[2k] begins, patterns[2k + 1] ends */
	PROBE_PAIRING_ONE,    /* patterns[0] begins, each of the others ends it */
	PROBE_PAIRING_NAMES   /* by their names: X__start and X__done; see probectl-trace(1) */
};

/* What is added up (struct probe_row). The number of hits always is. */
struct probe_gather {
	bool sum, extremes, last, histogram;
	/* Expressions (probectl-trace(1), FILTERS). The value of a pair is its time. */
	const char *value; /* NULL: none, or the time */
	/* A row for each combination of their values. The words comm, ustack, probe are keys. */
	const char *keys[PROBE_KEYS_MAX];
	size_t key_count;
	size_t keys_max; /* different keys on each CPU, at most; 0: PROBE_KEYS_DEFAULT */
	enum probe_pairing pairing;
	/*
	 * An end ends the begin with the same value, or the same text (str(argN)); NULL: the same
	 * thread. A text that has more than string_bytes, or cannot be read, is lost.
	 */
	const char *match;
	const char *match_end; /* the expression of the end; NULL: the same as `match` */
};

/* How the call stack of each hit is taken (struct probe_stack). */
enum probe_stack_kind {
	PROBE_STACK_NONE,
	/*
	 * For PROBE_SESSION_RECORD: each record has a copy of the top of the stack, which is
	 * unwound when the record is read. Neither frame pointers nor debug information are
	 * needed, but libdw (elfutils) is.
	 */
	PROBE_STACK_COPY,
	/*
	 * The return addresses that frame pointers lead to: of PROBE_SESSION_RECORD, in each
	 * record; of PROBE_SESSION_GATHER without keys, hits are counted by them
	 * (probe_session_stack()). The program and its libraries must be compiled with
	 * -fno-omit-frame-pointer.
	 */
	PROBE_STACK_FRAMES
};

/* The longest that a hit may wait for room: struct probe_session_options. */
#define PROBE_WAIT_MAX_NS 1000000000

/* Zero is the default of each. Strings are borrowed until the session is freed. */
struct probe_session_options {
	enum probe_session_kind kind;
	enum probe_stack_kind stack;
	uint16_t stack_bytes; /* of PROBE_STACK_COPY, up to 32768; 0: 8192 */
	/*
	 * With PROBE_SESSION_RECORD, a stack and pairs (gather.pairing): only begins have stacks,
	 * and probes without a partner are left out. Begins and ends leave records of their own.
	 */
	bool begin_stacks;
	bool lines;		    /* frames have source lines, which takes time to find out */
	struct probe_gather gather; /* for PROBE_SESSION_GATHER */
	const char *filter;	    /* an expression: hits for which it is 0 are ignored */
	/* With `filter` and PROBE_SESSION_RECORD: hits tell its value (struct probe_hit). */
	bool filter_value;
	/*
	 * With PROBE_SESSION_RECORD and pairs (gather.pairing): hits are spans. What a begin has
	 * captured waits in the process for its end, whose hit has it (struct probe_hit). A span
	 * that takes less than span_min_ns leaves no record. Its stack is that of the end.
	 */
	bool spans;
	uint64_t span_min_ns;
	uint32_t sample_every; /* take every Nth hit on each CPU; 0: all */
	uint32_t sample_rate;  /* take at most so many hits a second; 0: all */
	bool overwrite;	       /* a full ring drops its oldest records, not new ones */
	/*
	 * With PROBE_SESSION_RECORD, without `overwrite`, `until_full` and `spans`: a hit that
	 * finds no room in its ring waits for it, up to so long (PROBE_WAIT_MAX_NS at most); 0: it
	 * is lost at once. If no room was made meanwhile, no hit waits until probe_session_poll()
	 * has made some. If others took what was made, it waits anew, up to ten times as long in
	 * all. Hits that still wait when the session ends are not a part of it.
	 * probe_session_waited() says how many have waited; probe_session_fd() tells when one
	 * begins to.
	 */
	uint64_t wait_ns;
	/*
	 * With `overwrite`: the rings are in this file, which outlives the process, so that
	 * probe_remains_open() can read them then. The process makes it, where it sees this
	 * absolute path, which ends in ".probectl"; it must not exist. When the session ends,
	 * it is removed.
	 */
	const char *file;
	/*
	 * Hits leave records only while the session is switched on (probe_session_switch()); at
	 * first it is off. With until_full, a hit that finds no room switches the session
	 * off, on all CPUs.
	 */
	bool switched, until_full;
	size_t ring_bytes; /* of each CPU, rounded up to a power of two; 0: 4 MiB */
	/* Rings may be smaller if the process's control group lacks the memory; default ones
	 * always may. */
	bool may_shrink;
	unsigned int together; /* how many sessions start together, and share that memory */
	uint16_t string_bytes; /* of a captured string, up to PROBE_STRING_BYTES_MAX; 0: 256 */
	/* Try each pointer-sized argument as a pointer to text (PROBE_VALUE_TEXT). */
	bool guess_strings;
	/*
	 * What is known of probes, or NULL; it must outlive the session. Expressions may have the
	 * names of arguments and the words of numbers; PROBE_PAIRING_NAMES knows its pairs.
	 */
	const struct probe_catalogue *catalogue;
	/*
	 * Of a probe that the catalogue knows, a pattern without a list of arguments takes strings
	 * as strings, and leaves out arguments that are only their lengths.
	 */
	bool described;
	/*
	 * Without `described` and guess_strings: of such a probe, hits have all arguments as the
	 * note has them, and those that are strings with their text (PROBE_VALUE_TEXT, `known`).
	 */
	bool texts;
	/* Libraries that the program opens later are probed before their constructors run. */
	bool follow_libraries;
	/*
	 * If not NULL: programs that the process starts (with follow_children, also those that
	 * its children start) are held until probe_watch_next() returns them. The same thread
	 * must call it. The watch must outlive the session.
	 */
	struct probe_watch *watch;
	/*
	 * Hits of forked children are reported, too. With follow_libraries, probes in
	 * libraries that only a child opens are refused: probe_session_report().
	 */
	bool follow_children;
};

/* The role of a probe in its pair, in a session of any kind (gather.pairing). */
enum probe_role { PROBE_ROLE_NONE, PROBE_ROLE_BEGIN, PROBE_ROLE_END };

/* A probe of a session. */
struct probe_session_probe {
	const char *provider, *name, *path;
	enum probe_role role;
	uint32_t pair;	    /* with a role: the number of its pair in this session */
	uint64_t hits;	    /* as of the last probe_session_poll() or _stop() */
	uint64_t lost;	    /* hits without a record: no room in the ring, or for the key */
	uint64_t unmatched; /* ends without a begin */
	/* Of an end, once the session has ended: begins without an end. */
	uint64_t in_flight;
	struct probe_coverage coverage;
	/*
	 * With options->catalogue, if the probe is known: argument i of a hit is
	 * meaning->args[args[i]], if args[i] is below meaning->arg_count. Else NULL.
	 */
	const struct probe_meaning *meaning;
	unsigned char args[PROBE_ARGS_MAX];
};

/*
 * Starts a session: switches probes on for this process. The session ends with
 * probe_session_stop(). If this process dies, the next controller removes it.
 *
 * With options->follow_libraries, a pattern may match no probe yet (probe_session_unmatched()),
 * and a session without patterns only follows.
 *
 * Errors: as probe_target_enable(); PROBE_ERROR_USAGE (options that make no sense, an expression
 * that has a mistake).
 */
PROBE_MUST_CHECK struct probe_error *probe_session_start(struct probe_target *target,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report, struct probe_session **ret);

/*
 * Returns the index of the first pattern that has matched no probe yet, or the number of
 * patterns.
 */
size_t probe_session_unmatched(const struct probe_session *session);
/* Tells whether the pattern of this index has matched a probe. */
bool probe_session_matched(const struct probe_session *session, size_t pattern);

/*
 * Returns what was done in libraries that the target has opened since the session began. Refused
 * sites there are not errors. A thread that opens one waits for probe_session_poll(), but only for
 * two seconds: a note says if hits may be missing for that reason. Owned by the session.
 */
const struct probe_report *probe_session_report(const struct probe_session *session);

/*
 * Calls `visit` for each record that there is, oldest first, and updates the counts. Never
 * blocks. `visit` returns false to stop early; the next call continues there. If `visit` is NULL,
 * records stay in their rings. *more_ret (may be NULL) becomes true if there were records: then
 * poll again soon. The records of a target that has exited can still be read.
 * Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM; those of a library that was opened.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_poll(struct probe_session *session,
	bool (*visit)(const struct probe_hit *hit, void *data), void *data, bool *more_ret);

/*
 * Sets ret[count] to how many processes run the program of each session's target that the target,
 * if it is one of them, or its children have forked: with follow_children, their hits are the
 * session's. Once the target has ended, the session can go on until there are none. 0 without
 * follow_children. All processes of the machine are looked at, once. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_sessions_heirs(
	struct probe_session *const *sessions, size_t count, size_t *ret);

/*
 * Returns how many hits a session with options->overwrite has recorded, also those that have been
 * overwritten since; 0 for other sessions.
 */
uint64_t probe_session_recorded(struct probe_session *session);

/*
 * Switches one probe of a session with options->switched on or off, by its index, or with
 * SIZE_MAX the session as a whole. A hit leaves a record if both are on; at first, all probes
 * are on, and the session is off. This takes one store and stops nothing: a hit that is being
 * recorded at this moment may still arrive. An index that does not exist is ignored.
 */
void probe_session_switch(struct probe_session *session, size_t probe, bool on);
/* Tells whether the session as a whole is switched on. */
bool probe_session_is_on(const struct probe_session *session);

/*
 * Returns how many hits have waited for room in their rings (probe_session_options.wait_ns), also
 * in vain; *ns_ret becomes the sum of their waits, in nanoseconds.
 */
uint64_t probe_session_waited(const struct probe_session *session, uint64_t *ns_ret);

/*
 * Returns how often damaged records were dropped: something in the target had written over the
 * shared memory. How many hits are missing is not known.
 */
uint64_t probe_session_damaged(const struct probe_session *session);

/*
 * Calls `visit` for each record in the rings of a session with options->overwrite, oldest first.
 * The records stay there. (probe_session_poll() visits no record of such a session.) Works
 * after the target has ended, too. Errors: PROBE_ERROR_USAGE (a session without this option),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_snapshot(struct probe_session *session,
	bool (*visit)(const struct probe_hit *hit, void *data), void *data);

enum probe_site_event {
	PROBE_SITE_BAD,	 /* its bytes are not ours: hits are not counted */
	PROBE_SITE_BACK, /* hits are counted again */
	PROBE_SITE_LEFT	 /* the session has ended, and did not touch it: probe_bad_site.left */
};

/* How a site has changed since the last look. */
struct probe_site_news {
	enum probe_site_event event;
	size_t probe; /* index of probe_session_probes(); SIZE_MAX: none, the site serves to follow
		       */
	struct probe_bad_site site;
	/*
	 * CLOCK_REALTIME: when the site was last seen intact (0: never), when it was first seen
	 * altered, and this look. Hits stopped counting somewhere between the first two.
	 */
	uint64_t good_ns, bad_ns, now_ns;
};

/*
 * Checks whether the session's sites still hold their patches, and calls `visit` for each that
 * has changed since the last call. Call it about once a second: it is one system call for a
 * thousand sites, and stops nothing. The counts of probes with altered sites are incomplete
 * (struct probe_coverage). With `last`, sites are reported even if they may be intact again in a
 * moment. The first call after probe_session_stop() reports sites that were not restored.
 * Children of the target are not checked. It is not an error if the target has ended. Errors:
 * PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_look(struct probe_session *session, bool last,
	void (*visit)(const struct probe_site_news *news, void *data), void *data);

/*
 * Replaces the filter, value, keys and matches of *options, which are the session's, by texts
 * without names of the catalogue: whoever opens the session later may have another one. The texts
 * exist as long as the session. Errors: PROBE_ERROR_USAGE (a name is not the same argument of all
 * its probes).
 */
PROBE_MUST_CHECK struct probe_error *probe_session_plain(
	const struct probe_session *session, struct probe_session_options *options);

/*
 * Leaves a session in the target: from now on it is persistent, and ends with probe_target_end()
 * or when its probes are disabled. `text` is stored with it, for the process that opens it. The
 * session can still be read here, and must be freed; probe_session_stop() then does nothing. After
 * an error the session is as before. Errors: PROBE_ERROR_USAGE (the session follows libraries or
 * programs, has switches, or records without options->overwrite; the text is too long), otherwise
 * as probe_session_start().
 */
PROBE_MUST_CHECK struct probe_error *probe_session_leave(
	struct probe_session *session, const char *text);

/*
 * Opens a persistent session, to read its rows, counts and snapshot. The request and the
 * options must be those that it was started with. Errors: PROBE_ERROR_NOT_FOUND (there is no such
 * session), PROBE_ERROR_STATE (it is of another kind), PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_open(struct probe_target *target, uint32_t id,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_session **ret);

/*
 * Returns a descriptor that becomes readable when the target waits for us, because it has opened
 * a library: call probe_session_poll() at once. Returns -1 if the session does not follow
 * libraries. For programs that are started, see probe_watch_fd().
 */
int probe_session_fd(const struct probe_session *session);

/*
 * Reads the rows of a PROBE_SESSION_GATHER as they are now, in no order, and updates the counts
 * of its probes. Never blocks. *ret is one block with everything that the rows point to; free it
 * with free(). Errors: PROBE_ERROR_MEMORY; for a session of probe_session_open()
 * PROBE_ERROR_NOT_FOUND (the process has ended).
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
 * Removes single probes of the session from the target, or puts them back. on[] has an element
 * for each of probe_session_probes(). A probe that is off costs nothing, because its sites are
 * restored; its counts stay, and continue later. In a PROBE_SESSION_GATHER, a pair
 * (gather.pairing) is on only if on[] is true for all of its probes. When a pair is switched on
 * again, earlier begins are forgotten. However many probes there are, it is one change of the
 * target. *report says what was switched on; after an error, probe_session_is_selected() says which
 * probes are on. Errors: PROBE_ERROR_STATE (the session has ended; a library was closed or
 * replaced), otherwise as probe_session_start().
 */
PROBE_MUST_CHECK struct probe_error *probe_session_select(
	struct probe_session *session, const bool *on, struct probe_report *report);

/* Tells whether the probe of this index is on. False for an index that does not exist. */
bool probe_session_is_selected(const struct probe_session *session, size_t probe);

/*
 * Ends a session: restores the target's sites and semaphores, and those of processes that were
 * forked with copies of it. Some of these may be found only when the last session of this process
 * ends: those whose parents have ended, as that of a daemon has. Records that are still in the
 * rings can be polled afterwards. It is not an error if the target has ended. Errors: as
 * probe_target_disable().
 */
PROBE_MUST_CHECK struct probe_error *probe_session_stop(struct probe_session *session);
/*
 * Ends `count` sessions, as probe_session_stop() does, and sets errors[i] to the error of
 * sessions[i], or NULL. A few threads, which this function starts and ends, change the processes in
 * parallel; any of them may call the function given to probe_target_on_wait(). No other thread may
 * use the targets meanwhile. Processes in frozen control groups come last. All of them together
 * have eight seconds to be thawed, or one second if SIGINT or SIGTERM is blocked and pending.
 */
void probe_sessions_stop(
	struct probe_session *const *sessions, size_t count, struct probe_error **errors);
/*
 * Frees a session. If it was not stopped, the next controller removes it from the target. NULL is
 * allowed.
 */
void probe_session_free(struct probe_session *session);

#ifdef __cplusplus
}
#endif
#endif
