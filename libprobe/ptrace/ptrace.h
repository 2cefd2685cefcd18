/* SPDX-License-Identifier: MIT */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "arch/process.h"
#include "libprobe/base/error.h"
#include "libprobe/process/process.h"

/* ---- Alarm ----------------------------------------------------------------------------------- */

/* A timer that makes the kernel continue this process if it is stopped while it holds threads. */

struct alarm {
	timer_t timer;
	bool exists, set;
};

/* From now on, the kernel continues this process half a second after a stop. */
void alarm_set(struct alarm *alarm);
void alarm_unset(struct alarm *alarm);
void alarm_deinit(struct alarm *alarm);

/* ---- Children -------------------------------------------------------------------------------- */

/*
 * Returns the children of all threads, ended by 0; the caller frees the array. NULL if the process
 * has no children, or if memory is short. If a child ends in the meantime, another one may be left
 * out. A forked child has copies of the patched code and the registry.
 */
pid_t *children_of(pid_t pid);
pid_t *children_of_thread(pid_t pid, pid_t tid);

/*
 * Returns true if two processes share one memory, and so the same probes, like a child of vfork(2)
 * and its parent before execve(2). Without kcmp(2), compares the sizes of the memories.
 */
bool children_share(pid_t pid, pid_t other);

/*
 * Returns the processes that share a process's memory (CLONE_VM), ended by 0; the caller frees the
 * array. NULL if no process does, or if memory is short.
 */
pid_t *children_sharing(pid_t pid);
/*
 * Appends to *list (may be NULL) those sharing processes whose ids were assigned after `from`, up
 * to `to` (procfs_last_pid()). Returns false if memory is short.
 */
bool children_add_sharing(pid_t pid, long from, long to, pid_t **list);
/* Like children_of(), but leaves out children that share the memory of `pid`, and only these. */
pid_t *children_apart(pid_t pid);

/* ---- Choose ---------------------------------------------------------------------------------- */

enum { CHOOSE_LOOKS = 64 }; /* threads that are examined in search of one that does not sleep */

/* Threads that, once stopped, were unable to make calls for us. */
struct choose_unable {
	pid_t tids[CHOOSE_LOOKS];
	size_t count;
};

/*
 * *best_ret becomes the thread that loses least by making calls for us; 0 if no thread can. Chooses
 * no thread in `unable`, and no thread at all if `unable` is full. `seccomp` may be NULL. Errors:
 * PROBE_ERROR_NOT_FOUND, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *choose_thread(pid_t pid, const struct seccomp *seccomp,
	const struct choose_unable *unable, pid_t *best_ret);

/* ---- Pause ----------------------------------------------------------------------------------- */

#define PAUSE_UNKNOWN UINT64_MAX

/* How long a stop keeps a thread from running. Times are CLOCK_MONOTONIC, in ns. */
struct pause {
	/* How long the thread had waited for a processor in its whole life before the stop. */
	uint64_t waited_ns;
	uint64_t asked_ns; /* when the thread was asked to stop */
	uint64_t let_ns;   /* how long we let the thread run after asked_ns */
	uint64_t ended_ns; /* when the thread continued; 0 if it is still stopped */
};

/* Adds the time since `begun_ns`. Call it after the thread ran, to stop or to make a call. */
void pause_let(struct pause *pause, uint64_t begun_ns);

/*
 * Returns a pause in ns. At the end of the pause, `waited_ns` is how long the thread has waited for
 * a processor in its life; `own_ns` is how long the calling thread has waited during the pause.
 * Both may be PAUSE_UNKNOWN.
 */
uint64_t pause_ns(const struct pause *pause, uint64_t waited_ns, uint64_t own_ns);

/* ---- Restart --------------------------------------------------------------------------------- */

/* Restarts system calls that a stop has ended with EINTR. */

/* The call in which a thread slept before the stop; `number` is negative if it was in no call. */
struct restart_seen {
	int64_t number;
	/* The call's first argument, the stack pointer, the address after the call instruction. */
	uint64_t arg, sp, pc;
};

/* Reads the call of a running thread, for machines where the registers hide it after the stop. */
void restart_look(pid_t pid, pid_t tid, struct restart_seen *ret);

/*
 * If PTRACE_INTERRUPT has ended a call with EINTR, sets the registers so that the kernel restarts
 * it; if a signal handler runs first, the call ends with EINTR. Returns true if the registers were
 * set. `seen` (may be NULL) is the call before the stop, for machines where the registers hide it;
 * there, release the thread with settle_detach().
 */
bool restart_wait(struct arch_registers *regs, const struct restart_seen *seen);

