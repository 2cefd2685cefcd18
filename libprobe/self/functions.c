/* SPDX-License-Identifier: MIT */
/*
 * callers.c says how a thread that disconnects a function learns which threads are in it. Threads
 * without room for a note there (nested too deep, or without a record) count their calls instead:
 * they increment `in` before they check that the function is still connected, and `out` after the
 * call. Both are sequentially consistent, as is making `call` NULL: either the caller sees NULL, or
 * the other thread sees `in`. The sum reads `out` first: if they are equal, no call was in
 * progress.
 *
 * Places are never freed while their hook can be hit, so a caller can walk over them without
 * further protection.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libprobe/self/callers.h"
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
	struct function_block *block = calloc(1, sizeof(*block));

	if (!block)
		return NULL;
	atomic_store(last, block); /* pairs with the loads in call_from() */
	return block;
}

/* The first place after the last one in use, and its block; NULL: all blocks end before it. */
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
	*block_ret = add_block(at);
	return *block_ret ? &(*block_ret)->items[0] : NULL;
}

bool functions_accept(const struct functions *functions)
{
	struct function_block *unused;
	size_t places = 0;

	for (struct function_block *b = functions->first; b; b = b->next)
		places += FUNCTIONS_AT_ONCE;
	return places == functions->count || free_end(functions, &unused);
}

struct function *functions_add(
	struct functions *functions, function_call *call, void *data, bool is_general)
{
	struct function_block *block;
	struct function *f = find_free(functions, &block);

	if (!f)
		return NULL;
	callers_init();
	f->is_taken = true;
	f->data = data;
	f->is_general = is_general;
	atomic_store(&f->call, call); /* publishes the others, too */
	if (f - block->items >= (ptrdiff_t)block->used)
		atomic_store(&block->used, (uint32_t)(f - block->items) + 1);
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

struct probe_error *function_stop(struct function *function)
{
	function_call *call = atomic_load(&function->call);
	struct probe_error *error;

	atomic_store(&function->call, NULL); /* pairs with the loads in call_one() */
	error = callers_order();
	if (error)
		atomic_store(&function->call, call);
	return error;
}

/* The calls of this thread that it has counted. */
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

	/* If this thread were cancelled here, nothing would free the place. */
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
