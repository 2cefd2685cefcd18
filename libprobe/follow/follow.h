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
 * A gate: a stub holds the target's threads there until the controller has done its work.
 *
 * - Libraries that are opened: at the function that the loader calls for debuggers, whenever its
 *   list of libraries has changed, before the constructors of the libraries run.
 * - Programs that are started: at libc's execve(), see the section "Launch".
 */

struct gate {
	struct probe_gate *shared; /* in the session's data; NULL if the gate is not open */
	int event;		   /* eventfd that is readable when a thread waits; borrowed */
	struct worker waiter;	   /* thread that waits on the gate's futex and signals `event` */
	bool waiting, ending;
	/* Futex, set when the waiter's death will end its turns; no turn exists yet. */
	uint32_t owned;
	uint32_t opened; /* futex, set when the waiter may watch the gate, or must end */
	uint32_t ended;	 /* futex, set when the waiter watches the gate no more */
	uint32_t owner;	 /* thread id of the waiter */
	struct robust_list_head robust; /* the waiter's robust list: all turns, in a chain */
	struct robust_list turns[GATE_TURNS];
	uint32_t flips; /* a bit for each turn: the turn's GATE_FLIP */
	uint32_t taken; /* the last number that gate_take() has seen */
	bool armed;	/* we armed the gate; a thread that waits too long disarms it */
	bool lapsed;	/* a thread has disarmed the gate */
};

enum gate_place {
	GATE_LIBRARIES, /* in the loader, when its list of libraries has changed */
	GATE_EXEC	/* in libc, at execve() */
};

/*
 * Puts a gate's stub into a session. The target's state must be read and locked. With `children`,
 * the gate also holds forked children. Errors: PROBE_ERROR_UNSUPPORTED (the function does not
 * exist, as in a static program), PROBE_ERROR_REFUSED, and those of attaching.
 */
PROBE_MUST_CHECK struct probe_error *gate_attach(struct change *change, uint32_t session,
	const struct probe_request *request, enum gate_place place, bool children);

/*
 * Makes the loader's function call a function of the process, in a new session of the caller.
 * `describe` describes the stub, as in struct install. Errors: those of gate_attach().
 */
PROBE_MUST_CHECK struct probe_error *gate_attach_call(struct change *change, uint64_t caller,
	void (*describe)(const void *data, const struct reg_session *session, uint32_t slot,
		uint32_t number, struct arch_stub *stub),
	const void *data, uint32_t *session_ret);

/*
 * Will the program next come to the gate of libraries to report libraries that are mapped already?
 * This is so if the program is held in its loader: the loader has begun to map libraries (RT_ADD),
 * maps them all before it sets the thread up, and reports them after it has relocated them. Under
 * LD_AUDIT the thread is set up earlier.
 */
bool gate_is_expected(struct change *change);
/*
 * Is the loader changing its list? Then libraries may be partly mapped; the thread that maps them
 * comes to the gate when they are complete.
 */
bool gate_list_changes(struct change *change);

/*
 * Starts the thread that will wait at a gate, which takes a moment. gate_close() ends the thread.
 * Error: PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *gate_prepare(struct gate *gate);
/*
 * Begins to wait at a prepared gate. `shared` is this process's mapping of the session's data.
 * `event` is a non-blocking eventfd(2), which gates may share.
 */
void gate_open(struct gate *gate, struct probe_gate *shared, int event);

/* Make an eventfd unreadable, and readable. Clear it before examining its gates. */
void gate_clear(int event);
void gate_raise(int event);

/* Is a thread waiting? Notes the numbers that have been taken. */
bool gate_take(struct gate *gate);
/* Return how many threads have ever arrived, and whether one waits. Without a gate: 0, false. */
uint32_t gate_arrivals(const struct gate *gate);
bool gate_is_busy(const struct gate *gate);
/* Returns how many of the threads seen by gate_take() wait. */
uint32_t gate_waiting(const struct gate *gate);
/* May a thread seen by gate_take() wait in a turn? If not, its threads are about to leave. */
bool gate_holds_turn(const struct gate *gate, uint32_t turn);
/*
 * Since the last call, has a thread continued because the gate was not served in time (struct
 * probe_gate)? The threads after it were not held either. This call arms the gate again.
 */
