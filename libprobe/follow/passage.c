/* SPDX-License-Identifier: MIT */
/*
 * A state machine, driven by the stops of one thread:
 *
 *                                          +----------------------+
 *                                          |                      v
 *   SEIZED --> CALL --> PROGRAM --> LOADER +-> IDLE --> STOPPING --> HELD --> (a target)
 *     |          |         |          |         |          |           |
 *     +----------+---------+----------+---------+----------+-----------+--> LEAVING --> OVER
 *
 *   SEIZED    it is traced, and was asked to stop
 *   CALL      it runs from one system call to the next, up to the event of execve(2)
 *   PROGRAM   the new program is there, nothing of it has run
 *   LOADER    its loader works
 *   IDLE      nothing that it has mapped is wanted: it runs from call to call
 *   STOPPING  it is about to do what has to be followed, or has run for a while
 *   HELD      everything is mapped; unless it was idle, nothing of it has run
 *
 * No step waits: not for this thread, and so for no other one that this one depends on
 * (a child of vfork(2) and its parent). Where the thread stops and for how long it
 * is then held is all that we decide; it runs otherwise. Each state has a deadline;
 * behind it, the thread is let go.
 *
 * glibc's loader maps all libraries first, then sets the thread up, telling the
 * kernel of the thread's rseq area with the last of those calls, and only then
 * relocates the libraries (which may run their ifunc resolvers) and runs
 * constructors. So when the rseq call returns, everything is mapped, nothing of it
 * has run, and the thread pointer is set. No breakpoint is needed: if we die, the
 * kernel lets the process go and it never knew. A program without a loader (static), or
 * with one that is not glibc's, is held right behind execve(2); its stubs then do
 * without the thread pointer.
 *
 * Most programs that a build or a shell starts have no probe that is wanted, and end within some
 * milliseconds. Gates would cost such a one more than it does itself, and it needs them only before
 * it starts a process or a thread, becomes another program or maps other code. So it has none
 * while it is traced as by strace(1), for a moment at most. A call that needs them is taken back
 * before it has begun: the thread stands before its instruction again, and makes it when the
 * gates are there.
 *
 * When a thread that is not the first one calls execve(), it takes over the id of
 * the first one with the event, and its own is gone.
 *
 * Sources: ptrace(2), "execve(2) under ptrace"; glibc, elf/rtld.c and
 * sysdeps/nptl/dl_tls_init_tp.c.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "libprobe/base/clock.h"
#include "libprobe/follow/idle.h"
#include "libprobe/follow/passage.h"
#include "libprobe/process/procfs.h"
#include "libprobe/sandbox/seccomp.h"
#include "libprobe/thread/nearby.h"
#include "libprobe/thread/registers.h"
#include "libprobe/thread/restart.h"
#include "libprobe/target/threads.h"

enum {
	LOADER_CALLS_MAX = 100000,
	YIELDS = 8,
	SYSCALL_STOP = SIGTRAP | 0x80 /* PTRACE_O_TRACESYSGOOD */
};

/* A running thread may wait for a disk, and is not held up by us; a stopped one is. */
#define RUNNING_NS UINT64_C(10000000000)
#define HELD_NS UINT64_C(2000000000)
/* Others may want to trace it, and its calls are slow. */
#define IDLE_NS UINT64_C(5000000)

static void enter(struct passage *p, enum passage_state state)
{
	static const uint64_t allowed[] = {
		[PASSAGE_SEIZED] = HELD_NS,
		[PASSAGE_CALL] = RUNNING_NS,
		[PASSAGE_PROGRAM] = RUNNING_NS,
		[PASSAGE_LOADER] = RUNNING_NS,
		[PASSAGE_IDLE] = IDLE_NS,
		[PASSAGE_STOPPING] = HELD_NS,
		[PASSAGE_HELD] = HELD_NS,
	};

	p->state = state;
	p->deadline_ns = clock_monotonic_ns() + allowed[state];
}

void passage_begin(struct passage *passage, pid_t pid, pid_t tid)
{
	passage->pid = pid;
	passage->tid = tid;
	passage->state = PASSAGE_OVER;
	if (ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC) < 0)
		return;
	enter(passage, PASSAGE_SEIZED);
	ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
}

/* ---- One stop ------------------------------------------------------------------------ */