/* Undoes restart_wait() where the registers hide the call: it has ended with EINTR. */
void restart_undo(struct arch_registers *regs);

/* Returns true if a stopped thread is in a system call, or may be, where the registers hide it. */
bool restart_is_in_call(pid_t pid, const struct arch_registers *regs);

/* ---- Room ------------------------------------------------------------------------------------ */

/* A room: memory that the target itself does not use, for our frame. */

enum {
	ROOMS_MAX = 16,
	ROOM_ALIGN = 64, /* alignment of each room: an XSAVE area needs 64 bytes */
	ROOM_STACK_BYTES = 16384
};
/*
 * Marks a room with our frame or its floating-point state (struct arch_process, frame_mark,
 * state_mark): ARCH_FRAME_MARK bytes, with the last NUL.
 */
#define ROOM_MARK "probectl\0 frame"

enum room_kind {
	ROOM_TAIL, /* unused bytes after a segment, which are restored after use */
	ROOM_STACK /* unused pages of the stack, see room_on_stack() */
};

struct room {
	enum room_kind kind;
	uint64_t start;
	size_t size;
};

/* Sorted: preferred rooms come first. */
struct rooms {
	struct room items[ROOMS_MAX];
	size_t count;
	/* Rooms with a frame of a killed controller. A thread may be about to read the frame. */
	struct room left[ROOMS_MAX];
	size_t left_count;
	int mem;		 /* from memory_open(); owned by the caller */
	const struct maps *maps; /* owned by the caller */
	/* Measured before the stop, because that is slow in a virtual machine. */
	struct arch_state usual_state;
};

/*
 * Finds rooms: the unused ends of pages behind read-only segments of the program and libc, and the
 * unused part of the stack; and frames that killed controllers have left in them. With `reclaim`,
 * removes these frames; no stack pointer may be in such a room then. `mem` is from memory_open().
 * No other controller may be at work.
 */
PROBE_MUST_CHECK struct probe_error *rooms_find(pid_t pid, int mem, const struct maps *maps,
	const struct modules *modules, bool reclaim, struct rooms *ret);

/*
 * Finds ROOM_STACK_BYTES of the main thread's stack that were never written, or that still hold our
 * frame and seal.
 */
bool room_on_stack(pid_t pid, const struct maps *maps, struct room *ret);

/* Puts a mark and a checksum into the first ROOM_ALIGN bytes of a room on the stack. */
void room_seal(uint8_t bytes[ROOM_STACK_BYTES]);

/* ---- Signals --------------------------------------------------------------------------------- */

/*
 * Sleeps until SIGCHLD tells that a thread has stopped. A sleep, unlike waitpid(2), has a limit,
 * and it gives the processor to the thread. SIGCHLD is blocked between _take and _give; _give
 * raises it again if _wait has consumed it, so that the caller misses no child. Initialise with
 * {0}. A second _take does nothing.
 */
struct control_signals {
	bool in_force;
	bool is_blocked; /* we have blocked SIGCHLD */
	bool taken;
};
void control_signals_take(struct control_signals *signals);
/* Sleeps until SIGCHLD, for at most a millisecond. */
void control_signals_wait(struct control_signals *signals);
void control_signals_give(struct control_signals *signals);

/* ---- Control --------------------------------------------------------------------------------- */

/* Stops a process's threads, runs system calls in one of them, and resumes all unharmed. */

struct remaining;
struct remaining_wait;

struct control_thread {
	pid_t tid;
	/* The thread's process: the target, or a process that shares the target's memory. */
	pid_t pid;
	bool is_running; /* the thread was asked to stop and has not stopped yet */
	/* The thread was seen in a system call before the stop. */
	bool was_asleep;
	bool is_again; /* the thread will repeat the call that the stop has ended */
	/* The thread's call before the stop; used if arch_process.hidden_call. */
	struct restart_seen seen;
	bool may_run; /* control_borrow() stopped the thread, and control_can_run() returned true */
	struct pause pause;
	struct arch_registers regs; /* the registers at the stop */
	bool regs_changed;	    /* regs must be written back before the thread continues */
	/* The thread's current wait, if known and limited, or NULL. Owned by control->remaining. */
	struct remaining_wait *wait;
};

/* A task left running: a kernel worker, or one that has ended. */
struct control_passed {
	pid_t pid, tid;
};

