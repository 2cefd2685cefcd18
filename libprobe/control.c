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
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/array.h"
#include "libprobe/clock.h"
#include "libprobe/control.h"
#include "libprobe/procfs.h"
#include "libprobe/reap.h"
#include "libprobe/restart.h"

enum {
	STOP_TIMEOUT_MS = 2000,
	BORROW_TRIES = 4,  /* threads looked at for one that does not sleep */
	SLICE_NS = 100000, /* the shortest that the scheduler takes */
	SLEEP_NS = 1000000 /* in case SIGCHLD is ignored or taken by another thread */
};

#define EVENT_OF(status) ((unsigned int)(status) >> 16)

struct probe_error *control_permission_error(pid_t pid)
{
	long tracer = procfs_status_number(pid, "TracerPid:");
	long uid = procfs_status_number(pid, "Uid:");
	long scope = procfs_file_number("/proc/sys/kernel/yama/ptrace_scope");
	char name[32];

	if (tracer > 0) {
		procfs_comm(tracer, name, sizeof(name));
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"process %d is being traced by process %ld (%s): end that first", pid,
			tracer, name);
	}
	if (uid >= 0 && geteuid() != 0 && (uid_t)uid != geteuid())
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"process %d belongs to user %ld: run probectl as that user or as root", pid,
			uid);
	if (geteuid() != 0 && scope > 0)
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"process %d may not be traced: kernel.yama.ptrace_scope is %ld: set it to "
			"0 "
			"or run probectl as root",
			pid, scope);
	return probe_error_new(PROBE_ERROR_PERMISSION,
		"process %d may not be traced: it is not dumpable, has more capabilities or is in "
		"another user namespace: run probectl as root",
		pid);
}

/* ---- Waiting ------------------------------------------------------------- */

enum wait_result { WAIT_STOPPED, WAIT_GONE, WAIT_TIMEOUT };

/* A process that this one started: whoever did that waits for its exit status. */
static bool is_own_child(pid_t tid)
{
	return procfs_status_number(tid, "PPid:") == getpid() &&
	       procfs_status_number(tid, "Tgid:") == tid;
}

