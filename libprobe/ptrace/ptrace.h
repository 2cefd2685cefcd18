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

/* A timer that continues this process if it is stopped while it holds threads. */

struct alarm {
	timer_t timer;
	bool exists, set;
};

/* Starts the timer: if this process is stopped, the kernel continues it within half a second. */
void alarm_set(struct alarm *alarm);
/* Stops the timer. */
void alarm_unset(struct alarm *alarm);
void alarm_deinit(struct alarm *alarm);

/* ---- Children -------------------------------------------------------------------------------- */

/* Child processes of a target. A forked child has copies of the patched code and the registry. */

/*
 * Returns the pids of the children of all threads, ended by 0; the caller frees it. NULL if no
 * child exists, or without memory. If a child ends meanwhile, another may be left out.
 */
pid_t *children_of(pid_t pid);
/* The same for the children of one thread. */
pid_t *children_of_thread(pid_t pid, pid_t tid);

/*
 * Does process `pid` share the memory of process `other`? A child of vfork(2) shares its parent's
 * memory until it executes another program; both then have the same probes. If kcmp(2) is not
 * allowed, the sizes of the two memories are compared instead.
 */
bool children_share(pid_t pid, pid_t other);

/*
 * Returns the processes that share the memory of a process without being its threads (clone(2) with
 * CLONE_VM): children, grandchildren, parent and siblings. Ended by 0; the caller frees it. NULL if
 * no such process exists, or without memory.
 */
pid_t *children_sharing(pid_t pid);
/*
 * Appends to *list (may be NULL) the processes that share the memory of `pid` and whose ids were
 * assigned after `from`, up to `to` (see procfs_last_pid()). Returns false without memory.
 */
bool children_add_sharing(pid_t pid, long from, long to, pid_t **list);
/* Like children_of(), without children that share the memory of `pid`. No child is left out. */
pid_t *children_apart(pid_t pid);

/* ---- Choose ---------------------------------------------------------------------------------- */

/* Choosing the thread of a process that makes system calls for us. */

enum { CHOOSE_LOOKS = 64 }; /* threads that are examined to find one that does not sleep */

/* Threads that turned out, after they had stopped, to be unable to make calls for us. */
struct choose_unable {
	pid_t tids[CHOOSE_LOOKS];
	size_t count;
};

/*
 * Stores in *best_ret the thread that loses least by making calls for us, or 0 if no thread can.
 * Threads in `unable` are left out; if `unable` is full, all threads are. `seccomp` may be NULL.
 * Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *choose_thread(pid_t pid, const struct seccomp *seccomp,
	const struct choose_unable *unable, pid_t *best_ret);

/* ---- Pause ----------------------------------------------------------------------------------- */

/* Measuring how long a stop keeps a thread from running. */

#define PAUSE_UNKNOWN UINT64_MAX

/* The pause of one thread. Points in time are in ns of CLOCK_MONOTONIC. */
struct pause {
	uint64_t waited_ns; /* total wait for a processor in the thread's life, before the stop */
	uint64_t asked_ns;  /* when the thread was asked to stop */
	uint64_t let_ns;    /* how long we let the thread run after asked_ns */
	uint64_t ended_ns;  /* when the thread continued; 0 if it is still stopped */
};

struct control;

/* Reads the scheduler's counters. Call this before the threads are asked to stop. */
void pause_look(struct control *control);

/* Adds the time from `begun_ns` to now, in which the thread ran to stop or to make a call. */
void pause_let(struct pause *pause, uint64_t begun_ns);

/* Returns the longest pause, in ns. Call this right after the threads have continued. */
uint64_t pause_longest(struct control *control);

/*
 * Returns how long a thread was paused, in ns. `waited_ns` is the time that the thread had waited
 * for a processor by the end of the pause, in its whole life. `own_ns` is the time that the calling
 * thread waited for a processor during the stop. Both may be PAUSE_UNKNOWN.
 */
uint64_t pause_ns(const struct pause *pause, uint64_t waited_ns, uint64_t own_ns);

/* ---- Restart --------------------------------------------------------------------------------- */

/* Restarting system calls that a stop ends with EINTR although no signal arrived. */

/* The system call in which a thread slept before the stop; `number` is negative if none. */
struct restart_seen {
	int64_t number;
	/* The call's first argument, the stack pointer, the address after the call instruction. */
	uint64_t arg, sp, pc;
};