/* Of a thread that has stopped. */
static void let_go(struct passage *p)
{
	/* Killed just now: its end is still to be taken. */
	p->state = ptrace(PTRACE_DETACH, p->tid, NULL, NULL) < 0 ? PASSAGE_LEAVING : PASSAGE_OVER;
}

static void run_on(struct passage *p, int signal)
{
	/* Any stop cancels an earlier PTRACE_INTERRUPT. */
	if (p->state == PASSAGE_STOPPING)
		ptrace(PTRACE_INTERRUPT, p->tid, NULL, NULL);
	/* Fails if it was killed; its end is reported separately. */
	ptrace(PTRACE_SYSCALL, p->tid, NULL, (long)signal);
}

/* NULL: it is not among them. */
static struct file *program_of(pid_t pid, const struct files *files)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return files && stat(path, &st) == 0 ? files_known(files, &st) : NULL;
}

/* Is the program's loader glibc's? No other loader is followed. */
static bool has_glibc_loader(pid_t pid, struct files *files)
{
	struct file *program = program_of(pid, files);
	struct modules modules = {0};
	struct probe_error *error;
	bool found = false;

	if (program && program->glibc_loads)
		return true;
	error = modules_read(pid, files, &modules);
	for (size_t i = 0; !error && i < modules.count && !found; i++) {
		struct module *m = &modules.items[i];
		uint64_t value, size;

		found = threads_is_loader(m) && object_is_64bit(m->object) &&
			object_symbol(m->object, "_dl_allocate_tls", 16, &value, &size);
	}
	program = program_of(pid, files);
	if (program)
		program->glibc_loads = found;
	probe_error_free(error);
	modules_deinit(&modules);
	return found;
}

/*
 * Before or after a system call on the way to execve(2); false: an unexpected call, or execve(2)
 * failed.
 */
static bool step_call(struct passage *p)
{
	struct arch_registers regs;
	long number;

	if (!p->may_follow)
		return true;
	if (!registers_read(p->tid, &regs))
		return false;
	/* The gate's. */
	number = (long)arch_get(&regs, ARCH_CALL);
	if (number == SYS_futex || number == SYS_restart_syscall)
		return true;
	if (number != SYS_execve || p->called)
		return false;
	p->called = true;
	return p->may_follow(p->tid, &regs);
}

/* After a system call of the loader: is everything mapped? */
static bool is_mapped(struct passage *p)
{
	switch ((long)arch_get(&p->regs, ARCH_CALL)) {
	case SYS_set_tid_address:
	case SYS_set_robust_list:
		p->thread_ready = true;
		return false;
	case SYS_rseq:
		p->facts.known = true;
		p->facts.has_rseq = arch_get(&p->regs, ARCH_RESULT) == 0;
		p->facts.rseq_offset =
			(int32_t)(arch_get(&p->regs, ARCH_ARG0) - arch_get(&p->regs, ARCH_TP));
		p->facts.rseq_signature = (uint32_t)arch_get(&p->regs, ARCH_ARG3);
		return true;
	}
	/* No rseq: an older glibc, or switched off. */
	p->facts.known = p->thread_ready;
	return p->thread_ready;
}

/* Before or after a system call of an idle program. */
static void step_idle(struct passage *p)
{
	struct arch_registers regs;

	if (idle_goes_on(p->pid, p->state == PASSAGE_STOPPING, p->files))
		return;
	/* The kernel skips the call. If we die, the thread makes it. */
	if (registers_read(p->tid, &regs)) {
		arch_process()->undo_call(&regs);
		registers_write(p->tid, &regs);
	}
	if (p->state != PASSAGE_STOPPING)
		enter(p, PASSAGE_STOPPING);
}

/* It has stopped outside of system calls, or in one that the kernel begins again. */
static bool step_stopping(struct passage *p)
{
	if (!registers_read(p->tid, &p->regs))
		return true;
	if (restart_wait(&p->regs))
		registers_write(p->tid, &p->regs);
	p->was_idle = true;
	enter(p, PASSAGE_HELD);
	return false;
}

