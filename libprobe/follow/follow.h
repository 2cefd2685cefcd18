/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_FOLLOW_FOLLOW_H
#define LIBPROBE_FOLLOW_FOLLOW_H

#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/layout.h"
#include "arch/process.h"
#include "libprobe/base/worker.h"
#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"
#include "libprobe/ptrace/ptrace.h"
#include "libprobe/registry/registry.h"
#include "probe/watch.h"

/* ---- Gate ------------------------------------------------------------------------------------ */

/*
 * Following what a target does: a stub holds its thread until this process has
 * done what has to be done first.
 *
 * - Libraries that are opened: at the function that the loader calls for
 *   debuggers, whenever its list of libraries has changed and before their
 *   constructors run.
 * - Programs that are started: at libc's execve(), see libprobe/follow/follow.h.
 */

struct gate {
	struct probe_gate *shared; /* in the session's data; NULL: it is not open */
	int event;		   /* readable when a thread waits; borrowed */
	struct worker waiter;	   /* turns the futex into that descriptor */
	bool waiting, ending;
	uint32_t owned;			/* the waiter's death ends its turns: so far it has none */
	uint32_t opened;		/* the waiter may look at the gate, or end */
	uint32_t ended;			/* the waiter looks at the gate no more */
	uint32_t owner;			/* its thread id */
	struct robust_list_head robust; /* of the waiter: all turns, one after the other */
	struct robust_list turns[GATE_TURNS];
	uint32_t flips; /* a bit for each turn: its GATE_FLIP */
	uint32_t taken; /* the last number that gate_take() has seen */
	bool armed;	/* by us: those who are not served in time disarm it */
	bool lapsed;	/* they did */
};

enum gate_place {
	GATE_LIBRARIES, /* in the loader */
	GATE_EXEC	/* in libc */
};

/*
 * Puts a gate's stub into a session, with the target's state read and locked.
 * With `children`, forked children are held there as well.
 * Errors: PROBE_ERROR_UNSUPPORTED (there is no such function, as in a static
 * program), PROBE_ERROR_REFUSED, and those of attaching.
 */
PROBE_MUST_CHECK struct probe_error *gate_attach(struct change *change, uint32_t session,
	const struct probe_request *request, enum gate_place place, bool children);

/*
 * Lets that function of the loader call one of the process itself: `describe`, as in struct
 * install, says which, for a new session of the caller. Errors: the same.
 */
PROBE_MUST_CHECK struct probe_error *gate_attach_call(struct change *change, uint64_t caller,
	void (*describe)(const void *data, const struct reg_session *session, uint32_t slot,
		uint32_t number, struct arch_stub *stub),
	const void *data, uint32_t *session_ret);

/*
 * Will the program next come to the gate of libraries to report what is mapped already? It will if
 * it is held in its loader: the loader has begun to map libraries (RT_ADD), maps them all before it
 * sets the thread up, and reports them once they are relocated. Under LD_AUDIT the thread is set up
 * earlier.
 */
bool gate_is_expected(struct change *change);
/*
 * Is the loader changing its list? Then libraries may be mapped in part; whoever maps them comes to
 * the gate when they are whole.
 */
bool gate_list_changes(struct change *change);

/*
 * Starts the thread that will wait at a gate, which takes a moment; gate_close() ends it. Errors:
 * PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *gate_prepare(struct gate *gate);
/*
 * Begins to wait at a prepared gate, in this process's mapping of the session's data.
 * `event` is an eventfd(2), which does not block; gates may share it.
 */
void gate_open(struct gate *gate, struct probe_gate *shared, int event);

/* Clear and set the readiness of such a descriptor; clear it before looking at its gates. */
void gate_clear(int event);
void gate_raise(int event);

/* Is a thread waiting? */
bool gate_take(struct gate *gate);
/* How many threads have ever arrived, and whether one waits now. Without a gate: 0, none. */
uint32_t gate_arrivals(const struct gate *gate);
bool gate_is_busy(const struct gate *gate);
/* How many threads wait that gate_take() has seen. */
uint32_t gate_waiting(const struct gate *gate);
/* May one of those wait in this turn? Others in it have been released, and are about to leave. */
bool gate_holds_turn(const struct gate *gate, uint32_t turn);
/*
 * Has a thread gone on since the last call because nobody served it in time (struct probe_gate)?
 * Others after it were not held. From here on they are again.
 */
