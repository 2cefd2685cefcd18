/* SPDX-License-Identifier: MIT */
/*
 * Targets and sessions: switching probes of a process on and off, and reading
 * what their hits leave behind.
 *
 * Most functions stop tracing the process (ptrace(2)) before they return. Only
 * probe_target_spawn() and probe_target_attach() hold it until probe_target_release(). In
 * between, the thread that holds the process must make all calls for it.
 */
#ifndef PROBE_TARGET_H
#define PROBE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "list.h"
#include "pattern.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_target;
struct probe_session;
struct probe_watch;

/* ---- Targets -------------------------------------------------------------- */

/*
 * Opens a running process. If `exe` is not NULL, the process must run that file (same device
 * and inode).
 * Errors: PROBE_ERROR_NOT_FOUND (no such process), PROBE_ERROR_STATE (another
 * program, a zombie), PROBE_ERROR_PERMISSION (names the cause),
 * PROBE_ERROR_UNSUPPORTED (ISA, 32-bit, emulated; no /proc of this pid namespace).
 */
PROBE_MUST_CHECK struct probe_error *probe_target_open(
	pid_t pid, const char *exe, struct probe_target **ret);

/*
 * Starts a program, and holds it before any code of the program, its shared libraries or their
 * constructors has run. argv[0] is searched for in PATH. The program inherits the caller's
 * standard files, environment and signal dispositions. Errors: PROBE_ERROR_SYSTEM, with `err` as
 * execve(2) set it.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_spawn(
	char *const argv[], struct probe_target **ret);

/*
 * Stops a running process until probe_target_release(), so that everything done in between is
 * one change for it: it sees all of it or nothing. If the calling process dies, the target
 * continues. Errors: PROBE_ERROR_STATE (it is already held), PROBE_ERROR_PERMISSION,
 * PROBE_ERROR_NOT_FOUND (it has ended), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_attach(struct probe_target *target);

/*
 * Lets a held process continue. The caller waits for (wait(2)) a child that it has spawned.
 * Errors: PROBE_ERROR_STATE (the process is not held); after probe_target_attach(), also those of
 * probe_target_repair(): the process then runs, with some of our memory left in it.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_release(struct probe_target *target);

/*
 * Closes a target. A process that is still held continues, or is killed if it was started by
 * probe_target_spawn(). NULL is allowed.
 */
void probe_target_close(struct probe_target *target);

/* Returns the process id. */
pid_t probe_target_pid(const struct probe_target *target);
/*
 * Tells whether the process runs: false once it has exited, even if nobody has waited for it yet.
 */
bool probe_target_alive(const struct probe_target *target);

/* How a process ended. */
struct probe_fate {
	int signal;	    /* that killed it; 0: none, or no longer known */
	bool out_of_memory; /* the kernel killed processes of its control group for lack of memory
			     */
};

/*
 * Tells how a process ended for which sessions were started. `pidfd` is a descriptor
 * (pidfd_open(2)) that was opened before the process ended. It may be -1, but then the answer is
 * known only until the parent has waited for the process.
 */
void probe_target_fate(const struct probe_target *target, int pidfd, struct probe_fate *ret);

/* ---- What to switch -------------------------------------------------------- */

/* A site that was not patched, and why. Strings are owned by the report. */
struct probe_refusal {
	const char *provider, *name, *path;
	uint64_t pc;
	const char *reason;
};

/* What a call did. Initialise with {0}, and free with probe_report_deinit(). */
struct probe_report {
	size_t probes;			/* distinct provider:name per module that were switched */
	size_t sites;			/* their sites, except refused ones */
	size_t plans[PROBE_PLAN_COUNT]; /* the number of sites with each plan */
	struct probe_refusal *refusals;
	size_t refusal_count;
	/* Sites that should have been restored, but hold bytes of somebody else: not touched. */
	size_t left;
	/* The longest stop of a thread, without the time for which it waited for a CPU. */
	uint64_t stop_ns;
	/* Warnings for the user: less memory was taken than requested, or less is shown. */
	char **notes;
	size_t note_count;
};
/* Frees what a report holds. */
void probe_report_deinit(struct probe_report *report);

