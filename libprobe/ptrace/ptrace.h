/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PTRACE_PTRACE_H
#define LIBPROBE_PTRACE_PTRACE_H

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

/* A deadline for holding threads, even if we are stopped. */

struct alarm {
	timer_t timer;
	bool exists, set;
};

/* From now on, this process is not left stopped: it is continued in half a second, if it is. */
void alarm_set(struct alarm *alarm);
/* It may be stopped again. */
void alarm_unset(struct alarm *alarm);
void alarm_deinit(struct alarm *alarm);

/* ---- Children -------------------------------------------------------------------------------- */

/* Processes that a target has forked. They have copies of its patched code and its registry. */

/*
 * The pids of the children of all threads, ended by 0; to be freed. NULL: none, or no memory. If
 * others end meanwhile, one may be left out.
 */
pid_t *children_of(pid_t pid);
/* The children of one thread. */
pid_t *children_of_thread(pid_t pid, pid_t tid);

/*
 * Does a process share the memory of another one, for example its parent, as a child of vfork(2)
 * does until it executes another program? Then both have the same probes. False if the kernel does
 * not allow the comparison (kcmp(2)).
 */
bool children_share(pid_t pid, pid_t other);

/*
 * The processes that share the memory of a process without being its threads (clone(2) with
 * CLONE_VM), among its children, grandchildren, parent and siblings. Ended by 0; to be freed. NULL:
 * none, or no memory.
 */
pid_t *children_sharing(pid_t pid);
/*
 * Appends to that list, which may be NULL, those whose ids were assigned after `from`, up to `to`
 * (see procfs_last_pid()). False without memory.
 */
bool children_add_sharing(pid_t pid, long from, long to, pid_t **list);
/* All children, except those that share its memory; as children_of(), but none is left out. */
pid_t *children_apart(pid_t pid);

/* ---- Choose ---------------------------------------------------------------------------------- */

/* Which thread of a process is borrowed for system calls. */

enum { CHOOSE_LOOKS = 64 }; /* threads that are tried, to find one that does not sleep */

/* Threads that were found unable only after they had stopped. */
struct choose_unable {
	pid_t tids[CHOOSE_LOOKS];
	size_t count;
};

/*
 * The thread that loses least by being borrowed; 0: there is none. Threads in `unable` are left
 * out; if it is full, all are. `seccomp` may be NULL. Errors: PROBE_ERROR_NOT_FOUND,
 * PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *choose_thread(pid_t pid, const struct seccomp *seccomp,
	const struct choose_unable *unable, pid_t *best_ret);

/* ---- Pause ----------------------------------------------------------------------------------- */

/* How long a stop keeps a thread from running. */

#define PAUSE_UNKNOWN UINT64_MAX

/* The pause of a thread; times of CLOCK_MONOTONIC. */
struct pause {
	uint64_t waited_ns; /* how long it had waited for a processor before the stop */
	uint64_t asked_ns;  /* when it was asked to stop */
	uint64_t let_ns;    /* how long we let it run since, as far as it may have waited then */
	uint64_t ended_ns;  /* when it went on; 0: not yet */
};

struct control;

/* Call this before the threads are asked to stop. */
void pause_look(struct control *control);

/* We let the thread run from `begun_ns` to now, to stop or to make a call. */
void pause_let(struct pause *pause, uint64_t begun_ns);

/* Call this right after the threads went on. Returns the longest of their pauses, in ns. */
uint64_t pause_longest(struct control *control);

/*
 * How long a thread was paused, in ns. `waited_ns`: how long it had waited for a processor by the
 * end, in its whole life; `own_ns`: how long the calling thread waited for one during the stop.
 * Both may be PAUSE_UNKNOWN.
 */
uint64_t pause_ns(const struct pause *pause, uint64_t waited_ns, uint64_t own_ns);

/* ---- Restart --------------------------------------------------------------------------------- */

/* System calls that a stop ends with EINTR although no signal came: they are restarted. */