bool gate_has_lapsed(struct gate *gate);
/* Releases the threads that gate_take() has seen. */
void gate_release(struct gate *gate);
/* While a gate is shut off, no thread is held, and those that were are released. */
void gate_arm(struct gate *gate, bool armed);
/* Asks the waiter to end. If several gates are closed, shut them all first. */
void gate_shut(struct gate *gate);
/* From now on, nobody waits at it. */
void gate_leave(struct gate *gate);
/* Releases all threads from now on, and ends the waiter. */
void gate_close(struct gate *gate);

/* ---- Guardian -------------------------------------------------------------------------------- */

/* Holding processes in execve(2), each for a limited time, whatever happens to us. */

struct guardian;

/* A thread that is in execve(2) of one of the files. */
struct guardian_event {
	uint32_t id;
	uint32_t missed; /* see guardian_missed() */
	pid_t tid;
	uint64_t until_ns; /* CLOCK_MONOTONIC: then it is let go */
	struct file_id file;
};

/*
 * Holds whoever executes one of these files, until guardian_allow(), or for half a second. NULL:
 * the kernel does not allow it (it takes CAP_SYS_ADMIN), or not for these files, or one of them is
 * served by another program or machine, which might never answer.
 */
struct guardian *guardian_start(const char *const *files, size_t count);
/* Lets everybody go. NULL is allowed. */
void guardian_end(struct guardian *guardian);

/* Readable when a thread waits; when `is_gone`, for ever. */
int guardian_fd(const struct guardian *guardian);
/* Finds the next waiting thread; returns false if no thread waits. */
bool guardian_next(struct guardian *guardian, struct guardian_event *ret);
/* How many more executed one of the files, and were not held, since the last call. */
size_t guardian_missed(struct guardian *guardian);
void guardian_allow(struct guardian *guardian, const struct guardian_event *event);
/* Looks at the paths again: a file may have been replaced. */
void guardian_renew(struct guardian *guardian);
/* Has it ended by itself? Then nobody is held any more. */
bool guardian_is_gone(const struct guardian *guardian);

/* ---- Leaf ------------------------------------------------------------------------------------ */

/*
 * Leaves: programs whose files have no requested probe, and import no function by which libc
 * starts a process or a thread, executes a program, or loads code.
 */

/*
 * Notes that no probe is wanted in the files that a held process has mapped, and whether its
 * program is a leaf. `files` may be NULL.
 */
void leaf_pass_over(pid_t pid, struct files *files);

/* A program that runs as a leaf. */
struct leaf {
	dev_t dev; /* of its file */
	ino_t inode;
	uint64_t since_ns; /* when it began (CLOCK_MONOTONIC) */
};

/* ---- Passage --------------------------------------------------------------------------------- */

/* One thread's way into another program, as a tracer sees it. */

enum passage_state {
	PASSAGE_THROUGH,  /* it runs through execve(2) by itself */
	PASSAGE_SEIZED,	  /* it has been asked to stop */
	PASSAGE_CALL,	  /* it runs to execve(2), and through it */
	PASSAGE_PROGRAM,  /* the new program is there; execve(2) returns */
	PASSAGE_LOADER,	  /* its loader works */
	PASSAGE_LEAF,	  /* a leaf (leaf.h): it runs to its end */
	PASSAGE_STOPPING, /* a leaf that has run for a while, and has been asked to stop */
	PASSAGE_HELD,	  /* it has stopped where its probes are to be switched on */
	PASSAGE_LEAVING,  /* it is released when it next stops */
	PASSAGE_OVER	  /* it is not traced, or has ended */
};

