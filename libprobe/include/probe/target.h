/* SPDX-License-Identifier: MIT */
/*
 * Targets: processes whose probes are switched on and off. Sessions (probe/session.h) read their
 * hits.
 *
 * Most functions stop tracing the process (ptrace(2)) before they return. Only probe_target_spawn()
 * and probe_target_attach() hold the process until probe_target_release(). In between, the thread
 * that holds the process must make all calls for it.
 */
#ifndef PROBE_TARGET_H
#define PROBE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "catalogue.h"
#include "error.h"
#include "hit.h"
#include "list.h"
#include "pattern.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_target;

/* ---- Targets -------------------------------------------------------------- */

/*
 * Opens a running process. If `exe` is not NULL, the process must run that file (same device
 * and inode).
 * Errors: PROBE_ERROR_NOT_FOUND (no such process), PROBE_ERROR_STATE (another
 * program, a zombie, a kernel thread), PROBE_ERROR_PERMISSION (names the cause),
 * PROBE_ERROR_UNSUPPORTED (ISA, 32-bit, emulated; no /proc of this pid namespace).
 */
PROBE_MUST_CHECK struct probe_error *probe_target_open(
	pid_t pid, const char *exe, struct probe_target **ret);

/*
 * Starts a program, and holds it before any code of the program, its shared libraries or their
 * constructors has run. argv[0] is searched for in PATH. The program inherits the caller's standard
 * files, environment and signal dispositions. Errors: PROBE_ERROR_SYSTEM, with the errno of
 * execve(2) in `err`; PROBE_ERROR_USAGE (argv is empty).
 */
PROBE_MUST_CHECK struct probe_error *probe_target_spawn(
	char *const argv[], struct probe_target **ret);

/*
 * Stops a running process until probe_target_release(). The process sees everything that is done in
 * between as one change: all of it or nothing. If the calling process dies, the target continues.
 * Errors: PROBE_ERROR_STATE (the process is already held), PROBE_ERROR_PERMISSION,
 * PROBE_ERROR_NOT_FOUND (the process has ended), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_attach(struct probe_target *target);

/*
 * Lets a held process continue. If the caller spawned the process, the caller must wait(2) for it.
 * Errors: PROBE_ERROR_STATE (the process is not held). After probe_target_attach(), also the errors
 * of probe_target_repair(): the process then runs, but some of libprobe's memory stays in it.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_release(struct probe_target *target);

/*
 * Closes a target. A process that is still held continues, or is killed if it was started by
 * probe_target_spawn(). NULL is allowed.
 */
void probe_target_close(struct probe_target *target);

/*
 * Sets a function that reports waits. Controllers of one process take turns: a controller that
 * changes the process holds a lock, which only root and the user of the process can take. While a
 * change of the target waits for another process that holds the lock, `on_wait` is called once a
 * second; NULL reports nothing. `pid` is the target. `holder` describes the process that holds the
 * lock ("process 12 (probectl)"); `seconds` is how long the change has waited. The change fails
 * with PROBE_ERROR_BUSY after 20 seconds, or if `on_wait` returns false. It fails after half a
 * second if the holder's user is neither root nor the caller's user.
 */
void probe_target_on_wait(struct probe_target *target,
	bool (*on_wait)(pid_t pid, unsigned int seconds, const char *holder, void *data),
	void *data);

/* Limits a caller's total wait while it changes several processes. Initialise with {0}. */
struct probe_patience {
	uint64_t since_ns;
	uint64_t signal_ns;	 /* when SIGINT or SIGTERM was found pending */
	uint64_t lent_ns;	 /* waited for processes of other users */
	unsigned int told, tell; /* seconds, for on_wait() */
	unsigned int user;	 /* user id of the first target, plus 1 */
	bool is_mixed;		 /* the targets belong to several users */
	bool is_long, is_longer, is_over;
};

/*
 * Makes changes of the target fail instead of waiting. This lasts until the function is called with
 * `patience` NULL. A change fails with PROBE_ERROR_BUSY at once if another process has the lock, or
 * if a thread cannot stop. The caller changes its other processes first, and repeats the failed
 * changes while probe_patience_wait() returns true. Several targets may share `patience`, which
 * must live until the call with NULL.
 */
void probe_target_set_patience(struct probe_target *target, struct probe_patience *patience);
/* Waits a moment, after a round in which changes failed. Returns false if the time is over. */
bool probe_patience_wait(struct probe_patience *patience);

/* Returns the process id. */
pid_t probe_target_pid(const struct probe_target *target);

