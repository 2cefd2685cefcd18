/* SPDX-License-Identifier: MIT */
/*
 * A stop interrupts the call in which a thread sleeps. Most calls then return an internal code,
 * -512 to -516, and the kernel restarts them if no handler runs. Some return EINTR, which reaches
 * the program although there was no signal (signal(7), "Interruption of system calls and library
 * functions by stop signals").
 *
 * We change their result to ERESTARTNOHAND. The kernel looks at it after the stop
 * (arch_do_signal_or_restart()): without a pending signal, it sets the thread back to its system
 * call; if a handler has to run, the result becomes EINTR.
 *
 * A restarted call gets its whole limit again, except epoll calls (remaining.c). For some calls the
 * limit is in the program's memory (semtimedop(2), rt_sigtimedwait(2), epoll_pwait2(2),
 * io_getevents(2)), where we must not write; for others it is the socket's, for all its users. A
 * copy in memory of ours would have to stay until the call returns, which is not reported to us,
 * because any later stop restarts the call with that pointer. Without the copy it would end with
 * EFAULT, which is worse than late.
 *
 * On aarch64, registers do not show which call returned EINTR, and a result that we set counts as
 * final. So we read each thread's call before the stop; if it slept in one of these calls and has
 * EINTR afterwards, we set it back to the call instruction, with the first argument that the result
 * replaced. A call begun in the microseconds between ends with EINTR.
 *
 * Only calls that have done nothing when they return EINTR are restarted: after a transfer, they
 * return its bytes. close(2) may have closed the file, and calls on devices (ioctl(2)) may have
 * done anything.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"

/* ==== Restart ================================================================================= */

enum {
	ERESTARTNOHAND = 514, /* from <linux/errno.h>; the headers for programs do not define it */
	CALL_BYTES = 4	      /* size of the call instruction, where the registers hide the call */
};

static bool has(const uint16_t *numbers, size_t count, long number)
{
	for (size_t i = 0; i < count; i++)
		if (number == numbers[i])
			return true;
	return false;
}

/* Returns true if a call is a wait that may return EINTR without a signal. */
static bool restart_is_wait(long number)
{
	return has(arch_process()->waits, arch_process()->wait_count, number);
}

/*
 * Returns true if the kernel restarts this call from the restart block, which rt_sigreturn(2)
 * discards. `args` are its arguments in hex.
 */
static bool restart_has_block(long number, const char *args)
{
	unsigned long long futex[4] = {0};

	if (number == SYS_futex) /* only if the fourth argument, a time limit, is set */
		return sscanf(args, "%llx %llx %llx %llx", &futex[0], &futex[1], &futex[2],
			       &futex[3]) == 4 &&
		       futex[3];
	return has(arch_process()->blocks, arch_process()->block_count, number);
}

void restart_look(pid_t pid, pid_t tid, struct restart_seen *ret)
{
	unsigned long long arg, sp, pc;
	char text[256];
	long number;

	*ret = (struct restart_seen){.number = -1};
	if (file_read(procfs_path("/proc/%d/task/%d/syscall", pid, tid).text, text, sizeof(text)) &&
		sscanf(text, "%ld %llx %*x %*x %*x %*x %*x %llx %llx", &number, &arg, &sp, &pc) ==
			4)
		*ret = (struct restart_seen){number, arg, sp, pc};
}

/* Changes EINTR, if the registers show it, to ERESTARTNOHAND. */
static bool restart_ended(struct arch_registers *regs)
{
	int64_t number = (int64_t)arch_get(regs, ARCH_CALL);

	if (number < 0 || (int64_t)arch_get(regs, ARCH_RESULT) != -EINTR ||
		!restart_is_wait((long)number))
		return false;
	arch_set(regs, ARCH_RESULT, -(uint64_t)ERESTARTNOHAND);
	return true;
}

void restart_undo(struct arch_registers *regs)
{
	arch_set(regs, ARCH_PC, arch_get(regs, ARCH_PC) + CALL_BYTES);
	arch_set(regs, ARCH_RESULT, -(uint64_t)EINTR);
}

/* Returns true if a thread may be in a call with a restart block that the registers do not show. */
static bool restart_hides_block(pid_t pid, const struct arch_registers *regs)
{
	uint32_t expected = arch_process()->hidden_call, code;
	long number = (long)arch_get(regs, ARCH_NUMBER);

	if (!expected || number == SYS_restart_syscall ||
		!(number == SYS_futex || restart_has_block(number, "")))
		return false;
	return memory_read(pid, arch_get(regs, ARCH_PC), &code, sizeof(code)) == sizeof(code) &&
	       code == expected;
}

