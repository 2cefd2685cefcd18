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

#include "arch/general.h"
#include "libprobe/self/enter.h"
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
	atomic_store(last, block); /* pairs with the loads in call_next() */
	return block;
}

/* The first place after the last one in use; NULL: all blocks end before it. */
static struct function *free_end(const struct functions *functions)
{
	struct function *end = NULL;

	for (struct function_block *b = functions->first; b; b = b->next)
		for (size_t i = 0; i < FUNCTIONS_AT_ONCE; i++) {
			if (b->items[i].is_taken)
				end = NULL;
			else if (!end)
				end = &b->items[i];
		}
	return end;
}

static struct function *find_free(struct functions *functions)
{
	_Atomic(struct function_block *) *at = &functions->first;
	struct function *end = free_end(functions);
	struct function_block *block;

	if (end)
		return end;
	while ((block = *at))
		at = &block->next;
	block = add_block(at);
	return block ? &block->items[0] : NULL;
}

bool functions_accept(const struct functions *functions)
{
	size_t places = 0;

	for (struct function_block *b = functions->first; b; b = b->next)
		places += FUNCTIONS_AT_ONCE;
	return places == functions->count || free_end(functions);
}

struct function *functions_add(
	struct functions *functions, function_call *call, void *data, bool is_general)
{
	struct function *f = find_free(functions);

	if (!f)
		return NULL;
	f->is_taken = true;
	f->data = data;
	f->is_general = is_general;
	atomic_store(&f->call, call); /* publishes the others, too */
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
GENERAL_ONLY static inline struct function_count *count_of(struct function *f)
{
	uint64_t thread = (uintptr_t)__builtin_thread_pointer() >> 12;

	return &f->counts[(thread * UINT64_C(0x9e3779b97f4a7c15)) >> 59];
}
_Static_assert(FUNCTION_STRIPES == 1 << (64 - 59), "the highest bits say which");

/* False: state must be saved first. */
GENERAL_ONLY static inline bool call_one(
	struct calling *c, struct function *f, struct running *running)
{
	struct function_count *count = count_of(f);
	function_call *call;
	bool can;

	atomic_fetch_add(&count->in, 1);
	call = atomic_load(&f->call);
	can = c->is_saved || !call || (f->is_general && (c->is_general || !c->decode));
	if (call && can) {
		running->function = f;
		if (c->decode)
			c->decode(c);
		c->decode = NULL;
		call(c->hit, f->data);
		running->function = NULL;
	}
	atomic_fetch_add(&count->out, 1);
	return can;
}

/* Calls the functions from `block` and `index` on; false: not all, state must be saved first. */
GENERAL_ONLY static bool call_next(struct calling *c, struct running *running)
{
	for (; c->block; c->block = atomic_load(&c->block->next), c->index = 0)
		for (; c->index < FUNCTIONS_AT_ONCE; c->index++) {
			struct function *f = &c->block->items[c->index];

			if (atomic_load_explicit(&f->call, memory_order_relaxed) &&
				!call_one(c, f, running))
				return false;
		}
	return true;
}

static void call_saved(void *data)
{
	struct calling *c = data;

	c->is_saved = true;
	call_next(c, functions_running);
}

GENERAL_ONLY void functions_call(struct calling *c)
{
	struct running running;

	running.outer = functions_running;
	running.hook = c->hook;
	running.function = NULL;
	running.depth = running.outer ? running.outer->depth + 1 : 0;
	c->hit->depth = running.depth;
	c->block = atomic_load(&c->functions->first);
	c->index = 0;
	functions_running = &running;
	if (!call_next(c, &running))
		enter_saving(call_saved, c);
	functions_running = running.outer;
}
