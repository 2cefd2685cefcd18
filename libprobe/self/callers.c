/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/procfs.h"
#include "libprobe/self/self.h"
#include "libprobe/self/helper/helper.h"

/* ==== Callers ================================================================================= */

/*
 * How to disconnect a function while other threads may be calling it: A calling thread first notes
 * the function, and then checks that the function is still connected. The disconnecting thread
 * first sets the pointer to the function to NULL, and then reads the notes of all threads:
 *
 *	caller                          disconnecting thread
 *	note = function                 function->call = NULL
 *	(compiler's order only)         callers_order()
 *	function->call is NULL? leave   wait while there is a note
 *	call it
 *	note = NULL
 *
 * A processor may delay the caller's first store until after its load of function->call. So the
 * caller could miss the NULL while its note is not visible yet. A locked instruction for each call
 * would prevent this, but it takes longer than the rest of the call. Calls are frequent and
 * disconnecting is rare. So the disconnecting thread calls membarrier(2): the kernel interrupts
 * every processor that runs a thread of this process, which completes the processor's stores.
 *
 * Later, a seccomp filter may forbid membarrier(2). Then we stop all threads, as for any change of
 * probes. This has the same effect, because a stopped thread has left its processor. If the stop is
 * forbidden, too, no function can be disconnected.
 *
 * All threads can find all records, and each record belongs to one thread. But the end of a thread
 * is not reported, so a thread that needs a record takes one whose thread has ended. Only threads
 * of this process get records. A child of vfork(2), or of another clone(2) that shares the memory,
 * may use the thread pointer of a thread that sleeps in the meantime. It then also uses that
 * thread's record. Such a child gets no record of its own: after its end, the thread would go on to
 * use a record that looks free. Threads without records count their calls with locked instructions
 * (functions.h).
 *
 * Sources: membarrier(2); Documentation/scheduler/membarrier.rst of Linux.
 */

enum { BLOCK_BYTES = 8192, BLOCK_CALLERS = BLOCK_BYTES / sizeof(struct caller) - 1 };

struct caller_block {
	_Alignas(128) _Atomic(struct caller_block *) next;
	struct caller items[BLOCK_CALLERS];
};
_Static_assert(sizeof(struct caller_block) <= BLOCK_BYTES, "a block is mapped in whole pages");

__thread struct caller *callers_own __attribute__((tls_model("initial-exec")));
bool callers_are_ordered;

static _Atomic(struct caller_block *) blocks;
static _Atomic pid_t process; /* id of this process; 0 as long as no thread may have a record */

/* ---- Records --------------------------------------------------------------------------- */

enum { OWNER_SHIFT = 32 };

/*
 * Returns true if a record is free. An owner with our own id was an earlier thread, which has
 * ended.
 */
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
 * Takes a record, unless another thread takes it first: the number of owners tells equal ids apart.
 */