/* Which probes, and how. */
struct probe_request {
	const struct probe_pattern *const *patterns; /* borrowed */
	size_t pattern_count;
	bool keep_going; /* refused sites are reported, and the others switched */
	bool force;	 /* set the count instead of adding: enable to at least 1, disable to 0 */
	bool atomic;	 /* stop all threads even if only semaphores change */
	/*
	 * patterns[2k] names the start of a pair, patterns[2k + 1] its end. END is enabled before
	 * START and disabled after it.
	 */
	bool pairs;
	/* The plans to try, in this order; NULL: the default order. Borrowed. */
	const enum probe_plan *plans;
	size_t plan_count;
};

/* ---- Persistent sessions ---------------------------------------------------- */

/*
 * Adds one to the reference count of every probe that matches. Sites that have handlers of
 * their own (OCaml) are toggled; the others count their hits (probe_target_status()) until the
 * probe is disabled. After an error nothing is enabled, unless request->keep_going is set.
 *
 * Errors: PROBE_ERROR_NOT_FOUND (a pattern matches no probe), PROBE_ERROR_REFUSED (the message
 * has the number of sites and the first probe; the report has all sites and the reasons),
 * PROBE_ERROR_STATE (a count would overflow; another controller is at work),
 * PROBE_ERROR_PERMISSION, PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_enable(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report);

/*
 * Subtracts one from the reference count of every probe that matches. When a count reaches 0,
 * sites and semaphores are restored. Errors: PROBE_ERROR_STATE (a probe is off, and nothing is
 * changed), otherwise as probe_target_enable().
 */
PROBE_MUST_CHECK struct probe_error *probe_target_disable(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report);

/* The state of a probe: all its sites in one module. Strings are owned by the target. */
struct probe_status {
	const char *provider, *name, *path;
	size_t sites;	/* in the module */
	size_t patched; /* how many hold a patch, according to their memory */
	/* How many were patched but hold something else now: not all of their hits are counted. */
	size_t inconsistent;
	uint32_t refcount;
	bool enabled;
	size_t plans[PROBE_PLAN_COUNT];
	uint64_t hits; /* counted by the persistent session */
};

/*
 * Reads the state of every probe of the target, without stopping it. *ret is an array; free it
 * with free(). Errors: PROBE_ERROR_NOT_FOUND (the process has ended), PROBE_ERROR_SYSTEM,
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_status(
	struct probe_target *target, struct probe_status **ret, size_t *count_ret);

/* What a site holds that should hold our patch. */
enum probe_site_fault {
	PROBE_SITE_RESTORED,   /* it holds the file's bytes */
	PROBE_SITE_COVERED,    /* somebody's breakpoint stands over our jump */
	PROBE_SITE_OVERWRITTEN /* somebody's bytes are there */
};

/* Strings and bytes are valid only during the call of the visitor. */
struct probe_bad_site {
	const char *provider, *name; /* NULL: not a probe, but a place that serves to follow */
	const char *path;
	uint64_t pc;	/* of the site */
	uint64_t patch; /* address of the patched bytes */
	enum probe_site_fault fault;
	const uint8_t *bytes;
	size_t length;
	bool left; /* no session uses it any more, and it was not touched */
};

/*
 * Checks all patched sites of the target, without stopping it, and calls `visit` for each that
 * does not hold its patch. Errors: as probe_target_status().
 */
PROBE_MUST_CHECK struct probe_error *probe_target_bad_sites(struct probe_target *target,
	void (*visit)(const struct probe_bad_site *site, void *data), void *data);

/* Says in words what a site holds: "it holds cc 12 34 56 78: somebody's breakpoint ...". */
enum { PROBE_FAULT_BYTES = 160 };
void probe_fault_text(char text[PROBE_FAULT_BYTES], enum probe_site_fault fault,
	const uint8_t *bytes, size_t length);

/* ---- Repair ------------------------------------------------------------------ */

