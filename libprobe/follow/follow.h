/* SPDX-License-Identifier: MIT */
#pragma once

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
 * A gate is a place where a stub holds the target's threads until the controller has done its work.
 * There are two kinds:
 *
 * - The gate of libraries is the function that the loader calls for debuggers whenever its list of
 *   libraries has changed. Threads are held there before the constructors of new libraries run.
 * - The gate of programs is libc's execve(); see the section "Launch".
 */

struct gate {
	struct probe_gate *shared; /* in the session's data; NULL while the gate is not open */
	int event;		   /* eventfd that is readable when a thread waits; borrowed */
	struct worker waiter;	   /* thread that waits on the gate's futex and signals `event` */
	bool waiting, ending;
	/* Futex, set when the kernel will end the waiter's turns if the waiter dies. */
	uint32_t owned;
	uint32_t opened; /* futex, set when the waiter may begin to watch the gate, or must end */
	uint32_t ended;	 /* futex, set when the waiter no longer watches the gate */
	uint32_t owner;	 /* thread id of the waiter */
	struct robust_list_head robust; /* the waiter's robust list: all turns, in a chain */
	struct robust_list turns[GATE_TURNS];
	uint32_t flips; /* bit i: whether the owner word of turn i has GATE_FLIP */
	uint32_t taken; /* the number of threads that the last gate_take() has noted */
	bool armed;	/* the gate was armed by us; a thread that waits too long disarms it */
	bool lapsed;	/* a thread has disarmed the gate */
};

enum gate_place {
	GATE_LIBRARIES, /* in the loader, whenever its list of libraries has changed */
	GATE_EXEC	/* in libc, at execve() */
};

/*
 * Puts a gate's stub into a session. The state of the target must be read and locked. With
 * `children`, the gate also holds forked children. Errors: PROBE_ERROR_UNSUPPORTED (no such
 * function, as in a static program), PROBE_ERROR_REFUSED, those of attaching.
 */
PROBE_MUST_CHECK struct probe_error *gate_attach(struct change *change, uint32_t session,
	const struct probe_request *request, enum gate_place place, bool children);

/*
 * Makes the loader's function for debuggers call a function of the target, in a new session of
 * `caller`. `describe` as in struct install. Errors: as gate_attach().
 */
PROBE_MUST_CHECK struct probe_error *gate_attach_call(struct change *change, uint64_t caller,
	void (*describe)(const void *data, const struct reg_session *session, uint32_t slot,
		uint32_t number, struct arch_stub *stub),
	const void *data, uint32_t *session_ret);

/*
 * Returns true if a held program is in its loader, and will reach the gate with mapped libraries.
 * The loader begins to map libraries (RT_ADD), maps them, sets the thread up, relocates, and then
 * calls the gate. Under LD_AUDIT it sets the thread up earlier.
 */
bool gate_is_expected(struct change *change);
/*
 * Returns true if the loader is changing its list. Then libraries may be partly mapped, and the
 * thread that maps them reaches the gate later.
 */
bool gate_list_changes(struct change *change);

/*
 * Starts a gate's waiter thread, before the gate is opened, because that takes a moment;
 * gate_close() ends it. Errors: PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *gate_prepare(struct gate *gate);
/*
 * Begins to wait at a prepared gate. `shared` is in our mapping of the session's data; `event` is a
 * non-blocking eventfd(2), which gates may share.
 */
void gate_open(struct gate *gate, struct probe_gate *shared, int event);

/*
 * Make an eventfd unreadable, and readable. Call gate_clear() before examining the eventfd's gates.
 */
void gate_clear(int event);
void gate_raise(int event);

/* Notes how many threads have arrived. Returns true if one is waiting. */
bool gate_take(struct gate *gate);
/*
 * Return how many threads have ever arrived, and whether one is waiting; 0 and false for a gate
 * that is not open.
 */