static bool take(struct caller *caller, pid_t own, bool (*may)(pid_t thread, pid_t own))
{
	uint64_t owner = atomic_load(&caller->owner);
	uint64_t next = ((owner >> OWNER_SHIFT) + 1) << OWNER_SHIFT | (uint32_t)own;

	return may((pid_t)(uint32_t)owner, own) &&
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

/* Makes a block of records, by mmap(2), because the hit may be inside malloc(3). */
static struct caller *make_block(pid_t own)
{
	struct caller_block *block =
		mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct caller_block *first = atomic_load(&blocks);

	if (block == MAP_FAILED)
		return NULL;
	atomic_store_explicit(&block->items[0].owner, (uint64_t)own, memory_order_relaxed);
	/* Publishes the complete block. Pairs with the loads of `blocks`. */
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

/* A forked child may have to register first. */
bool callers_order(void)
{
	return !callers_are_ordered || ask_kernel(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
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

/* ==== Functions =============================================================================== */

/*
 * The section "Callers" says how a thread that disconnects a function learns whether others are in
 * it. Without a place for a note (too deeply nested, or no record), a call is counted: `in` before
 * the check that the function is connected, `out` after the call. These operations, and setting
 * `call` to NULL, are sequentially consistent, so the caller sees NULL, or the disconnecting thread
 * sees the new `in`. That thread reads `out` first: if both are equal, no call was in progress.
 *
 * Places are not freed while their hook can be hit, so callers walk over them freely.
 */

enum { SPINS = 100, WAIT_NS = 200000 };

__thread struct running *functions_running __attribute__((tls_model("initial-exec")));

/* ---- Places --------------------------------------------------------------------------- */

void functions_deinit(struct functions *functions)
{
	struct function_block *block = functions->first;

	while (block) {
		struct function_block *next = block->next;

		free(block);
		block = next;
	}
	functions->first = NULL;
}

/* Finds the first free place at the end, or NULL if the last place is in use. */
static struct function *free_end(
	const struct functions *functions, struct function_block **block_ret)
{
	struct function *end = NULL;

	for (struct function_block *b = functions->first; b; b = b->next)
		for (size_t i = 0; i < FUNCTIONS_AT_ONCE; i++) {
			if (b->items[i].is_taken) {
				end = NULL;
			} else if (!end) {
				end = &b->items[i];
				*block_ret = b;
			}
		}
	return end;
}

static struct function *find_free(struct functions *functions, struct function_block **block_ret)
{
	_Atomic(struct function_block *) *at = &functions->first;
	struct function *end = free_end(functions, block_ret);
	struct function_block *block;

	if (end)
		return end;
	while ((block = *at))
		at = &block->next;
	block = calloc(1, sizeof(*block));
	if (!block)
		return NULL;
	atomic_store(at, block); /* pairs with the loads in call_from() */
	*block_ret = block;
	return &block->items[0];
}

/*
 * Returns true if a function can be added without wasting memory. (A free place before the last
 * used one cannot be used again.) The caller holds the lock.
 */
bool functions_accept(const struct functions *functions)
{
	struct function_block *unused;
	size_t places = 0;

	for (struct function_block *b = functions->first; b; b = b->next)
		places += FUNCTIONS_AT_ONCE;
	return places == functions->count || free_end(functions, &unused);
}

struct function *functions_add(struct functions *functions, function_call *call,
	void (*inner)(void), void *data, bool is_general)
{
	struct function_block *block;
	struct function *f = find_free(functions, &block);

	if (!f)
		return NULL;
	callers_init();
	f->is_taken = true;
	f->data = data;
	f->inner = inner;
	f->is_general = is_general;
	atomic_store(&f->call, call); /* also publishes the members written before */
	if (f - block->items >= (ptrdiff_t)block->used)
		atomic_store(&block->used, (uint32_t)(f - block->items) + 1);
	functions->count++;
	return f;
}

/* Returns how many counted calls of the function this thread is in. */
static uint64_t own_calls(const struct function *function)
{
	uint64_t count = 0;

	for (const struct running *r = functions_running; r; r = r->outer)
		count += r->counted == function;
	return count;
}

static uint64_t calls(const struct function *function)
{
	uint64_t out = atomic_load(&function->out);

	return atomic_load(&function->in) - out;
}

void function_wait(struct function *function)
{
	uint64_t own = own_calls(function);
	int cancel;

	/* Forbid cancelling, because a cancelled thread would never free the place. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	for (int i = 0; calls(function) != own || callers_are_in(function); i++) {
		if (i < SPINS)
			sched_yield();
		else
			nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
	}
	pthread_setcancelstate(cancel, NULL);
}

void functions_remove(struct functions *functions, struct function *function)
{
	function->is_taken = false;
	functions->count--;
}

void functions_after_fork(struct functions *functions)
{
	for (struct function_block *b = functions->first; b; b = b->next)
		for (size_t i = 0; i < FUNCTIONS_AT_ONCE; i++)
			b->items[i].out += calls(&b->items[i]) - own_calls(&b->items[i]);
}