/* Reads a running thread's call, needed if arch_process.hidden_call hides it after the stop. */
void restart_look(pid_t pid, pid_t tid, struct restart_seen *ret);

/*
 * If PTRACE_INTERRUPT has ended a thread's system call with EINTR, changes the registers so that
 * the kernel restarts the call when the thread continues. If a signal handler runs first, the call
 * ends with EINTR. Returns whether the registers were changed. `seen` is used where the registers
 * do not show the call; `seen` may be NULL. Such a thread repeats the call (settle_detach()).
 */
bool restart_wait(struct arch_registers *regs, const struct restart_seen *seen);

/* Sets the registers back to the call that has ended with EINTR. */
void restart_undo(struct arch_registers *regs);

/*
 * Is a stopped thread in a system call? Where the registers do not show this, a thread that has
 * just returned from a call, or is about to make one, counts too.
 */
bool restart_is_in_call(pid_t pid, const struct arch_registers *regs);

/* ---- Room ------------------------------------------------------------------------------------ */

/* Rooms: memory of a target that the target itself does not use, where our frame may lie. */

enum {
	ROOMS_MAX = 16,
	ROOM_ALIGN = 64, /* alignment of each room: an XSAVE area needs 64 bytes */
	ROOM_STACK_BYTES = 16384
};
/*
 * Marks a room that holds our frame, or only the frame's floating-point state (struct arch_process,
 * frame_mark, state_mark). ARCH_FRAME_MARK bytes long, with the last NUL.
 */
#define ROOM_MARK "probectl\0 frame"

enum room_kind {
	ROOM_TAIL, /* bytes after a segment, to be restored after use */
	ROOM_STACK /* unused pages of the stack, see room_on_stack() */
};

struct room {
	enum room_kind kind;
	uint64_t start;
	size_t size;
};

/* The rooms of a target, sorted: the preferred rooms come first. */
struct rooms {
	struct room items[ROOMS_MAX];
	size_t count;
	/* Rooms with a killed controller's frame, which a thread may be about to read. */
	struct room left[ROOMS_MAX];
	size_t left_count;
	int mem;		 /* from memory_open(); owned by the caller */
	const struct maps *maps; /* owned by the caller */
	/* Measured before the stop, because that is slow in a virtual machine. */
	struct arch_state usual_state;
};

/*
 * Finds the rooms of a target: the unused ends of pages after read-only segments of the program and
 * its libc, and the unused part of the stack. Also finds frames that killed controllers left there.
 * With `reclaim`, these frames are removed; no thread's stack pointer may be in such a room then.
 * `mem` is from memory_open(). No other controller may be changing the target.
 */
PROBE_MUST_CHECK struct probe_error *rooms_find(pid_t pid, int mem, const struct maps *maps,
	const struct modules *modules, bool reclaim, struct rooms *ret);

/* Is `address` in a room that holds a killed controller's frame? */
bool rooms_are_left_at(const struct rooms *rooms, uint64_t address);

/*
 * Finds ROOM_STACK_BYTES of the main thread's stack that were never written, or that hold exactly
 * the bytes that we left there. Returns false on failure.
 */
bool room_on_stack(pid_t pid, const struct maps *maps, struct room *ret);

/* Puts a mark and a checksum into the first ROOM_ALIGN bytes of a room on the stack. */
void room_seal(uint8_t bytes[ROOM_STACK_BYTES]);

/* ---- Signals --------------------------------------------------------------------------------- */

/*
 * Sleeping until SIGCHLD, with which the kernel notifies a tracer of a stop. The sleep gives the
 * processor to the traced thread at once; waitpid(2) would too, but has no time limit. SIGCHLD is
 * blocked between _take and _give. _give raises the signals again that _wait has consumed, so that
 * the caller misses no child of its own. Initialise with {0}. A second _take does nothing.
 */
