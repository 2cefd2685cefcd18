/* SPDX-License-Identifier: MIT */
/*
 * The life of a stop: seize, interrupt, wait, (work), detach.
 *
 * PTRACE_SEIZE attaches without stopping and without a signal, so it is done
 * for all threads first; only PTRACE_INTERRUPT begins the pause. A list of
 * threads is only complete if it was read while all that it names were
 * stopped, so the list is read until nothing new appears.
 *
 * A thread may stop for another reason first: a signal on its way. It is
 * passed on at once, and the thread stops again for our interrupt before it
 * runs the first instruction of its handler.
 *
 * Waiting sleeps: a processor that is handed over serves the target at once.
 *
 * Sources: ptrace(2); kernel/ptrace.c and kernel/signal.c of Linux.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/clock.h"
#include "libprobe/process/procfs.h"
#include "libprobe/stop/children.h"
#include "libprobe/stop/control.h"
#include "libprobe/stop/reap.h"
#include "libprobe/stop/remaining.h"
#include "libprobe/stop/restart.h"
#include "libprobe/stop/urgent.h"

#define STOP_TIMEOUT_NS UINT64_C(2000000000) /* for a thread that gets no processor */
#define PATIENCE_NS UINT64_C(8000000000)     /* until no thread is in vfork(2) */

enum {
	BLOCKED_NS = 10000000, /* for how long the others stand still for one in vfork(2) */
	LOOK_NS = 1000000,
	LET_GO_TRIES = 100,
	BORROW_LOOKS = 64, /* threads looked at for one that does not sleep */
	SLEEP_NS = 1000000 /* in case SIGCHLD is ignored or taken by another thread */
};

#define EVENT_OF(status) ((unsigned int)(status) >> 16)

/* ---- Waiting ------------------------------------------------------------- */

enum wait_result { WAIT_STOPPED, WAIT_GONE, WAIT_TIMEOUT };

/* A process that this one started: whoever did that waits for its exit status. */
static bool is_own_child(pid_t tid)
{
	return procfs_status_number(tid, "PPid:") == getpid() &&
	       procfs_status_number(tid, "Tgid:") == tid;
}

static bool look(pid_t tid, siginfo_t *info, int flags)
{
	int rc;

	do {
		*info = (siginfo_t){0};
		rc = waitid(P_PID, tid, info, flags | WSTOPPED | __WALL);
	} while (rc < 0 && errno == EINTR);
	return rc == 0;
}

pid_t control_wait(pid_t tid, int *status_ret, int flags)
{
	siginfo_t info;

	/* A stop is taken at once. Asked for stops alone, a thread that has ended is none. */
	for (;;) {
		if (look(tid, &info, flags)) {
			/* As wait(2) has it. */
			*status_ret = (int)((unsigned int)info.si_status << 8 | 0x7f);
			return info.si_pid;
		}
		if (!look(tid, &info, flags | WEXITED | WNOWAIT))
			return -1;
		if (info.si_pid != tid)
			return 0;
		if (info.si_code != CLD_STOPPED && info.si_code != CLD_TRAPPED)
			break;
	}
	/* Another's child, or a thread, is a zombie until its tracer has seen it. */
	if (!is_own_child(tid))
		waitpid(tid, status_ret, __WALL | WNOHANG);
	return -1;
}

void control_signals_take(struct control_signals *signals)
{
	signals->taken = false;
	sigemptyset(&signals->child);
	sigaddset(&signals->child, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &signals->child, &signals->old);
}

void control_signals_give(struct control_signals *signals)
{
	if (signals->taken)
		kill(getpid(), SIGCHLD);
	pthread_sigmask(SIG_SETMASK, &signals->old, NULL);
}

bool control_signals_wait(struct control_signals *signals)
{
	static const struct timespec slice = {.tv_nsec = SLEEP_NS};
	bool came = sigtimedwait(&signals->child, NULL, &slice) == SIGCHLD;

	signals->taken |= came;
	return came;
}

/*
 * In vfork(2) a thread sleeps so that nothing but its own end disturbs it, until its child
 * has become another program or has ended. posix_spawn(3) is such a call, too.
 */
