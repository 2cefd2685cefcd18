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

/*
 * A timer that makes the kernel continue this process if the process is stopped while it holds
 * threads.
 */

struct alarm {
	timer_t timer;
	bool exists, set;
};

/*
 * Starts the timer. From now on, if this process is stopped, the kernel continues it within half a
 * second.
 */
void alarm_set(struct alarm *alarm);
/* Stops the timer. */
void alarm_unset(struct alarm *alarm);
void alarm_deinit(struct alarm *alarm);

/* ---- Children -------------------------------------------------------------------------------- */

/* Child processes of a target. A forked child has copies of the patched code and the registry. */

/*
 * Returns the pids of the children of all threads of a process, as an array that ends with 0 and
 * that the caller frees. Returns NULL if there is no child or no memory. If a child ends meanwhile,
 * another child may be left out.
 */
pid_t *children_of(pid_t pid);
/* Like children_of(), for the children of one thread. */
pid_t *children_of_thread(pid_t pid, pid_t tid);

/*
 * Returns true if process `pid` shares the memory of process `other`. A child of vfork(2) shares
 * its parent's memory until it executes another program, so both have the same probes. If kcmp(2)
 * is not allowed, the sizes of the two memories are compared instead.
 */
bool children_share(pid_t pid, pid_t other);

/*
 * Returns the processes that share the memory of a process without being its threads (clone(2) with
 * CLONE_VM): children, grandchildren, parent and siblings. The array ends with 0, and the caller
 * frees it. Returns NULL if there is no such process or no memory.
 */
pid_t *children_sharing(pid_t pid);
/*
 * Appends to *list (may be NULL) the processes that share the memory of `pid` and whose ids were
 * assigned after `from`, up to `to` (see procfs_last_pid()). Returns false if there is no memory.
 */
bool children_add_sharing(pid_t pid, long from, long to, pid_t **list);
/* Like children_of(), but omits children that share the memory of `pid`, and finds all others. */
pid_t *children_apart(pid_t pid);

/* ---- Choose ---------------------------------------------------------------------------------- */

/* Chooses the thread of a process that makes system calls for us. */

enum { CHOOSE_LOOKS = 64 }; /* threads that are examined in search of one that does not sleep */

/* Threads that were stopped, and then turned out to be unable to make calls for us. */
struct choose_unable {
	pid_t tids[CHOOSE_LOOKS];
	size_t count;
};

/*
 * Stores in *best_ret the thread that loses least by making calls for us, or 0 if no thread can.
 * Threads in `unable` are not considered. If `unable` is full, no thread is considered. `seccomp`
 * may be NULL. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *choose_thread(pid_t pid, const struct seccomp *seccomp,
	const struct choose_unable *unable, pid_t *best_ret);

/* ---- Pause ----------------------------------------------------------------------------------- */

/* Measures how long a stop keeps a thread from running. */

#define PAUSE_UNKNOWN UINT64_MAX

/* The pause of one thread. Points in time are in ns of CLOCK_MONOTONIC. */
struct pause {
	/* How long the thread had waited for a processor in its whole life before the stop. */
	uint64_t waited_ns;
	uint64_t asked_ns; /* when the thread was asked to stop */
	uint64_t let_ns;   /* how long we let the thread run after asked_ns */
	uint64_t ended_ns; /* when the thread continued; 0 if it is still stopped */
};

struct control;

/* Reads the scheduler's counters. Call this before the threads are asked to stop. */
void pause_look(struct control *control);

/*
 * Call this after the thread was let run, to stop or to make a call. Adds the time since
 * `begun_ns`.
 */
void pause_let(struct pause *pause, uint64_t begun_ns);

/* Returns the longest pause, in ns. Call this right after the threads have continued. */
uint64_t pause_longest(struct control *control);

/*
 * Returns how long a thread was paused, in ns. `waited_ns` is how long the thread had waited for a
 * processor in its whole life, at the end of the pause. `own_ns` is how long the calling thread
 * waited for a processor during the stop. Both may be PAUSE_UNKNOWN.
 */
uint64_t pause_ns(const struct pause *pause, uint64_t waited_ns, uint64_t own_ns);

/* ---- Restart --------------------------------------------------------------------------------- */