struct control_signals {
	bool in_force;
	bool is_blocked; /* we have blocked SIGCHLD */
	bool taken;
};
void control_signals_take(struct control_signals *signals);
/* Sleeps for at most a millisecond, until SIGCHLD arrives. Returns false if it did not. */
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
	/* The thread's process: the target, or a process that shares the target's memory. */
	pid_t pid;
	bool is_running; /* the thread was asked to stop and has not stopped yet */
	/* The thread was in a system call when its state was read before the stop. */
	bool was_asleep;
	bool is_again;		  /* the thread will repeat the call that the stop has ended */
	struct restart_seen seen; /* its call before the stop, if arch_process.hidden_call */
	bool may_run; /* control_borrow() stopped the thread, and control_can_run() returned true */
	struct pause pause;
	struct arch_registers regs; /* the registers at the stop */
	bool regs_changed;	    /* regs must be written back before the thread continues */
	/* The thread's wait with a time limit; NULL if unknown. Owned by control->remaining. */
	struct remaining_wait *wait;
};

/* A task that is not stopped, because it has ended or is a worker of the kernel. */
struct control_passed {
	pid_t pid, tid;
};

/* Some or all threads of a process, stopped with ptrace(2) by the calling thread. */
struct control {
	pid_t pid;
	struct control_thread *threads;
	size_t count;
	struct control_passed
		*passed; /* the tasks passed over in the last listing of threads; owned */
	size_t passed_count;
	pid_t lender; /* process that is not stopped, or 0; see control_stop() */
	/* Processes in the same memory, except the lender; ended by 0; owned. May be NULL. */
	pid_t *guests;
	struct remaining *remaining; /* time limits of the threads' waits; owned. NULL if unknown */
	struct control_signals signals;
	void *attributes;    /* how this process was scheduled before the stop; owned */
	uint64_t waited_ns;  /* our own wait for a processor before the stop; see pauses.c */
	uint64_t longest_ns; /* the longest pause that has ended */
	const struct seccomp
		*seccomp; /* which threads may make our calls; borrowed. NULL if all may */
	const struct control_coming
		*coming; /* used until the threads are stopped; borrowed. May be NULL */
};

enum { CONTROL_TEXT_MAX = ARCH_FRAME_TEXT };

struct prepared;

/* The data that the first call in a thread needs, prepared before the stop. */
struct control_coming {
	const struct rooms *rooms;
	const struct arch_gadgets *gadgets;
	struct prepared *prepared;
};

/* A system call that a thread of the target makes for us. */
struct control_call {
	long number;
	uint64_t args[6];
	int64_t result; /* set by the run: the value, or -errno */
	/*
	 * If not NULL, the first argument is the address of this text (with its NUL, at most
	 * CONTROL_TEXT_MAX bytes). Calls that run together share one text.
	 */
	const char *text;
	uint64_t wanted; /* if not 0, any other result ends the run, too */
	/*
	 * Called with `data` when the call has succeeded and the thread `tid`, which made the call,
	 * is still stopped. May set the arguments of later calls. If it returns false, the run
	 * ends. May be NULL.
	 */
	bool (*then)(void *data, pid_t tid);
	void *data;
	/*
	 * lets_go may be set for the last call but one, which then needs no `then`. If the thread
	 * was computing, it is resumed, makes the last two calls on its way, and is stopped again
	 * some time later. Their results are not read: is_unseen is set for both.
	 */
	bool lets_go, is_unseen;
};

/* How long to wait for threads that cannot stop, if the caller gives no limit. */
#define CONTROL_PATIENCE_NS UINT64_C(8000000000)

/*
 * Stops every thread of a process, including threads that are created meanwhile, and every thread
 * of the processes that share its memory. If `lender` is not 0, the process `lender` is not
 * stopped: it waits for us and runs no code of its own. Worker threads of the kernel
 * (procfs_is_worker()) are not stopped, so they can finish a system call that has begun.
 *
 * While a thread waits in vfork(2), no thread is stopped. If a thread enters vfork(2) during the
 * stop, the other threads stand still for at most some milliseconds. Then all threads are resumed
 * and the stop is tried again, for some seconds.
 *
 * Errors: PROBE_ERROR_NOT_FOUND (the process is gone), PROBE_ERROR_PERMISSION (the message names
 * the cause), PROBE_ERROR_BUSY (a thread does not stop, for example because it waits in vfork).
 * After an error no thread is stopped.
 */
PROBE_MUST_CHECK struct probe_error *control_stop(pid_t pid, pid_t lender, struct control *ret);

/*
 * Ends the scheduling priority that this process has while threads are stopped. For a stop that
 * lasts long; control_resume() ends the priority, too.
 */