static bool is_blocked(pid_t tid)
{
	return procfs_thread_state(tid, tid) == 'D';
}

/*
 * Waits until a traced thread stops. The others stand still for it, so that one which
 * cannot stop is soon given up.
 */
static enum wait_result wait_stop(
	pid_t tid, uint64_t begun_ns, struct control_signals *signals, int *status_ret)
{
	for (;;) {
		pid_t pid = control_wait(tid, status_ret, WNOHANG);
		uint64_t waited;

		if (pid)
			return pid == tid ? WAIT_STOPPED : WAIT_GONE;
		control_signals_wait(signals);
		waited = clock_monotonic_ns() - begun_ns;
		if (waited >= STOP_TIMEOUT_NS || (waited >= BLOCKED_NS && is_blocked(tid)))
			return WAIT_TIMEOUT;
	}
}

/* Waits for the stop that PTRACE_INTERRUPT asked for; passes signals on. */
static enum wait_result wait_interrupt(
	pid_t tid, uint64_t begun_ns, struct control_signals *signals)
{
	for (;;) {
		int status;
		enum wait_result result = wait_stop(tid, begun_ns, signals, &status);

		if (result != WAIT_STOPPED || EVENT_OF(status) == PTRACE_EVENT_STOP)
			return result;
		if (ptrace(PTRACE_CONT, tid, NULL, EVENT_OF(status) ? 0 : (long)WSTOPSIG(status)) <
			0)
			return WAIT_GONE;
	}
}

void control_calm(struct control *control)
{
	urgent_end(control->attributes);
	control->attributes = NULL;
}

/* ---- Stopping --------------------------------------------------------------- */

/*
 * Is it one of the first `known` threads? The kernel lists them in the same order
 * every time, so that the next one is most often where *hint says; it is moved on.
 */
static bool has_thread(const struct control *control, size_t known, pid_t tid, size_t *hint)
{
	for (size_t i = 0; i < known; i++) {
		size_t at = (*hint + i) % known;

		if (control->threads[at].tid == tid) {
			*hint = at + 1;
			return true;
		}
	}
	return false;
}

/* For one more: before it is attached to, as one that is not listed is never let go. */
static struct probe_error *make_room(struct control *control)
{
	struct control_thread *threads =
		array_grow(control->threads, control->count, sizeof(*threads));

	if (!threads)
		return probe_error_no_memory();
	control->threads = threads;
	return NULL;
}

static void drop_thread(struct control *control, size_t i)
{
	control->threads[i] = control->threads[--control->count];
}

/* Attaches to a thread. A thread that is gone or dead is none: *attached_ret is false. */
static struct probe_error *seize(struct control *control, pid_t pid, pid_t tid, bool *attached_ret)
{
	struct probe_error *error = make_room(control);

	*attached_ret = false;
	if (error)
		return error;
	if (ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD) < 0) {
		int err = errno;
		char state = procfs_thread_state(pid, tid);

		if (err == ESRCH || !state || strchr("ZXx", state))
			return NULL;
		if (err == EPERM)
			return procfs_permission_error(pid);
		return probe_error_system(err, "cannot trace thread %d of process %d", tid, pid);
	}
	*attached_ret = true;
	control->threads[control->count++] =
		(struct control_thread){.tid = tid, .pid = pid, .is_running = true};
	return NULL;
}

/* Attaches to every thread of a process that is not attached yet. */
static struct probe_error *seize_process(struct control *control, pid_t pid, size_t *new_ret)
{
	size_t known = control->count, hint = 0;
	struct probe_error *error = NULL;
	DIR *threads = procfs_threads(pid);
	pid_t tid;

	if (!threads && errno == ENOENT && pid != control->pid)
		return NULL;
	if (!threads)
		return errno == ENOENT ? probe_error_new(PROBE_ERROR_NOT_FOUND,
						 "there is no process %d", pid)
				       : probe_error_system(errno, "/proc/%d/task", pid);
	while (!error && (tid = procfs_next_thread(threads))) {
		bool attached;

		if (has_thread(control, known, tid, &hint))
			continue;
		error = seize(control, pid, tid, &attached);
		*new_ret += attached;
	}
	closedir(threads);
	return error;
}