/* Restarts system calls that return EINTR because of a stop, although no signal has arrived. */

/* The system call in which a thread slept before the stop; `number` is negative if none. */
struct restart_seen {
	int64_t number;
	/* The call's first argument, the stack pointer, the address after the call instruction. */
	uint64_t arg, sp, pc;
};

/*
 * Reads a running thread's system call. Needed where the registers do not show the call after the
 * stop (arch_process.hidden_call).
 */
void restart_look(pid_t pid, pid_t tid, struct restart_seen *ret);

/*
 * If PTRACE_INTERRUPT has ended a thread's system call with EINTR, changes the registers so that
 * the kernel restarts the call when the thread continues. If a signal handler runs first, the call
 * ends with EINTR. Returns whether the registers were changed. `seen` may be NULL; it is the call
 * before the stop, needed where the registers do not show the call. There, the thread must be
 * released with settle_detach().
 */
bool restart_wait(struct arch_registers *regs, const struct restart_seen *seen);

/*
 * Undoes restart_wait() where the registers do not show the call: the call has ended with EINTR
 * again.
 */
void restart_undo(struct arch_registers *regs);

/*
 * Returns true if a stopped thread is in a system call. Where the registers do not show this, also
 * returns true if the thread has just returned from a call or is about to make one.
 */
bool restart_is_in_call(pid_t pid, const struct arch_registers *regs);

/* ---- Room ------------------------------------------------------------------------------------ */

/*
 * A room is memory of a target that the target itself does not use, so that our frame may lie
 * there.
 */

enum {
	ROOMS_MAX = 16,
	ROOM_ALIGN = 64, /* alignment of each room: an XSAVE area needs 64 bytes */
	ROOM_STACK_BYTES = 16384
};
/*
 * The mark of a room that holds our frame or the frame's floating-point state (struct arch_process,
 * frame_mark, state_mark). It has ARCH_FRAME_MARK bytes, including the last NUL.
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

/* The rooms of a target, sorted: the preferred rooms come first. */
struct rooms {
	struct room items[ROOMS_MAX];
	size_t count;
	/* Rooms with a frame of a killed controller. A thread may be about to read the frame. */
	struct room left[ROOMS_MAX];
	size_t left_count;
	int mem;		 /* from memory_open(); owned by the caller */
	const struct maps *maps; /* owned by the caller */
	/*
	 * The usual processor state. It is measured before the stop, because that is slow in a
	 * virtual machine.
	 */
	struct arch_state usual_state;
};

/*
 * Finds the rooms of a target: the unused ends of pages after read-only segments of the program and
 * its libc, and the unused part of the stack. Also finds the frames that killed controllers left in
 * rooms. If `reclaim` is set, removes these frames; then no thread's stack pointer may be in a room
 * with such a frame. `mem` is from memory_open(). No other controller may be changing the target.
 */
PROBE_MUST_CHECK struct probe_error *rooms_find(pid_t pid, int mem, const struct maps *maps,
	const struct modules *modules, bool reclaim, struct rooms *ret);

/* Returns true if `address` is in a room that holds a killed controller's frame. */
bool rooms_are_left_at(const struct rooms *rooms, uint64_t address);

/*
 * Finds ROOM_STACK_BYTES of the main thread's stack that nobody uses: they were never written, or
 * they hold exactly what we left there. Returns false on failure.
 */
bool room_on_stack(pid_t pid, const struct maps *maps, struct room *ret);

/* Puts a mark and a checksum into the first ROOM_ALIGN bytes of a room on the stack. */
void room_seal(uint8_t bytes[ROOM_STACK_BYTES]);

/* ---- Signals --------------------------------------------------------------------------------- */

/*
 * Sleeps until SIGCHLD, the signal by which the kernel tells a tracer that a thread has stopped.
 * The sleep gives the processor to the traced thread at once. waitpid(2) would do so, too, but it
 * has no time limit. SIGCHLD is blocked between _take and _give. If _wait has consumed SIGCHLD,
 * _give raises it again, so that the caller misses no child of its own. Initialise with {0}. A
 * second _take does nothing.
 */
struct control_signals {
	bool in_force;
	bool is_blocked; /* we have blocked SIGCHLD */
	bool taken;
};
void control_signals_take(struct control_signals *signals);
/*
 * Sleeps until SIGCHLD arrives, but at most a millisecond. Returns false if SIGCHLD did not arrive.
 */