bool gate_has_lapsed(struct gate *gate);
/* Releases the threads that gate_take() has seen. */
void gate_release(struct gate *gate);
/* Arms or disarms a gate. A disarmed gate holds no thread, and its waiting threads are released. */
void gate_arm(struct gate *gate, bool armed);
/* Asks the waiter to end. When closing several gates, call this for all of them first. */
void gate_shut(struct gate *gate);
/* Says that no controller serves the gate any more: its turns hold no thread. */
void gate_leave(struct gate *gate);
/* Disarms the gate, and ends the waiter. */
void gate_close(struct gate *gate);

/* ---- Guardian -------------------------------------------------------------------------------- */

/* Holding processes in execve(2), each for a limited time, even if this process stops or dies. */

struct guardian;

/* A thread that is in execve(2) of one of the files. */
struct guardian_event {
	uint32_t id;
	uint32_t missed; /* number of threads not held, see guardian_missed() */
	pid_t tid;
	uint64_t until_ns; /* when the thread is released (CLOCK_MONOTONIC) */
	struct file_id file;
};

/*
 * Starts a guardian: it holds every thread that executes one of these files, until
 * guardian_allow(), or for half a second. Returns NULL if the kernel does not allow it
 * (CAP_SYS_ADMIN is needed), or does not support it for these files, or if a file is served by
 * another program or machine, which might never answer.
 */
struct guardian *guardian_start(const char *const *files, size_t count);
/* Releases all threads, and ends the guardian. `guardian` may be NULL. */
void guardian_end(struct guardian *guardian);

/* A descriptor that is readable when a thread waits, and for ever if the guardian is gone. */
int guardian_fd(const struct guardian *guardian);
/* Finds the next waiting thread. Returns false if no thread waits. */
bool guardian_next(struct guardian *guardian, struct guardian_event *ret);
/* Returns how many threads executed one of the files without being held, since the last call. */
size_t guardian_missed(struct guardian *guardian);
void guardian_allow(struct guardian *guardian, const struct guardian_event *event);
/* Marks the files at the paths again, because a file may have been replaced. */
void guardian_renew(struct guardian *guardian);
/* Has the guardian ended by itself? Then it holds no thread any more. */
bool guardian_is_gone(const struct guardian *guardian);

/* ---- Leaf ------------------------------------------------------------------------------------ */

/*
 * Leaves: programs whose files have no requested probe, and import no function by which libc starts
 * a process or a thread, executes a program, or loads code.
 */

/*
 * Notes that the files that a held process has mapped contain no wanted probe, and whether its
 * program is a leaf. `files` may be NULL.
 */
void leaf_pass_over(pid_t pid, struct files *files);

/* A process that runs as a leaf. */
struct leaf {
	dev_t dev; /* device of the program's file */
	ino_t inode;
	uint64_t since_ns; /* when the program began (CLOCK_MONOTONIC) */
};

/* ---- Passage --------------------------------------------------------------------------------- */

/* The way of one thread through execve(2) into another program, as its tracer sees it. */

enum passage_state {
	PASSAGE_THROUGH,  /* the thread runs through execve(2) by itself */
	PASSAGE_SEIZED,	  /* the thread has been asked to stop */
	PASSAGE_CALL,	  /* the thread runs to execve(2), and through it */
	PASSAGE_PROGRAM,  /* the new program is mapped; execve(2) returns */
	PASSAGE_LOADER,	  /* the program's loader works */
	PASSAGE_LEAF,	  /* the program is a leaf, and runs to its end */
	PASSAGE_STOPPING, /* a leaf that has run for a while, and has been asked to stop */
	PASSAGE_HELD,	  /* the thread has stopped where its probes can be enabled */
	PASSAGE_LEAVING,  /* the thread is released at its next stop */
	PASSAGE_OVER	  /* the thread is not traced any more, or has ended */
};