/* The system call that a thread slept in before it was stopped; number negative: none. */
struct restart_seen {
	int64_t number;
	uint64_t arg, sp, pc; /* its first argument; the instruction after the call */
};

/* Looks, where the registers of a stopped thread do not tell (arch_process.hidden_call). */
void restart_look(pid_t pid, pid_t tid, struct restart_seen *ret);

/*
 * If PTRACE_INTERRUPT has ended a thread's system call with EINTR, changes the registers so that
 * the kernel restarts the call when the thread continues, or lets it end with EINTR if a handler
 * runs first. Returns whether it did. Where the registers do not tell of the call, `seen` does
 * (NULL: unknown); such a thread makes the call again (settle_detach()).
 */
bool restart_wait(struct arch_registers *regs, const struct restart_seen *seen);

/* Back to the call that has ended with EINTR. */
void restart_undo(struct arch_registers *regs);

/*
 * Is a stopped thread in a system call? Where its registers do not tell, one that has just returned
 * counts, too, and one that is about to make a call.
 */
bool restart_is_in_call(pid_t pid, const struct arch_registers *regs);

/* ---- Room ------------------------------------------------------------------------------------ */

/* Memory of a target in which nothing of its own can be: where a frame of ours may lie. */

enum {
	ROOMS_MAX = 16,
	ROOM_ALIGN = 64, /* of each: what an XSAVE area needs */
	ROOM_STACK_BYTES = 16384
};
/*
 * What is left in a room with a frame of ours, or with its floating-point state alone (struct
 * arch_process, frame_mark, state_mark): ARCH_FRAME_MARK bytes with the last NUL.
 */
#define ROOM_MARK "probectl\0 frame"

enum room_kind {
	ROOM_TAIL, /* its bytes must be restored */
	ROOM_STACK /* see room_on_stack() */
};

struct room {
	enum room_kind kind;
	uint64_t start;
	size_t size;
};

/* Sorted: what is preferred first. */
struct rooms {
	struct room items[ROOMS_MAX];
	size_t count;
	/* With a frame of a controller that was killed. A thread may be about to read it. */
	struct room left[ROOMS_MAX];
	size_t left_count;
	int mem;		       /* from memory_open(); borrowed */
	const struct maps *maps;       /* borrowed */
	struct arch_state usual_state; /* asked before the stop: slow in a virtual machine */
};

/*
 * Finds the tails of pages after the read-only segments of the program and its libc, and what
 * killed controllers left in these and on the stack. With `reclaim`, what they left is removed: no
 * thread's stack pointer may be in one of those rooms. `mem` is from memory_open(). No other
 * controller may be changing the target.
 */
PROBE_MUST_CHECK struct probe_error *rooms_find(pid_t pid, int mem, const struct maps *maps,
	const struct modules *modules, bool reclaim, struct rooms *ret);

/* Is an address in a room that was left? */
bool rooms_are_left_at(const struct rooms *rooms, uint64_t address);

/*
 * ROOM_STACK_BYTES of the main thread's stack that were never written, or whose bytes are as we
 * left them. False: there are none.
 */
bool room_on_stack(pid_t pid, const struct maps *maps, struct room *ret);

/* Makes bytes for such a room known again: the first ROOM_ALIGN of them are ours. */
void room_seal(uint8_t bytes[ROOM_STACK_BYTES]);

/* ---- Signals --------------------------------------------------------------------------------- */

/*
 * The kernel notifies a tracer with SIGCHLD. Sleeping until it arrives gives the processor to the
 * thread at once; waitpid(2) would do so, too, but has no time limit. Between _take and _give the
 * signal is blocked. At the end, the signals that _wait has taken are raised again, so that the
 * caller misses no child of its own. Initialise with {0}. A second _take does nothing.
 */
struct control_signals {
	bool in_force;
	bool is_blocked; /* by us */
	bool taken;
};
void control_signals_take(struct control_signals *signals);
/* Sleeps until it arrives, for at most a millisecond; false if it did not. */
bool control_signals_wait(struct control_signals *signals);
void control_signals_give(struct control_signals *signals);

