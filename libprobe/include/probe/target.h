/* SPDX-License-Identifier: MIT */
/*
 * Targets and sessions: switching probes of a process on and off, and reading
 * what their hits leave behind.
 *
 * No function here keeps the process traced (ptrace) after it returns, but for
 * probe_target_spawn() and probe_target_attach(): it is held until
 * probe_target_release(). What is done meanwhile is to be done by the same thread.
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
 * Opens a running process. `exe` may be NULL; else the process must run that
 * program (same device and inode).
 * Errors: PROBE_ERROR_NOT_FOUND (no such process), PROBE_ERROR_STATE (another
 * program, a zombie), PROBE_ERROR_PERMISSION (names the cause),
 * PROBE_ERROR_UNSUPPORTED (ISA, 32-bit, emulated; no /proc of this pid namespace).
 */
PROBE_MUST_CHECK struct probe_error *probe_target_open(
	pid_t pid, const char *exe, struct probe_target **ret);

/*
 * Starts a program and holds it before any code of it, of its shared libraries
 * or of their constructors has run. argv[0] is looked up in PATH. The caller's
 * standard files, environment and signal dispositions are inherited.
 * Errors: PROBE_ERROR_SYSTEM with err as execve(2) set it.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_spawn(
	char *const argv[], struct probe_target **ret);

/*
 * Stops a running process, so that all that is done until probe_target_release() is
 * one change to it: it sees none of it, or all. Should this process die, it goes on.
 * Errors: PROBE_ERROR_STATE (it is held already), and those of control.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_attach(struct probe_target *target);

/*
 * Lets a held process go. A child that was spawned is the caller's to wait for.
 * Errors: PROBE_ERROR_STATE (it is not held); of one that was attached to, those of
 * probe_target_repair(): it runs, and some memory of ours is left in it.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_release(struct probe_target *target);

/* Closes a target; a held one is let go, or killed if probe_target_spawn() holds it still. NULL is
 * allowed. */
void probe_target_close(struct probe_target *target);

/* Its process. */
pid_t probe_target_pid(const struct probe_target *target);
/* Tells whether it is there: false once the process has exited (or, for a child, is a zombie). */
bool probe_target_alive(const struct probe_target *target);

/* How a process has ended. */
struct probe_fate {
	int signal;	    /* that killed it; 0: none, or nobody knows any more */
	bool out_of_memory; /* the kernel killed something, as its control group had no more */
};

/*
 * Tells how a process has ended that sessions were started for. `pidfd` is a descriptor of it
 * (pidfd_open(2)) that is older than its end, or -1: then it is known only until its parent
 * has waited for it.
 */
void probe_target_fate(const struct probe_target *target, int pidfd, struct probe_fate *ret);

/* ---- What to switch -------------------------------------------------------- */

/* A site that was not patched, and why. Strings are owned by the report. */
struct probe_refusal {
	const char *provider, *name, *path;
	uint64_t pc;
	const char *reason;
};

/* What an operation did. Initialise with {0}; give back with probe_report_deinit(). */
struct probe_report {
	size_t probes;			/* distinct provider:name per module that were switched */
	size_t sites;			/* their sites, without those that are refused */
	size_t plans[PROBE_PLAN_COUNT]; /* sites per plan; toggled, patched ... */
	struct probe_refusal *refusals;
	size_t refusal_count;
	/* Sites that were to be restored and hold somebody else's bytes: left as they are. */
	size_t left;
	uint64_t stop_ns; /* how long the process was stopped, longest thread */
	/* What else whoever asked should know: that less memory was taken, or less is shown. */
	char **notes;
	size_t note_count;
};
/* Frees what a report holds. */
void probe_report_deinit(struct probe_report *report);

/* Which probes, and how. */
struct probe_request {
	const struct probe_pattern *const *patterns; /* borrowed */
	size_t pattern_count;
	bool keep_going; /* refused sites are reported, the rest is done */
	bool force;	 /* set the state: enable makes a count of 0 1, disable makes it 0 */
	bool atomic;	 /* counters without a site are changed with all threads stopped too */
	/*
	 * Pairs: patterns[2k] is the start, patterns[2k + 1] the end. Enabling
	 * raises the ends first, disabling lowers the starts first.
	 */
	bool pairs;
	/* Plans in the order in which they are tried; NULL is the default order. */
	const enum probe_plan *plans;
	size_t plan_count;
};

