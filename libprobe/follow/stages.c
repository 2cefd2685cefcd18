/* SPDX-License-Identifier: MIT */
/* What each stop of a passage means; libprobe/follow/passage.c has the states. */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "libprobe/base/clock.h"
#include "libprobe/follow/follow.h"
#include "libprobe/ptrace/ptrace.h"

enum {
	LOADER_CALLS_MAX = 100000,
	SYSCALL_STOP = SIGTRAP | 0x80, /* PTRACE_O_TRACESYSGOOD */
	OPTIONS = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC,
	/* A leaf does none of the first three. Whatever it starts is traced from its start. */
	LEAF_OPTIONS = OPTIONS | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
		       PTRACE_O_TRACEEXIT
};

/* A running thread may wait for a disk, and is not held up by us; a stopped one is. */
#define RUNNING_NS UINT64_C(10000000000)
#define HELD_NS UINT64_C(2000000000)
/* Others may want to trace it. */
#define LEAF_NS UINT64_C(5000000)
/* Mostly execve(2) takes less; where it fails, the thread goes on as if it were not traced. */
#define THROUGH_NS UINT64_C(5000000)

void stage_enter(struct passage *p, enum passage_state state)
{
	static const uint64_t allowed[] = {
		[PASSAGE_THROUGH] = THROUGH_NS,
		[PASSAGE_SEIZED] = HELD_NS,
		[PASSAGE_CALL] = RUNNING_NS,
		[PASSAGE_PROGRAM] = RUNNING_NS,
		[PASSAGE_LOADER] = RUNNING_NS,
		[PASSAGE_LEAF] = LEAF_NS,
		[PASSAGE_STOPPING] = HELD_NS,
		[PASSAGE_HELD] = HELD_NS,
	};

	p->state = state;
	p->nothing_lost |= state == PASSAGE_LEAF;
	p->deadline_ns = clock_monotonic_ns() + allowed[state];
}

void stage_interrupt(struct passage *p)
{
	if (arch_process()->hidden_call)
		restart_look(p->pid, p->tid, &p->seen);
	ptrace(PTRACE_INTERRUPT, p->tid, NULL, NULL);
}

void stage_ask_to_stop(struct passage *p, enum passage_state state)
{
	stage_enter(p, state);
	stage_interrupt(p);
}

bool stage_begin(struct passage *passage)
{
	if (ptrace(PTRACE_SEIZE, passage->tid, NULL, OPTIONS) < 0)
		return false;
	stage_enter(passage, PASSAGE_THROUGH);
	return true;
}

void stage_let_go(struct passage *p)
{
	if (p->is_again) {
		struct control_thread thread = {.tid = p->tid, .pid = p->pid, .regs = p->regs};

		settle_detach(&(struct control_signals){0}, &thread);
		p->state = thread.is_running ? PASSAGE_LEAVING : PASSAGE_OVER;
		if (thread.is_running)
			stage_interrupt(p);
		return;
	}
	/* It was killed just now: its end is still to be collected. */
	p->state = ptrace(PTRACE_DETACH, p->tid, NULL, NULL) < 0 ? PASSAGE_LEAVING : PASSAGE_OVER;
}

/*
 * A thread has stopped as it was asked to, with these registers. If that has ended a wait, it will
 * begin again. Returns whether it did.
 */
static bool has_ended_wait(struct passage *p)
{
	p->is_again = false;
	if (!restart_wait(&p->regs, &p->seen))
		return false;
	registers_write(p->tid, &p->regs);
	p->is_again = arch_process()->hidden_call != 0;
	return true;
}

static void run_on(struct passage *p, int signal)
{
	bool is_free = p->state == PASSAGE_THROUGH || p->is_leaf;

	/* Any stop cancels an earlier PTRACE_INTERRUPT. */
	if (p->state == PASSAGE_STOPPING)
		ptrace(PTRACE_INTERRUPT, p->tid, NULL, NULL);
	/* Fails if it was killed; its end is reported separately. */
	ptrace(is_free ? PTRACE_CONT : PTRACE_SYSCALL, p->tid, NULL, (long)signal);
}

static bool is_on_way(const struct arch_registers *regs)
{
	long number = (long)arch_get(regs, ARCH_CALL);

	/* The first two are the gate's. */
	return number == SYS_futex || number == SYS_restart_syscall || number == SYS_execve;
}

