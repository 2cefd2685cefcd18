/* SPDX-License-Identifier: MIT */
/* One traced thread: waiting for its stops and its end, and its registers. */
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"

/* ==== Signals ================================================================================= */

/* The limit of a sleep, in case SIGCHLD is ignored, or another thread takes it. */
enum { SLEEP_NS = 1000000 };

static sigset_t child_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	return set;
}

void control_signals_take(struct control_signals *signals)
{
	sigset_t set = child_signal(), old;

	if (signals->in_force)
		return;
	pthread_sigmask(SIG_BLOCK, &set, &old);
	*signals = (struct control_signals){
		.in_force = true, .is_blocked = !sigismember(&old, SIGCHLD)};
}

void control_signals_give(struct control_signals *signals)
{
	sigset_t set = child_signal();

	if (signals->taken)
		kill(getpid(), SIGCHLD);
	if (signals->is_blocked)
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	*signals = (struct control_signals){0};
}

void control_signals_wait(struct control_signals *signals)
{
	static const struct timespec slice = {.tv_nsec = SLEEP_NS};
	sigset_t set = child_signal();

	signals->taken |= sigtimedwait(&set, NULL, &slice) == SIGCHLD;
}

/* ==== Wait ==================================================================================== */

/*
 * While we wait for a stop, we sleep, so that the target gets our processor at once. Every wait for
 * a target's thread is in this file, and has a time limit.
 */

static bool look(pid_t tid, siginfo_t *info, int flags)
{
	int rc;

	do {
		*info = (siginfo_t){0};
		rc = waitid(P_PID, tid, info, flags | WSTOPPED | WNOHANG | __WALL);
	} while (rc < 0 && errno == EINTR);
	return rc == 0;
}

pid_t control_wait(pid_t tid, int *status_ret)
{
	siginfo_t info;

	/* Take a stop as soon as it is seen. Without WEXITED, waitid(2) takes no exit status. */
	for (;;) {
		if (look(tid, &info, 0)) {
			/* Build the status that wait(2) would return. */
			*status_ret = (int)((unsigned int)info.si_status << 8 | 0x7f);
			return info.si_pid;
		}
		if (!look(tid, &info, WEXITED | WNOWAIT))
			return -1;
		if (info.si_pid != tid)
			return 0;
		if (info.si_code != CLD_STOPPED && info.si_code != CLD_TRAPPED)
			break;
	}
	/*
	 * Other threads stay zombies until their tracer has waited for them. But if `tid` is a
	 * process that we have started, our caller waits for its exit status.
	 */
	if (procfs_status_number(tid, "PPid:") != getpid() ||
		procfs_status_number(tid, "Tgid:") != tid)
		waitpid(tid, status_ret, __WALL | WNOHANG);
	return -1;
}

long wait_signal_of(int status)
{
	return !status || WAIT_EVENT_OF(status) || WSTOPSIG(status) == WAIT_SYSCALL_STOP
		       ? 0
		       : WSTOPSIG(status);
}

/*
 * Returns true if a thread is in an uninterruptible sleep. In vfork(2) and posix_spawn(3) it is,
 * until its child calls execve(2) or ends; only a fatal signal wakes it earlier.
 */
bool wait_is_blocked(pid_t tid)
{
	return procfs_thread_state(tid, tid) == 'D';
}

/*
 * Waits for a stop: in an uninterruptible sleep for at most `blocked_ns`, else for WAIT_STOP_NS.
 * The clock is read before each look, so if we were stopped ourselves, we look once more.
 */
static enum wait_result wait_stop(pid_t tid, uint64_t begun_ns, uint64_t blocked_ns,
	struct control_signals *signals, int *status_ret)
{
	for (;;) {
		uint64_t waited = clock_monotonic_ns() - begun_ns;
		pid_t pid = control_wait(tid, status_ret);

		if (pid)
			return pid == tid ? WAIT_STOPPED : WAIT_GONE;
		if (waited >= WAIT_STOP_NS || (waited >= blocked_ns && wait_is_blocked(tid)))
			return WAIT_TIMEOUT;
		control_signals_wait(signals);
	}
}

/*
 * Give an uninterruptible sleep the usual limit: a thread that makes a call for us may be waiting
 * for a disk.
 */
enum wait_result wait_for_stop(
	pid_t tid, uint64_t begun_ns, struct control_signals *signals, int *status_ret)
{
	return wait_stop(tid, begun_ns, WAIT_STOP_NS, signals, status_ret);
}

enum wait_result wait_for_interrupt(pid_t tid, uint64_t begun_ns, struct control_signals *signals)
{
	for (;;) {
		int status = 0;
		enum wait_result result =
			wait_stop(tid, begun_ns, WAIT_BLOCKED_NS, signals, &status);

		if (result != WAIT_STOPPED || WAIT_EVENT_OF(status) == PTRACE_EVENT_STOP)
			return result;
		if (ptrace(PTRACE_CONT, tid, NULL, wait_signal_of(status)) < 0)
			return WAIT_GONE;
	}
}