/* Threads of a process, which the calling thread has stopped with ptrace(2). */
struct control {
	pid_t pid;
	struct control_thread *threads;
	size_t count;
	struct control_passed
		*passed; /* the tasks passed over in the last listing of threads; owned */
	size_t passed_count;
	pid_t lender; /* process that is left running, or 0; see control_stop() */
	/* Other processes with this memory, except the lender; ended by 0. Owned. May be NULL. */
	pid_t *guests;
	/* The threads' waits with a time limit; owned. NULL if none is known. */
	struct remaining *remaining;
	struct control_signals signals;
	void *attributes; /* how this process was scheduled before the stop; owned */
	/* How long this thread had waited for a processor before the stop; see control.c. */
	uint64_t waited_ns;
	uint64_t longest_ns; /* the longest of the pauses that are over */
	const struct seccomp
		*seccomp; /* which threads may make our calls; borrowed. NULL if all may */
	const struct control_coming *coming; /* touched before the stop; borrowed. May be NULL */
};

struct prepared;

/* Data for the first call in a thread, prepared before the stop. */
struct control_coming {
	void (*touch)(pid_t pid, const struct control_coming *coming); /* prepared_touch() */
	const struct rooms *rooms;
	const struct arch_gadgets *gadgets;
	struct prepared *prepared;
};

/* A system call that a thread of the target makes for us. */
struct control_call {
	long number;
	uint64_t args[6];
	int64_t result; /* set by control_run_and_leave(): the value, or -errno */
	/*
	 * If not NULL, the first argument is this text's address (at most ARCH_FRAME_TEXT bytes
	 * with its NUL). Calls that run together share one text.
	 */
	const char *text;
	uint64_t wanted; /* if not 0, only this result lets the run continue */
	/*
	 * Called with `data` after the call, while thread `tid`, which made it, is stopped. May set
	 * the arguments of later calls. False ends the run. May be NULL.
	 */
	bool (*then)(void *data, pid_t tid);
	void *data;
	/*
	 * For the last call but one, without `then`: a thread that was running in user space makes
	 * the last two calls in one go, and is stopped later. `is_unseen`: a call's result is not
	 * read.
	 */
	bool lets_go, is_unseen;
};

/* How long to wait for threads that cannot stop, unless the caller has another limit. */
#define CONTROL_PATIENCE_NS UINT64_C(8000000000)

/*
 * Stops every thread, also new ones, of a process and of those that share its memory. Leaves out a
 * `lender` (if not 0), which waits for us and runs no code of its own, and kernel workers
 * (procfs_is_worker()), so that they can finish a call.
 *
 * No thread is stopped while one waits in vfork(2). If one enters it during the stop, the others
 * stand still for some milliseconds, then run, and the stop is tried again for some seconds.
 *
 * Errors: PROBE_ERROR_NOT_FOUND (the process is gone), PROBE_ERROR_PERMISSION (the message names
 * the cause), PROBE_ERROR_BUSY (a thread does not stop within `patience_ns`, for example because it
 * waits in vfork). After an error no thread is stopped.
 */
PROBE_MUST_CHECK struct probe_error *control_stop(
	pid_t pid, pid_t lender, uint64_t patience_ns, struct control *ret);

/* Ends our raised priority early, for a long stop. */
void control_calm(struct control *control);

/*
 * Stops only one thread: the thread that loses least by it. `seccomp` (may be NULL) is borrowed as
 * long as *ret is used. `coming` (may be NULL) is borrowed until the thread has stopped. Errors:
 * those of control_stop().
 */
PROBE_MUST_CHECK struct probe_error *control_borrow(pid_t pid, const struct seccomp *seccomp,
	uint64_t patience_ns, const struct control_coming *coming, struct control *ret);

/*
 * Like waitpid(2) with WNOHANG, for the stops of a traced thread. Returns `tid`, 0 if it has not
 * stopped, or -1 if it is gone. A child's exit status is left for the code that started it.
 */
pid_t control_wait(pid_t tid, int *status_ret);

/*
 * Returns true if a stopped thread can make our calls. It cannot if it runs 32-bit code, if filters
 * forbid the calls, if the program handles calls itself ("Dispatch"), or if it belongs to another
 * process that shares the memory, which may call execve(2).
 */
bool control_can_run(const struct control *control, const struct control_thread *thread);

/*
 * Resumes all threads with their old registers, or with `regs` if regs_changed. Returns the longest
 * pause in ns.
 */
uint64_t control_resume(struct control *control);

/*
 * Detaches from threads that stopped only after control_stop() had failed. They stay stopped until
 * this call, so call it from time to time. Stopping or borrowing threads of the process does the
 * same.
 */
void control_let_late_go(void);

/*
 * Finds a running target's rooms (rooms_find()). If a killed controller has left a frame, stops all
 * threads for a moment and removes it, unless a thread still uses it.
 */