/*
 * Before or after a system call on the way to execve(2); false: an unexpected call, or execve(2)
 * failed.
 */
static bool step_call(struct passage *p)
{
	struct arch_registers regs;

	if (!registers_read(p->tid, &regs) || !is_on_way(&regs))
		return false;
	if ((long)arch_get(&regs, ARCH_CALL) != SYS_execve)
		return true;
	if (p->called)
		return false;
	p->called = true;
	return !p->may_follow || p->may_follow(p->tid, arch_get(&regs, ARCH_ARG0));
}

/* It has stopped, not in execve(2). Was that after one that failed? Then it is released. */
static bool step_seized(struct passage *p)
{
	if (registers_read(p->tid, &p->regs) && !has_ended_wait(p) &&
		((long)arch_get(&p->regs, ARCH_CALL) < 0 || is_on_way(&p->regs))) {
		stage_enter(p, PASSAGE_CALL);
		return true;
	}
	stage_let_go(p);
	return false;
}

/* Does the result of a system call take the place of its first argument? */
static bool result_hides_argument(void)
{
	const int8_t *registers = arch_process()->registers;

	return registers[ARCH_RESULT] == registers[ARCH_ARG0];
}

/*
 * Before a system call of the loader. Where such calls set the thread pointer (x86-64), the exit of
 * the last one has told of it.
 */
static void step_entry(struct passage *p)
{
	struct arch_registers regs;

	if (p->state != PASSAGE_LOADER || !result_hides_argument() ||
		!registers_read(p->tid, &regs))
		return;
	p->argument = arch_get(&regs, ARCH_ARG0);
	p->thread_ready = arch_get(&regs, ARCH_TP) != 0;
}

static uint64_t first_argument(const struct passage *p)
{
	return result_hides_argument() ? p->argument : arch_get(&p->regs, ARCH_ARG0);
}

/* After a system call of the loader: is everything mapped? */
static bool is_mapped(struct passage *p)
{
	bool ready = p->thread_ready;

	p->thread_ready = arch_get(&p->regs, ARCH_TP) != 0;
	switch ((long)arch_get(&p->regs, ARCH_CALL)) {
	case SYS_set_tid_address:
	case SYS_set_robust_list:
		return false;
	case SYS_rseq:
		p->facts.known = true;
		p->facts.has_rseq = arch_get(&p->regs, ARCH_RESULT) == 0;
		p->facts.rseq_offset = (int32_t)(first_argument(p) - arch_get(&p->regs, ARCH_TP));
		p->facts.rseq_signature = (uint32_t)arch_get(&p->regs, ARCH_ARG3);
		return true;
	}
	/* No rseq: an older glibc, or switched off. */
	p->facts.known = ready;
	return ready;
}

/* ---- Leaves ---------------------------------------------------------------------------- */

/* Nothing of the program has run. */
static bool enter_leaf(struct passage *p)
{
	if (!leaf_begins(p->pid, p->files, &p->leaf) ||
		ptrace(PTRACE_SETOPTIONS, p->tid, NULL, LEAF_OPTIONS) < 0)
		return false;
	p->is_leaf = true;
	stage_enter(p, PASSAGE_LEAF);
	return true;
}

/*
 * It has run for a while, and has stopped. False: it goes on, as its loader is still at work, which
 * runs nothing of the program. Once it is held, its end must not wait for us.
 */
static bool hold_leaf(struct passage *p)
{
	uint64_t age = clock_monotonic_ns() - p->leaf.since_ns;

	if ((age < RUNNING_NS && program_is_loading(p->pid, p->files)) ||
		ptrace(PTRACE_SETOPTIONS, p->tid, NULL, OPTIONS) < 0) {
		stage_enter(p, PASSAGE_LEAF);
		return false;
	}
	p->is_leaf = false;
	p->unseen_ns = leaf_is_one(&p->leaf, p->pid, p->files) ? 0 : age;
	return true;
}

/* It has executed another program, which is followed like any other. */
static void leave_leaf(struct passage *p)
{
	ptrace(PTRACE_SETOPTIONS, p->tid, NULL, OPTIONS);
	*p = (struct passage){.pid = p->pid,
		.tid = p->tid,
		.may_follow = p->may_follow,
		.files = p->files,
		.yield = p->yield,
		.told = leaf_replaced(p->pid)};
}

