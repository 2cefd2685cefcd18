/* SPDX-License-Identifier: MIT */
/*
 * A state machine, driven by the stops of one thread:
 *
 *   THROUGH ------------+   +------> LEAF ---------------+---> (its process ends)
 *      |                |   |                            |
 *      v                v   |                            v
 *   SEIZED --> CALL --> PROGRAM --> LOADER -+        STOPPING --+
 *     |          |         |          |     |            |      |
 *     |          |         |          |     +------------|------+--> HELD --> (a target)
 *     +----------+---------+----------+------------------+------------+--> LEAVING --> OVER
 *
 *   THROUGH   it is traced, and runs through execve(2)
 *   SEIZED    it was asked to stop: it must be looked at what it executes, or that took long
 *   CALL      it runs from one system call to the next, up to the event of execve(2)
 *   PROGRAM   the new program is there, nothing of it has run
 *   LOADER    its loader works
 *   LEAF      no probe of its files is wanted, and it neither starts nor loads anything: it runs
 *             without a stop
 *   STOPPING  a leaf has run for a while, and has been asked to stop
 *   HELD      everything is mapped; only a leaf has run
 *
 * No step waits for this thread, nor for one that this one depends on (a child of vfork(2) and its
 * parent). We decide only where the thread stops, and for how long it is then held; otherwise it
 * runs. Each state has a deadline; after it, the thread is released.
 *
 * glibc's loader maps all libraries first, then sets the thread up, telling the kernel of the
 * thread's rseq area with the last of those calls, and only then relocates the libraries (which may
 * run their ifunc resolvers) and runs constructors. So when the rseq call returns, everything is
 * mapped, nothing of it has run, and the thread pointer is set. No breakpoint is needed: if we die,
 * the kernel detaches from the process, which does not notice. Without an rseq call (before glibc
 * 2.35, or switched off) it is the next call after the thread pointer is set, and after those that
 * tell the kernel of the thread (before glibc 2.34: none). A program without a loader (static:
 * program.c), or with one that is not glibc's, is held right after execve(2); its stubs then do
 * without the thread pointer.
 *
 * Many programs that a build or a shell starts have no probe that is wanted, end within some
 * milliseconds, neither start nor load anything, and import no function to do so (leaf.c). Gates
 * would cost such a leaf more than its own work. It has only one stop, where its process is about
 * to end: there its mappings are compared with what was expected. If it starts a process
 * or thread (PTRACE_O_TRACEFORK and its like), both are released before they run on; if it executes
 * another program, that is followed. What may have been missed is reported.
 *
 * A thread goes through execve(2) by itself, because it stops after it anyway. If the call fails,
 * we are not notified: the thread mostly comes to the gate again, for the next folder of PATH. If
 * not, it is stopped after some milliseconds, and released.
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
#include <sys/wait.h>

#include "libprobe/follow/follow.h"
#include "libprobe/base/procfs.h"

enum {
	YIELDS = 8,
	ENDING_NS = 1000000000 /* at most, until a process that ends has ended */
};

void passage_begin(struct passage *passage, pid_t pid, pid_t tid, bool may_go)
{
	passage->pid = pid;
	passage->tid = tid;
	passage->state = PASSAGE_OVER;
	if (stage_begin(passage))
		passage_again(passage, may_go);
}

void passage_again(struct passage *passage, bool may_go)
{
	if (may_go)
		stage_enter(passage, PASSAGE_THROUGH);
	else
		stage_ask_to_stop(passage, PASSAGE_SEIZED);
}

/* The next stop of the thread, or of what it has become: as control_wait(). */
static pid_t next_stop(const struct passage *p, int *status_ret)
{
	pid_t id = control_wait(p->tid, status_ret);

	return id < 0 && p->tid != p->pid ? control_wait(p->pid, status_ret) : id;
}

/* Mostly the next stop comes soon. Threads that share the processor with us run first. */
static pid_t next_stop_soon(const struct passage *p, bool yields, int *status_ret)
{
	pid_t id = next_stop(p, status_ret);

	/* A leaf runs for longer. */
	yields &= p->state != PASSAGE_LEAF;

	for (int i = 0; i < YIELDS && id == 0 && yields && yield_once(p->yield); i++)
		id = next_stop(p, status_ret);
	return id;
}

bool passage_step(struct passage *passage)
{
	bool any = false;

	while (passage->state != PASSAGE_OVER) {
		int status;
		pid_t id = next_stop_soon(passage, any, &status);

		if (id == 0)
			break;
		any = true;
		if (id < 0) {
			passage->nothing_lost |= passage_is_through(passage);
			passage->state = PASSAGE_OVER;
		} else {
			stage_stop(passage, status);
		}
		if (passage->state == PASSAGE_OVER && passage->stray) {
			passage->state = PASSAGE_LEAVING;
			passage->pid = passage->tid = passage->stray;
			passage->stray = 0;
		}
	}
	return any;
}

void passage_leave(struct passage *passage)
{
	passage->nothing_lost = false;
	if (passage->state == PASSAGE_HELD) {
		stage_let_go(passage);
	} else if (passage->state < PASSAGE_HELD) {
		passage->state = PASSAGE_LEAVING;
		stage_interrupt(passage);
	}
	passage_step(passage);
}

void passage_expire(struct passage *passage)
{
	if (passage->state == PASSAGE_THROUGH)
		stage_ask_to_stop(passage, PASSAGE_SEIZED);
	else if (passage->state == PASSAGE_LEAF)
		stage_ask_to_stop(passage, PASSAGE_STOPPING);
	else
		passage_leave(passage);
}

bool passage_is_through(const struct passage *passage)
{
	return (passage->state >= PASSAGE_PROGRAM && passage->state <= PASSAGE_HELD) ||
	       passage->state == PASSAGE_OVER;
}

bool passage_lingers(const struct passage *passage, uint64_t now_ns)
{
	return passage->is_ending &&
	       (now_ns < passage->deadline_ns ||
		       (now_ns - passage->deadline_ns < ENDING_NS && kill(passage->pid, 0) == 0 &&
			       !procfs_is_zombie(passage->pid)));
}

struct probe_error *passage_take(struct passage *passage, struct probe_target *target)
{
	struct control *control = &target->control;

	control->threads = calloc(1, sizeof(*control->threads));
	if (!control->threads)
		return probe_error_no_memory();
	control->pid = passage->pid;
	control->count = 1;
	control->threads[0] = (struct control_thread){.tid = passage->pid,
		.pid = passage->pid,
		.is_again = passage->is_again,
		.regs = passage->regs};
	target->pid = passage->pid;
	target->held = target->hurry = target->alone = true;
	target->attached = passage->has_run;
	target->facts = passage->facts;
	target->files = files_hold(passage->files);
	target->start_time = procfs_start_time(passage->pid);
	passage->state = PASSAGE_OVER;
	return NULL;
}