bool restart_is_in_call(pid_t pid, const struct arch_registers *regs)
{
	uint32_t expected = arch_process()->hidden_call, code[2];

	if (!expected)
		return (int64_t)arch_get(regs, ARCH_CALL) >= 0;
	/* The program counter is after the call instruction, or at it. */
	return memory_read(pid, arch_get(regs, ARCH_PC) - CALL_BYTES, code, sizeof(code)) !=
		       sizeof(code) ||
	       code[0] == expected || code[1] == expected;
}

bool restart_wait(struct arch_registers *regs, const struct restart_seen *seen)
{
	if (!arch_process()->hidden_call)
		return restart_ended(regs);
	/* If the call `seen` has ended with EINTR, set the thread back to the call instruction. */
	if (!seen || seen->number < 0 || !restart_is_wait(seen->number) ||
		(int64_t)arch_get(regs, ARCH_RESULT) != -EINTR ||
		arch_get(regs, ARCH_NUMBER) != (uint64_t)seen->number ||
		arch_get(regs, ARCH_PC) != seen->pc || arch_get(regs, ARCH_SP) != seen->sp)
		return false;
	arch_set(regs, ARCH_PC, seen->pc - CALL_BYTES);
	arch_set(regs, ARCH_ARG0, seen->arg);
	return true;
}

/* ==== Settle ================================================================================== */

/*
 * On aarch64 the kernel sets an interrupted thread back to its system call instruction before it
 * reports the stop to the tracer. What the kernel does when the thread continues depends on its
 * internal state (do_signal() in arch/arm64/kernel/signal.c). If the thread makes calls for us in
 * between, that state is lost. So two kinds of calls need care:
 *
 * - Calls with a time limit for which the kernel notes the remaining time (nanosleep, futex). When
 *   the thread continues, the kernel replaces the call's number by the number of
 *   restart_syscall(2). So before the thread makes calls for us, we let it continue to the entry of
 *   that call, and interrupt it there:
 *
 *	  stop at `svc`, x8 = nanosleep --> entry, restart_syscall --> stop at `svc`, x8 =
 *	  (in the call, or before it)       (or nanosleep: again)       restart_syscall
 *
 *   Its registers are then those of a thread that is about to call restart_syscall(2).
 *
 * - Calls that have ended with EINTR because of the stop. The thread makes such a call again. But
 *   this time, a signal that comes before the call would not end it. And if we detached at the
 *   entry of the call, the detach would interrupt it. So we watch the thread until it has made the
 *   call, and detach at the exit of the call, where the result still tells the kernel what to do.
 *
 * In both cases the thread continues if we die.
 */

enum { PASSES = 8 };

/* Resumes a thread and waits for its next stop. */
static bool run_on(struct control_signals *signals, struct control_thread *thread, int request,
	long deliver, uint64_t begun_ns, int *status_ret)
{
	enum wait_result result = WAIT_GONE;

	if (ptrace(request, thread->tid, NULL, deliver) == 0)
		result = wait_for_stop(thread->tid, begun_ns, signals, status_ret);
	thread->is_running = result == WAIT_TIMEOUT;
	return result == WAIT_STOPPED;
}

/* Lets the thread run into its call, or to a signal, and interrupts it there. */
static bool pass(struct control_signals *signals, struct control_thread *thread, uint64_t begun_ns)
{
	int status;

	if (!run_on(signals, thread, PTRACE_SYSCALL, 0, begun_ns, &status) ||
		ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL) < 0)
		return false;
	do {
		if (!run_on(signals, thread, PTRACE_CONT, wait_signal_of(status), begun_ns,
			    &status))
			return false;
	} while (WAIT_EVENT_OF(status) != PTRACE_EVENT_STOP);
	return true;
}

bool settle_thread(struct control_signals *signals, struct control_thread *thread)
{
	uint64_t begun = clock_monotonic_ns();

	for (int i = 0; i < PASSES && restart_hides_block(thread->pid, &thread->regs); i++) {
		if (!pass(signals, thread, begun) || !registers_read(thread->tid, &thread->regs))
			return false;
		thread->regs_changed = false;
		pause_let(&thread->pause, begun);
	}
	return true;
}

