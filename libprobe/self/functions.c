/* SPDX-License-Identifier: MIT */
/*
 * A caller increments `in` before it checks that the function is still connected, and `out`
 * after the call. A thread that disconnects the function first sets `call` to NULL, and then
 * checks the counts:
 *
 *	caller                          function_stop(), function_wait()
 *	in++                            call = NULL
 *	call is NULL? leave             wait until in == out
 *
 * Both do the one before the other, in an order that all threads agree on (sequentially
 * consistent), so either the caller sees NULL, or the other thread waits for it. The counts are
 * spread over several cache lines, because all threads would contend for one. Sums read all
 * `out` first: if they are equal, no call was in progress.
 *
 * Places are never freed while their hook can be hit, so a caller can walk over them without
 * further protection.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libprobe/self/functions.h"

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

static struct function_block *add_block(_Atomic(struct function_block *) *last)
{
	struct function_block *block =
		aligned_alloc(_Alignof(struct function_block), sizeof(*block));

	if (!block)
		return NULL;
	memset(block, 0, sizeof(*block));
	atomic_store(last, block); /* pairs with the load in functions_call() */
	return block;
}

static struct function *find_free(struct functions *functions)
{
	_Atomic(struct function_block *) *at = &functions->first;
	struct function_block *block;

	while ((block = *at)) {
		for (size_t i = 0; i < FUNCTIONS_AT_ONCE; i++)
			if (!block->items[i].is_taken)
				return &block->items[i];
		at = &block->next;
	}
	block = add_block(at);
	return block ? &block->items[0] : NULL;
}

struct function *functions_add(struct functions *functions, function_call *call, void *data)
{
	struct function *f = find_free(functions);

	if (!f)
		return NULL;
	f->is_taken = true;
	f->data = data;
	atomic_store(&f->call, call); /* publishes `data`, too */
	functions->count++;
	return f;
}

struct function *functions_find(const struct functions *functions, function_call *call, void *data)
{
	for (struct function_block *b = functions->first; b && call; b = b->next)
		for (size_t i = 0; i < FUNCTIONS_AT_ONCE; i++)
			if (b->items[i].call == call && b->items[i].data == data)
				return &b->items[i];
	return NULL;
}

/* ---- Disconnecting ----------------------------------------------------------------------- */

void function_stop(struct function *function)
{
	atomic_store(&function->call, NULL);
}

/* How many times this thread is in the function. */
static uint64_t own_calls(const struct function *function)
{
	uint64_t count = 0;

	for (const struct running *r = functions_running; r; r = r->outer)
		count += r->function == function;
	return count;
}

static uint64_t calls(const struct function *function)
{
	uint64_t out = 0, in = 0;

	for (size_t i = 0; i < FUNCTION_STRIPES; i++)
		out += atomic_load(&function->counts[i].out);
	for (size_t i = 0; i < FUNCTION_STRIPES; i++)
		in += atomic_load(&function->counts[i].in);
	return in - out;
}

void function_wait(struct function *function)
{
	uint64_t own = own_calls(function);
	int cancel;

	/* If this thread were cancelled here, nothing would free the place. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	for (int i = 0; calls(function) != own; i++) {
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
			b->items[i].counts[0].out += calls(&b->items[i]) - own_calls(&b->items[i]);
}

/* ---- Calling ----------------------------------------------------------------------------- */

/* Threads are distinguished by their control blocks, which are at least some pages apart. */
static struct function_count *count_of(struct function *f)
{
	uint64_t thread = (uintptr_t)__builtin_thread_pointer() >> 12;

	return &f->counts[(thread * UINT64_C(0x9e3779b97f4a7c15)) >> 59];
}
_Static_assert(FUNCTION_STRIPES == 1 << (64 - 59), "the highest bits say which");

void functions_call(struct functions *functions, const void *hook, struct probe_self_hit *hit,
	void (*decode)(struct probe_self_hit *hit, void *data), void *data)
{
	struct running running = {.outer = functions_running, .hook = hook};
	struct function_block *block = atomic_load(&functions->first);

	hit->depth = running.depth = running.outer ? running.outer->depth + 1 : 0;
	functions_running = &running;
	for (; block; block = atomic_load(&block->next))
		for (size_t i = 0; i < FUNCTIONS_AT_ONCE; i++) {
			struct function *f = &block->items[i];
			struct function_count *count;
			function_call *call;

			if (!atomic_load_explicit(&f->call, memory_order_relaxed))
				continue;
			count = count_of(f);
			running.function = f;
			atomic_fetch_add(&count->in, 1);
			call = atomic_load(&f->call);
			if (call && decode)
				decode(hit, data);
			if (call) {
				decode = NULL;
				call(hit, f->data);
			}
			atomic_fetch_add(&count->out, 1);
			running.function = NULL;
		}
	functions_running = running.outer;
}