/* ---- Persistent sessions ---------------------------------------------------- */

/*
 * Adds one to the reference count of every probe that matches. Sites with an
 * instrumented counterpart of their own (OCaml) are toggled, the others count
 * their hits until they are disabled (probe_target_status()).
 *
 * All or nothing unless request->keep_going. Errors: PROBE_ERROR_NOT_FOUND
 * (a pattern matches nothing), PROBE_ERROR_REFUSED (says how many sites, and
 * names the first probe; which, and why, is in the report), PROBE_ERROR_STATE (overflow), and those
 * of control.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_enable(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report);

/*
 * Takes one from every probe that matches; at 0 the sites and semaphores are as
 * they were. PROBE_ERROR_STATE names a probe that is off.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_disable(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report);

/* The state of one probe (all its sites in one module). Strings live as long as the target. */
struct probe_status {
	const char *provider, *name, *path;
	size_t sites;	/* in the module */
	size_t patched; /* of them, as their memory says */
	/* Of them, that were patched and hold something else now: not all their hits count. */
	size_t inconsistent;
	uint32_t refcount;
	bool enabled;
	size_t plans[PROBE_PLAN_COUNT];
	uint64_t hits; /* counted by the persistent session */
};

/*
 * Reads the state of every probe of the target. *ret is an array to be freed with
 * free(). Does not stop the process.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_status(
	struct probe_target *target, struct probe_status **ret, size_t *count_ret);

/* What has become of a site that was patched, and is not any more. */
enum probe_site_fault {
	PROBE_SITE_RESTORED,   /* it holds the file's bytes */
	PROBE_SITE_COVERED,    /* somebody's breakpoint stands over our jump */
	PROBE_SITE_OVERWRITTEN /* somebody's bytes are there */
};

/* Strings and bytes are valid during the call that hands it over. */
struct probe_bad_site {
	const char *provider, *name; /* NULL: a place where libraries or programs are noticed */
	const char *path;
	uint64_t pc;	/* of the site */
	uint64_t patch; /* where the bytes are, that were patched */
	enum probe_site_fault fault;
	const uint8_t *bytes;
	size_t length;
	bool left; /* no session wants it any more; it was left as it is */
};

/*
 * Looks at all patched sites of the target, and hands over those that are inconsistent.
 * Does not stop the process. Errors: those of reading it.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_bad_sites(struct probe_target *target,
	void (*visit)(const struct probe_bad_site *site, void *data), void *data);

/* Says in words what is wrong with a site: "holds cc 12 34 56 78, somebody's breakpoint ...". */
enum { PROBE_FAULT_BYTES = 160 };
void probe_fault_text(char text[PROBE_FAULT_BYTES], enum probe_site_fault fault,
	const uint8_t *bytes, size_t length);

/* ---- Repair ------------------------------------------------------------------ */

/* What was left by controllers that died, and has been removed. Initialise with {0}. */
struct probe_repair {
	size_t sessions;
	size_t probes;	   /* of other sessions, that were about to be switched off */
	size_t sites;	   /* patched ones, that are as they were now */
	size_t mended;	   /* sites of living sessions that somebody had restored: patched again */
	size_t semaphores; /* of those sessions, or that were not what the others had added */
	size_t waiting;	   /* sessions that are off, and whose code a thread is still in */
	/* Made for a session that never came to be, or was all but gone. */
	size_t mappings, descriptors;
};

/*
 * Removes what controllers left that died while they changed or traced the
 * target: their sessions, and what they had half done. Every other function
 * that changes a target does so first, too. Also in its children that were
 * forked meanwhile. Adds to *ret.
 * Errors are those of control; what was done before is in *ret.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_repair(
	struct probe_target *target, struct probe_repair *ret);

/* What there is to repair. */
struct probe_stale {
	size_t sessions;	      /* of dead controllers, or that were about to end */
	size_t probes;		      /* of other sessions, that were about to be switched off */
	size_t semaphores;	      /* less than what sessions have added */
	size_t mappings, descriptors; /* as in struct probe_repair */
};