void control_calm(struct control *control);

/*
 * Stops only one thread: the thread that loses least by it. `seccomp` (may be NULL) is borrowed as
 * long as *ret is used. Errors: those of control_stop().
 */
PROBE_MUST_CHECK struct probe_error *control_borrow(
	pid_t pid, const struct seccomp *seccomp, struct control *ret);

/*
 * Like control_stop() and control_borrow(), with a time limit: if a thread cannot stop within
 * `patience_ns`, the error is PROBE_ERROR_BUSY and no thread is stopped. `coming` may be NULL; it
 * is borrowed until the thread has stopped.
 */
PROBE_MUST_CHECK struct probe_error *control_stop_within(
	pid_t pid, pid_t lender, uint64_t patience_ns, struct control *ret);
PROBE_MUST_CHECK struct probe_error *control_borrow_within(pid_t pid, const struct seccomp *seccomp,
	uint64_t patience_ns, const struct control_coming *coming, struct control *ret);

/*
 * Calls waitpid(2) for the stops of a traced thread, without waiting. Returns `tid` if the thread
 * has stopped, 0 if it has not, -1 if it is gone. If the thread is a child of this process, its
 * exit status is left to the code that started it. The functions of the section "Wait" wait.
 */
pid_t control_wait(pid_t tid, int *status_ret);

/*
 * Can a stopped thread make our system calls now? It cannot in 32-bit code, under filters that
 * forbid them, or if the program handles its own calls (see "Dispatch"). Nor can a thread of
 * another process that shares the memory, because that process may become another program.
 */
bool control_can_run(const struct control *control, const struct control_thread *thread);

/*
 * Resumes all threads in the state in which they were stopped, or with `regs` if regs_changed is
 * set. Returns the longest pause of a thread, in ns (pauses.c).
 */
uint64_t control_resume(struct control *control);

/*
 * Detaches from threads that the calling thread asked to stop and that stopped only after
 * control_stop() had failed. Until then such a thread stays stopped, so call this function from
 * time to time. Stopping or borrowing threads of the same process does the same.
 */
void control_let_late_go(void);

/*
 * Finds the rooms of a running target (see rooms_find()). If a killed controller has left a frame,
 * all threads are stopped for a moment and the frame is removed unless a thread still uses it.
 */
PROBE_MUST_CHECK struct probe_error *control_find_rooms(pid_t pid, pid_t lender,
	uint64_t patience_ns, int mem, const struct maps *maps, const struct modules *modules,
	struct rooms *ret);

/*
 * Runs system calls in one of the stopped threads, in order, up to the first call that fails. Sets
 * the result of each call that was made.
 *
 * If this process is killed at any instant, the thread finishes its current system call and then
 * restores itself with rt_sigreturn(2) from a frame in one of the rooms. The thread's stack is not
 * touched. If this process lives, it puts the registers back with ptrace, so that an interrupted
 * system call restarts as it would have. If a thread does not return from a call within
 * WAIT_STOP_NS, it is interrupted and its registers are put back. If it cannot be interrupted,
 * is_running is set, and the thread continues as if this process had been killed.
 *
 * Errors: PROBE_ERROR_STATE (the process runs another program now, or does not return from a call),
 * PROBE_ERROR_NOT_FOUND (the process is being killed), PROBE_ERROR_UNSUPPORTED (the target has no
 * room for the frame), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *control_run(struct control *control, const struct rooms *rooms,
	const struct arch_gadgets *gadgets, struct prepared *prepared, struct control_call *calls,
	size_t count);

/*
 * control_run() in two steps: the first leaves the frame in the rooms, and control_clear() removes
 * the frame. So the clean-up can wait until the thread is resumed. Until then no thread may be
 * borrowed with the same `prepared`.
 */
PROBE_MUST_CHECK struct probe_error *control_run_and_leave(struct control *control,
	const struct rooms *rooms, const struct arch_gadgets *gadgets, struct prepared *prepared,
	struct control_call *calls, size_t count);
void control_clear(const struct rooms *rooms, struct prepared *prepared);

/*
 * Allocates the memory that control_run() needs, and touches its pages, before a thread is stopped.
 * The caller frees it with free(). Returns NULL if there is no memory.
 */
struct prepared *control_prepared(void);