uint32_t gate_arrivals(const struct gate *gate);
bool gate_is_busy(const struct gate *gate);
/* Returns how many threads of the last gate_take() are not released yet. */
uint32_t gate_waiting(const struct gate *gate);
/*
 * Returns true if a thread noted by gate_take() may be waiting in this turn. If not, the turn's
 * threads were released.
 */
bool gate_holds_turn(const struct gate *gate, uint32_t turn);
/*
 * Returns true if a thread has continued since the last call because the gate was not served in
 * time (struct probe_gate). Later threads were not held either. Arms the gate again.
 */
bool gate_has_lapsed(struct gate *gate);
/* Releases the threads that the last gate_take() has noted. */
void gate_release(struct gate *gate);
/* Arms or disarms a gate. A disarmed gate holds no thread, and releases those that wait. */
void gate_arm(struct gate *gate, bool armed);
/* Asks the waiter to end. If there are several gates, call this for all of them first. */
void gate_shut(struct gate *gate);
/* Gives up the turns: they hold no thread any more, as after the death of the controller. */
void gate_leave(struct gate *gate);
void gate_close(struct gate *gate);

/* ---- Guardian -------------------------------------------------------------------------------- */

/* Holds processes in execve(2) for a limited time, even if this process is stopped or dies. */

struct guardian {
	int channel;   /* readable while a thread waits, and once the guardian is gone */
	size_t missed; /* see guardian_missed() */
	bool gone;     /* the guardian has ended by itself */
};

/* A held thread that is about to execute one of the files. */
struct guardian_event {
	uint32_t id;
	uint32_t missed; /* number of threads not held, see guardian_missed() */
	pid_t tid;
	uint64_t until_ns; /* when the thread is released (CLOCK_MONOTONIC) */
	struct file_id file;
};

/*
 * Starts a guardian, which holds every thread that executes one of these files until
 * guardian_say(), for half a second at most. Returns NULL without CAP_SYS_ADMIN, if the kernel
 * does not support this for the files, or if another machine or program, which might not answer,
 * serves one of them.
 */
struct guardian *guardian_start(const char *const *files, size_t count);
/* Ends the guardian (may be NULL), which releases all threads. */
void guardian_end(struct guardian *guardian);

/* Finds the next waiting thread. Returns false if no thread waits. */
bool guardian_next(struct guardian *guardian, struct guardian_event *ret);
/* Returns how many threads have executed one of the files unheld since the last call. */
size_t guardian_missed(struct guardian *guardian);
/*
 * Releases the thread of an event; or marks the files at the paths again, because a path may lead
 * to another file now. No thread has the id GUARDIAN_RENEW; an event with it counts missed threads.
 */
enum { GUARDIAN_RENEW = 0 };
void guardian_say(struct guardian *guardian, uint32_t id);

/* ---- Leaf ------------------------------------------------------------------------------------ */

/*
 * A leaf is a program whose files have no requested probe, and import no function by which libc
 * starts a process or thread, executes a program, or loads code.
 */

/*
 * Records that a held process's files have no wanted probe, and whether it is a leaf. `files` may
 * be NULL.
 */
void leaf_pass_over(pid_t pid, struct files *files);

/* A process that runs as a leaf. */
struct leaf {
	dev_t dev; /* device of the program's file */
	ino_t inode;
	uint64_t since_ns; /* when the program began (CLOCK_MONOTONIC) */
};

/* ---- Passage --------------------------------------------------------------------------------- */

/* A thread's way through execve(2) into another program, as its tracer sees it. */