struct passage {
	pid_t pid, tid;
	enum passage_state state;
	/* Called at execve(), with the address of the path: may it be followed? NULL: yes. */
	bool (*may_follow)(pid_t tid, uint64_t path);
	struct files *files;	    /* borrowed; may be NULL */
	struct yield *yield;	    /* borrowed; shared by all that one thread traces */
	bool called;		    /* execve(2) has been entered */
	bool returning;		    /* the next stop of the loader is after a system call */
	bool thread_ready;	    /* the loader has set the thread pointer */
	bool has_run;		    /* it was a leaf, and has run since its loader was done */
	bool nothing_lost;	    /* it was a leaf, or has ended where it was traced */
	pid_t stray;		    /* what a leaf has started, released after it; 0: nothing */
	bool is_ending;		    /* it has been released where its process ends */
	bool is_leaf;		    /* it runs as a leaf, or did until it was asked to stop */
	bool is_again;		    /* as in struct control_thread */
	int calls;		    /* of the loader */
	uint64_t argument;	    /* the first one of its last call, where the result hides it */
	struct leaf leaf;	    /* if is_leaf */
	uint64_t unseen_ns;	    /* how long a held one has run code that was not looked at */
	struct probe_error *told;   /* what was lost at its end; NULL: nothing. Owned */
	uint64_t deadline_ns;	    /* of the state (CLOCK_MONOTONIC) */
	struct restart_seen seen;   /* when it was asked to stop, if arch_process.hidden_call */
	struct arch_registers regs; /* of a held one */
	struct spawn_facts facts;
};

/*
 * Begins to trace a thread of process `pid` that goes to execve(2): through it, with `may_go`, or
 * asked to stop, and may_follow() decides. PASSAGE_OVER: it must not be traced, or is gone.
 */
void passage_begin(struct passage *passage, pid_t pid, pid_t tid, bool may_go);

/* Its execve(2) has failed, and it goes to the next one: the same again. */
void passage_again(struct passage *passage, bool may_go);

/*
 * Handles the stops that have been reported, and lets the thread run on after each except the last
 * one, that of PASSAGE_HELD. Does not wait: for the next stop, it gives up the processor a few
 * times at most, unless others want it. A held passage may end here, too, if its process was
 * killed. Returns whether there was a stop.
 */
bool passage_step(struct passage *passage);

/* Releases it: now if it has stopped, otherwise as soon as it stops. */
void passage_leave(struct passage *passage);

/*
 * Its deadline has passed: a thread on its way through execve(2) is asked to stop, a leaf is
 * held, any other is released.
 */
void passage_expire(struct passage *passage);

/* Is its memory another one than that of the process that it came from, or gone? */
bool passage_is_through(const struct passage *passage);

/* Did a program that has ended end as a leaf? Then it may still look as if it ran. */
bool passage_lingers(const struct passage *passage, uint64_t now_ns);

/*
 * Makes a target of a held passage; the target then owns the process. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *passage_take(
	struct passage *passage, struct probe_target *target);

/* ---- Waiters --------------------------------------------------------------------------------- */

/* Which threads wait at a gate. */

struct waiter {
	pid_t pid, tid;
	uint64_t sp; /* its stack pointer; 0: unknown */
};

/* Initialise with {0}; give items back with free(). */
struct waiters {
	struct waiter *items;
	size_t count;
	bool others_run; /* threads that may have arrived, and will wait in a moment */
};

/* Where they may be. */
struct waiters_place {
	pid_t pid;
	bool children;	    /* also children with memory of their own, and theirs */
	uint64_t address;   /* in the target, of the gate's turns: they wait for one of them */
	uint64_t since_ns;  /* when a thread arrived that has not been found yet, or 0 */
	unsigned int looks; /* in vain, since then */
	/* If not NULL: whether to leave out a thread that waits in a turn; called with `data`. */
	bool (*leave_out)(const void *data, int turn, pid_t pid, pid_t tid);
	const void *data;
};

/*
 * Finds all threads that have arrived at a gate; gate_release() releases just those. False while
 * one is not found yet: call it again; it waits a moment each time. A thread that was killed there
 * is given up after a while.
 */
bool waiters_find(struct waiters *waiters, struct gate *gate, struct waiters_place *place);

/* ---- Launch ---------------------------------------------------------------------------------- */

/*
 * Programs that the processes of sessions start: they are held before any code of
 * them runs, as spawned ones are.
 */

/* A session's gate at execve(). */
struct launch_gate {
	struct gate gate;
	/*
	 * With `children`, programs that its children start are followed as well; otherwise they
	 * are released.
	 */
	struct waiters_place place;
};

/* A thread that has come through a gate. */
struct launch {
	struct passage passage;
	struct launch_gate *gate; /* borrowed; NULL: it has been closed, or there was none */
	bool is_sought;		  /* a guardian held it, who holds whatever its parent is */
	struct file_id file;	  /* what such a one executes */
};