/* ---- Control --------------------------------------------------------------------------------- */

/*
 * Stopping the threads of a process, running system calls in one of them, and resuming them as if
 * nothing had happened.
 */

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

/* Everything that the first call in a thread needs and that can be prepared before the stop. */
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

/* ---- Dispatch -------------------------------------------------------------------------------- */

/*
 * Threads whose system calls the kernel hands to a handler of the program
 * (PR_SET_SYSCALL_USER_DISPATCH, as under Wine). If such a thread made a call for us, that handler
 * would answer it; or, as all signals are blocked meanwhile, SIGSYS would kill the process.
 */

/*
 * Is this switched on for a thread that we have stopped? False before Linux 6.4, which does not
 * tell.
 */
bool dispatch_is_on(pid_t tid);

/* ---- Nearby ---------------------------------------------------------------------------------- */

/* Where the calling thread runs: beside one that it traces. */

/*
 * Moves the calling thread to the processor on which another one runs or ran last, if it may run
 * there. Its affinity mask stays as it was.
 */
void nearby_move(pid_t pid, pid_t tid);

/* ---- Prepared -------------------------------------------------------------------------------- */

/* The bytes written into a target for the system calls of a borrowed thread: see remote.c. */

enum {
	FRAME_MAX = 1024,
	PREPARED_ROOMS = 3 /* for the frame, the state and the first frame, at most */
};

/* The bytes written into a room, and those that were there. */
struct written {
	struct room room;
	size_t size; /* 0: none */
	uint8_t bytes[ROOM_STACK_BYTES], before[ROOM_STACK_BYTES];
};

/* The bytes written into the target, and those to restore. */
struct prepared {
	uint8_t frame[FRAME_MAX];
	uint8_t state[ARCH_STATE_MAX + 4];
	size_t state_size;
	uint8_t kept[ARCH_STATE_MAX]; /* the state to be written back; size 0: none */
	size_t kept_size;
	int state_regset;
	uint64_t frame_address, state_address;
	uint64_t first_address; /* of a frame that leads to one more call before it; 0: no room */
	uint64_t mask;
	struct written written[PREPARED_ROOMS];
};

/*
 * Reads what a call reads of the target, and makes the pages that it writes the target's own. The
 * first time takes two to three times as long, and no thread need be stopped for it. Failures are
 * ignored: the call itself will meet them.
 */
void prepared_touch(pid_t pid, const struct control_coming *coming);

/* ---- Reap ------------------------------------------------------------------------------------ */

/* The end of threads that are killed while they are traced. */

/*
 * Detaches from a stopped thread. If it was killed meanwhile, a thread of this process waits for
 * its end; the caller does not.
 */
void reap_or_detach(pid_t tid);

/* ---- Registers ------------------------------------------------------------------------------- */

/* The general registers of a thread that is stopped under ptrace(2) by the calling thread. */

/* False: it is gone. */
bool registers_read(pid_t tid, struct arch_registers *ret);
bool registers_write(pid_t tid, const struct arch_registers *registers);

/* ---- Remaining ------------------------------------------------------------------------------- */

/* How much of its time limit a wait has left when a stop interrupts it. */

struct control_thread;
struct remaining;
struct remaining_wait;

/*
 * Looks at the first threads of a list, which are traced and running, and notes in each what is
 * known about its wait. Does not change the threads. NULL: nothing is known about any of them.
 */
struct remaining *remaining_look(struct control_thread *threads, size_t count);
void remaining_free(struct remaining *remaining);

/* PTRACE_INTERRUPT, with the proof that the thread has slept in that wait up to then. */
void remaining_interrupt(struct remaining_wait *wait);

/*
 * For a stopped thread whose wait will be restarted: sets the time that is left, if it is proven.
 * Otherwise the registers stay as they are.
 */
void remaining_apply(const struct remaining_wait *wait, struct arch_registers *regs);

/*
 * Milliseconds that are left of a time limit, never too few; the whole limit if the two
 * times cannot be right. The times are of one processor's scheduler clock, in ns.
 */
