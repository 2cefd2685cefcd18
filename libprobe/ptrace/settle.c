/* SPDX-License-Identifier: MIT */
/*
 * On aarch64 the kernel leads an interrupted thread back to the instruction of its system call
 * before it tells the tracer of the stop, and what it does afterwards depends on what it alone
 * knows (do_signal() in arch/arm64/kernel/signal.c). A thread that has made calls for us in between
 * has come another way. So:
 *
 * - Calls with a time limit of which the kernel notes what is left (nanosleep, futex). It
 *   puts the number of restart_syscall(2) in place of the call's when the thread goes on. The
 *   thread is let go on as far as the entry of that call, and interrupted there:
 *
 *	  stop at `svc`, x8 = nanosleep --> entry, restart_syscall --> stop at `svc`, x8 =
 *	  (in the call, or before it)       (or nanosleep: again)       restart_syscall
 *
 *   Its registers are then those of a thread about to make that call.
 *
 * - Calls that ended with EINTR because of the stop (libprobe/ptrace/restart.c). They are made
 *   again; a signal that comes before that would no longer end them, and one that detaches at
 *   the entry of a call interrupts it. So the thread is watched until it has made the call, and
 *   is released at its exit, where the result still tells the kernel what to do.
 *
 * Both are what the kernel would do; if we die, the thread goes on.
 */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "libprobe/base/clock.h"
#include "libprobe/ptrace/ptrace.h"

enum { PASSES = 8 };

/* Resumes a thread up to its next stop. */
static bool run_on(struct control_signals *signals, struct control_thread *thread, int request,
	long deliver, uint64_t begun_ns, int *status_ret)
{
	enum wait_result result = WAIT_GONE;

	if (ptrace(request, thread->tid, NULL, deliver) == 0)
		result = wait_for_stop(thread->tid, begun_ns, signals, status_ret);
	thread->is_running = result == WAIT_TIMEOUT;
	return result == WAIT_STOPPED;
}

/* To the entry of the call, or to a signal; then to the stop that we ask for. */
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

/* Runs the call, which is interrupted at once; if nothing else ends it, the kernel makes it again.
 */
static void begin_call(
	struct control_signals *signals, struct control_thread *thread, uint64_t begun_ns)
{
	struct arch_registers regs;
	int status;

	if (ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL) == 0 &&
		run_on(signals, thread, PTRACE_SYSCALL, 0, begun_ns, &status) &&
		registers_read(thread->tid, &regs) && restart_ended(&regs))
		registers_write(thread->tid, &regs);
}

void settle_detach(struct control_signals *signals, struct control_thread *thread)
{
	uint64_t begun = clock_monotonic_ns();
	struct arch_registers regs = thread->regs;
	long deliver = 0;
	int status = 0;

	if (!run_on(signals, thread, PTRACE_SYSCALL, 0, begun, &status) && thread->is_running)
		return;
	deliver = wait_signal_of(status);
	if (deliver) {
		restart_undo(&regs);
		registers_write(thread->tid, &regs);
	} else {
		begin_call(signals, thread, begun);
	}
	if (thread->is_running)
		return;
	if (!deliver || ptrace(PTRACE_DETACH, thread->tid, NULL, deliver) < 0)
		reap_or_detach(thread->tid);
}