/* ==== Reap ==================================================================================== */

/*
 * A traced process's parent is told of its end only after the tracer has waited for it. A thread
 * that was just killed is no longer stopped, so we cannot detach from it, and it may take long to
 * become a zombie (core files). So another thread of ours, which Linux allows, waits for it. A
 * child of ours is left to the code that started it.
 *
 * Source: ptrace(2), "Death under ptrace"; wait(2), "__WNOTHREAD".
 */

static void *wait_for_end(void *data)
{
	pid_t tid = (pid_t)(intptr_t)data;
	siginfo_t info;
	int rc;

	do {
		rc = waitid(P_PID, (id_t)tid, &info, WEXITED | WNOWAIT | __WALL);
	} while (rc < 0 && errno == EINTR);
	if (rc == 0)
		control_wait(tid, &(int){0});
	return NULL;
}

void reap_or_detach(pid_t tid)
{
	pid_t stopped = tid;
	sigset_t all, old;
	pthread_t waiter;

	/* The detach also fails while the thread is about to stop. */
	while (stopped == tid && ptrace(PTRACE_DETACH, tid, NULL, NULL) < 0 && errno == ESRCH)
		stopped = control_wait(tid, &(int){0});
	if (stopped)
		return;
	/* Block all signals in the new thread, because they are meant for the caller's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&waiter, NULL, wait_for_end, (void *)(intptr_t)tid) == 0)
		pthread_detach(waiter);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ==== Alarm =================================================================================== */

/*
 * A traced thread stays stopped while its tracer is stopped itself (Ctrl-Z, SIGSTOP). A timer runs
 * even then, and its SIGCONT continues us. SIGCONT does nothing to a running process.
 *
 * Sources: timer_create(2), signal(7).
 */

enum { STOPPED_NS = 500000000 };

void alarm_set(struct alarm *alarm)
{
	struct sigevent go_on = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
	const struct timespec time = {.tv_nsec = STOPPED_NS};

	if (alarm->set || !seccomp_may_call(SECCOMP_OWN_ALARM))
		return;
	if (!alarm->exists)
		alarm->exists = timer_create(CLOCK_MONOTONIC, &go_on, &alarm->timer) == 0;
	alarm->set = alarm->exists &&
		     timer_settime(alarm->timer, 0, &(struct itimerspec){time, time}, NULL) == 0;
}

void alarm_unset(struct alarm *alarm)
{
	if (alarm->set)
		timer_settime(alarm->timer, 0, &(struct itimerspec){0}, NULL);
	alarm->set = false;
}

void alarm_deinit(struct alarm *alarm)
{
	if (alarm->exists)
		timer_delete(alarm->timer);
	*alarm = (struct alarm){0};
}

/* ==== Registers =============================================================================== */

/* Transfers general registers by the ptrace(2) request `own` or, if that is 0, as a regset. */
static bool transfer(pid_t tid, int own, int request, struct arch_registers *registers)
{
	struct iovec bytes = {registers, arch_process()->register_bytes};

	return (own ? ptrace(own, tid, NULL, registers)
		    : ptrace(request, tid, NT_PRSTATUS, &bytes)) == 0;
}

/* Transfers the registers that have a regset of their own. */
static bool transfer_others(pid_t tid, int request, struct arch_registers *registers)
{
	const struct arch_process *arch = arch_process();

	for (int i = 0; i < arch->regset_count; i++) {
		uint64_t *word = &registers->words[arch->regsets[i].word];
		int32_t half = (int32_t)*word;
		bool is_half = arch->regsets[i].bytes == sizeof(half);
		struct iovec bytes = {is_half ? (void *)&half : word, arch->regsets[i].bytes};

		if (request == PTRACE_SETREGSET && arch->regsets[i].never_changes)
			continue;
		if (ptrace(request, tid, arch->regsets[i].type, &bytes))
			return false;
		if (is_half)
			*word = (uint64_t)(int64_t)half;
	}
	return true;
}

bool registers_read(pid_t tid, struct arch_registers *ret)
{
	return transfer(tid, arch_process()->ptrace_get, PTRACE_GETREGSET, ret) &&
	       transfer_others(tid, PTRACE_GETREGSET, ret);
}

bool registers_write(pid_t tid, const struct arch_registers *registers)
{
	struct arch_registers copy = *registers;

	return transfer(tid, arch_process()->ptrace_set, PTRACE_SETREGSET, &copy) &&
	       transfer_others(tid, PTRACE_SETREGSET, &copy);
}