void settle_detach(struct control_signals *signals, struct control_thread *thread)
{
	struct arch_registers regs = thread->regs;
	uint64_t begun = clock_monotonic_ns();
	long deliver = 0;
	int status = 0;

	if (!run_on(signals, thread, PTRACE_SYSCALL, 0, begun, &status) && thread->is_running)
		return;
	deliver = wait_signal_of(status);
	if (deliver) {
		restart_undo(&regs);
		registers_write(thread->tid, &regs);
	} else if (ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL) == 0 &&
		   run_on(signals, thread, PTRACE_SYSCALL, 0, begun, &status) &&
		   registers_read(thread->tid, &regs) && restart_ended(&regs)) {
		/* The thread has made its call again, interrupted at once: the kernel restarts it.
		 */
		registers_write(thread->tid, &regs);
	}
	if (thread->is_running)
		return;
	if (!deliver || ptrace(PTRACE_DETACH, thread->tid, NULL, deliver) < 0)
		reap_or_detach(thread->tid);
}

/* ==== Choose ================================================================================== */

/*
 * The cost for a thread of making calls for us, judged by its current call (proc_pid_syscall(5)).
 * COST_BLOCK: it sleeps in a call with a restart block, which would end with EINTR if we died.
 * COST_UNFIT: it cannot stop.
 */
enum cost { COST_NONE, COST_RESTART, COST_WAIT, COST_BLOCK, COST_UNFIT };

static enum cost cost_of(pid_t pid, pid_t tid)
{
	char text[256];
	char state, *rest;
	long number;

	errno = 0;
	state = procfs_thread_state(pid, tid);
	if (!state && procfs_no_room(errno))
		return COST_RESTART;
	if (!state || strchr("ZXxD", state))
		return COST_UNFIT;
	if (!file_read(procfs_path("/proc/%d/task/%d/syscall", pid, tid).text, text, sizeof(text)))
		return COST_RESTART;
	number = strtol(text, &rest, 10);
	/* The text is "running", or "-1" if the thread is in no call. */
	if (rest == text || number < 0)
		return COST_NONE;
	return restart_has_block(number, rest) ? COST_BLOCK
	       : restart_is_wait(number)       ? COST_WAIT
					       : COST_RESTART;
}

static bool is_unable(const struct choose_unable *unable, pid_t tid)
{
	for (size_t i = 0; i < unable->count; i++)
		if (unable->tids[i] == tid)
			return true;
	return unable->count == CHOOSE_LOOKS;
}

struct probe_error *choose_thread(pid_t pid, const struct seccomp *seccomp,
	const struct choose_unable *unable, pid_t *best_ret)
{
	AUTO_DIR DIR *threads = procfs_threads(pid);
	enum cost least = COST_UNFIT;
	pid_t tid;

	*best_ret = 0;
	if (!threads)
		return errno == ENOENT ? procfs_no_process(pid)
				       : probe_error_system(errno, "/proc/%d/task", pid);
	for (int i = 0; i < CHOOSE_LOOKS && least && (tid = procfs_next_thread(pid, threads));) {
		enum cost cost = COST_UNFIT;

		if (!is_unable(unable, tid) && seccomp_may_run(seccomp, tid))
			cost = cost_of(pid, tid);
		if (cost < least) {
			least = cost;
			*best_ret = tid;
		}
		i += cost < COST_UNFIT;
	}
	return NULL;
}

/* ---- Dispatch --------------------------------------------------------------------------- */

/* Source: Documentation/admin-guide/syscall-user-dispatch.rst of Linux; <linux/ptrace.h>. */

/* Since Linux 6.4; the headers may be older. */
#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif

enum {
	DISPATCH_OFF = 0,
	FILTER_ALLOW = 0
}; /* PR_SYS_DISPATCH_OFF, SYSCALL_DISPATCH_FILTER_ALLOW */

/* struct ptrace_sud_config */
struct dispatch {
	uint64_t mode, selector, offset, length;
};

static bool read_dispatch(pid_t tid, struct dispatch *ret)
{
	return ptrace(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tid, sizeof(*ret), ret) == 0 &&
	       ret->mode != DISPATCH_OFF;
}

bool dispatch_is_on(pid_t tid)
{
	struct dispatch dispatch;

	return read_dispatch(tid, &dispatch);
}

bool control_can_run(const struct control *control, const struct control_thread *thread)
{
	struct dispatch dispatch;
	uint8_t selector;

	if (thread->pid != control->pid || !arch_process()->is_native(&thread->regs) ||
		!seccomp_may_run(control->seccomp, thread->tid))
		return false;
	/*
	 * The program switches the handler of calls by a byte of its memory, the selector. Without
	 * a selector, all calls from outside a range of addresses go to the handler.
	 */
	return !read_dispatch(thread->tid, &dispatch) ||
	       (dispatch.selector &&
		       memory_read(control->pid, dispatch.selector, &selector, 1) == 1 &&
		       selector == FILTER_ALLOW);
}