/* Attaches to every thread that is not attached yet, of the process and its guests. */
static struct probe_error *seize_new(struct control *control, size_t *new_ret)
{
	struct probe_error *error;

	*new_ret = 0;
	error = seize_process(control, control->pid, new_ret);
	for (size_t i = 0; !error && control->guests && control->guests[i]; i++)
		if (control->guests[i] != control->lender)
			error = seize_process(control, control->guests[i], new_ret);
	return error;
}

/* At once: if we die, the thread goes on as its registers say. */
static bool read_registers(struct control_thread *thread)
{
	if (ptrace(PTRACE_GETREGS, thread->tid, NULL, &thread->regs) < 0)
		return false;
	if (!restart_wait(&thread->regs))
		return true;
	if (thread->wait)
		remaining_apply(thread->wait, &thread->regs);
	return ptrace(PTRACE_SETREGS, thread->tid, NULL, &thread->regs) == 0;
}

/* Detaches from those that were asked to stop late and have by now; true when none is left. */
static bool let_late_go(struct control *control)
{
	for (size_t i = 0; i < control->count;) {
		struct control_thread *thread = &control->threads[i];
		int status = 0;
		pid_t pid = control_wait(thread->tid, &status, WNOHANG);

		if (!pid) {
			i++;
			continue;
		}
		if (pid == thread->tid && EVENT_OF(status) == PTRACE_EVENT_STOP)
			read_registers(thread);
		if (pid == thread->tid)
			ptrace(PTRACE_DETACH, thread->tid, NULL,
				EVENT_OF(status) ? 0 : (long)WSTOPSIG(status));
		drop_thread(control, i);
	}
	return control->count == 0;
}

/* Detaches from all that are stopped. */
static void release_stopped(struct control *control)
{
	for (size_t i = 0; i < control->count;) {
		struct control_thread *thread = &control->threads[i];

		if (thread->is_running) {
			i++;
			continue;
		}
		if (thread->regs_changed)
			ptrace(PTRACE_SETREGS, thread->tid, NULL, &thread->regs);
		reap_or_detach(thread->tid);
		drop_thread(control, i);
	}
}

static void forget(struct control *control)
{
	free(control->threads);
	free(control->guests);
	remaining_free(control->remaining);
	*control = (struct control){
		.pid = control->pid, .lender = control->lender, .seccomp = control->seccomp};
}

/*
 * Detaches from all. Only a thread that is stopped can be let go, so the others have to. Returns
 * when the stopped ones were gone (CLOCK_MONOTONIC): we may lose the processor right behind that.
 */
static uint64_t release(struct control *control)
{
	uint64_t end;

	release_stopped(control);
	end = clock_monotonic_ns();
	control_calm(control);
	for (size_t i = 0; i < control->count; i++)
		ptrace(PTRACE_INTERRUPT, control->threads[i].tid, NULL, NULL);
	for (int i = 0; i < LET_GO_TRIES && !let_late_go(control); i++)
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	forget(control);
	return end;
}

/* Before they are interrupted: how much of their time limits is left. */
static void look_at_waits(struct control *control)
{
	remaining_free(control->remaining);
	control->remaining = remaining_look(control->threads, control->count);
}

/*
 * Interrupts the threads from index `from` on, waits for them and reads their registers.
 * Returns false if one does not stop, which is then the first that is_running.
 */
static bool interrupt(struct control *control, size_t from)
{
	uint64_t begun = clock_monotonic_ns();
	struct control_signals signals;
	bool all = true;

	control_signals_take(&signals);
	/* Those that sleep first: nobody stands still while they are looked at once more. */
	for (size_t i = from; i < control->count; i++)
		if (control->threads[i].wait)
			remaining_interrupt(control->threads[i].wait);
	for (size_t i = from; i < control->count; i++)
		if (!control->threads[i].wait)
			ptrace(PTRACE_INTERRUPT, control->threads[i].tid, NULL, NULL);
	for (size_t i = from; i < control->count && all;) {
		struct control_thread *thread = &control->threads[i];
		enum wait_result result = wait_interrupt(thread->tid, begun, &signals);

		thread->is_running = result == WAIT_TIMEOUT;
		if (thread->is_running)
			all = false;
		else if (result == WAIT_GONE || !read_registers(thread))
			drop_thread(control, i);
		else
			i++;
	}
	control_signals_give(&signals);
	return all;
}