bool control_signals_wait(struct control_signals *signals);
void control_signals_give(struct control_signals *signals);

/* ---- Control --------------------------------------------------------------------------------- */

/*
 * Stops the threads of a process, runs system calls in one of them, and resumes all as if nothing
 * had happened.
 */

struct remaining;
struct remaining_wait;

/* A stopped thread. */
struct control_thread {
	pid_t tid;
	/* The thread's process: the target, or a process that shares the target's memory. */
	pid_t pid;
	bool is_running; /* the thread was asked to stop and has not stopped yet */
	/* Before the stop, the thread was seen in a system call. */
	bool was_asleep;
	bool is_again; /* the thread will repeat the call that the stop has ended */
	/* The thread's call before the stop; used if arch_process.hidden_call. */
	struct restart_seen seen;
	bool may_run; /* control_borrow() stopped the thread, and control_can_run() returned true */
	struct pause pause;
	struct arch_registers regs; /* the registers at the stop */
	bool regs_changed;	    /* regs must be written back before the thread continues */
	/*
	 * The thread's current wait, if it has a time limit and is known; otherwise NULL. Owned by
	 * control->remaining.
	 */
	struct remaining_wait *wait;
};

/* A task that is left running, because it is a worker of the kernel or has ended. */
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
	pid_t lender; /* process that is left running, or 0; see control_stop() */
	/*
	 * The other processes with the same memory, except the lender; ended by 0. Owned. May be
	 * NULL.
	 */
	pid_t *guests;
	/* The threads' waits with a time limit; owned. NULL if none is known. */
	struct remaining *remaining;
	struct control_signals signals;
	void *attributes; /* how this process was scheduled before the stop; owned */
	/* How long this thread had waited for a processor before the stop; see pauses.c. */
	uint64_t waited_ns;
	uint64_t longest_ns; /* the longest of the pauses that are over */
	const struct seccomp
		*seccomp; /* which threads may make our calls; borrowed. NULL if all may */
	const struct control_coming *coming; /* touched before the stop; borrowed. May be NULL */
};

enum { CONTROL_TEXT_MAX = ARCH_FRAME_TEXT };

struct prepared;

/* The data that the first call in a thread needs, prepared before the stop. */
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
	int64_t result; /* set by control_run(): the value, or -errno */
	/*
	 * If not NULL, the first argument is the address of this text (with its NUL, at most
	 * CONTROL_TEXT_MAX bytes). Calls that run together share one text.
	 */
	const char *text;
	uint64_t wanted; /* if not 0, the only result after which the run goes on */
	/*
	 * Called with `data` when the call has succeeded and the thread `tid`, which made the call,
	 * is still stopped. May set the arguments of later calls. If it returns false, the run
	 * ends. May be NULL.
	 */
	bool (*then)(void *data, pid_t tid);
	void *data;
	/*
	 * lets_go may be set for the last call but one. Then `then` is not needed for that call. If
	 * the thread was computing, it is resumed, makes the last two calls in one go, and is
	 * stopped again some time later. The results of the two calls are not read: is_unseen is
	 * set for both.
	 */
	bool lets_go, is_unseen;
};

/* How long to wait for threads that cannot stop, unless the caller has another limit. */
#define CONTROL_PATIENCE_NS UINT64_C(8000000000)

/*
 * Stops every thread of a process, including threads that are created meanwhile, and every thread
 * of the processes that share its memory. If `lender` is not 0, process `lender` shares the memory
 * but is not stopped: it waits for us, and runs no code of its own. Worker threads of the kernel
 * (procfs_is_worker()) are not stopped, so they can finish a system call that has begun.
 *
 * While a thread waits in vfork(2), no thread is stopped. If a thread enters vfork(2) during the
 * stop, the other threads stand still for at most some milliseconds. Then all threads are resumed
 * and the stop is tried again, for some seconds.
 *
 * Errors: PROBE_ERROR_NOT_FOUND (the process is gone), PROBE_ERROR_PERMISSION (the message names
 * the cause), PROBE_ERROR_BUSY (a thread does not stop within `patience_ns`, for example because
 * it waits in vfork). After an error no thread is stopped.
 */
