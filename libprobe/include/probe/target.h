/* SPDX-License-Identifier: MIT */
/*
 * Targets: switching probes of a process on and off. What their hits leave behind is read in
 * sessions (session.h).
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

/*
 * Controllers of one process take turns: a controller that changes it holds a lock, which only root
 * and the user of the process can take. If a change of the target must wait for another process
 * that holds the lock, `on_wait` is called once a second; NULL reports nothing. `holder` describes
 * that process ("process 12 (probectl)"); `seconds` is how long the change has waited. The change
 * fails with PROBE_ERROR_BUSY after 20 seconds, or if `on_wait` returns false. It fails after half
 * a second if the holder's user is neither root nor the caller's.
 */
void probe_target_on_wait(struct probe_target *target,
	bool (*on_wait)(pid_t pid, unsigned int seconds, const char *holder, void *data),
	void *data);

/*
 * How long a caller that changes several processes waits in all. Initialise with {0}; the members
 * are private.
 */
struct probe_patience {
	uint64_t since_ns;
	uint64_t signal_ns;	 /* when SIGINT or SIGTERM was found pending */
	uint64_t lent_ns;	 /* for processes of other users, within their changes */
	unsigned int told, tell; /* seconds, as for on_wait() */
	unsigned int user;	 /* of the first target, plus 1 */
	bool is_mixed;		 /* not all targets are of one user */
	bool is_long, is_longer, is_over;
};

/*
 * Until this is called with NULL, changes of the target do not wait: they fail with
 * PROBE_ERROR_BUSY at once if another process has the lock, or if a thread cannot stop. The caller
 * changes its other processes first, and repeats the failed changes while probe_patience_wait()
 * returns true. Several targets may share `patience`, which must live until then.
 */
void probe_target_set_patience(struct probe_target *target, struct probe_patience *patience);
/*
 * Called after a round in which some changes failed: waits a moment. Returns false if the time is
 * over.
 */
bool probe_patience_wait(struct probe_patience *patience);

/* Returns the process id. */
pid_t probe_target_pid(const struct probe_target *target);

/*
 * Sets *ret to the path of the program that a process runs, as the kernel knows it: within the
 * process's own file system, with " (deleted)" after it if the file is gone. Free it with free().
 * Errors: PROBE_ERROR_NOT_FOUND (there is no such process any more), PROBE_ERROR_PERMISSION,
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_executable(
	const struct probe_target *target, char **ret);

/*
 * Tells whether the process runs: false once it has exited, even if its parent has not waited for
 * it yet.
 */
bool probe_target_alive(const struct probe_target *target);

/*
 * Tells whether the process is in a frozen control group (`docker pause`). Until it is thawed,
 * functions that change it fail with PROBE_ERROR_STATE, and its probes cannot be switched off.
 */
bool probe_target_frozen(const struct probe_target *target);

/* How a process ended. */
struct probe_fate {
	int signal;	    /* that killed it; 0: none, or no longer known */
	bool out_of_memory; /* the kernel killed processes of its control group for lack of memory
			     */
};

/*
 * Tells how a process ended; sessions must have been started for it. `pidfd` is a descriptor
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
	bool named; /* a pattern names the probe; else only wildcards match it */
};

/* What a call did. Initialise with {0}, and free with probe_report_deinit(). */
struct probe_report {
	size_t probes;			/* distinct provider:name per module that were switched */
	size_t sites;			/* their sites, except refused ones */
	size_t plans[PROBE_PLAN_COUNT]; /* the number of sites with each plan */
	struct probe_refusal *refusals;
	size_t refusal_count;
	/* Sites that should have been restored, but hold bytes that something else wrote: not
	 * touched. */
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
	/*
	 * Refused sites are reported, and the others switched, whatever the patterns are. Without
	 * it, a refused site is an error (PROBE_ERROR_REFUSED) if a pattern names its probe, and
	 * not only wildcards, a regular expression or a predicate match it; and if no site is left.
	 */
	bool keep_going;
	/*
	 * Only files that the target has mapped since probe_target_enable() last succeeded for this
	 * handle; the others are left as they are. For enabling, and for probe_session_start().
	 */
	bool later;
	bool force;  /* set the count, whatever it is: enable to 1, disable to 0 */
	bool atomic; /* stop all threads even if only semaphores change */
	/*
	 * patterns[2k] names the start of a pair, patterns[2k + 1] its end. END is enabled before
	 * START and disabled after it. An odd number of patterns is an error (PROBE_ERROR_USAGE).
	 */
	bool pairs;
	/* The plans to try, in this order; NULL: the default order. Borrowed. */
	const enum probe_plan *plans;
	size_t plan_count;
	/*
	 * Says of which other probes a program must see the semaphores raised to pass a probe: they
	 * are raised with the probe's own, and given back with them. NULL: of none. Borrowed.
	 */
	const struct probe_catalogue *catalogue;
};

/* ---- Persistent sessions ---------------------------------------------------- */