/*
 * Sets *ret to the path of the program that a process runs, as the kernel knows it: within the
 * process's own file system, with " (deleted)" after it if the file is gone. Free it with free().
 * Errors: PROBE_ERROR_NOT_FOUND (the process no longer exists), PROBE_ERROR_PERMISSION,
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_executable(
	const struct probe_target *target, char **ret);

/* Returns false once the process has exited, even if its parent has not waited for it yet. */
bool probe_target_alive(const struct probe_target *target);

/*
 * Tells whether the process is in a frozen control group (`docker pause`). Until it is thawed,
 * functions that change it fail with PROBE_ERROR_STATE, and its probes cannot be switched off.
 */
bool probe_target_frozen(const struct probe_target *target);

/* How a process ended. */
struct probe_fate {
	int signal; /* the signal that killed the process; 0 if none did, or if unknown */
	/* The kernel killed processes of its control group because they used too much memory. */
	bool out_of_memory;
};

/*
 * Tells how a process ended; sessions must have been started for it. `pidfd` is a descriptor
 * (pidfd_open(2)) that was opened before the process ended. `pidfd` may be -1, but then the answer
 * is known only until the parent has waited for the process.
 */
void probe_target_fate(const struct probe_target *target, int pidfd, struct probe_fate *ret);

/* ---- What to switch -------------------------------------------------------- */

/* A site that was not patched, and why. Strings are owned by the report. */
struct probe_refusal {
	const char *provider, *name, *path;
	uint64_t pc;
	const char *reason;
	bool named; /* a pattern names the probe; false if only wildcards match it */
};

/* The result of a call. Initialise with {0}; free with probe_report_deinit(). */
struct probe_report {
	size_t probes;			/* switched probes: distinct provider:name per module */
	size_t sites;			/* sites of these probes, without refused ones */
	size_t plans[PROBE_PLAN_COUNT]; /* the number of sites with each plan */
	struct probe_refusal *refusals;
	size_t refusal_count;
	/* Sites that were not restored, because they hold bytes that something else wrote. */
	size_t left;
	/* The longest time that a thread was stopped, without its wait for a CPU. */
	uint64_t stop_ns;
	/* Warnings for the user: less memory than requested, missing hits, and so on. */
	char **notes;
	size_t note_count;
};
/* Frees the contents of a report. */
void probe_report_deinit(struct probe_report *report);

enum { PROBE_FUNCTIONS_MAX = 1000 };

/* Which probes to switch on or off, and how. */
struct probe_request {
	const struct probe_pattern *const *patterns; /* borrowed */
	size_t pattern_count;
	/*
	 * If true, refused sites are only reported, and all other sites are switched. If false, a
	 * refused site is an error (PROBE_ERROR_REFUSED) if a pattern names its probe, instead of
	 * matching it by wildcards, a regular expression or a predicate. It is also an error if
	 * every site is refused.
	 */
	bool keep_going;
	/*
	 * Switch only probes in files that the target has mapped since probe_target_enable(), or
	 * probe_target_switch() with `later`, last succeeded for this handle. Applies to these two
	 * and to probe_session_start().
	 */
	bool later;
	/* Set the reference count regardless of its value: to 1 to enable, to 0 to disable. */
	bool force;
	bool atomic; /* stop all threads even if only semaphores change */
	/*
	 * patterns[2k] names the start of a pair, patterns[2k + 1] its end. The end is enabled
	 * before the start, and disabled after it. An odd number of patterns is an error
	 * (PROBE_ERROR_USAGE).
	 */
	bool pairs;
	/*
	 * Allows more than a thousand functions (PROBE_FUNCTIONS_MAX) in one call. Without it, they
	 * are an error (PROBE_ERROR_USAGE), whose message has their number and the memory that they
	 * need in the process.
	 */
	bool many;
	/* The plans to try, in this order; NULL for the default order. Borrowed. */
	const enum probe_plan *plans;
	size_t plan_count;
	/*
	 * Some programs pass a probe only if the semaphores of other probes are raised, too. The
	 * catalogue names these: their semaphores are raised and lowered together with the probe's
	 * own. If NULL, only the probe's own semaphore is raised. Borrowed.
	 */
	const struct probe_catalogue *catalogue;
};

/* ---- Persistent sessions ---------------------------------------------------- */