/* All that are on their way, the oldest first. */
struct launches {
	int event; /* an eventfd(2): readable when launches_run() has something to do */
	struct launch_gate **gates; /* borrowed */
	size_t gate_count;
	struct launch *items;
	size_t count;
	struct files *files;	   /* of the programs */
	struct alarm alarm;	   /* is set while there are any */
	struct yield yield;	   /* while they run */
	struct guardian *guardian; /* who holds programs that are sought; borrowed; NULL: nobody */
	/* That were not held, though wanted; how many of them launches_told() has told. */
	size_t missed, missed_told;
	/* The control groups (/proc/PID/cgroup) that had no limit a moment ago; until when. */
	char free_groups[1024];
	uint64_t free_until_ns;
};

/* Errors: PROBE_ERROR_SYSTEM. Call launches_deinit() even after an error. */
PROBE_MUST_CHECK struct probe_error *launches_init(struct launches *launches);
/* Lets everybody go, but gates are to be served still; the caller ends the guardian. */
void launches_end(struct launches *launches);
/* The same, if that has not been done. */
void launches_deinit(struct launches *launches);

/* Serves a gate that is open, and raises launches->event, from here on. */
PROBE_MUST_CHECK struct probe_error *launches_add(
	struct launches *launches, struct launch_gate *gate);
/*
 * Stops serving it. Its threads that have not executed another program yet are released, so that
 * the process can be changed.
 */
void launches_remove(struct launches *launches, const struct launch_gate *gate);

/*
 * Serves the gates: threads that wait there are followed into the programs that they start.
 * Continues with all of them while one may soon be held: a few milliseconds at most. A thread that
 * cannot be followed, or takes too long, is released and later found by a struct probe_watch.
 */
void launches_run(struct launches *launches);

/*
 * Takes the next held program, which the caller releases or closes; returns NULL if no program is
 * held. *unseen_ns_ret: how long it has run code that was not looked at, mostly 0. *is_sought_ret:
 * it came from a guardian.
 */
struct probe_target *launches_take(
	struct launches *launches, uint64_t *unseen_ns_ret, bool *is_sought_ret);

/*
 * Returns a loss to report, or NULL; the caller frees it. A program that ended on its way is
 * reported once. The number of programs that were not held is reported whenever it has doubled, and
 * at the end if it has grown.
 */
PROBE_MUST_CHECK struct probe_error *launches_told(struct launches *launches, bool at_end);

/* Is a process on its way, or did it end there just now? */
bool launches_have(const struct launches *launches, pid_t pid);
/*
 * May a process that is on its way, or at this gate, share the memory of the gate's process? Then
 * its parent cannot be stopped: it waits in vfork(2) until launches_run() has continued.
 */
bool launches_depend(const struct launches *launches, struct launch_gate *gate);

/* ---- Hold ------------------------------------------------------------------------------------ */

/* ---- Program --------------------------------------------------------------------------------- */

/* A program that has just been started: its file and its loader. */

/*
 * Is a program's loader at work yet? It reports this to debuggers (struct r_debug). If a process
 * cannot be read, or has no such loader: false, as waiting would not help.
 */
bool program_is_loading(pid_t pid, struct files *files);

/* ---- Rights ---------------------------------------------------------------------------------- */

/* Whether a program has the same rights under our ptrace(2) as without. */

enum { RIGHTS_PATH_MAX = 4096 };

/* ---- Seek ------------------------------------------------------------------------------------ */

/* Finding processes that are wanted, whoever has started them, without tracing anybody. */

struct seek;

/*
 * Looks, if it is time to. `is_known` leaves processes out, before they are asked for; `take` gets
 * the others that are wanted, and when they were not there yet (CLOCK_MONOTONIC); false ends the
 * look. Returns whether another look should follow at once, as somebody is on the way.
 */
struct seek_visitor {
	bool (*is_known)(void *data, pid_t pid);
	bool (*take)(void *data, pid_t pid, uint64_t since_ns);
	void *data;
};

/* ---- Stages ---------------------------------------------------------------------------------- */

/* The states of a passage, and what its stops mean. For passage.c. */

/* ---- Watch ----------------------------------------------------------------------------------- */

/* The programs that a watch holds; owned by it. */
struct launches *watch_launches(struct probe_watch *watch);

#endif