enum passage_state {
	PASSAGE_THROUGH,  /* the thread runs through execve(2) without a stop */
	PASSAGE_SEIZED,	  /* the thread has been asked to stop */
	PASSAGE_CALL,	  /* the thread stops at system calls, up to and in execve(2) */
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
	/* May the thread be followed into the file at `path`, at execve()? NULL means yes. */
	bool (*may_follow)(pid_t tid, uint64_t path);
	struct files *files; /* borrowed; may be NULL */
	struct yield *yield; /* borrowed; shared by all passages of one tracing thread */
	bool called;	     /* the thread has entered execve(2) */
	bool returning;	     /* the loader's next stop is the exit of a system call */
	bool thread_ready;   /* the loader has set the thread pointer */
	bool has_run;	     /* the program was a leaf, and its own code has run */
	/* no hit was missed: the process is a leaf, or was traced to its end */
	bool nothing_lost;
	/* The process or thread that a leaf has started, to be released after the leaf; or 0. */
	pid_t stray;
	bool is_ending; /* the thread was released because its process was ending */
	bool is_leaf;	/* the program runs as a leaf, or did until it was asked to stop */
	/* The thread repeats a system call, as in struct control_thread. */
	bool is_again;
	int calls; /* number of the loader's system calls */
	/*
	 * The first argument of the loader's last call. The result may replace it in the register.
	 */
	uint64_t argument;
	struct leaf leaf; /* valid if is_leaf */
	/* how long the held program's code has run without having been examined */
	uint64_t unseen_ns;
	struct probe_error
		*told;	      /* error that reports a loss at the program's end, or NULL; owned */
	uint64_t deadline_ns; /* time limit of the state (CLOCK_MONOTONIC) */
	struct restart_seen
		seen; /* the thread's call when it was asked to stop, if arch_process.hidden_call */
	struct arch_registers regs; /* registers of a held thread */
	struct spawn_facts facts;
};

/*
 * Begins to trace thread `tid`, which is about to call execve(2). If `may_go`, it runs through the
 * call; otherwise it is asked to stop, and may_follow() decides. PASSAGE_OVER if it must not be
 * traced or is gone.
 */
void passage_begin(struct passage *passage, pid_t pid, pid_t tid, bool may_go);

/* Begins again after a failed execve(2), before another. */
void passage_again(struct passage *passage, bool may_go);

/*
 * Handles reported stops, and lets the thread continue, except into PASSAGE_HELD. Does not sleep:
 * yields the processor a few times at most, unless others want it. A held passage ends if its
 * process was killed. Returns true if the thread has stopped.
 */
bool passage_step(struct passage *passage);

/* Releases the thread at once if it has stopped, else at its next stop. */
void passage_leave(struct passage *passage);

/*
 * Handles a passed deadline: asks a thread on its way through execve(2) to stop, holds a leaf,
 * releases others.
 */
void passage_expire(struct passage *passage);

/* Returns true if the thread has executed another program, or is gone. */
bool passage_is_through(const struct passage *passage);

/* Returns true if a leaf has just ended: /proc may still show it as running. */
bool passage_lingers(const struct passage *passage, uint64_t now_ns);

/* Makes a target of a held passage, which then owns the process. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *passage_take(
	struct passage *passage, struct probe_target *target);

/* ---- Waiters --------------------------------------------------------------------------------- */

/* Finds the threads that wait at a gate. */

struct waiter {
	pid_t pid, tid;
	uint64_t sp; /* stack pointer of the thread, or 0 if unknown */
};

/* Initialise with {0}; free items with free(). */
struct waiters {
	struct waiter *items;
	size_t count;
	bool others_run; /* some running thread may have arrived, and may be about to wait */
};

/* The processes to search, and how far the search is. */
struct waiters_place {
	pid_t pid;
	bool children; /* also search children that have memory of their own, and their children */
	/* inherited_image() of processes to search last, whose parents may have ended; or 0 */
	uint64_t image;
	/* The gate's first turn in the target. */
	uint64_t address;
	uint64_t since_ns;  /* since when a thread that has arrived has not been found, or 0 */
	unsigned int looks; /* unsuccessful searches since since_ns */
	/* May be NULL. Returns true for a thread in a turn that does not count. */
	bool (*leave_out)(const void *data, int turn, pid_t pid, pid_t tid);
	const void *data;
};

/*
 * Finds all arrived threads, which gate_release() then releases. Returns false if one is still
 * missing: call it again; each call waits a moment. A thread that was killed after its arrival
 * cannot be found, so this returns true after a while.
 */