/*
 * Adds one to the reference count of every probe that matches. Sites that have handlers of
 * their own (OCaml) are toggled; the others count their hits (probe_target_status()) until the
 * probe is disabled. After an error nothing is enabled.
 *
 * Errors: PROBE_ERROR_NOT_FOUND (a pattern matches no probe), PROBE_ERROR_REFUSED (the message
 * has the number of sites and the first probe; the report has all sites and the reasons),
 * PROBE_ERROR_STATE (a count would overflow), PROBE_ERROR_BUSY, PROBE_ERROR_PERMISSION,
 * PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_enable(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report);

/*
 * Subtracts one from the reference count of every probe that matches. When a count reaches 0,
 * sites and semaphores are restored. Errors: PROBE_ERROR_STATE (a probe is off, and nothing is
 * changed), otherwise as probe_target_enable(). A probe that only wildcards match may be off if it
 * cannot be patched, because enabling with the same patterns left it out, too. With `force` and no
 * patterns, every probe that a controller has enabled is switched off.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_disable(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report);

/* One of several changes that probe_target_switch() makes. */
struct probe_action {
	bool disable; /* else enable */
	/* Which probes: by name, by a regular expression, by a predicate (probe/pattern.h); NULL:
	 * all. Borrowed. */
	const struct probe_pattern *pattern;
	/*
	 * Not NULL: `pattern` names the start of a pair, and this its end, which is on as long as
	 * the start is. Borrowed.
	 */
	const struct probe_pattern *end;
};

/*
 * Enables and disables probes in one call: all of them, or none. Actions apply in their order; each
 * changes the count of every probe that it names by one, even if another action names it, too. With
 * request->force the last action that names a probe sets its state. The request has no patterns;
 * the rest of it applies to all actions. With request->atomic the process sees all changes at once.
 *
 * Errors: PROBE_ERROR_USAGE (the request has patterns; a pair has no start), PROBE_ERROR_STATE
 * (an action disables a probe that is off, as in probe_target_disable()), otherwise as
 * probe_target_enable(); after each of them everything is as before.
 */
PROBE_MUST_CHECK struct probe_error *probe_target_switch(struct probe_target *target,
	const struct probe_action *actions, size_t count, const struct probe_request *request,
	struct probe_report *report);

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
	/*
	 * Its hits are unknown: probe_session_open() reads what is gathered; those of a probe that
	 * only a running trace or another tool has switched on are theirs.
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

/* A file that the target has mapped, whose probes are not known. */
struct probe_unread {
	const char *path, *reason; /* why, and what to do about it */
	size_t unnamed; /* probes of it that are on, and that probe_target_status() lacks */
};

/*
 * Calls `visit` for each file of the target that cannot be read: one that an upgrade of its package
 * has replaced, for example, or that was written to after its probes were enabled. Its probes that
 * are on are found nevertheless. If an older version of probectl has enabled them, they are found
 * if the file at its path has probes of these names; probe_target_disable() also finds the probes
 * that are given by name. Errors: as probe_target_status().
 */
PROBE_MUST_CHECK struct probe_error *probe_target_unread(struct probe_target *target,
	void (*visit)(const struct probe_unread *file, void *data), void *data);

/* What a site holds that should hold our patch. */
enum probe_site_fault {
	PROBE_SITE_RESTORED,   /* it holds the file's bytes */
	PROBE_SITE_COVERED,    /* a breakpoint covers our jump */
	PROBE_SITE_OVERWRITTEN /* something else has written there */
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

/* Says in words what a site holds: "it holds cc 12 34 56 78: a breakpoint covers ...". */
enum { PROBE_FAULT_BYTES = 160 };
void probe_fault_text(char text[PROBE_FAULT_BYTES], enum probe_site_fault fault,
	const uint8_t *bytes, size_t length);

/* ---- Repair ------------------------------------------------------------------ */

/* What dead controllers had left, and is removed now. Initialise with {0}. */
struct probe_repair {
	size_t sessions;
	size_t probes;	   /* of other sessions, that were being switched off */
	size_t sites;	   /* patched sites that are restored now */
	size_t mended;	   /* sites of living sessions that something had restored; patched again */
	size_t semaphores; /* lowered for these sessions, or corrected for others */
	size_t waiting;	   /* sessions that are off, but whose code a thread still runs */
	/* Of sessions that were not complete yet, or were almost gone. */
	size_t mappings, descriptors;
	size_t frames; /* which a thread that made a system call would have returned through */
	/* The program mapped memory over that of sessions, or unmapped it, so they ended. */
	size_t lost;	       /* processes */
	uint64_t sealed_bytes; /* cannot be freed: the program has sealed them (mseal(2)) */
};

/*
 * Removes what controllers left in the target, and in the children that it has forked, if they
 * died while they changed or traced it: their sessions, and changes that they had begun. Every
 * other function that changes a target does this first. Adds to *ret, after an error too. Errors:
 * PROBE_ERROR_PERMISSION, PROBE_ERROR_BUSY, PROBE_ERROR_SYSTEM,
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
	size_t frames;
	size_t lost;	       /* 1: the program has taken memory that sites or stubs need */
	uint64_t sealed_bytes; /* not leftovers: they stay until the program ends */
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

#ifdef __cplusplus
}
#endif

#include "session.h"

#endif
