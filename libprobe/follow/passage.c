/* SPDX-License-Identifier: MIT */
/*
 * A state machine, driven by the stops of one thread:
 *
 *   SEIZED --> CALL --> PROGRAM --> LOADER --> HELD --> (a target)
 *     |          |         |          |         |
 *     +----------+---------+----------+---------+--> LEAVING --> OVER
 *
 *   SEIZED    it is traced, and was asked to stop
 *   CALL      it runs from one system call to the next, up to the event of execve(2)
 *   PROGRAM   the new program is there, nothing of it has run
 *   LOADER    its loader works
 *   HELD      everything is mapped, nothing of it has run
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
 * When a thread that is not the first one calls execve(), it takes over the id of
 * the first one with the event, and its own is gone.
 *
 * Sources: ptrace(2), "execve(2) under ptrace"; glibc, elf/rtld.c and
 * sysdeps/nptl/dl_tls_init_tp.c.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "libprobe/base/clock.h"
#include "libprobe/follow/passage.h"
#include "libprobe/process/procfs.h"
#include "libprobe/stop/registers.h"
#include "libprobe/target/threads.h"

enum {
	LOADER_CALLS_MAX = 100000,
	SYSCALL_STOP = SIGTRAP | 0x80 /* PTRACE_O_TRACESYSGOOD */
};

/* A thread that runs is not held: it may wait for a disk. One that has stopped is. */
#define RUNNING_NS UINT64_C(10000000000)
#define HELD_NS UINT64_C(2000000000)

static void enter(struct passage *p, enum passage_state state)
{
	uint64_t allowed = state == PASSAGE_HELD || state == PASSAGE_SEIZED ? HELD_NS : RUNNING_NS;

	p->state = state;
	p->deadline_ns = clock_monotonic_ns() + allowed;
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
	/* Fails where it was killed, which is told by its end. */
	ptrace(PTRACE_SYSCALL, p->tid, NULL, (long)signal);
}

/*
 * Is the program's loader glibc's? Another is not followed. *early_ret: nothing was wanted of
 * this program when it ran before.
 */
static bool has_glibc_loader(pid_t pid, struct files *files, bool *early_ret)
{
	struct modules modules = {0};
	struct probe_error *error = modules_read(pid, files, &modules);
	bool found = false;

	*early_ret = false;
	for (size_t i = 0; !error && i < modules.count; i++) {
		struct module *m = &modules.items[i];
		uint64_t value, size;

		if (!threads_is_loader(m)) {
			*early_ret |= m->file && m->file->passed_over;
			continue;
		}
		found = object_is_64bit(m->object) &&
			object_symbol(m->object, "_dl_allocate_tls", 16, &value, &size);
	}
	*early_ret = *early_ret && found;
	probe_error_free(error);
	modules_deinit(&modules);
	return found;
}

/* Before or behind a system call on the way to execve(2); false: it is astray, or has failed. */
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

/* Behind a system call of the loader: is everything mapped? */
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

/* Returns whether it goes on. */
static bool step_system_call(struct passage *p)
{
	bool behind = p->returning;

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
	if (p->state == PASSAGE_PROGRAM && has_glibc_loader(p->pid, p->files, &p->early) &&
		!p->early) {
		enter(p, PASSAGE_LOADER);
		return true;
	}
	if (p->state == PASSAGE_LOADER && !is_mapped(p) && p->calls++ < LOADER_CALLS_MAX)
		return true;
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

void passage_step(struct passage *passage)
{
	while (passage->state != PASSAGE_OVER) {
		int status;
		pid_t id = next_stop(passage, &status);

		if (id == 0)
			return;
		if (id < 0)
			passage->state = PASSAGE_OVER;
		else
			step_stop(passage, status);
	}
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

bool passage_is_through(const struct passage *passage)
{
	return passage->state == PASSAGE_PROGRAM || passage->state == PASSAGE_LOADER ||
	       passage->state == PASSAGE_HELD;
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
	target->held = target->hurry = true;
	target->facts = passage->facts;
	target->early = passage->early;
	target->alone = true;
	target->files = files_hold(passage->files);
	target->start_time = procfs_start_time(passage->pid);
	passage->state = PASSAGE_OVER;
	return NULL;
}