/* What dead controllers had left, and is removed now. Initialise with {0}. */
struct probe_repair {
	size_t sessions;
	size_t probes;	   /* of other sessions, that were being switched off */
	size_t sites;	   /* patched sites that are restored now */
	size_t mended;	   /* sites of living sessions that somebody had restored; patched again */
	size_t semaphores; /* lowered for these sessions, or corrected for others */
	size_t waiting;	   /* sessions that are off, but whose code a thread still runs */
	/* Of sessions that were not complete yet, or were almost gone. */
	size_t mappings, descriptors;
};

/*
 * Removes what controllers left in the target, and in the children that it has forked, if they
 * died while they changed or traced it: their sessions, and changes that they had begun. Every
 * other function that changes a target does this first. Adds to *ret, after an error too. Errors:
 * PROBE_ERROR_PERMISSION, PROBE_ERROR_STATE (another controller is at work), PROBE_ERROR_SYSTEM,
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_repair(
	struct probe_target *target, struct probe_repair *ret);

/* What probe_target_repair() would find. */
struct probe_stale {
	size_t sessions;	      /* of dead controllers, or that were being ended */
	size_t probes;		      /* of other sessions, that were being switched off */
	size_t semaphores;	      /* that are lower than what sessions have added */
	size_t mappings, descriptors; /* as in struct probe_repair */
};

/*
 * Tells what dead controllers left, without stopping the target. Mappings and descriptors are not
 * counted while another controller changes the target. Errors: as probe_target_status().
 */
PROBE_MUST_CHECK struct probe_error *probe_target_stale(
	struct probe_target *target, struct probe_stale *ret);

/* ---- Kept sessions ---------------------------------------------------------- */

/* A session that stays in the target when its controller ends. */
struct probe_kept {
	uint32_t id;
	size_t probes;	  /* how many it still has */
	const char *text; /* of probe_session_leave(); NULL: made by probe_target_enable() */
};

/*
 * Lists the persistent sessions of the target, without stopping it. *ret is one block, strings
 * included; free it with free(). Texts are read from the target's memory and are not trusted:
 * they may hold any bytes. Errors: as probe_target_status().
 */
PROBE_MUST_CHECK struct probe_error *probe_target_kept(
	struct probe_target *target, struct probe_kept **ret, size_t *count_ret);

/*
 * Ends a persistent session, as disabling all of its probes does. What it has gathered is lost.
 * Errors: PROBE_ERROR_NOT_FOUND (there is no such session), otherwise as probe_target_disable().
 */
PROBE_MUST_CHECK struct probe_error *probe_target_end(struct probe_target *target, uint32_t id);

/* ---- Attached sessions ------------------------------------------------------ */

enum probe_session_kind {
	PROBE_SESSION_COUNT,  /* hits are counted in the target */
	PROBE_SESSION_RECORD, /* also, each hit leaves a record: probe_session_poll() */
	PROBE_SESSION_GATHER  /* hits are added up in the target: probe_session_rows() */
};

enum { PROBE_STRING_BYTES_MAX = 8192, PROBE_KEYS_MAX = 4 };

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
	const char *value;		  /* NULL: none, or the time */
	const char *keys[PROBE_KEYS_MAX]; /* a row for each combination of their values */
	size_t key_count;
	size_t keys_max; /* different keys on each CPU, at most; 0: 4096 */
	enum probe_pairing pairing;
	const char *match; /* an end ends the begin with the same value; NULL: the same thread */
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
	 * For PROBE_SESSION_GATHER without keys: hits are counted by the return addresses that
	 * frame pointers lead to (probe_session_stack()). The program and its libraries must
	 * be compiled with -fno-omit-frame-pointer.
	 */
	PROBE_STACK_FRAMES
};

