/* SPDX-License-Identifier: MIT */
/*
 * The function that a stub calls at a hit. Usually one function is connected, and it changes no
 * vector registers. So that case is short: the compiler inlines all its code into one function.
 */
#include <errno.h>

#include "arch/enter.h"
#include "arch/general.h"
#include "libprobe/self/self.h"
#include "libprobe/self/helper/helper.h"

struct hit {
	const struct hook_site *site;
	const uint64_t *frame;
	struct running running;
	/* Where calls of this hit are noted; NULL if they are counted instead. */
	_Atomic(const void *) *place;
	/* The first function, and its block, that cannot be called until more state is saved. */
	struct function_block *block;
	struct function *next;
	struct probe_self_hit passed;
	struct probe_value values[ARCH_ARGS_MAX];
};

/* The address of the thread's errno, set with callers_own. */
static __thread int *errno_at __attribute__((tls_model("initial-exec")));

/* Prepares a thread at its first hit; at each hit, until the thread gets a record. */
static void learn_thread(void *unused)
{
	(void)unused;
	errno_at = &errno;
	callers_claim();
}

/*
 * Notes a call, and calls the function if it is still connected. (Before the note, the place may
 * get another function.) Returns false if more state must be saved first.
 */
GENERAL_INLINE bool call_noted(struct hit *hit, struct function *f, bool is_saved)
{
	function_call *call = atomic_load(&f->call);

	if (!call)
		return true;
	if (!is_saved && !f->is_general)
		return false;
	hit->passed.function = f->inner;
	call(&hit->passed, f->data);
	return true;
}

/* Calls a function and counts the call, for a thread that has no place for a note. */
GENERAL_INLINE bool call_counted(struct hit *hit, struct function *f, bool is_saved)
{
	bool is_done;

	atomic_fetch_add(&f->in, 1);
	hit->running.counted = f;
	is_done = call_noted(hit, f, is_saved);
	hit->running.counted = NULL;
	atomic_fetch_add(&f->out, 1);
	return is_done;
}

GENERAL_INLINE bool call_one(struct hit *hit, struct function *f, bool is_saved)
{
	bool is_done;

	if (!hit->place)
		return call_counted(hit, f, is_saved);
	callers_enter(hit->place, f);
	is_done = call_noted(hit, f, is_saved);
	callers_leave(hit->place);
	return is_done;
}

/*
 * Calls all functions from `f` in `block` on. If one needs more state saved, returns false, with
 * hit->block and hit->next set to it.
 */
GENERAL_INLINE bool call_from(
	struct hit *hit, struct function_block *block, struct function *f, bool is_saved)
{
	while (true) {
		uint32_t used = atomic_load_explicit(&block->used, memory_order_relaxed);

		for (const struct function *end = block->items + used; f < end; f++) {
			if (!atomic_load_explicit(&f->call, memory_order_relaxed) ||
				call_one(hit, f, is_saved))
				continue;
			hit->block = block;
			hit->next = f;
			return false;
		}
		block = atomic_load(&block->next);
		if (!block)
			return true;
		f = block->items;
	}
}

GENERAL_ONLY static void call_saved(void *data)
{
	struct hit *hit = data;

	if (!hit->site->is_plain)
		record_layout_read_frame(&hit->site->layout, hit->frame, hit->values);
	(void)call_from(hit, hit->block, hit->next, true);
}

GENERAL_INLINE void prepare(struct hit *hit)
{
	const struct hook_site *site = hit->site;

	hit->running.outer = functions_running;
	hit->running.hook = site->hook;
	hit->running.counted = NULL;
	hit->running.depth = hit->running.outer ? hit->running.outer->depth + 1 : 0;
	hit->place = callers_place(hit->running.depth);
	hit->passed.provider = site->provider;
	hit->passed.name = site->name;
	hit->passed.path = site->path;
	hit->passed.pc = site->pc;
	hit->passed.args = hit->values;
	hit->passed.arg_count = site->layout.arg_count;
	hit->passed.depth = hit->running.depth;
}

/* Calls the functions that need no more state saved. Returns true if all were called. */
GENERAL_INLINE bool call_plain(struct hit *hit, struct function_block *first)
{
	if (!hit->site->is_plain) {
		hit->block = first;
		hit->next = first->items;
		return false;
	}
	record_layout_read_plain(&hit->site->layout, hit->frame, hit->values);
	return call_from(hit, first, first->items, false);
}

/* UNGUARDED is safe: only hit.values is written, which has room for all arguments. */
GENERAL_ONLY UNGUARDED void enter_called(const uint64_t *frame, uint64_t site)
{
	struct function_block *block;
	struct hit hit;
	int saved_errno;

	if (!callers_own) {
		if (helper_is_quiet)
			return;
		enter_saving(learn_thread, NULL);
	}
	saved_errno = *errno_at;
	hit.site = (const struct hook_site *)(uintptr_t)site;
	hit.frame = frame;
	prepare(&hit);
	functions_running = &hit.running;
	block = atomic_load(&hit.site->hook->functions.first);
	if (block && !call_plain(&hit, block))
		enter_saving(call_saved, &hit);
	functions_running = hit.running.outer;
	if (*errno_at != saved_errno)
		*errno_at = saved_errno;
}
