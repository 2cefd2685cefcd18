/* SPDX-License-Identifier: MIT */
/*
 * A thread notes the function before it checks that the function is still connected. A thread
 * that disconnects it first makes it NULL, and then reads the notes:
 *
 *	caller                          unregister
 *	note = function                 function->call = NULL
 *	(compiler's order only)         callers_order()
 *	function->call is NULL? leave   wait while there is a note
 *	call it
 *	note = NULL
 *
 * A processor may delay the first store until after the load below it, so the caller could miss the
 * NULL while its note cannot be seen yet. A locked instruction for each call would prevent that,
 * and cost more than everything else. So the rare side pays instead: membarrier(2) makes the kernel
 * interrupt every processor that runs a thread of this memory, and each has done its stores then. A
 * filter of system calls (seccomp(2)) may forbid that later. A stop of all threads, which every
 * change of probes makes, has the same effect: a stopped thread has left its processor. If that is
 * forbidden, too, nothing can be disconnected.
 *
 * All threads can find the records, and each belongs to one thread, but the end of a thread is not
 * reported. So a thread that needs a record takes one whose thread has ended. A record is for
 * threads of this process: a child of vfork(2), or of another clone(2) that shares the memory, may
 * run on the thread pointer of one of them (which then sleeps, so its record serves both); it gets
 * none of its own, because its end would make the sleeping thread's record look free. Threads
 * without records count their calls with locked instructions (functions.c).
 *
 * Sources: membarrier(2); Documentation/scheduler/membarrier.rst of Linux.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/self/callers.h"
#include "libprobe/self/helper/helper.h"
#include "libprobe/ptrace/ptrace.h"
#include "libprobe/registry/registry.h"

enum { BLOCK_BYTES = 8192, BLOCK_CALLERS = BLOCK_BYTES / sizeof(struct caller) - 1 };

struct caller_block {
	_Alignas(128) _Atomic(struct caller_block *) next;
	struct caller items[BLOCK_CALLERS];
};
_Static_assert(sizeof(struct caller_block) <= BLOCK_BYTES, "a block is mapped in whole pages");

__thread struct caller *callers_own __attribute__((tls_model("initial-exec")));
bool callers_are_ordered;

static _Atomic(struct caller_block *) blocks;
static _Atomic pid_t process; /* 0: no thread may have a record yet */

/* ---- Records --------------------------------------------------------------------------- */

enum { OWNER_SHIFT = 32 };

static pid_t thread_of(uint64_t owner)
{
	return (pid_t)(uint32_t)owner;
}

/* No thread has it: an earlier thread with our number has ended. */
static bool is_free(pid_t thread, pid_t own)
{
	return !thread || thread == own;
}

static bool is_gone(pid_t thread, pid_t own)
{
	(void)own;
	return syscall(SYS_tgkill, getpid(), thread, 0) < 0 && errno == ESRCH;
}

/*
 * Pairs with the same in another thread: one gets it. The number of owners tells two threads of
 * the same id apart.
 */
static bool take(struct caller *caller, pid_t own, bool (*may)(pid_t thread, pid_t own))
{
	uint64_t owner = atomic_load(&caller->owner);
	uint64_t next = ((owner >> OWNER_SHIFT) + 1) << OWNER_SHIFT | (uint32_t)own;

	return may(thread_of(owner), own) &&
	       atomic_compare_exchange_strong(&caller->owner, &owner, next);
}

static struct caller *find(pid_t own, bool (*may)(pid_t thread, pid_t own))
{
	for (struct caller_block *b = atomic_load(&blocks); b; b = atomic_load(&b->next))
		for (size_t i = 0; i < BLOCK_CALLERS; i++)
			if (take(&b->items[i], own, may))
				return &b->items[i];
	return NULL;
}

/* A hit may be in malloc(3), so this is mapped. */
static struct caller *make_block(pid_t own)
{
	struct caller_block *block =
		mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct caller_block *first = atomic_load(&blocks);

	if (block == MAP_FAILED)
		return NULL;
	atomic_store_explicit(&block->items[0].owner, (uint64_t)own, memory_order_relaxed);
	/* Pairs with the loads of `blocks`: it is complete. */
	do
		atomic_store_explicit(&block->next, first, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&blocks, &first, block));
	return &block->items[0];
}

void callers_claim(void)
{
	pid_t own = (pid_t)syscall(SYS_gettid);
	int saved = errno;

	if (getpid() == atomic_load(&process)) {
		callers_own = find(own, is_free);
		if (!callers_own)
			callers_own = find(own, is_gone);
		if (!callers_own)
			callers_own = make_block(own);
	}
	errno = saved;
}

bool callers_are_in(const void *what)
{
	for (struct caller_block *b = atomic_load(&blocks); b; b = atomic_load(&b->next))
		for (size_t i = 0; i < BLOCK_CALLERS; i++)
			for (size_t k = 0; &b->items[i] != callers_own && k < CALLER_CALLS; k++)
				if (atomic_load(&b->items[i].in[k]) == what)
					return true;
	return false;
}

void callers_after_fork(void)
{
	for (struct caller_block *b = blocks; b; b = b->next)
		for (size_t i = 0; i < BLOCK_CALLERS; i++) {
			struct caller *caller = &b->items[i];

			caller->owner = caller == callers_own ? (uint64_t)getpid() : 0;
			for (size_t k = 0; caller != callers_own && k < CALLER_CALLS; k++)
				caller->in[k] = NULL;
		}
	if (process)
		process = getpid();
}

/* ---- Order ----------------------------------------------------------------------------- */

static bool ask_kernel(int command)
{
	return syscall(SYS_membarrier, command, 0, 0) == 0;
}

/* A child that was forked may have to register again. */
static bool barrier(void)
{
	return ask_kernel(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
	       (errno == EPERM && ask_kernel(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
		       ask_kernel(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}

void callers_init(void)
{
	if (process)
		return;
	callers_are_ordered = ask_kernel(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	process = getpid();
}

struct probe_error *stop_act(struct probe_target *target, struct message *request,
	struct probe_report *report, void *result, size_t result_bytes)
{
	struct control control;
	struct probe_error *error = control_stop(target->pid, target->lender, &control);

	(void)request;
	(void)report;
	(void)result;
	(void)result_bytes;
	if (!error)
		control_resume(&control);
	return error;
}

struct probe_error *callers_order(void)
{
	struct probe_report report = {0};
	struct helper_work work = {.act = CONTROLLER_STOP, .report = &report};
	struct probe_error *error;

	if (!callers_are_ordered || barrier())
		return NULL;
	error = helper_run(&work);
	probe_report_deinit(&report);
	return error ? probe_error_prefix(error,
			       "the function stays connected, because a filter forbids "
			       "membarrier(2), and the threads cannot be stopped instead")
		     : NULL;
}