PROBE_MUST_CHECK struct probe_error *control_find_rooms(pid_t pid, pid_t lender,
	uint64_t patience_ns, int mem, const struct maps *maps, const struct modules *modules,
	struct rooms *ret);

/*
 * Runs system calls in a stopped thread until one fails, and sets their results.
 *
 * If we are killed, the thread finishes its call and restores itself with rt_sigreturn(2) from a
 * frame in a room; its stack is not touched. If we live, we restore its registers with ptrace, so
 * an interrupted call restarts. A call that takes longer than WAIT_STOP_NS is interrupted. If that
 * fails, is_running is set, and the thread continues as if we had been killed.
 *
 * Errors: PROBE_ERROR_STATE (the process runs another program, or does not return from a call),
 * PROBE_ERROR_NOT_FOUND (it is being killed), PROBE_ERROR_UNSUPPORTED (no room for the frame),
 * PROBE_ERROR_SYSTEM.
 *
 * Call control_clear() afterwards, which removes the frame; the thread can be resumed before. Until
 * then no thread may be borrowed with the same `prepared`.
 */
PROBE_MUST_CHECK struct probe_error *control_run_and_leave(struct control *control,
	const struct rooms *rooms, const struct arch_gadgets *gadgets, struct prepared *prepared,
	struct control_call *calls, size_t count);
void control_clear(const struct rooms *rooms, struct prepared *prepared);

/*
 * Allocates and touches the memory that control_run_and_leave() needs, before the stop. Free it
 * with free().
 */
struct prepared *control_prepared(void);

/*
 * Resumes a borrowed thread with these registers, and stops it again a moment later, wherever it
 * is. If it has ended, control->count is 0. Errors: PROBE_ERROR_STATE (it does not stop).
 */
PROBE_MUST_CHECK struct probe_error *control_let_pass(
	struct control *control, const struct arch_registers *registers);

/* Was the call made, with the wanted result or, if none is wanted, without an error? */
bool control_succeeded(const struct control_call *call);

/* ---- Dispatch -------------------------------------------------------------------------------- */

/*
 * Returns true if the kernel passes this thread's system calls to a handler of the program
 * (PR_SET_SYSCALL_USER_DISPATCH, as in Wine). A call for us would then raise SIGSYS, which kills,
 * because all signals are blocked. Returns false before Linux 6.4, which cannot tell.
 */
bool dispatch_is_on(pid_t tid);

/* ---- Nearby ---------------------------------------------------------------------------------- */

/*
 * Moves the calling thread to the processor of the thread that it traces, if it may run there. Its
 * affinity mask stays.
 */
void nearby_move(pid_t pid, pid_t tid);

/* ---- Prepared -------------------------------------------------------------------------------- */

enum {
	FRAME_MAX = 1024,
	/*
	 * The maximum number of rooms needed: for the frame, the state, and the additional frame.
	 */
	PREPARED_ROOMS = 3
};

/* The bytes written into a room, and those that were there. */
struct written {
	struct room room;
	size_t size; /* number of bytes; 0 if the room is unused */
	uint8_t bytes[ROOM_STACK_BYTES], before[ROOM_STACK_BYTES];
};

/* The frames and the state for a borrowed thread's calls (remote.c), and where they are written. */
struct prepared {
	uint8_t frame[FRAME_MAX];
	uint8_t state[ARCH_STATE_MAX + 4];
	size_t state_size;
	/* The vector state to restore after the calls; kept_size is 0 if that is not needed. */
	uint8_t kept[ARCH_STATE_MAX];
	size_t kept_size;
	int state_regset;
	uint64_t frame_address, state_address;
	/* Address of the frame by which the thread makes one more call; 0 if no room was found. */
	uint64_t first_address;
	uint64_t mask;
	struct written written[PREPARED_ROOMS];
};

/*
 * Reads the memory that a call will read, and copies the private pages that it will write: first
 * accesses are two to three times as slow, and can be made before the stop. Errors are ignored,
 * because the call will report them.
 */
void prepared_touch(pid_t pid, const struct control_coming *coming);

/* ---- Reap ------------------------------------------------------------------------------------ */

/* Detaches from a stopped thread. If it was killed, another thread of ours waits for its end. */
void reap_or_detach(pid_t tid);

/* ---- Registers ------------------------------------------------------------------------------- */

/* Return false if the thread is gone. */
bool registers_read(pid_t tid, struct arch_registers *ret);
bool registers_write(pid_t tid, const struct arch_registers *registers);

/* ---- Remaining ------------------------------------------------------------------------------- */

struct control_thread;
struct remaining;
struct remaining_wait;

/*
 * Sets thread->wait for each traced, running thread whose wait, and what is left of its limit, is
 * known. Does not disturb the threads. Returns NULL if no wait is known.
 */