/*
 * Resumes a borrowed thread with these registers, and stops it again after a moment, wherever it is
 * then. If the thread has ended, control->count is 0 afterwards. Error: PROBE_ERROR_STATE (the
 * thread does not stop).
 */
PROBE_MUST_CHECK struct probe_error *control_let_pass(
	struct control *control, const struct arch_registers *registers);

/* Was a call made with the wanted result, or without an error if no result is wanted? */
bool control_succeeded(const struct control_call *call);

/* ---- Dispatch -------------------------------------------------------------------------------- */

/*
 * Threads whose system calls the kernel passes to a handler of the program
 * (PR_SET_SYSCALL_USER_DISPATCH, used by Wine). If such a thread made a call for us, that handler
 * would answer it. Because all signals are blocked during our calls, SIGSYS would even kill the
 * process.
 */

/*
 * Is dispatch switched on for a thread that we have stopped? Returns false before Linux 6.4, which
 * cannot report it.
 */
bool dispatch_is_on(pid_t tid);

/* ---- Nearby ---------------------------------------------------------------------------------- */

/* Running on the same processor as the thread that we trace. */

/*
 * Moves the calling thread to the processor on which thread `tid` runs or ran last, if the calling
 * thread may run there. The affinity mask of the calling thread stays as it was.
 */
void nearby_move(pid_t pid, pid_t tid);

/* ---- Prepared -------------------------------------------------------------------------------- */

/* The bytes written into a target for the system calls of a borrowed thread (remote.c). */

enum {
	FRAME_MAX = 1024,
	PREPARED_ROOMS = 3 /* at most: for the frame, the state and the additional frame */
};

/* The bytes written into a room, and the bytes that were there before. */
struct written {
	struct room room;
	size_t size; /* 0 if nothing is written */
	uint8_t bytes[ROOM_STACK_BYTES], before[ROOM_STACK_BYTES];
};

/* The frames and the state for a borrowed thread's calls, and where they are written. */
struct prepared {
	uint8_t frame[FRAME_MAX];
	uint8_t state[ARCH_STATE_MAX + 4];
	size_t state_size;
	/* The vector state to be written back; kept_size is 0 if there is nothing to write. */
	uint8_t kept[ARCH_STATE_MAX];
	size_t kept_size;
	int state_regset;
	uint64_t frame_address, state_address;
	/* Address of a frame that leads to one more call first; 0 if no room was found for it. */
	uint64_t first_address;
	uint64_t mask;
	struct written written[PREPARED_ROOMS];
};

/*
 * Reads the target's memory that a call will read, and makes private copies of the pages that a
 * call will write. The first access takes two to three times as long, and no thread needs to be
 * stopped for it. Errors are ignored: the call itself will meet them.
 */
void prepared_touch(pid_t pid, const struct control_coming *coming);

/* ---- Reap ------------------------------------------------------------------------------------ */

/* Waiting for threads that are killed while they are traced. */

/*
 * Detaches from a stopped thread. If the thread was killed meanwhile, a thread of this process
 * waits for its end in the background; the caller does not wait.
 */
void reap_or_detach(pid_t tid);

/* ---- Registers ------------------------------------------------------------------------------- */

/* The general registers of a thread that the calling thread has stopped with ptrace(2). */

/* Both return false if the thread is gone. */
bool registers_read(pid_t tid, struct arch_registers *ret);
bool registers_write(pid_t tid, const struct arch_registers *registers);

/* ---- Remaining ------------------------------------------------------------------------------- */

/* Measuring how much of its time limit a wait has left when a stop interrupts it. */

struct control_thread;
struct remaining;
struct remaining_wait;

/*
 * Examines the first threads of a list, which are traced and running, and sets thread->wait for
 * each thread whose wait is known. Does not affect the threads. Returns NULL if no wait is known.
 */
struct remaining *remaining_look(struct control_thread *threads, size_t count);
void remaining_free(struct remaining *remaining);

/* Sends PTRACE_INTERRUPT, and proves that the thread slept in the noted wait until then. */
void remaining_interrupt(struct remaining_wait *wait);

/*
 * For a stopped thread whose wait will be restarted: puts the remaining time into `regs`, if the
 * wait is proven. Otherwise leaves `regs` as they are.
 */
void remaining_apply(const struct remaining_wait *wait, struct arch_registers *regs);