struct passage {
	pid_t pid, tid;
	enum passage_state state;
	/* Called at execve() with the path's address: may the thread be followed? NULL: yes. */
	bool (*may_follow)(pid_t tid, uint64_t path);
	struct files *files; /* borrowed; may be NULL */
	struct yield *yield; /* borrowed; shared by all passages of one tracing thread */
	bool called;	     /* the thread has entered execve(2) */
	bool returning;	     /* the loader's next stop is the exit of a system call */
	bool thread_ready;   /* the loader has set the thread pointer */
	bool has_run;	     /* the program was a leaf, and has run code after its loader */
	bool nothing_lost;   /* the program was a leaf, or ended while it was traced */
	/* A process or thread that a leaf has started, to be released after the leaf; or 0. */
	pid_t stray;
	bool is_ending;	   /* the thread was released at the end of its process */
	bool is_leaf;	   /* the program runs as a leaf, or did until it was asked to stop */
	bool is_again;	   /* the thread repeats a call, as in struct control_thread */
	int calls;	   /* number of the loader's system calls */
	uint64_t argument; /* first argument of the loader's last call, where the result hides it */
	struct leaf leaf;  /* valid if is_leaf */
	uint64_t unseen_ns; /* for PASSAGE_HELD: how long the program has run unexamined code */
	struct probe_error
		*told;	      /* error that reports a loss at the program's end, or NULL; owned */
	uint64_t deadline_ns; /* time limit of the state (CLOCK_MONOTONIC) */
	struct restart_seen
		seen; /* the thread's call when it was asked to stop, if arch_process.hidden_call */
	struct arch_registers regs; /* registers of a held thread */
	struct spawn_facts facts;
};

/*
 * Begins to trace a thread of process `pid` that goes to execve(2). With `may_go` it runs through
 * the call; otherwise it is asked to stop, and may_follow() decides. PASSAGE_OVER: it must not be
 * traced, or is gone.
 */
void passage_begin(struct passage *passage, pid_t pid, pid_t tid, bool may_go);

/* Begins again, for a thread whose execve(2) has failed and that goes to the next one. */
void passage_again(struct passage *passage, bool may_go);

/*
 * Handles the reported stops. Lets the thread continue after each stop, except the stop that leads
 * to PASSAGE_HELD. Does not wait: it yields the processor a few times at most for the next stop,
 * unless other threads want the processor. A held passage may end here, too, if its process was
 * killed. Returns whether the thread has stopped.
 */
bool passage_step(struct passage *passage);

/* Releases the thread: now if it has stopped, otherwise as soon as it stops. */
void passage_leave(struct passage *passage);

/*
 * Handles a passed deadline: a thread on its way through execve(2) is asked to stop, a leaf is
 * held, any other thread is released.
 */
void passage_expire(struct passage *passage);

/* Is the thread's memory no longer that of the process it came from, or is it gone? */
bool passage_is_through(const struct passage *passage);

/* Did a program that has ended end as a leaf? Then /proc may still show it as running. */
bool passage_lingers(const struct passage *passage, uint64_t now_ns);

/* Makes a target of a held passage; the target then owns the process. Error: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *passage_take(
	struct passage *passage, struct probe_target *target);

/* ---- Waiters --------------------------------------------------------------------------------- */

/* Finding the threads that wait at a gate. */

struct waiter {
	pid_t pid, tid;
	uint64_t sp; /* stack pointer of the thread, or 0 if unknown */
};

/* Initialise with {0}; free items with free(). */
struct waiters {
	struct waiter *items;
	size_t count;
	bool others_run; /* running threads exist that may have arrived and are about to wait */
};

/* The processes to search, and the progress of the search. */
struct waiters_place {
	pid_t pid;
	bool children; /* also search children with memory of their own, and their children */
	/* Address of the gate's turns in the target; a thread waits on one of them. */
	uint64_t address;
	uint64_t since_ns;  /* when a thread arrived that has not been found yet, or 0 */
	unsigned int looks; /* searches since then that found nothing */
	/* May be NULL. Called with `data`: should a thread that waits in a turn be left out? */
	bool (*leave_out)(const void *data, int turn, pid_t pid, pid_t tid);
	const void *data;
};

/*
 * Finds all threads that have arrived at a gate; gate_release() releases exactly these. Returns
 * false while a thread is not found yet: call it again; each call waits a moment. A thread that was
 * killed there is given up after a while.
 */
bool waiters_find(struct waiters *waiters, struct gate *gate, struct waiters_place *place);

/* ---- Launch ---------------------------------------------------------------------------------- */

/*
 * Following programs that the processes of sessions start: they are held before any of their code
 * runs, like spawned programs.
 */

/* A session's gate at execve(). */
struct launch_gate {
	struct gate gate;
	/*
	 * If place.children is set, programs that the process's children start are followed, too;
	 * otherwise they are released.
	 */
	struct waiters_place place;
};

/* A thread that has come through a gate, or that a guardian has held. */
struct launch {
	struct passage passage;
	/* Borrowed; NULL if the gate has been closed, or a guardian held the thread. */
	struct launch_gate *gate;
	bool is_sought; /* a guardian held the thread; a guardian holds processes of any parent */
	struct file_id file; /* if is_sought: the file that the thread executes */
};

