/* SPDX-License-Identifier: MIT */
/*
 * Stopping the threads of a process, running system calls in one of them, and resuming them as if
 * nothing had happened.
 */
#ifndef LIBPROBE_PTRACE_CONTROL_H
#define LIBPROBE_PTRACE_CONTROL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/process.h"
#include "libprobe/base/error.h"
#include "libprobe/process/gadgets.h"
#include "libprobe/process/modules.h"
#include "libprobe/process/maps.h"
#include "libprobe/process/seccomp.h"
#include "libprobe/ptrace/pause.h"
#include "libprobe/ptrace/room.h"
#include "libprobe/ptrace/signals.h"
#include "libprobe/ptrace/restart.h"

struct remaining;
struct remaining_wait;

/* A stopped thread. */
struct control_thread {
	pid_t tid;
	pid_t pid;	 /* of its process: the stopped one, or one that shares its memory */
	bool is_running; /* it was asked to stop, and has not yet */
	bool was_asleep; /* in a system call, when it was looked at before */
	bool is_again;	 /* it will make again the call that the stop has ended */
	struct restart_seen seen; /* if arch_process.hidden_call */
	bool may_run;		  /* it was borrowed, and control_can_run() has said so since */
	struct pause pause;
	struct arch_registers regs; /* as it was stopped */
	bool regs_changed;	    /* regs must be written back before it continues */
	/* What it waits for with a time limit, if that is known; of control->remaining */
	struct remaining_wait *wait;
};

/* A task that is never stopped: it has ended, or is a worker of the kernel. */
struct control_passed {
	pid_t pid, tid;
};

/* Some or all threads of a process, stopped under ptrace(2) by the calling thread. */
struct control {
	pid_t pid;
	struct control_thread *threads;
	size_t count;
	struct control_passed *passed; /* of the last list of threads; owned */
	size_t passed_count;
	pid_t lender;  /* see control_stop() */
	pid_t *guests; /* others in the same memory but it, ended by 0; NULL: none. Owned */
	struct remaining *remaining; /* of the threads' waits; owned. NULL: unknown */
	struct control_signals signals;
	void *attributes;	       /* how this process was scheduled before the stop; owned */
	uint64_t waited_ns;	       /* our own time without a processor before it; see pause.h */
	uint64_t longest_ns;	       /* the longest pause that has ended */
	const struct seccomp *seccomp; /* which of them may run calls; borrowed. NULL: all */
	const struct control_coming *coming; /* until they are stopped; borrowed. NULL: nothing */
};

enum { CONTROL_TEXT_MAX = ARCH_FRAME_TEXT };

struct prepared;

/* What the first call in a thread will need and can be prepared before the stop. */
struct control_coming {
	const struct rooms *rooms;
	const struct arch_gadgets *gadgets;
	struct prepared *prepared;
};

/* A system call to run in the target. */
struct control_call {
	long number;
	uint64_t args[6];
	int64_t result; /* set: the value, or -errno */
	/* Not NULL: the first argument is the address of this text (with its NUL, at most
	 * CONTROL_TEXT_MAX bytes). Calls that run together have one text. */
	const char *text;
	uint64_t wanted; /* not 0: any other result ends the run, too */
	/*
	 * May be NULL. Called with `data` when the call has succeeded and the thread `tid`, which
	 * has made it, still stands there; may set the arguments of later calls. False ends the
	 * run.
	 */
	bool (*then)(void *data, pid_t tid);
	void *data;
	/*
	 * Of the last call but one, which needs no `then`: if the thread was computing, it is
	 * resumed, makes both calls on its way, and is stopped again some time later. The results
	 * are not seen: is_unseen is set for both.
	 */
	bool lets_go, is_unseen;
};

/* How long to wait for threads that cannot stop, if no one waits for us. */
#define CONTROL_PATIENCE_NS UINT64_C(8000000000)

/*
 * Stops every thread of a process, also those being created meanwhile, and of the processes that
 * share its memory. If `lender` is not 0, that process is left alone: it waits for us and runs no
 * code of its own. The kernel's workers (procfs_is_worker()) go on, as they would
 * finish a system call that has begun.
 *
 * While a thread waits in vfork(2), no thread is stopped. A thread that begins to do so
 * meanwhile keeps the others for some milliseconds at most; then all are let go, and it is
 * tried again, for some seconds.
 *
 * Errors: PROBE_ERROR_NOT_FOUND (it is gone), PROBE_ERROR_PERMISSION (names
 * the cause), PROBE_ERROR_BUSY (a thread does not stop, e.g. waits in vfork).
 * After an error nothing is stopped.
 */
PROBE_MUST_CHECK struct probe_error *control_stop(pid_t pid, pid_t lender, struct control *ret);

/*
 * While threads are stopped, this process has priority. This ends the priority, for a stop that
 * lasts; resuming ends it, too.
 */