/*
 * Tells what dead controllers left. Does not stop the target. Mappings and
 * descriptors are not told while another controller is changing it.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_stale(
	struct probe_target *target, struct probe_stale *ret);

/* ---- Kept sessions ---------------------------------------------------------- */

/* A persistent session of the target. */
struct probe_kept {
	uint32_t id;
	size_t probes;	  /* that it still has */
	const char *text; /* as it was left with; NULL: it was made by probe_target_enable() */
};

/*
 * The persistent sessions of the target. *ret is one block, to be freed with
 * free(). Texts come out of the target's memory: they may be anything. Does not
 * stop the process.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_kept(
	struct probe_target *target, struct probe_kept **ret, size_t *count_ret);

/*
 * Ends a persistent session, as disabling all of its probes does; with its memory goes what
 * it has gathered. PROBE_ERROR_NOT_FOUND: there is no such session.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_end(struct probe_target *target, uint32_t id);

/* ---- Attached sessions ------------------------------------------------------ */

enum probe_session_kind {
	PROBE_SESSION_COUNT,  /* hits are counted in the target, nothing else leaves it */
	PROBE_SESSION_RECORD, /* every hit leaves a record, too */
	PROBE_SESSION_GATHER  /* hits are added up in the target: probe_session_rows() */
};

enum { PROBE_STRING_BYTES_MAX = 8192, PROBE_KEYS_MAX = 4 };

/* Which probes of a session begin something, and which end it. */
enum probe_pairing {
	PROBE_PAIRING_NONE,
	PROBE_PAIRING_LISTED, /* patterns[2k] begins, patterns[2k + 1] ends */
	PROBE_PAIRING_ONE,    /* patterns[0] begins, each of the others ends it */
	PROBE_PAIRING_NAMES   /* as their names say: X__start and X__done (probe_pairs_of()) */
};

/* What is added up of each hit (struct probe_row). The number of hits always is. */
struct probe_gather {
	bool sum, extremes, last, histogram;
	/* Expressions (probectl-trace(1), FILTERS). With pairs, the value is the time. */
	const char *value;		  /* NULL: none, or the time */
	const char *keys[PROBE_KEYS_MAX]; /* one row for each value of these; strings: str(argN) */
	size_t key_count;
	size_t keys_max; /* how many different keys there may be on a CPU; 0: 4096 */
	enum probe_pairing pairing;
	const char *match;     /* ends belong to begins with the same value; NULL: same thread */
	const char *match_end; /* of the end, where it is another expression; else NULL */
};

/* How the call stack of each hit is taken (struct probe_stack). */
enum probe_stack_kind {
	PROBE_STACK_NONE,
	/*
	 * Of a PROBE_SESSION_RECORD: a copy of the stack's top, which is unwound when
	 * the record is read, by the call frame information of the files. Code needs no
	 * frame pointers, files no debug information; needs libdw (elfutils).
	 */
	PROBE_STACK_COPY,
	/*
	 * Of a PROBE_SESSION_GATHER without keys: hits are counted by the return
	 * addresses that the chain of frame pointers leads to (probe_session_stack()).
	 * For programs that were compiled with them all (-fno-omit-frame-pointer).
	 */
	PROBE_STACK_FRAMES
};

/* The strings are borrowed until the session is freed. */
struct probe_session_options {
	enum probe_session_kind kind;
	enum probe_stack_kind stack;
	uint16_t stack_bytes;	    /* of a copy, up to 32768; 0: 8192 */
	struct probe_gather gather; /* of a PROBE_SESSION_GATHER */
	const char *filter;	    /* only hits for which this is not 0; NULL: all */
	uint32_t sample_every;	    /* only every so many-th hit on each CPU; 0: all */
	uint32_t sample_rate;	    /* only so many hits a second; 0: all */
	bool overwrite;		    /* of records: the oldest go where there is no room */
	/*
	 * Of records: hits leave none but while the session is switched on, which it is not at
	 * first (probe_session_switch()). With until_full, a hit that finds no room switches it
	 * off: of all later ones, on any CPU, nothing is left.
	 */
	bool switched, until_full;
	size_t ring_bytes; /* per CPU, rounded up to a power of two; 0 is the default */
	/* Rings may be smaller where the process's control group leaves too little; 0 always may.
	 */
	bool may_shrink;
	unsigned int together; /* so many sessions begin at a time, and share what it leaves */
	uint16_t string_bytes; /* longest string captured, up to the maximum; 0: 256 */
	/* Also look for text behind every pointer-sized argument (see PROBE_VALUE_TEXT). */
	bool guess_strings;
	/* Libraries that the program opens later are probed before their constructors run. */
	bool follow_libraries;
	/*
	 * Not NULL: programs that the process (with follow_children also its children) starts
	 * are held, and told by probe_watch_next() of this watch, which has to be called
	 * by the same thread, and to outlive the session. Borrowed.
	 */
	struct probe_watch *watch;
	/*
	 * Hits of forked children are reported as well. With follow_libraries, probes of
	 * libraries that children open by themselves are refused: probe_session_report().
	 */
	bool follow_children;
};