/* ---- Threads that cannot stop ---------------------------------------------------------------- */

/* Has a thread been in vfork(2), say, for longer than the others could stand still for it? */
static bool stays_blocked(pid_t tid)
{
	uint64_t end = clock_monotonic_ns() + BLOCKED_NS;

	while (is_blocked(tid)) {
		if (clock_monotonic_ns() >= end)
			return true;
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	}
	return false;
}

/* A thread of the process that stays so, or 0. */
static pid_t blocked_thread(pid_t pid)
{
	DIR *threads = procfs_threads(pid);
	pid_t tid;

	while ((tid = procfs_next_thread(threads)) && !stays_blocked(tid))
		;
	if (threads)
		closedir(threads);
	return tid;
}

/* Waits until every thread can stop. Nobody stands still meanwhile. */
static struct probe_error *await_unblocked(struct control *control, uint64_t deadline_ns)
{
	pid_t tid = 0;

	for (;;) {
		if (!let_late_go(control))
			tid = control->threads[0].tid;
		else if (!tid || !is_blocked(tid))
			tid = blocked_thread(control->pid);
		if (!tid)
			return NULL;
		if (clock_monotonic_ns() >= deadline_ns)
			break;
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	}
	release(control);
	return probe_error_new(PROBE_ERROR_STATE,
		"thread %d of process %d cannot stop: it waits for what it started with vfork(2), "
		"or for a device: try again later",
		tid, control->pid);
}

/* ---- Stopping all --------------------------------------------------------------------------- */

/*
 * Processes that share the memory and were started while the threads were being
 * stopped. Ids are given out in order, so those are known that may be new.
 */
static struct probe_error *add_new_guests(struct control *control, int loadavg, long *last_pid)
{
	long now = procfs_last_pid(loadavg);

	if (now != *last_pid &&
		!children_add_sharing(control->pid, *last_pid, now, &control->guests))
		return probe_error_no_memory();
	*last_pid = now;
	return NULL;
}

/* One try; *again_ret: a thread did not stop, and all others were let go. */
static struct probe_error *stop_all(struct control *control, bool *again_ret)
{
	struct probe_error *error = NULL;
	size_t added, stopped = 0;
	int loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	long last_pid = procfs_last_pid(loadavg);

	*again_ret = false;
	free(control->guests);
	control->guests = children_sharing(control->pid);
	error = seize_new(control, &added);
	if (!error)
		look_at_waits(control);
	control->attributes = urgent_begin();
	control->stopped_ns = clock_monotonic_ns();
	while (!error && added && !*again_ret) {
		*again_ret = !interrupt(control, stopped);
		stopped = control->count;
		if (!*again_ret)
			error = add_new_guests(control, loadavg, &last_pid);
		if (!error && !*again_ret)
			error = seize_new(control, &added);
	}
	if (loadavg >= 0)
		close(loadavg);
	if (!error && *again_ret) {
		release_stopped(control);
		control_calm(control);
	} else if (!error && !control->count) {
		error = probe_error_new(
			PROBE_ERROR_NOT_FOUND, "process %d has ended", control->pid);
	}
	if (error)
		release(control);
	return error;
}

struct probe_error *control_stop(pid_t pid, pid_t lender, struct control *ret)
{
	return control_stop_within(pid, lender, PATIENCE_NS, ret);
}

struct probe_error *control_stop_within(
	pid_t pid, pid_t lender, uint64_t patience_ns, struct control *ret)
{
	uint64_t deadline = clock_monotonic_ns() + patience_ns, pause = LOOK_NS;
	struct probe_error *error;
	bool again;

	*ret = (struct control){.pid = pid, .lender = lender};
	for (;; pause *= 2) {
		error = await_unblocked(ret, deadline);
		if (!error)
			error = stop_all(ret, &again);
		if (error || !again)
			return error;
		/* The others are let run for the longer the more often it failed. */
		nanosleep(&(struct timespec){pause / 1000000000, pause % 1000000000}, NULL);
	}
}