void control_calm(struct control *control);

/*
 * Stops only one thread: the one for which it costs least. `seccomp` (may be NULL) is borrowed as
 * long as *ret is used. Errors: those of control_stop().
 */
PROBE_MUST_CHECK struct probe_error *control_borrow(
	pid_t pid, const struct seccomp *seccomp, struct control *ret);

/*
 * The same, for a certain time: after `patience_ns` a thread that cannot stop is an error
 * (PROBE_ERROR_BUSY). No thread is stopped then. `coming` may be NULL; it is borrowed until the
 * thread has stopped.
 */
PROBE_MUST_CHECK struct probe_error *control_stop_within(
	pid_t pid, pid_t lender, uint64_t patience_ns, struct control *ret);
PROBE_MUST_CHECK struct probe_error *control_borrow_within(pid_t pid, const struct seccomp *seccomp,
	uint64_t patience_ns, const struct control_coming *coming, struct control *ret);

/*
 * Calls waitpid(2) for the stops of a traced thread, without waiting. Returns `tid` if it has
 * stopped, 0 if it has not, -1 if it is gone. If it is a child of this process, its exit status is
 * left to the code that started it. The functions in wait.h wait.
 */
pid_t control_wait(pid_t tid, int *status_ret);

/*
 * Is it in a system call that, if we died while it runs one of ours, would end
 * with EINTR instead of going on (the restart-block kind: nanosleep, poll, futex)?
 */
bool control_would_interrupt(const struct control_thread *thread);

/*
 * Can it run our system calls just now? Not in 32-bit code, nor under filters that do not allow
 * them, nor where the program handles its calls (dispatch.h), nor in a process that shares the
 * memory: that may be another program by now.
 */
bool control_can_run(const struct control *control, const struct control_thread *thread);

/*
 * Resumes all threads, each where and as it was stopped (or as regs say if regs_changed is set).
 * Returns the longest pause of a thread, in ns (pause.c).
 */
uint64_t control_resume(struct control *control);

/*
 * After an error, a thread that was asked to stop may stop later, and then stays stopped until it
 * is detached from. This function detaches from such threads of the calling thread, if they have
 * stopped by now; call it from time to time. Stopping or borrowing the threads of the same process
 * does so, too.
 */
void control_let_late_go(void);

/*
 * Finds the rooms of a target that runs (see rooms_find()). Where a killed controller has left
 * a frame, all threads are stopped for a moment: what is left afterwards is still in use.
 */
PROBE_MUST_CHECK struct probe_error *control_find_rooms(pid_t pid, pid_t lender,
	uint64_t patience_ns, int mem, const struct maps *maps, const struct modules *modules,
	struct rooms *ret);

/*
 * Runs system calls in one of the stopped threads, in order, and none after the first
 * that has not succeeded. The result of each call that was reached is set.
 *
 * If this process is killed at any instant, the thread finishes the system call it is in and then
 * restores itself by rt_sigreturn(2) from a frame in one of the rooms. Its stack is not touched.
 * Otherwise the registers are put back through ptrace, so that an interrupted system call restarts
 * as it would have. A thread that does not come back from a call within WAIT_STOP_NS is interrupted
 * and put back. If it cannot be interrupted, is_running is set for it, and it goes on as if this
 * process had been killed.
 *
 * Errors: PROBE_ERROR_STATE (it has become another program, or does not come back from a call),
 * PROBE_ERROR_NOT_FOUND (it is being killed), PROBE_ERROR_UNSUPPORTED (there is no room),
 * PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *control_run(struct control *control, const struct rooms *rooms,
	const struct arch_gadgets *gadgets, struct prepared *prepared, struct control_call *calls,
	size_t count);

/*
 * The same in two steps, so that the second one can wait until the thread is resumed: what was
 * written into rooms is left there, and control_clear() removes it. Until then no thread may be
 * borrowed with the same `prepared`.
 */
PROBE_MUST_CHECK struct probe_error *control_run_and_leave(struct control *control,
	const struct rooms *rooms, const struct arch_gadgets *gadgets, struct prepared *prepared,
	struct control_call *calls, size_t count);
void control_clear(const struct rooms *rooms, struct prepared *prepared);

/*
 * Memory for what control_run() prepares, the caller's to free(); NULL without memory. It is
 * allocated, and touched, before a thread is stopped.
 */
struct prepared *control_prepared(void);

/*
 * Resumes a borrowed thread with these registers, and stops it again after a moment, wherever it is
 * then. No thread is stopped afterwards if it has ended. Error: PROBE_ERROR_STATE (it does not
 * stop).
 */
PROBE_MUST_CHECK struct probe_error *control_let_pass(
	struct control *control, const struct arch_registers *registers);

/* Has a call been made, with the result that is wanted? */
bool control_succeeded(const struct control_call *call);

#endif