enum probe_value_kind {
	PROBE_VALUE_NULL, /* could not be read */
	PROBE_VALUE_SIGNED,
	PROBE_VALUE_UNSIGNED,
	PROBE_VALUE_FLOAT,
	PROBE_VALUE_STRING, /* asked for by str() */
	PROBE_VALUE_TEXT,   /* a number (u) that points to text (bytes, length) */
	PROBE_VALUE_BYTES   /* an aggregate, or asked for by bytes() */
};

struct probe_value {
	enum probe_value_kind kind;
	bool truncated; /* of a string or bytes: there was more */
	union {
		int64_t i;
		uint64_t u;
		double f;
	};
	const char *bytes; /* not terminated; valid during the call that hands it over */
	size_t length;
};

/* How much of a probe is counted. Hits of the other sites are unknown, not 0. */
struct probe_coverage {
	size_t sites;	    /* that it has, of its module */
	size_t refused;	    /* of them, that could not be patched: none of their hits count */
	size_t overwritten; /* of them, that were found altered: some of their hits do not */
};

/* Adds what is known of another probe, or of the same one in another process. */
void probe_coverage_add(struct probe_coverage *sum, const struct probe_coverage *more);

/* Tells whether no site counts: then the number of hits is unknown. */
bool probe_coverage_is_none(const struct probe_coverage *coverage);

/* Says what is not counted: "refused", "1 of 3 sites overwritten"; "" where everything is. */
enum { PROBE_COVERAGE_BYTES = 96 };
void probe_coverage_text(char text[PROBE_COVERAGE_BYTES], const struct probe_coverage *coverage);

/* What a probe is to its pair, in a session of any kind (gather.pairing). */
enum probe_role { PROBE_ROLE_NONE, PROBE_ROLE_BEGIN, PROBE_ROLE_END };

/* A probe of a session. */
struct probe_session_probe {
	const char *provider, *name, *path;
	enum probe_role role;
	uint64_t hits;	    /* as of the last probe_session_poll() or _stop() */
	uint64_t lost;	    /* hits that left no record: no room in the ring, or for their key */
	uint64_t unmatched; /* ends that had no begin */
	struct probe_coverage coverage;
};

/*
 * What was gathered of one probe, or of one key of it: all sites, all CPUs. Of a
 * pair, it belongs to the end. Times are in nanoseconds.
 */
struct probe_row {
	size_t probe; /* index of probe_session_probes() */
	size_t begin; /* of a pair: the index of the (first) probe that begins it; else SIZE_MAX */
	const struct probe_value *keys; /* as many as the session's options have */
	uint64_t count;
	bool has_value; /* there is a value or a time, and the following mean something */
	bool is_signed;
	/* Exact up to 2^64, where a number of type double is not; with a unit, rounded. */
	long double sum;
	struct probe_value min, max; /* PROBE_VALUE_NULL where there is none */
	struct probe_value last;
	uint64_t last_time_ns; /* CLOCK_REALTIME */
	/* PROBE_BUCKETS counts, or NULL. probe_bucket_range() gives their bounds. */
	const uint64_t *buckets;
	double unit; /* nanoseconds per unit of the buckets' bounds; 1 of plain values */
	/* Of a pair (without keys): begun, and not yet ended; each end of the pair has it. */
	uint64_t in_flight;
};
#define PROBE_BUCKETS 1921