struct remaining *remaining_look(struct control_thread *threads, size_t count);
void remaining_free(struct remaining *remaining);

/* Sends PTRACE_INTERRUPT, and notes if the thread was provably still in its wait. */
void remaining_interrupt(struct remaining_wait *wait);

/*
 * For a stopped thread whose wait will be restarted: puts the remaining time into `regs`, if
 * remaining_interrupt() proved the wait.
 */
void remaining_apply(const struct remaining_wait *wait, struct arch_registers *regs);

/*
 * Returns the milliseconds left of a limit, rounded up. Returns the whole limit if the times, in ns
 * of one processor's scheduler clock, cannot be right.
 */
int remaining_ms(int limit_ms, uint64_t begun_ns, uint64_t now_ns);

/* Returns true if a file is the C library, whose functions keep to the ABI when they return. */
bool remaining_is_libc(const char *path);

/* ---- Rseq ------------------------------------------------------------------------------------ */

/*
 * Returns true if this kernel always ends a restartable sequence when another thread takes the
 * processor, as rseq(2) promises. If it does not, stubs must not use sequences. Tested once, only
 * on suspected kernels, in some milliseconds of sleep. Thread-safe.
 */
bool rseq_is_sound(void);

/* ---- Seize ----------------------------------------------------------------------------------- */

/*
 * The step after attaching. SEIZE_ASK asks the thread to stop at once, because within microseconds
 * it could create another thread and end, and so could that thread.
 */
enum seize_then { SEIZE_LET_RUN, SEIZE_ASK };

/* ---- Settle ---------------------------------------------------------------------------------- */

/* Threads that a stop has found in a system call, on machines where the registers hide it. */

/*
 * Prepares a thread for calls that it makes for us: afterwards, the registers hold all that it
 * needs to continue. Returns false if it is gone, or does not stop again (is_running is set).
 */
bool settle_thread(struct control_signals *signals, struct control_thread *thread);

/*
 * Detaches from a thread that must repeat its call. If a signal comes first, the call ends with
 * EINTR, as it would without us. If the thread does not stop as expected, sets is_running instead.
 */
void settle_detach(struct control_signals *signals, struct control_thread *thread);

/* ---- Urgent ---------------------------------------------------------------------------------- */

/*
 * Raises the calling thread's priority while stopped threads wait for it. Returns the old
 * scheduling for urgent_end(), or NULL if nothing was changed.
 */
void *urgent_begin(void);
/* Restores what urgent_begin() returned (may be NULL), and frees it. */
void urgent_end(void *before);

/* ---- Wait ------------------------------------------------------------------------------------ */

/* Returns the PTRACE_EVENT_* of a wait status, or 0. */
#define WAIT_EVENT_OF(status) ((unsigned int)(status) >> 16)

/* The signal of a stop at the entry or exit of a system call (PTRACE_O_TRACESYSGOOD). */
enum { WAIT_SYSCALL_STOP = SIGTRAP | 0x80 };
/*
 * Returns the signal of a stop, to be delivered to the thread; 0 if it has none, or `status` is 0.
 */
long wait_signal_of(int status);

/* How long other threads are kept stopped while a thread is in vfork(2). */
enum { WAIT_BLOCKED_NS = 10000000 };
/*
 * How long other threads are kept stopped while a thread gets no processor, or makes a call for us.
 */
#define WAIT_STOP_NS UINT64_C(2000000000)

enum wait_result { WAIT_STOPPED, WAIT_GONE, WAIT_TIMEOUT };

/*
 * Waits for the next stop of a traced thread that has run since `begun_ns`, at most WAIT_STOP_NS.
 */
enum wait_result wait_for_stop(
	pid_t tid, uint64_t begun_ns, struct control_signals *signals, int *status_ret);

/*
 * Waits for the stop after a PTRACE_INTERRUPT sent at `begun_ns` or later, and delivers signals
 * that come first.
 */
enum wait_result wait_for_interrupt(pid_t tid, uint64_t begun_ns, struct control_signals *signals);

/* Returns true if a thread is in an uninterruptible sleep, for example in vfork(2). */
bool wait_is_blocked(pid_t tid);

/* ---- Yield ----------------------------------------------------------------------------------- */

struct yield {
	/* time until which other threads are known to want the processor (CLOCK_MONOTONIC), or 0 */
	uint64_t crowded_until_ns;
};

/*
 * Lets threads that share the processor run. Returns false if the caller has to sleep instead: for
 * a second after a yield that took long, because others compute there.
 */
bool yield_once(struct yield *yield);