PROBE_MUST_CHECK struct probe_error *control_stop(
	pid_t pid, pid_t lender, uint64_t patience_ns, struct control *ret);

/*
 * Ends the scheduling priority that this process has while threads are stopped. Call it if the stop
 * will last long. Otherwise control_resume() ends the priority.
 */
void control_calm(struct control *control);

/*
 * Stops only one thread: the thread that loses least by it. `seccomp` (may be NULL) is borrowed as
 * long as *ret is used. `coming` (may be NULL) is borrowed until the thread has stopped. Errors:
 * those of control_stop().
 */
PROBE_MUST_CHECK struct probe_error *control_borrow(pid_t pid, const struct seccomp *seccomp,
	uint64_t patience_ns, const struct control_coming *coming, struct control *ret);

/*
 * Calls waitpid(2) for the stops of a traced thread, without waiting. Returns `tid` if the thread
 * has stopped, 0 if it has not, -1 if it is gone. If the thread is a child of this process, its
 * exit status is left for the code that started the child. The functions that do wait are in the
 * section "Wait".
 */
pid_t control_wait(pid_t tid, int *status_ret);

/*
 * Returns true if a stopped thread can make our system calls now. It cannot if it runs 32-bit code,
 * if its seccomp filters forbid the calls, or if the program handles its calls itself (see
 * "Dispatch"). A thread of another process that shares the memory cannot either, because that
 * process may execute another program.
 */
bool control_can_run(const struct control *control, const struct control_thread *thread);

/*
 * Resumes all threads in the state in which they were stopped, or with `regs` if regs_changed is
 * set. Returns the longest pause of a thread, in ns (pauses.c).
 */
uint64_t control_resume(struct control *control);

/*
 * Detaches from late threads: the calling thread has asked them to stop, but they stopped only
 * after control_stop() had failed. A late thread stays stopped until it is detached from, so call
 * this function from time to time. Stopping or borrowing threads of the same process has the same
 * effect.
 */
void control_let_late_go(void);

/*
 * Finds the rooms of a running target (see rooms_find()). If a killed controller has left a frame,
 * all threads are stopped for a moment. The frame is then removed, unless a thread still uses it.
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
 * WAIT_STOP_NS, it is interrupted and its registers are put back. If the thread cannot be
 * interrupted, is_running is set for it, and it continues as if this process had been killed.
 *
 * Errors: PROBE_ERROR_STATE (the process runs another program now, or does not return from a call),
 * PROBE_ERROR_NOT_FOUND (the process is being killed), PROBE_ERROR_UNSUPPORTED (the target has no
 * room for the frame), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *control_run(struct control *control, const struct rooms *rooms,
	const struct arch_gadgets *gadgets, struct prepared *prepared, struct control_call *calls,
	size_t count);

/*
 * control_run() in two steps. control_run_and_leave() leaves the frame in the rooms, and
 * control_clear() removes the frame. So the thread can be resumed before the frame is removed.
 * Until then no thread may be borrowed with the same `prepared`.
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
 * Resumes a borrowed thread with these registers, and stops it again a moment later, wherever it is
 * by then. If the thread has ended, sets control->count to 0. Error: PROBE_ERROR_STATE (the thread
 * does not stop).
 */
PROBE_MUST_CHECK struct probe_error *control_let_pass(
	struct control *control, const struct arch_registers *registers);

/*
 * Returns true if a call was made and returned the wanted result. If no result is wanted, any
 * result but an error will do.
 */
bool control_succeeded(const struct control_call *call);

/* ---- Dispatch -------------------------------------------------------------------------------- */

/*
 * Threads whose system calls the kernel passes to a handler of the program
 * (PR_SET_SYSCALL_USER_DISPATCH, used by Wine). If such a thread made a call for us, the kernel
 * would send it SIGSYS instead, so that the handler answers the call. All signals are blocked
 * during our calls, so SIGSYS would even kill the process.
 */

/*
 * Returns true if dispatch is switched on for a thread that we have stopped. Before Linux 6.4,
 * which cannot report this, returns false.
 */
bool dispatch_is_on(pid_t tid);

/* ---- Nearby ---------------------------------------------------------------------------------- */