/*
 * Returns the milliseconds left of a time limit, rounded up; the whole limit if the two times
 * cannot be right. The times are in ns of one processor's scheduler clock.
 */
int remaining_ms(int limit_ms, uint64_t begun_ns, uint64_t now_ns);

/* Is a file the C library, whose functions keep to the ABI when they return? */
bool remaining_is_libc(const char *path);

/* ---- Rseq ------------------------------------------------------------------------------------ */

/* Checks whether the kernel ends restartable sequences as rseq(2) promises. */

/*
 * Returns false if this kernel does not always end a thread's sequence when another thread takes
 * its processor. Stubs must then not use restartable sequences. The test runs once, only on
 * suspected kernels, and takes some milliseconds, during which the caller sleeps. Thread-safe.
 */
bool rseq_is_sound(void);

/* ---- Seize ----------------------------------------------------------------------------------- */

/* Attaching to the threads of a process without stopping them (PTRACE_SEIZE); stopping them. */

/*
 * The next step after attaching to a thread. SEIZE_ASK asks the thread to stop at once, because it
 * can create another thread and end within microseconds, and the new thread can do the same.
 */
enum seize_then { SEIZE_LET_RUN, SEIZE_ASK };

/* ---- Settle ---------------------------------------------------------------------------------- */

/* Handling threads that a stop has found in a system call, where their registers do not show it. */

/*
 * Call this before a stopped thread makes system calls for us. Reads the thread's registers again:
 * from then on they hold all that the thread needs to continue. Returns false if the thread is
 * gone, or if it does not stop again; in the second case is_running is set.
 */
bool settle_thread(struct control_signals *signals, struct control_thread *thread);

/*
 * Detaches from a thread that will repeat the call in which the stop found it. If a signal comes
 * first, the call ends with EINTR, as it would have without us. If the thread does not stop as
 * expected, is_running is set, and we stay attached.
 */
void settle_detach(struct control_signals *signals, struct control_thread *thread);

/* ---- Urgent ---------------------------------------------------------------------------------- */

/* Running with scheduling priority while threads are stopped and wait for us. */

/*
 * Makes the scheduler prefer the calling thread. Returns how the thread was scheduled before, for
 * urgent_end(), or NULL if nothing was changed.
 */
void *urgent_begin(void);
/* Restores the scheduling `before` (may be NULL), and frees it. */
void urgent_end(void *before);

/* ---- Wait ------------------------------------------------------------------------------------ */

/* Waiting for the stops of traced threads. See also control_wait(). */

/* The PTRACE_EVENT_* of a wait status; 0 if the status reports no event. */
#define WAIT_EVENT_OF(status) ((unsigned int)(status) >> 16)

/* The signal of a stop at the entry or exit of a system call (PTRACE_O_TRACESYSGOOD). */
enum { WAIT_SYSCALL_STOP = SIGTRAP | 0x80 };
/*
 * Returns the signal that a stop reported, which must be delivered to the thread; 0 if the stop
 * reported no signal, or if `status` is 0.
 */
long wait_signal_of(int status);

/* How long the other threads stay stopped while one thread is in vfork(2). */
enum { WAIT_BLOCKED_NS = 10000000 };
/* How long the others stay stopped while one thread gets no processor or makes a call for us. */
#define WAIT_STOP_NS UINT64_C(2000000000)

enum wait_result { WAIT_STOPPED, WAIT_GONE, WAIT_TIMEOUT };

/*
 * Waits for the next stop of a traced thread that has run since `begun_ns` (CLOCK_MONOTONIC).
 * Returns WAIT_TIMEOUT if the thread does not stop within WAIT_STOP_NS.
 */
enum wait_result wait_for_stop(
	pid_t tid, uint64_t begun_ns, struct control_signals *signals, int *status_ret);

/* ---- Yield ----------------------------------------------------------------------------------- */

/* Giving up the processor while a traced thread runs to its next stop. */

struct yield {
	uint64_t
		crowded_until_ns; /* until then others want the processor (CLOCK_MONOTONIC), or 0 */
};

/*
 * Lets threads that share the processor run. Returns false if the caller has to sleep instead. May
 * take as long as other threads use the processor, but then not again for a second.
 */
bool yield_once(struct yield *yield);

#endif