/*
 * It is about to end, or has started a process or thread: the leaf and what it started are then
 * found by looking.
 */
static void step_leaf(struct passage *p, int event)
{
	unsigned long message = 0;

	p->is_ending = event == PTRACE_EVENT_EXIT;
	if (p->is_ending && ptrace(PTRACE_GETEVENTMSG, p->tid, NULL, &message) == 0)
		p->told = leaf_end(&p->leaf, p->pid, p->files, (int)message);
	else
		leaf_forget(&p->leaf, p->files);
	stage_let_go(p);
}

/* ---- One stop, continued ----------------------------------------------------------------- */

/* It has stopped outside of system calls, or in one that the kernel begins again. */
static bool step_stopping(struct passage *p)
{
	if (!registers_read(p->tid, &p->regs))
		return true;
	has_ended_wait(p);
	if (!hold_leaf(p)) {
		p->is_again = false;
		return true;
	}
	p->has_run = true;
	stage_enter(p, PASSAGE_HELD);
	return false;
}

/* Returns whether it goes on. */
static bool step_system_call(struct passage *p)
{
	bool behind = p->returning;

	if (p->state <= PASSAGE_CALL) {
		if (step_call(p))
			return true;
		stage_let_go(p);
		return false;
	}
	p->returning = !p->returning;
	if (!behind) {
		step_entry(p);
		return true;
	}
	if (!registers_read(p->tid, &p->regs))
		return true;
	if (p->state == PASSAGE_PROGRAM && program_has_glibc_loader(p->pid, p->files)) {
		stage_enter(p, PASSAGE_LOADER);
		return true;
	}
	/* Not earlier: the scheduler continues a new program where it ran before, if that processor
	 * is idle. */
	if (p->state == PASSAGE_LOADER && p->calls == 1)
		nearby_move(p->pid, p->tid);
	if (p->state == PASSAGE_LOADER && !is_mapped(p) && p->calls++ < LOADER_CALLS_MAX)
		return true;
	stage_enter(p, PASSAGE_HELD);
	return false;
}

/* Returns whether it goes on. */
static bool step_event(struct passage *p, int event, int signal)
{
	if (event == PTRACE_EVENT_EXEC) {
		if (p->is_leaf)
			leave_leaf(p);
		p->returning = true;
		if (!enter_leaf(p))
			stage_enter(p, PASSAGE_PROGRAM);
	} else if (event != PTRACE_EVENT_STOP) {
		step_leaf(p, event);
		return false;
	} else if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
		/* Stopped like its process, which it stays until SIGCONT. */
		ptrace(PTRACE_LISTEN, p->tid, NULL, NULL);
		return false;
	} else if (p->state == PASSAGE_STOPPING) {
		return step_stopping(p);
	} else if (p->state == PASSAGE_SEIZED) {
		return step_seized(p);
	}
	return true;
}

/* What a leaf starts is traced from its start, where it stops. */
static void note_stray(struct passage *p, int event)
{
	unsigned long tid;

	if ((event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
		    event == PTRACE_EVENT_CLONE) &&
		ptrace(PTRACE_GETEVENTMSG, p->tid, NULL, &tid) == 0)
		p->stray = (pid_t)tid;
}

void stage_stop(struct passage *p, int status)
{
	int event = (int)((unsigned int)status >> 16), signal = WSTOPSIG(status);

	if (event == PTRACE_EVENT_EXEC)
		p->tid = p->pid;
	note_stray(p, event);
	if (p->state == PASSAGE_LEAVING && event == PTRACE_EVENT_STOP && signal == SIGTRAP) {
		if (registers_read(p->tid, &p->regs))
			has_ended_wait(p);
		stage_let_go(p);
	} else if (p->state == PASSAGE_LEAVING) {
		/* A signal that was on its way arrives. */
		if (ptrace(PTRACE_DETACH, p->tid, NULL,
			    (long)(event || signal == SYSCALL_STOP ? 0 : signal)) == 0)
			p->state = PASSAGE_OVER;
	} else if (event) {
		if (step_event(p, event, signal))
			run_on(p, 0);
	} else if (signal == SYSCALL_STOP) {
		if (step_system_call(p))
			run_on(p, 0);
	} else {
		run_on(p, signal);
	}
}