/* Returns whether it goes on. */
static bool step_system_call(struct passage *p)
{
	bool behind = p->returning;

	if (p->state == PASSAGE_IDLE || p->state == PASSAGE_STOPPING) {
		step_idle(p);
		return true;
	}
	if (p->state <= PASSAGE_CALL) {
		if (step_call(p))
			return true;
		let_go(p);
		return false;
	}
	p->returning = !p->returning;
	if (!behind)
		return true;
	if (!registers_read(p->tid, &p->regs))
		return true;
	if (p->state == PASSAGE_PROGRAM && has_glibc_loader(p->pid, p->files)) {
		enter(p, PASSAGE_LOADER);
		return true;
	}
	/* Not earlier: the scheduler continues a new program where it ran before, if that processor
	 * is idle. */
	if (p->state == PASSAGE_LOADER && p->calls == 1)
		nearby_move(p->pid, p->tid);
	if (p->state == PASSAGE_LOADER && !is_mapped(p) && p->calls++ < LOADER_CALLS_MAX)
		return true;
	if (p->facts.known && idle_begins(p->pid, p->files)) {
		enter(p, PASSAGE_IDLE);
		return true;
	}
	enter(p, PASSAGE_HELD);
	return false;
}

/* Returns whether it goes on. */
static bool step_event(struct passage *p, int event, int signal)
{
	if (event == PTRACE_EVENT_EXEC) {
		p->returning = true;
		enter(p, PASSAGE_PROGRAM);
	} else if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
		/* Stopped like its process, which it stays until SIGCONT. */
		ptrace(PTRACE_LISTEN, p->tid, NULL, NULL);
		return false;
	} else if (p->state == PASSAGE_STOPPING) {
		return step_stopping(p);
	} else if (p->state == PASSAGE_SEIZED) {
		enter(p, PASSAGE_CALL);
	}
	return true;
}

static void step_stop(struct passage *p, int status)
{
	int event = (int)((unsigned int)status >> 16), signal = WSTOPSIG(status);

	if (event == PTRACE_EVENT_EXEC)
		p->tid = p->pid;
	if (p->state == PASSAGE_LEAVING) {
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

/* ---- All there are ------------------------------------------------------------------- */

/* The next stop of the thread, or of what it has become: as control_wait(). */
static pid_t next_stop(const struct passage *p, int *status_ret)
{
	pid_t id = control_wait(p->tid, status_ret, WNOHANG);

	return id < 0 && p->tid != p->pid ? control_wait(p->pid, status_ret, WNOHANG) : id;
}

/* Mostly the next stop comes soon. Who shares the processor with us runs first. */
static pid_t next_stop_soon(const struct passage *p, bool yields, int *status_ret)
{
	pid_t id = next_stop(p, status_ret);

	for (int i = 0; i < YIELDS && id == 0 && yields; i++) {
		sched_yield();
		id = next_stop(p, status_ret);
	}
	return id;
}

bool passage_step(struct passage *passage)
{
	bool yields = seccomp_may_call(SECCOMP_OWN_MOVE), any = false;

	while (passage->state != PASSAGE_OVER) {
		int status;
		pid_t id = next_stop_soon(passage, any && yields, &status);

		if (id == 0)
			break;
		any = true;
		if (id < 0)
			passage->state = PASSAGE_OVER;
		else
			step_stop(passage, status);
	}
	return any;
}

void passage_leave(struct passage *passage)
{
	if (passage->state == PASSAGE_HELD) {
		let_go(passage);
	} else if (passage->state < PASSAGE_HELD) {
		passage->state = PASSAGE_LEAVING;
		ptrace(PTRACE_INTERRUPT, passage->tid, NULL, NULL);
	}
	passage_step(passage);
}

void passage_expire(struct passage *passage)
{
	if (passage->state != PASSAGE_IDLE) {
		passage_leave(passage);
		return;
	}
	enter(passage, PASSAGE_STOPPING);
	ptrace(PTRACE_INTERRUPT, passage->tid, NULL, NULL);
}

bool passage_is_through(const struct passage *passage)
{
	return passage->state >= PASSAGE_PROGRAM && passage->state <= PASSAGE_HELD;
}

struct probe_error *passage_take(struct passage *passage, struct probe_target *target)
{
	struct control *control = &target->control;

	control->threads = calloc(1, sizeof(*control->threads));
	if (!control->threads)
		return probe_error_no_memory();
	control->pid = passage->pid;
	control->count = 1;
	control->threads[0] = (struct control_thread){
		.tid = passage->pid, .pid = passage->pid, .regs = passage->regs};
	target->pid = passage->pid;
	target->held = target->hurry = target->alone = true;
	target->attached = passage->was_idle;
	target->facts = passage->facts;
	target->files = files_hold(passage->files);
	target->start_time = procfs_start_time(passage->pid);
	passage->state = PASSAGE_OVER;
	return NULL;
}