int remaining_ms(int limit_ms, uint64_t begun_ns, uint64_t now_ns);

/* May code of this file rely on the ABI alone at its functions' ends? It is the C library's. */
bool remaining_is_libc(const char *path);

/* ---- Rseq ------------------------------------------------------------------------------------ */

/* Does the kernel end restartable sequences as rseq(2) promises? */

/*
 * False if this kernel does not always end the sequence of a thread that another one takes the
 * place of: then stubs must do without. It is found out once, on some kernels only, and takes some
 * milliseconds then, for which the caller sleeps. Thread-safe.
 */
bool rseq_is_sound(void);

/* ---- Seize ----------------------------------------------------------------------------------- */

/* Attaches to the threads of a process, which run on (PTRACE_SEIZE), and asks them to stop. */

/*
 * What follows when a thread is attached to. SEIZE_ASK: it is asked to stop at once, because a
 * thread can create another and end within microseconds, and that one can do the same.
 */
enum seize_then { SEIZE_LET_RUN, SEIZE_ASK };

/* ---- Settle ---------------------------------------------------------------------------------- */

/* Threads that a stop has found in a system call, where their registers do not tell. */

/*
 * Called before a stopped thread makes system calls for us. Reads its registers again: from then on
 * they hold all that the thread needs to go on. Returns false if the thread is gone, or if it does
 * not stop again; then is_running is set.
 */
bool settle_thread(struct control_signals *signals, struct control_thread *thread);

/*
 * Detaches from a thread that would repeat the call in which the stop found it. If a signal comes
 * first, the call ends with EINTR, as it would have without us. If the thread does not stop as
 * expected, is_running is set, and it stays attached.
 */
void settle_detach(struct control_signals *signals, struct control_thread *thread);

/* ---- Urgent ---------------------------------------------------------------------------------- */

/* Running with priority while other threads are stopped for us. */

/*
 * Makes the scheduler prefer the calling thread. Returns how it was scheduled before, for
 * urgent_end(), or NULL if nothing was changed.
 */
void *urgent_begin(void);
/* Ends this, and frees `before`, which may be NULL. */
void urgent_end(void *before);

/* ---- Wait ------------------------------------------------------------------------------------ */

/* Waiting for the stops of traced threads; see also control_wait(). */

/* The PTRACE_EVENT_* of a status; 0: none. */
#define WAIT_EVENT_OF(status) ((unsigned int)(status) >> 16)

/* The signal of a stop at the entry or exit of a system call (PTRACE_O_TRACESYSGOOD). */
enum { WAIT_SYSCALL_STOP = SIGTRAP | 0x80 };
/*
 * The signal that a stop was about, and that must be passed on. 0 if there is none, or if `status`
 * is 0.
 */
long wait_signal_of(int status);

/* How long the other threads stay stopped while one is in vfork(2). */
enum { WAIT_BLOCKED_NS = 10000000 };
/* How long the other threads stay stopped while one gets no processor, or is in a call for us. */
#define WAIT_STOP_NS UINT64_C(2000000000)

enum wait_result { WAIT_STOPPED, WAIT_GONE, WAIT_TIMEOUT };

/*
 * Waits for the next stop of a traced thread that has run since `begun_ns` (CLOCK_MONOTONIC).
 * Returns WAIT_TIMEOUT if it does not stop within WAIT_STOP_NS.
 */
enum wait_result wait_for_stop(
	pid_t tid, uint64_t begun_ns, struct control_signals *signals, int *status_ret);

/* ---- Yield ----------------------------------------------------------------------------------- */

/* Giving up the processor while a traced thread runs to its next stop. */

struct yield {
	uint64_t crowded_until_ns; /* others want the processor, too (CLOCK_MONOTONIC); 0: no */
};

/*
 * Lets threads that share the processor run; false: the caller has to sleep until it is woken.
 * May take as long as others use the processor, but then not again for a second.
 */
bool yield_once(struct yield *yield);

#endif
