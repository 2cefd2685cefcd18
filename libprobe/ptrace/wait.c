/* SPDX-License-Identifier: MIT */
/*
 * Waits for stops by sleeping, so that the target gets our processor at once. Every wait for a
 * target's thread is in this file, and has a limit.
 */
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"

/* A process that this one started: the caller waits for its exit status. */
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
		rc = waitid(P_PID, tid, info, flags | WSTOPPED | WNOHANG | __WALL);
	} while (rc < 0 && errno == EINTR);
	return rc == 0;
}

pid_t control_wait(pid_t tid, int *status_ret)
{
	siginfo_t info;

	/* A stop is taken at once. Asked for stops alone, a thread that has ended is none. */
	for (;;) {
		if (look(tid, &info, 0)) {
			/* As wait(2) has it. */
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
	 * A thread, or a child of another process, is a zombie until its tracer has waited for it.
	 */
	if (!is_own_child(tid))
		waitpid(tid, status_ret, __WALL | WNOHANG);
	return -1;
}

long wait_signal_of(int status)
{
	return !status || WAIT_EVENT_OF(status) || WSTOPSIG(status) == WAIT_SYSCALL_STOP
		       ? 0
		       : WSTOPSIG(status);
}

bool wait_is_blocked(pid_t tid)
{
	return procfs_thread_state(tid, tid) == 'D';
}

/*
 * Gives up on a blocked thread after `blocked_ns`, and on any other after WAIT_STOP_NS. The clock
 * is read before each look, so if this process was stopped itself, the thread gets another look.
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
 * In a call for us, a thread may be blocked while a disk reads memory back, so a blocked thread
 * gets no shorter limit.
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