/*
 * Adds one to the reference count of every probe that matches. Sites that have handlers of their
 * own (OCaml) are toggled; all other sites count their hits (probe_target_status()) until the probe
 * is disabled. After an error nothing is enabled.
 *
 * Errors: PROBE_ERROR_NOT_FOUND (a pattern matches no probe), PROBE_ERROR_REFUSED (the message has
 * the number of sites and the first probe; the report has all sites and the reasons),
 * PROBE_ERROR_STATE (a count would overflow), PROBE_ERROR_BUSY, PROBE_ERROR_PERMISSION,
 * PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_enable(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report);

/*
 * Subtracts one from the reference count of every probe that matches. When a count reaches 0, sites
 * and semaphores are restored. With `force` and no patterns, every probe that a controller has
 * enabled is switched off. It is no error if a probe is off because it cannot be patched, and only
 * wildcards match it: enabling with the same patterns has skipped it, too. Errors:
 * PROBE_ERROR_STATE (a probe is off; nothing is changed), otherwise as probe_target_enable().
 */
PROBE_MUST_CHECK struct probe_error *probe_target_disable(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report);

/* One of several changes that probe_target_switch() makes. */
struct probe_action {
	bool disable; /* true to disable probes, false to enable them */
	/* Selects probes (probe/pattern.h); NULL selects all. Borrowed. */
	const struct probe_pattern *pattern;
	/*
	 * If not NULL: `pattern` names the start of a pair, and `end` names its end. The end is on
	 * as long as the start is. Borrowed.
	 */
	const struct probe_pattern *end;
};

/*
 * Enables and disables probes in one call. Either all of these changes are made, or none. Actions
 * apply in their order; each changes the count of every probe that it names by one, even if another
 * action names the same probe. With request->force, the last action that names a probe sets its
 * state. The request has no patterns; its other members apply to all actions. With request->atomic,
 * the process sees all changes at once.
 *
 * In a new process (probe_target_spawn()) that was not released yet, and with request->later, an
 * action that disables what is off is ignored, also if its pattern matches nothing.
 *
 * Errors: PROBE_ERROR_USAGE (the request has patterns; a pair has no start), PROBE_ERROR_STATE (an
 * action disables a probe that is off, as in probe_target_disable()), otherwise as
 * probe_target_enable(). After an error nothing has changed.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_switch(struct probe_target *target,
	const struct probe_action *actions, size_t count, const struct probe_request *request,
	struct probe_report *report);

/* The state of a probe, over all its sites in one module. Strings are owned by the target. */
struct probe_status {
	const char *provider, *name, *path;
	size_t sites;	/* sites of the probe in the module */
	size_t patched; /* sites that hold a patch, according to the target's memory */
	/*
	 * Sites that contradict the reference count. They were patched but hold something else now,
	 * so not all of their hits are counted; or their handler (OCaml) is called without a user,
	 * or has users but is not called.
	 */
	size_t inconsistent;
	uint32_t refcount;
	bool enabled; /* the reference count is above 0, whatever the sites hold */
	size_t plans[PROBE_PLAN_COUNT];
	uint64_t hits; /* hits that the persistent session has counted */
	/*
	 * True if `hits` is unknown. If a persistent session gathers the hits, probe_session_open()
	 * reads them; if only a running trace or another tool has switched the probe on, that tool
	 * has them.
	 */
	bool uncounted;
};

/*
 * Reads the state of every probe of the target, without stopping it. *ret is an array; free it
 * with free(). Errors: PROBE_ERROR_NOT_FOUND (the process has ended), PROBE_ERROR_SYSTEM,
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_status(
	struct probe_target *target, struct probe_status **ret, size_t *count_ret);

/* A file that the target has mapped, and whose probes are unknown. */
struct probe_unread {
	const char *path, *reason; /* reason: why the file cannot be read, and what to do */
	size_t unnamed; /* enabled probes of the file that probe_target_status() does not report */
};

/*
 * Calls `visit` for each file of the target that cannot be read. For example, an upgrade of its
 * package has replaced the file, or something has written to it since its probes were enabled.
 * Enabled probes of such a file are found nevertheless. If an older version of probectl enabled
 * them, they are found only if the file at the same path has probes of these names;
 * probe_target_disable() also finds probes that are given by name. Errors: as
 * probe_target_status().
 */
PROBE_MUST_CHECK struct probe_error *probe_target_unread(struct probe_target *target,
	void (*visit)(const struct probe_unread *file, void *data), void *data);

/* The bytes that a site holds instead of its patch. */
enum probe_site_fault {
	PROBE_SITE_RESTORED,   /* the bytes of the file */
	PROBE_SITE_COVERED,    /* a breakpoint over the jump of the patch */
	PROBE_SITE_OVERWRITTEN /* bytes that something else wrote */
};