pid_t control_wait(pid_t tid, int *status_ret, int flags)
{
	siginfo_t info = {0};
	int rc;

	do {
		rc = waitid(P_PID, tid, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL | flags);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0)
		return -1;
	if (info.si_pid != tid)
		return 0;
	if (info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED)
		return waitpid(tid, status_ret, __WALL | WNOHANG);
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

/* Waits until a traced thread stops. */
static enum wait_result wait_stop(
	pid_t tid, uint64_t deadline_ns, struct control_signals *signals, int *status_ret)
{
	for (;;) {
		pid_t pid = control_wait(tid, status_ret, WNOHANG);

		if (pid)
			return pid == tid ? WAIT_STOPPED : WAIT_GONE;
		if (!control_signals_wait(signals) && clock_monotonic_ns() >= deadline_ns)
			return WAIT_TIMEOUT;
	}
}

/* Waits for the stop that PTRACE_INTERRUPT asked for; passes signals on. */
static enum wait_result wait_interrupt(
	pid_t tid, uint64_t deadline_ns, struct control_signals *signals)
{
	for (;;) {
		int status;
		enum wait_result result = wait_stop(tid, deadline_ns, signals, &status);

		if (result != WAIT_STOPPED || EVENT_OF(status) == PTRACE_EVENT_STOP)
			return result;
		if (ptrace(PTRACE_CONT, tid, NULL, EVENT_OF(status) ? 0 : (long)WSTOPSIG(status)) <
			0)
			return WAIT_GONE;
	}
}

/* ---- Urgency --------------------------------------------------------------------------- */

/* struct sched_attr of <linux/sched/types.h>, its first version; see sched_setattr(2). */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/*
 * While threads stand still, they wait for this process, which on a busy
 * machine may itself wait for a processor. Root can ask to go first; others
 * for short slices, which since Linux 6.12 come sooner.
 */
static void urgent_begin(struct control *control)
{
	struct attributes old = {.size = sizeof(old)}, wanted;

	control->attributes = NULL;
	if (syscall(SYS_sched_getattr, 0, &old, sizeof(old), 0) < 0 || old.policy != SCHED_OTHER)
		return;
	wanted = old;
	wanted.policy = SCHED_FIFO;
	wanted.priority = 1;
	wanted.nice = 0;
	wanted.runtime = 0;
	if (syscall(SYS_sched_setattr, 0, &wanted, 0) < 0) {
		wanted = old;
		wanted.runtime = SLICE_NS;
		if (syscall(SYS_sched_setattr, 0, &wanted, 0) < 0)
			return;
	}
	control->attributes = malloc(sizeof(old));
	if (control->attributes)
		memcpy(control->attributes, &old, sizeof(old));
	else
		syscall(SYS_sched_setattr, 0, &old, 0);
}

void control_calm(struct control *control)
{
	if (control->attributes)
		syscall(SYS_sched_setattr, 0, control->attributes, 0);
	free(control->attributes);
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
static struct probe_error *seize(struct control *control, pid_t tid, bool *attached_ret)
{
	struct probe_error *error = make_room(control);

	*attached_ret = false;
	if (error)
		return error;
	if (ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD) < 0) {
		int err = errno;
		char state = procfs_thread_state(control->pid, tid);

		if (err == ESRCH || !state || strchr("ZXx", state))
			return NULL;
		if (err == EPERM)
			return control_permission_error(control->pid);
		return probe_error_system(
			err, "cannot trace thread %d of process %d", tid, control->pid);
	}
	*attached_ret = true;
	control->threads[control->count++] = (struct control_thread){.tid = tid};
	return NULL;
}

/* Attaches to every thread that is not attached yet. */
static struct probe_error *seize_new(struct control *control, size_t *new_ret)
{
	size_t known = control->count, hint = 0;
	struct probe_error *error = NULL;
	DIR *threads = procfs_threads(control->pid);
	pid_t tid;

	*new_ret = 0;
	if (!threads)
		return errno == ENOENT ? probe_error_new(PROBE_ERROR_NOT_FOUND,
						 "there is no process %d", control->pid)
				       : probe_error_system(errno, "/proc/%d/task", control->pid);
	while (!error && (tid = procfs_next_thread(threads))) {
		bool attached;

		if (has_thread(control, known, tid, &hint))
			continue;
		error = seize(control, tid, &attached);
		*new_ret += attached;
	}
	closedir(threads);
	return error;
}

/* Detaches from all; those that never stopped are let go when this process ends. */
static void release(struct control *control)
{
	for (size_t i = 0; i < control->count; i++) {
		struct control_thread *thread = &control->threads[i];

		if (thread->regs_changed)
			ptrace(PTRACE_SETREGS, thread->tid, NULL, &thread->regs);
		reap_or_detach(thread->tid);
	}
	control_calm(control);
	free(control->threads);
	control->threads = NULL;
	control->count = 0;
}

/* At once: if we die, the thread goes on as its registers say. */
static bool read_registers(struct control_thread *thread)
{
	if (ptrace(PTRACE_GETREGS, thread->tid, NULL, &thread->regs) < 0)
		return false;
	return !restart_wait(&thread->regs) ||
	       ptrace(PTRACE_SETREGS, thread->tid, NULL, &thread->regs) == 0;
}

/* Interrupts the threads from index `from` on, waits for them and reads their registers. */
static struct probe_error *interrupt(struct control *control, size_t from)
{
	uint64_t deadline = clock_monotonic_ns() + STOP_TIMEOUT_MS * UINT64_C(1000000);
	struct probe_error *error = NULL;
	struct control_signals signals;

	control_signals_take(&signals);
	for (size_t i = from; i < control->count; i++)
		ptrace(PTRACE_INTERRUPT, control->threads[i].tid, NULL, NULL);
	for (size_t i = from; i < control->count && !error;) {
		struct control_thread *thread = &control->threads[i];
		enum wait_result result = wait_interrupt(thread->tid, deadline, &signals);

		if (result == WAIT_TIMEOUT)
			error = probe_error_new(PROBE_ERROR_STATE,
				"thread %d of process %d does not stop (state %c): try again later",
				thread->tid, control->pid,
				procfs_thread_state(control->pid, thread->tid));
		else if (result == WAIT_GONE || !read_registers(thread))
			drop_thread(control, i);
		else
			i++;
	}
	control_signals_give(&signals);
	return error;
}

struct probe_error *control_stop(pid_t pid, struct control *ret)
{
	struct probe_error *error;
	size_t added, stopped = 0;

	*ret = (struct control){.pid = pid};
	error = seize_new(ret, &added);
	urgent_begin(ret);
	ret->stopped_ns = clock_monotonic_ns();
	while (!error && added) {
		error = interrupt(ret, stopped);
		stopped = ret->count;
		if (!error)
			error = seize_new(ret, &added);
	}
	if (!error && !ret->count)
		error = probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", pid);
	if (error)
		release(ret);
	return error;
}

uint64_t control_resume(struct control *control)
{
	uint64_t start = control->stopped_ns;

	release(control);
	return clock_monotonic_ns() - start;
}

/* ---- Borrowing one thread ---------------------------------------------------- */

/* Stops one thread; *stopped_ret is false where it is gone. */
static struct probe_error *stop_one(struct control *control, pid_t tid, bool *stopped_ret)
{
	struct probe_error *error = seize(control, tid, stopped_ret);

	if (error || !*stopped_ret)
		return error;
	urgent_begin(control);
	control->stopped_ns = clock_monotonic_ns();
	error = interrupt(control, 0);
	*stopped_ret = control->count == 1;
	return error;
}

/* Is a stopped thread the one to borrow? *second_ret is one that would do, too. */
static bool is_fit(
	const struct control_thread *thread, const struct maps *maps, pid_t *second_ret, int *tries)
{
	if (!control_has_room(thread, maps))
		return false;
	*second_ret = *second_ret ? *second_ret : thread->tid;
	return !control_would_interrupt(thread) || --*tries <= 0;
}

struct probe_error *control_borrow(
	pid_t pid, const struct maps *maps, const struct seccomp *seccomp, struct control *ret)
{
	struct probe_error *error = NULL;
	int tries = BORROW_TRIES;
	DIR *threads = procfs_threads(pid);
	pid_t tid, second = 0;
	bool found = false;

	*ret = (struct control){.pid = pid, .seccomp = seccomp};
	if (!threads)
		return errno == ENOENT ? probe_error_new(PROBE_ERROR_NOT_FOUND,
						 "there is no process %d", pid)
				       : probe_error_system(errno, "/proc/%d/task", pid);
	while (!error && !found && (tid = procfs_next_thread(threads))) {
		if (!seccomp_may_run(seccomp, tid))
			continue;
		error = stop_one(ret, tid, &found);
		if (!error && found && !is_fit(&ret->threads[0], maps, &second, &tries)) {
			release(ret);
			found = false;
		}
	}
	closedir(threads);
	if (!error && !found && second)
		error = stop_one(ret, second, &found);
	if (!error && found)
		found = control_has_room(&ret->threads[0], maps);
	if (!error && !found)
		error = probe_error_new(PROBE_ERROR_STATE,
			"process %d has no thread with room on its stack: try again", pid);
	if (error)
		release(ret);
	return error;
}