/* A function that was being run. Owned by the session; no two of it are the same frame. */
struct probe_frame {
	uint64_t ip;	    /* run-time address: of the site, or where a call returns to */
	const char *module; /* path of the file, or NULL: none, as of code that a JIT made */
	const char *symbol; /* or NULL */
	uint64_t offset;    /* of the ip, in the symbol; without one, in the file (link time) */
	uint64_t function;  /* where the function begins (link time); 0: not known */
};

enum probe_stack_end {
	PROBE_STACK_WHOLE,
	PROBE_STACK_TRUNCATED, /* it goes on: the copy ended, or there are too many frames */
	PROBE_STACK_LOST /* nobody knows how to go on: code without any rules, or a broken stack */
};
enum { PROBE_FRAMES_MAX = 127 };

/* The innermost frame comes first; it is that of the site. */
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
 * Switches probes on for this controller. The session ends with
 * probe_session_stop(), or is removed by the next controller once this process
 * is dead. Errors as probe_target_enable().
 *
 * A pattern may match nothing with options->follow_libraries: see
 * probe_session_unmatched(). A session without patterns only follows.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_start(struct probe_target *target,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report, struct probe_session **ret);

/* The index of the first pattern that has matched no probe so far, or their number. */
size_t probe_session_unmatched(const struct probe_session *session);
/* Tells whether the pattern of this index has matched a probe. */
bool probe_session_matched(const struct probe_session *session, size_t pattern);

/*
 * What was done to libraries that the target opened since the session began;
 * refused sites there are no error. Owned by the session.
 */
const struct probe_report *probe_session_report(const struct probe_session *session);

/*
 * Hands over the records that are there, oldest first, and updates the counts.
 * Never blocks. *more_ret (may be NULL) is true when records came, so that it
 * is worth polling again soon. `visit` returns false to stop early; what was
 * not visited comes next time. A target that has exited still has its records.
 * Without `visit` (NULL) records stay where they are.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_poll(struct probe_session *session,
	bool (*visit)(const struct probe_hit *hit, void *data), void *data, bool *more_ret);

/*
 * Switches one probe of a session with options->switched on or off, by its index, or with
 * SIZE_MAX the session as a whole. A hit leaves a record if both are on; at first, all probes
 * are on, and the session is off. Takes one store, and stops nothing: a hit that is being recorded
 * at this moment may still arrive. Does nothing for an index that there is not.
 */
void probe_session_switch(struct probe_session *session, size_t probe, bool on);
/* Tells whether the session as a whole is switched on. */
bool probe_session_is_on(const struct probe_session *session);

/*
 * How often records made no sense and were thrown away, so that hits are missing
 * whose number nobody knows: something in the target wrote over the shared memory.
 */
uint64_t probe_session_damaged(const struct probe_session *session);

/*
 * Hands over the records that are in the rings of a session that overwrites them
 * (options->overwrite), oldest first. They stay there; probe_session_poll() hands
 * over nothing of such a session. Also once the target has died.
 * Errors: PROBE_ERROR_USAGE (another session), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_snapshot(struct probe_session *session,
	bool (*visit)(const struct probe_hit *hit, void *data), void *data);

enum probe_site_event {
	PROBE_SITE_BAD,	 /* its bytes are not ours: hits do not count */
	PROBE_SITE_BACK, /* it counts again */
	PROBE_SITE_LEFT	 /* the session has ended, and left it as it is: see probe_bad_site.left */
};

/* What has become of a site since it was looked at before. */
struct probe_site_news {
	enum probe_site_event event;
	size_t probe; /* index of probe_session_probes(); SIZE_MAX: of none, it serves to follow */
	struct probe_bad_site site;
	/*
	 * CLOCK_REALTIME: when it was last seen in order (0: it never was), first seen
	 * otherwise, and this look. Somewhere between the first two its hits ceased to count.
	 */
	uint64_t good_ns, bad_ns, now_ns;
};