/* All threads that are being followed into a program, the oldest first. */
struct launches {
	int event;		    /* an eventfd(2), readable when launches_run() has work */
	struct launch_gate **gates; /* borrowed */
	size_t gate_count;
	struct launch *items;
	size_t count;
	struct files *files;	   /* the files of the followed programs */
	struct alarm alarm;	   /* set while there are launches */
	struct yield yield;	   /* used while the launches run */
	struct guardian *guardian; /* holds programs that are sought; borrowed. May be NULL */
	/* Wanted programs that were not held, and how many of them launches_told() has reported. */
	size_t missed, missed_told;
	/* Control groups (/proc/PID/cgroup) without a limit just now; until when this holds. */
	char free_groups[1024];
	uint64_t free_until_ns;
};

/* Error: PROBE_ERROR_SYSTEM. Call launches_deinit() even after an error. */
PROBE_MUST_CHECK struct probe_error *launches_init(struct launches *launches);
/* Releases all threads. The gates must still be served, and the caller ends the guardian. */
void launches_end(struct launches *launches);
/* Releases all threads that launches_end() has not released, and frees everything. */
void launches_deinit(struct launches *launches);

/* From now on, serves an open gate, and raises launches->event. */
PROBE_MUST_CHECK struct probe_error *launches_add(
	struct launches *launches, struct launch_gate *gate);
/*
 * Stops serving a gate. Its threads that have not executed another program yet are released, so
 * that the process can be changed.
 */
void launches_remove(struct launches *launches, const struct launch_gate *gate);

/*
 * Serves the gates: threads that wait there are followed into the programs that they start.
 * Continues with all of them while one may soon be held, for a few milliseconds at most. A thread
 * that cannot be followed, or takes too long, is released; a struct probe_watch finds it later.
 */
void launches_run(struct launches *launches);

/*
 * Returns the next held program, which the caller releases or closes, or NULL if no program is
 * held. *unseen_ns_ret is how long the program has run code that was not examined, mostly 0.
 * *is_sought_ret is true if a guardian held the program.
 */
struct probe_target *launches_take(
	struct launches *launches, uint64_t *unseen_ns_ret, bool *is_sought_ret);

/*
 * Returns a loss to report, or NULL. The caller frees it. A program that ended while it was
 * followed is reported once. The number of programs that were not held is reported whenever it has
 * doubled, and at the end if it has grown.
 */
PROBE_MUST_CHECK struct probe_error *launches_told(struct launches *launches, bool at_end);

/* Is a process being followed, or did it end just now while it was followed? */
bool launches_have(const struct launches *launches, pid_t pid);
/*
 * May a process that is being followed, or that waits at this gate, share the memory of the gate's
 * process? Then its parent cannot be stopped, because the parent waits in vfork(2) until
 * launches_run() has continued.
 */
bool launches_depend(const struct launches *launches, struct launch_gate *gate);

/* ---- Hold ------------------------------------------------------------------------------------ */

/* ---- Program --------------------------------------------------------------------------------- */

/* A program that has just been started: its file and its loader. */

/*
 * Is a program's loader still at work? It reports this to debuggers (struct r_debug). Returns false
 * if the process is unreadable or has no such loader, because waiting would not help.
 */
bool program_is_loading(pid_t pid, struct files *files);

/* ---- Rights ---------------------------------------------------------------------------------- */

/* Does a program keep its rights when we trace it with ptrace(2)? */

enum { RIGHTS_PATH_MAX = 4096 };

/* ---- Seek ------------------------------------------------------------------------------------ */

/* Finding wanted processes of any parent, without tracing. */

struct seek;

/*
 * Functions that are called for the processes found. is_known() returns true for processes to leave
 * out, before they are examined. take() gets the other wanted processes, and the last time at which
 * they did not exist (CLOCK_MONOTONIC); if it returns false, the search ends.
 */
struct seek_visitor {
	bool (*is_known)(void *data, pid_t pid);
	bool (*take)(void *data, pid_t pid, uint64_t since_ns);
	void *data;
};

/* ---- Stages ---------------------------------------------------------------------------------- */

/* The states of a passage, and what each stop means. */

/* ---- Watch ----------------------------------------------------------------------------------- */

/* Returns the programs that a watch holds; owned by the watch. */
struct launches *watch_launches(struct probe_watch *watch);

#endif