/* Zero is the default of each. Strings are borrowed until the session is freed. */
struct probe_session_options {
	enum probe_session_kind kind;
	enum probe_stack_kind stack;
	uint16_t stack_bytes;	    /* of PROBE_STACK_COPY, up to 32768; 0: 8192 */
	struct probe_gather gather; /* for PROBE_SESSION_GATHER */
	const char *filter;	    /* an expression: hits for which it is 0 are ignored */
	uint32_t sample_every;	    /* take every Nth hit on each CPU; 0: all */
	uint32_t sample_rate;	    /* take at most so many hits a second; 0: all */
	bool overwrite;		    /* a full ring drops its oldest records, not new ones */
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

enum probe_value_kind {
	PROBE_VALUE_NULL, /* could not be read */
	PROBE_VALUE_SIGNED,
	PROBE_VALUE_UNSIGNED,
	PROBE_VALUE_FLOAT,
	PROBE_VALUE_STRING, /* str() in the pattern */
	PROBE_VALUE_TEXT,   /* a number (u) that points to text (bytes, length) */
	PROBE_VALUE_BYTES   /* an aggregate, or bytes() in the pattern */
};

struct probe_value {
	enum probe_value_kind kind;
	bool truncated; /* the string or the bytes were longer */
	union {
		int64_t i;
		uint64_t u;
		double f;
	};
	const char *bytes; /* not terminated by NUL; valid during the call of the visitor */
	size_t length;
};

/* Which part of a probe is counted. The hits of its other sites are unknown, not 0. */
struct probe_coverage {
	size_t sites;	    /* of the probe, in its module */
	size_t refused;	    /* could not be patched: none of their hits are counted */
	size_t overwritten; /* were found altered: some of their hits are not counted */
};

/* Adds the coverage of another probe, or of the same probe in another process. */
void probe_coverage_add(struct probe_coverage *sum, const struct probe_coverage *more);

/* Tells whether no site is counted: then the number of hits is unknown. */
bool probe_coverage_is_none(const struct probe_coverage *coverage);

/* Says what is not counted: "refused", "1 of 3 sites overwritten"; "" if everything is. */
enum { PROBE_COVERAGE_BYTES = 96 };
void probe_coverage_text(char text[PROBE_COVERAGE_BYTES], const struct probe_coverage *coverage);

/* The role of a probe in its pair, in a session of any kind (gather.pairing). */
enum probe_role { PROBE_ROLE_NONE, PROBE_ROLE_BEGIN, PROBE_ROLE_END };

/* A probe of a session. */
struct probe_session_probe {
	const char *provider, *name, *path;
	enum probe_role role;
	uint64_t hits;	    /* as of the last probe_session_poll() or _stop() */
	uint64_t lost;	    /* hits without a record: no room in the ring, or for the key */
	uint64_t unmatched; /* ends without a begin */
	struct probe_coverage coverage;
};

/*
 * What was gathered for one probe, or for one key of a probe, over all sites and CPUs. A pair
 * has its row at the end. Times are in nanoseconds.
 */
struct probe_row {
	size_t probe; /* index of probe_session_probes() */
	size_t begin; /* of a pair: index of the (first) probe that begins it; otherwise SIZE_MAX */
	const struct probe_value *keys; /* as many as the session's options have */
	uint64_t count;
	bool has_value; /* there is a value or a time; otherwise the following fields are unused */
	bool is_signed;
	/* Exact up to 2^64 (a double would not be), unless `unit` is not 1. */
	long double sum;
	struct probe_value min, max; /* PROBE_VALUE_NULL: none */
	struct probe_value last;
	uint64_t last_time_ns; /* CLOCK_REALTIME */
	/* PROBE_BUCKETS counts, or NULL. probe_bucket_range() gives their bounds. */
	const uint64_t *buckets;
	double unit; /* nanoseconds per unit of the buckets' bounds; 1 of plain values */
	/*
	 * Of a pair without keys: how many have begun and not ended. The same in each row of the
	 * pair.
	 */
	uint64_t in_flight;
};
#define PROBE_BUCKETS 1921

/* A frame of a call stack. Owned by the session, which has each different frame once. */
struct probe_frame {
	uint64_t ip;	    /* run-time address: the site, or a return address */
	const char *module; /* path of the file; NULL: no file, such as code of a JIT */
	const char *symbol; /* or NULL */
	uint64_t offset; /* of ip in the symbol; without a symbol, link-time address in the file */
	uint64_t function; /* link-time address of the function; 0: not known */
};

enum probe_stack_end {
	PROBE_STACK_WHOLE,
	PROBE_STACK_TRUNCATED, /* there is more: the copy was too short, or too many frames */
	PROBE_STACK_LOST /* no way to unwind further: no rules for this code, or a broken stack */
};
enum { PROBE_FRAMES_MAX = 127 };

/* The first frame is the innermost: that of the site. */
struct probe_stack {
	const struct probe_frame *const *frames;
	size_t count;
	enum probe_stack_end end;
};

struct probe_hit {
	uint64_t time_ns; /* CLOCK_REALTIME */
	pid_t pid, tid;
	int cpu;
	size_t probe; /* index of probe_session_probes() */
	uint64_t pc;  /* run-time address of the site */
	const struct probe_value *args;
	size_t arg_count;
	const struct probe_stack *stack; /* with PROBE_STACK_COPY; else NULL */
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
 * sites there are not errors. Owned by the session.
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
 * Switches one probe of a session with options->switched on or off, by its index, or with
 * SIZE_MAX the session as a whole. A hit leaves a record if both are on; at first, all probes
 * are on, and the session is off. This takes one store and stops nothing: a hit that is being
 * recorded at this moment may still arrive. An index that does not exist is ignored.
 */
void probe_session_switch(struct probe_session *session, size_t probe, bool on);
/* Tells whether the session as a whole is switched on. */
bool probe_session_is_on(const struct probe_session *session);

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
 * Leaves a session in the target: from now on it is persistent, and ends with probe_target_end()
 * or when its probes are disabled. `text` is stored with it, for whoever opens it. The session
 * can still be read here, and must be freed; probe_session_stop() then does nothing. After an
 * error the session is as before. Errors: PROBE_ERROR_USAGE (the session follows libraries or
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
 * Returns the smallest and the largest value that bucket `index` counts, both inclusive. The last
 * bucket, PROBE_BUCKETS - 1, counts negative values, INT64_MIN to -1. The bounds of the others
 * are unsigned.
 */
void probe_bucket_range(size_t index, int64_t *low_ret, uint64_t *high_ret);

/*
 * Returns a percentile of a row's values: `percent` of the hits have this value or less. It is at
 * most 1.6 % off, and between min and max. Without hits or buckets, it is NAN.
 */
double probe_row_percentile(const struct probe_row *row, double percent);

/*
 * Returns the session's probes. Owned by the session, and valid until the next call that polls
 * it: the array grows when libraries are opened.
 */
const struct probe_session_probe *probe_session_probes(
	const struct probe_session *session, size_t *count_ret);

/*
 * Removes single probes of the session from the target, or puts them back. on[] has an element
 * for each of probe_session_probes(). A probe that is off costs nothing, because its sites are
 * restored; its counts stay, and continue later. A pair (gather.pairing) is on only if on[] is
 * true for all of its probes. When a pair is switched on again, earlier begins are forgotten.
 * However many probes there are, it is one change of the target. *report says what was switched
 * on; after an error, probe_session_is_selected() says which probes are on. Errors:
 * PROBE_ERROR_STATE (the session has ended; a library was closed or replaced), otherwise as
 * probe_session_start().
 */
PROBE_MUST_CHECK struct probe_error *probe_session_select(
	struct probe_session *session, const bool *on, struct probe_report *report);

/* Tells whether the probe of this index is on. False for an index that does not exist. */
bool probe_session_is_selected(const struct probe_session *session, size_t probe);

/*
 * Ends a session: restores the target's sites and semaphores. Records that are still in the rings
 * can be polled afterwards. It is not an error if the target has ended. Errors: as
 * probe_target_disable().
 */
PROBE_MUST_CHECK struct probe_error *probe_session_stop(struct probe_session *session);
/*
 * Frees a session. If it was not stopped, the next controller removes it from the target. NULL is
 * allowed.
 */
void probe_session_free(struct probe_session *session);

#ifdef __cplusplus
}
#endif
#endif