/* Runs the tracer on the processor of the thread that it traces. */

/*
 * Moves the calling thread to the processor on which thread `tid` runs or ran last, if the calling
 * thread may run there. The affinity mask of the calling thread stays as it was.
 */
void nearby_move(pid_t pid, pid_t tid);

/* ---- Prepared -------------------------------------------------------------------------------- */

/* The bytes written into a target for the system calls of a borrowed thread (remote.c). */

enum {
	FRAME_MAX = 1024,
	/* The most rooms that are needed: for the frame, the state and the additional frame. */
	PREPARED_ROOMS = 3
};

/* The bytes written into a room, and the bytes that were there before. */
struct written {
	struct room room;
	size_t size; /* number of bytes; 0 if the room is unused */
	uint8_t bytes[ROOM_STACK_BYTES], before[ROOM_STACK_BYTES];
};

/* The frames and the state for a borrowed thread's calls, and where they are written. */
struct prepared {
	uint8_t frame[FRAME_MAX];
	uint8_t state[ARCH_STATE_MAX + 4];
	size_t state_size;
	/*
	 * The vector state that is written back after the calls. If kept_size is 0, nothing need be
	 * written.
	 */
	uint8_t kept[ARCH_STATE_MAX];
	size_t kept_size;
	int state_regset;
	uint64_t frame_address, state_address;
	/*
	 * Address of the additional frame, which makes the thread do one more call; 0 if it has no
	 * room.
	 */
	uint64_t first_address;
	uint64_t mask;
	struct written written[PREPARED_ROOMS];
};

/*
 * Reads the target's memory that a call will read, and makes private copies of the pages that a
 * call will write. A first access is two to three times as slow as a later one, and no thread need
 * be stopped for it. Errors are ignored here, because the call itself will report them.
 */
void prepared_touch(pid_t pid, const struct control_coming *coming);

/* ---- Reap ------------------------------------------------------------------------------------ */

/* Waits for the end of threads that are killed while they are traced. */

/*
 * Detaches from a stopped thread. If the thread has been killed meanwhile, it cannot be detached
 * from. Then another thread of this process waits for its end, and the caller goes on at once.
 */
void reap_or_detach(pid_t tid);

/* ---- Registers ------------------------------------------------------------------------------- */

/* The general registers of a thread that the calling thread has stopped with ptrace(2). */

/* Both return false if the thread is gone. */
bool registers_read(pid_t tid, struct arch_registers *ret);
bool registers_write(pid_t tid, const struct arch_registers *registers);

/* ---- Remaining ------------------------------------------------------------------------------- */

/* Measures how much of its time limit a wait has left when a stop interrupts the wait. */

struct control_thread;
struct remaining;
struct remaining_wait;

/*
 * Examines the first threads of a list, all of them traced and running. Sets thread->wait for each
 * thread whose wait is known. Does not disturb the threads. Returns NULL if no wait is known.
 */
struct remaining *remaining_look(struct control_thread *threads, size_t count);
void remaining_free(struct remaining *remaining);

/*
 * Sends PTRACE_INTERRUPT to the thread of a noted wait. Notes whether it is proven that the thread
 * was still in that wait.
 */
void remaining_interrupt(struct remaining_wait *wait);

/*
 * For a stopped thread whose wait will be restarted. If the wait is proven (remaining_interrupt()),
 * puts the remaining time into `regs`; otherwise leaves `regs` as they are.
 */
void remaining_apply(const struct remaining_wait *wait, struct arch_registers *regs);

/*
 * Returns how many milliseconds of a time limit are left, rounded up. Returns the whole limit if
 * the two times cannot be right. The times are in ns, by the scheduler's clock of one processor.
 */
int remaining_ms(int limit_ms, uint64_t begun_ns, uint64_t now_ns);

/* Returns true if a file is the C library, whose functions keep to the ABI when they return. */
bool remaining_is_libc(const char *path);

/* ---- Rseq ------------------------------------------------------------------------------------ */

/* Checks whether the kernel ends restartable sequences as rseq(2) promises. */

/*
 * Returns false if this kernel does not always end a thread's restartable sequence when another
 * thread takes the processor. Stubs must then not use restartable sequences. The test runs once,
 * only on suspected kernels, and takes some milliseconds, during which the caller sleeps.
 * Thread-safe.
 */