bool waiters_find(struct waiters *waiters, struct gate *gate, struct waiters_place *place);

/* ---- Launch ---------------------------------------------------------------------------------- */

/* A session's gate at execve(), for the programs that its processes start. */
struct launch_gate {
	struct gate gate;
	/*
	 * If place.children, programs that children start are followed, too; if not, children are
	 * released.
	 */
	struct waiters_place place;
};

/* A thread that came through a gate, or was held by a guardian. */
struct launch {
	struct passage passage;
	/* Borrowed; NULL if the gate is closed, or a guardian held the thread. */
	struct launch_gate *gate;
	/* A guardian held the thread; its process may have been started by anybody. */
	bool is_sought;
	struct file_id file; /* the file that the thread executes; valid if is_sought */
};

/* Threads being followed into programs, oldest first. */
struct launches {
	int event;		    /* an eventfd(2), readable when launches_run() has work */
	struct launch_gate **gates; /* borrowed */
	size_t gate_count;
	struct launch *items;
	size_t count;
	struct files *files; /* the files of the followed programs */
	/* Continues this process if it is stopped; set while there are launches. */
	struct alarm alarm;
	struct yield yield;	   /* used while the launches run */
	struct guardian *guardian; /* holds programs that are sought; owned. May be NULL */
	/* Number of wanted programs that were not held, and the number last reported. */
	size_t missed, missed_told;
	/* Control groups (/proc/PID/cgroup) that had no limit, and until when we rely on that. */
	char free_groups[1024];
	uint64_t free_until_ns;
};

/* Errors: PROBE_ERROR_SYSTEM. Call launches_deinit() even after an error. */
PROBE_MUST_CHECK struct probe_error *launches_init(struct launches *launches);
/* Releases all threads while the gates are served, and ends the guardian. */
void launches_end(struct launches *launches);
/* Releases the remaining threads, and frees everything. */
void launches_deinit(struct launches *launches);

/* Adds an open gate for launches_run(), and raises launches->event. */
PROBE_MUST_CHECK struct probe_error *launches_add(
	struct launches *launches, struct launch_gate *gate);
/* Stops serving a gate, and releases its threads that have not called execve(2) yet. */
void launches_remove(struct launches *launches, const struct launch_gate *gate);

/*
 * Serves the gates: follows waiting threads into their programs, as long as one may soon be held,
 * but only for a few milliseconds. A thread that cannot be followed, or takes too long, is
 * released; a struct probe_watch finds it later.
 */
void launches_run(struct launches *launches);

/*
 * Returns the next held program, which the caller releases or closes, or NULL. *unseen_ns_ret is
 * how long it has run unexamined code, usually 0. *is_sought_ret is true if a guardian held it.
 */
struct probe_target *launches_take(
	struct launches *launches, uint64_t *unseen_ns_ret, bool *is_sought_ret);

/*
 * Returns a loss to report, or NULL; the caller frees it. Losses are programs that ended while they
 * were followed, and the number of programs not held: when it has doubled, and at the end if it has
 * grown.
 */
PROBE_MUST_CHECK struct probe_error *launches_told(struct launches *launches, bool at_end);

/* Returns true if a process is being followed, or has just ended while it was followed. */
bool launches_have(const struct launches *launches, pid_t pid);
/*
 * Returns true if a followed process, or one that waits at this gate, may share the memory of the
 * gate's process. The gate's process may be its parent in vfork(2), which cannot be stopped until
 * launches_run() has continued.
 */
bool launches_depend(const struct launches *launches, struct launch_gate *gate);

/* ---- Program --------------------------------------------------------------------------------- */

/*
 * Returns true if a new program's loader is still at work, according to struct r_debug. False if it
 * has no such loader or is unreadable, because waiting would not help.
 */
bool program_is_loading(pid_t pid, struct files *files);

/* ---- Watch ----------------------------------------------------------------------------------- */

/* Returns the programs that a watch holds; owned by the watch. */
struct launches *watch_launches(struct probe_watch *watch);