/* Strings and bytes are valid only during the call of the visitor. */
struct probe_bad_site {
	/* NULL for a site that is no probe, but serves to follow libraries or programs */
	const char *provider, *name;
	const char *path;
	uint64_t pc;	/* address of the site */
	uint64_t patch; /* address of the patched bytes */
	enum probe_site_fault fault;
	const uint8_t *bytes;
	size_t length;
	bool left; /* no session uses the site any more, and it was not restored */
};

/*
 * Checks all patched sites of the target, without stopping it. Calls `visit` for each site that
 * does not hold its patch. Errors: as probe_target_status().
 */
PROBE_MUST_CHECK struct probe_error *probe_target_bad_sites(struct probe_target *target,
	void (*visit)(const struct probe_bad_site *site, void *data), void *data);

/* Says in words what a site holds: "it holds cc 12 34 56 78: a breakpoint covers ...". */
enum { PROBE_FAULT_BYTES = 160 };
void probe_fault_text(char text[PROBE_FAULT_BYTES], enum probe_site_fault fault,
	const uint8_t *bytes, size_t length);

/* ---- Repair ------------------------------------------------------------------ */

/* The things that probe_target_repair() removed or corrected. Initialise with {0}. */
struct probe_repair {
	size_t sessions; /* sessions of dead controllers */
	size_t probes;	 /* probes that a dead controller was switching off in other sessions */
	size_t sites;	 /* patched sites that are restored now */
	/* Sites of living sessions that something had restored, and that are patched again. */
	size_t mended;
	size_t semaphores; /* semaphores lowered for dead sessions, or corrected for living */
	size_t waiting;	   /* sessions that are off, but whose code a thread still executes */
	/* Mappings and descriptors of sessions that were incomplete, or almost removed. */
	size_t mappings, descriptors;
	/* Stack frames of injected system calls, into which a thread would have returned. */
	size_t frames;
	/* Processes whose sessions ended because the program replaced or unmapped their memory. */
	size_t lost;
	/* Memory that cannot be freed, because the program has sealed it (mseal(2)). */
	uint64_t sealed_bytes;
};

/*
 * Removes what dead controllers left in the target and in its forked children: the sessions of
 * controllers that died while they traced the process, and unfinished changes. Every other function
 * that changes a target does this first. Adds to *ret, also after an error. Errors:
 * PROBE_ERROR_PERMISSION, PROBE_ERROR_BUSY, PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_repair(
	struct probe_target *target, struct probe_repair *ret);

/* The things that probe_target_repair() would find. */
struct probe_stale {
	size_t sessions;   /* sessions of dead controllers, or that a dead controller was ending */
	size_t probes;	   /* probes that a dead controller was switching off in other sessions */
	size_t semaphores; /* semaphores that are lower than what sessions have added */
	size_t mappings, descriptors; /* as in struct probe_repair */
	size_t frames;
	size_t lost; /* 1 if the program has taken memory that sites or stubs need, else 0 */
	/*
	 * Memory that the program has sealed: it is no leftover, and stays until the program ends.
	 */
	uint64_t sealed_bytes;
};

/*
 * Tells what dead controllers left, without stopping the target. Mappings, descriptors and frames
 * are not counted while another controller changes the target. Errors: as probe_target_status().
 */
PROBE_MUST_CHECK struct probe_error *probe_target_stale(
	struct probe_target *target, struct probe_stale *ret);

/* ---- Kept sessions ---------------------------------------------------------- */

/* A session that stays in the target when its controller ends. */
struct probe_kept {
	uint32_t id;
	size_t probes; /* probes that the session still has */
	/* The text of probe_session_leave(); NULL if probe_target_enable() made the session. */
	const char *text;
};

/*
 * Lists the persistent sessions of the target, without stopping it. *ret is one block, strings
 * included; free it with free(). Texts are read from the target's memory and are not trusted:
 * they may hold any bytes. Errors: as probe_target_status().
 */
PROBE_MUST_CHECK struct probe_error *probe_target_kept(
	struct probe_target *target, struct probe_kept **ret, size_t *count_ret);

/*
 * Ends a persistent session, as disabling all of its probes does. The hits that it has gathered are
 * lost. Errors: PROBE_ERROR_NOT_FOUND (the session does not exist), otherwise as
 * probe_target_disable().
 */
PROBE_MUST_CHECK struct probe_error *probe_target_end(struct probe_target *target, uint32_t id);

#ifdef __cplusplus
}
#endif

#include "session.h"

#endif