/*
 * Looks whether the session's sites are patched still, and hands over what is new. To be
 * called now and then: it is one system call for a thousand sites, and stops nothing. Counts
 * of probes whose sites were found altered are incomplete (struct probe_coverage). `last`:
 * tell also what may be in order in a moment. After probe_session_stop(), hands over once
 * what was left. Children of the target are not looked at. A target that has ended is no
 * error. Errors: PROBE_ERROR_MEMORY, those of reading the process.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_look(struct probe_session *session, bool last,
	void (*visit)(const struct probe_site_news *news, void *data), void *data);

/*
 * Leaves a session in the target: it is persistent from now on, and ends with
 * probe_target_end(), or when its probes are disabled. `text` is kept with it, for
 * whoever opens it. The handle can still be read and freed; stopping does nothing.
 * Not for sessions that follow libraries or programs, have switches, or whose records
 * nobody overwrites (PROBE_ERROR_USAGE). Other errors as probe_session_start(); it then is as it
 * was.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_leave(
	struct probe_session *session, const char *text);

/*
 * Opens a persistent session for reading: its rows, counts and snapshot. The
 * request and the options have to be those that it was started with. Errors:
 * PROBE_ERROR_NOT_FOUND (no such session), PROBE_ERROR_STATE (it is of another
 * kind), those of reading the target's files.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_open(struct probe_target *target, uint32_t id,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_session **ret);

/*
 * A descriptor that becomes readable when the target waits for this controller (a
 * library was opened: call probe_session_poll() at once); -1 where there is none. Of
 * programs that are started, probe_watch_fd() tells.
 */
int probe_session_fd(const struct probe_session *session);

/*
 * The rows of a PROBE_SESSION_GATHER as they are now, in no order; the counts of
 * its probes are then of the same time. *ret is one block with all that they
 * point to, to be freed with free(). Never blocks. Errors: PROBE_ERROR_MEMORY;
 * PROBE_ERROR_NOT_FOUND (of a session that was opened: the process has ended).
 */
PROBE_MUST_CHECK struct probe_error *probe_session_rows(
	struct probe_session *session, struct probe_row **ret, size_t *count_ret);

/*
 * The stack of a row, with PROBE_STACK_FRAMES; *ret is valid until the next call
 * for the session. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_USAGE (it has none).
 */
PROBE_MUST_CHECK struct probe_error *probe_session_stack(
	struct probe_session *session, const struct probe_row *row, struct probe_stack *ret);

/*
 * The values that bucket `index` counts: from *low_ret up to and with *high_ret.
 * The last one is that of negative values, INT64_MIN to -1; the bounds of the
 * others are to be read as unsigned.
 */
void probe_bucket_range(size_t index, int64_t *low_ret, uint64_t *high_ret);

/*
 * The value below or at which `percent` of a row's hits are, at most 1.6 % off,
 * within min and max; NAN without hits or buckets.
 */
double probe_row_percentile(const struct probe_row *row, double percent);

/* The session's probes; the array grows when libraries are opened. Owned by the session. */
const struct probe_session_probe *probe_session_probes(
	const struct probe_session *session, size_t *count_ret);

/*
 * Takes single probes out of the target, or puts them back; on[] has a state for
 * each of probe_session_probes(). What is off costs nothing: its sites are as they
 * were. Its counts stay, and go on later. A pair (gather.pairing) is on only as a
 * whole: if all of its probes are to be; what has begun is forgotten when it is
 * switched on again. One change, whatever the number of probes; *report tells what
 * was switched on, and after an error probe_session_is_selected() what is.
 * Errors: PROBE_ERROR_STATE (the session has ended, the library is gone or
 * another one), those of probe_session_start().
 */
PROBE_MUST_CHECK struct probe_error *probe_session_select(
	struct probe_session *session, const bool *on, struct probe_report *report);

/* Is the probe of this index switched on? */
bool probe_session_is_selected(const struct probe_session *session, size_t probe);

/*
 * Switches the probes off; records that are still in the rings can be polled
 * afterwards. The target's text and semaphores are then as they were before the
 * session. A target that is gone is no error.
 */
PROBE_MUST_CHECK struct probe_error *probe_session_stop(struct probe_session *session);
/* Frees a session; one that was not stopped is removed by the next controller. NULL is allowed. */
void probe_session_free(struct probe_session *session);

#ifdef __cplusplus
}
#endif
#endif