uint64_t control_resume(struct control *control)
{
	uint64_t start = control->stopped_ns;

	return release(control) - start;
}

/* ---- Borrowing one thread ---------------------------------------------------- */

/*
 * What it costs a thread to make calls for us, from what it is doing (proc_pid_syscall(5)).
 * A call that the kernel begins again by a block of data of the thread's would end with
 * EINTR if we died; one that cannot stop is no choice at all.
 */
enum cost { COST_NONE, COST_RESTART, COST_WAIT, COST_BLOCK, COST_UNFIT };

static enum cost cost_of(pid_t pid, pid_t tid)
{
	char path[64], text[256];
	char state, *rest;
	long number;

	errno = 0;
	state = procfs_thread_state(pid, tid);
	if (!state && procfs_no_room(errno))
		return COST_RESTART;
	if (!state || strchr("ZXxD", state))
		return COST_UNFIT;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	if (!procfs_read(path, text, sizeof(text)))
		return COST_RESTART;
	number = strtol(text, &rest, 10);
	if (rest == text || number < 0) /* "running", or "-1": in none */
		return COST_NONE;
	return restart_has_block(number, rest) ? COST_BLOCK
	       : restart_is_wait(number)       ? COST_WAIT
					       : COST_RESTART;
}

/* The thread that it costs least; 0: there is none. */
static struct probe_error *choose_borrowed(
	pid_t pid, const struct seccomp *seccomp, pid_t *best_ret)
{
	DIR *threads = procfs_threads(pid);
	enum cost least = COST_UNFIT;
	pid_t tid;

	*best_ret = 0;
	if (!threads)
		return errno == ENOENT ? probe_error_new(PROBE_ERROR_NOT_FOUND,
						 "there is no process %d", pid)
				       : probe_error_system(errno, "/proc/%d/task", pid);
	for (int i = 0; i < BORROW_LOOKS && least && (tid = procfs_next_thread(threads));) {
		enum cost cost = seccomp_may_run(seccomp, tid) ? cost_of(pid, tid) : COST_UNFIT;

		if (cost < least) {
			least = cost;
			*best_ret = tid;
		}
		i += cost < COST_UNFIT;
	}
	closedir(threads);
	return NULL;
}

/* Stops one thread; not if it is gone, or cannot stop: then control->count is 0, or it is late. */
static struct probe_error *stop_one(struct control *control, pid_t tid)
{
	bool attached;
	struct probe_error *error = seize(control, control->pid, tid, &attached);

	if (error || !attached)
		return error;
	look_at_waits(control);
	control->attributes = urgent_begin();
	control->stopped_ns = clock_monotonic_ns();
	if (!interrupt(control, 0))
		control_calm(control);
	return NULL;
}

struct probe_error *control_borrow(pid_t pid, const struct seccomp *seccomp, struct control *ret)
{
	return control_borrow_within(pid, seccomp, PATIENCE_NS, ret);
}

struct probe_error *control_borrow_within(
	pid_t pid, const struct seccomp *seccomp, uint64_t patience_ns, struct control *ret)
{
	uint64_t deadline = clock_monotonic_ns() + patience_ns;
	struct probe_error *error = NULL;

	*ret = (struct control){.pid = pid, .seccomp = seccomp};
	for (;;) {
		pid_t tid = 0;

		if (let_late_go(ret))
			error = choose_borrowed(pid, seccomp, &tid);
		if (!error && tid)
			error = stop_one(ret, tid);
		if (error) {
			release(ret);
			return error;
		}
		if (ret->count && !ret->threads[0].is_running)
			return NULL;
		if ((!procfs_start_time(pid) && !procfs_no_room(errno)) || procfs_is_zombie(pid))
			error = probe_error_new(
				PROBE_ERROR_NOT_FOUND, "there is no process %d", pid);
		else if (clock_monotonic_ns() >= deadline)
			error = probe_error_new(PROBE_ERROR_STATE,
				"no thread of process %d can stop: each waits for what it started "
				"with vfork(2), or for a device: try again later",
				pid);
		if (error) {
			release(ret);
			return error;
		}
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	}
}