bool rseq_is_sound(void);

/* ---- Seize ----------------------------------------------------------------------------------- */

/*
 * Attaches to the threads of a process without stopping them (PTRACE_SEIZE), and asks them to stop.
 */

/*
 * The next step after attaching to a thread. SEIZE_ASK asks the thread to stop at once, because it
 * can create another thread and end within microseconds, and the new thread can do the same.
 */
enum seize_then { SEIZE_LET_RUN, SEIZE_ASK };

/* ---- Settle ---------------------------------------------------------------------------------- */

/*
 * Handles threads that a stop has found in a system call, on machines where the registers do not
 * show the call.
 */

/*
 * Call this before a stopped thread makes system calls for us. Reads the thread's registers again.
 * After that, the registers hold all that the thread needs to continue. Returns false if the thread
 * is gone or does not stop again. If it does not stop again, is_running is set.
 */
bool settle_thread(struct control_signals *signals, struct control_thread *thread);

/*
 * Detaches from a thread that must repeat the call in which the stop found it. If a signal comes
 * first, the call ends with EINTR, as it would have without us. If the thread does not stop as
 * expected, sets is_running and does not detach.
 */
void settle_detach(struct control_signals *signals, struct control_thread *thread);

/* ---- Urgent ---------------------------------------------------------------------------------- */

/* Runs this process with scheduling priority while stopped threads wait for it. */

/*
 * Makes the scheduler prefer the calling thread. Returns how the thread was scheduled before, for
 * urgent_end(), or NULL if nothing was changed.
 */
void *urgent_begin(void);
/*
 * Restores the scheduling that urgent_begin() returned as `before` (may be NULL), and frees
 * `before`.
 */
void urgent_end(void *before);

/* ---- Wait ------------------------------------------------------------------------------------ */

/* Waits for the stops of traced threads. See also control_wait(). */

/* The PTRACE_EVENT_* of a wait status; 0 if the status reports no event. */
#define WAIT_EVENT_OF(status) ((unsigned int)(status) >> 16)

/* The signal of a stop at the entry or exit of a system call (PTRACE_O_TRACESYSGOOD). */
enum { WAIT_SYSCALL_STOP = SIGTRAP | 0x80 };
/*
 * Returns the signal that a stop reported, which must be delivered to the thread. Returns 0 if the
 * stop reported no signal, or if `status` is 0.
 */
long wait_signal_of(int status);

/* How long other threads are kept stopped while one thread is in vfork(2) and cannot stop. */
enum { WAIT_BLOCKED_NS = 10000000 };
/*
 * How long other threads are kept stopped while one thread gets no processor, or makes a call for
 * us.
 */
#define WAIT_STOP_NS UINT64_C(2000000000)

enum wait_result { WAIT_STOPPED, WAIT_GONE, WAIT_TIMEOUT };

/*
 * Waits for the next stop of a traced thread that has run since `begun_ns` (CLOCK_MONOTONIC).
 * Returns WAIT_TIMEOUT if the thread does not stop within WAIT_STOP_NS.
 */
enum wait_result wait_for_stop(
	pid_t tid, uint64_t begun_ns, struct control_signals *signals, int *status_ret);

/*
 * Waits for the stop after a PTRACE_INTERRUPT that was sent at `begun_ns` (CLOCK_MONOTONIC) or
 * later. Delivers signals that come first. Returns WAIT_TIMEOUT if the thread does not stop.
 */
enum wait_result wait_for_interrupt(pid_t tid, uint64_t begun_ns, struct control_signals *signals);

/* Returns true if a thread is in an uninterruptible sleep, for example in vfork(2). */
bool wait_is_blocked(pid_t tid);

/* ---- Yield ----------------------------------------------------------------------------------- */

/* Gives up the processor while a traced thread runs to its next stop. */

struct yield {
	/* Until when other threads are known to want the processor (CLOCK_MONOTONIC), or 0. */
	uint64_t crowded_until_ns;
};

/*
 * Lets threads that share the processor run. Returns false if the caller has to sleep instead. May
 * take long if other threads compute on the processor; for a second after that, returns false at
 * once.
 */
bool yield_once(struct yield *yield);

#endif
