/* SPDX-License-Identifier: MIT */
/*
 * What a stub calls at a hit. Most hits call one function that leaves vector registers alone, so
 * that way is short: one function, which the compiler makes of all those here that are GENERAL_ONLY
 * (arch/general.h).
 */
#include <errno.h>

#include "arch/general.h"
#include "libprobe/self/callers.h"
#include "libprobe/self/enter.h"
#include "libprobe/self/helper.h"
#include "libprobe/self/hook.h"

#define INLINED GENERAL_ONLY __attribute__((always_inline))

struct hit {
	const struct hook_site *site;
	const uint64_t *frame;
	struct running running;
	/* The next function, unless `block` is NULL. */
	struct function_block *block;
	size_t index;
	struct probe_self_hit passed;
	struct probe_value values[ARCH_ARGS_MAX];
};

/* Where the thread has its errno; known if callers_own is. */
static __thread int *errno_at __attribute__((tls_model("initial-exec")));

/* At the first hit of a thread, and at all of them if it gets no record. */
static void learn_thread(void *unused)
{
	(void)unused;
	errno_at = &errno;
	callers_claim();
}

/* `call` was not NULL a moment ago. */
INLINED static inline void call_one(struct hit *hit, struct function *f)
{
	_Atomic(const void *) *place = callers_place(hit->running.depth);
	function_call *call;

	if (place)
		callers_enter(place, f);
	else
		atomic_fetch_add(&f->in, 1);
	call = atomic_load(&f->call);
	if (call) {
		hit->running.counted = place ? NULL : f;
		call(&hit->passed, f->data);
		hit->running.counted = NULL;
	}
	if (place)
		callers_leave(place);
	else
		atomic_fetch_add(&f->out, 1);
}

/*
 * Calls the functions from hit->block and hit->index on, until one needs more state to be saved
 * than is saved.
 */
INLINED static inline void call_from(struct hit *hit, bool is_saved)
{
	struct function_block *block = hit->block;

	for (size_t i = hit->index; block; block = atomic_load(&block->next), i = 0)
		for (; i < atomic_load_explicit(&block->used, memory_order_relaxed); i++) {
			struct function *f = &block->items[i];

			if (!atomic_load_explicit(&f->call, memory_order_relaxed))
				continue;
			if (!is_saved && !(f->is_general && hit->site->is_plain)) {
				hit->block = block;
				hit->index = i;
				return;
			}
			call_one(hit, f);
		}
	hit->block = NULL;
}

GENERAL_ONLY static void call_saved(void *data)
{
	struct hit *hit = data;

	if (!hit->site->is_plain)
		record_layout_read_frame(&hit->site->layout, hit->frame, hit->values);
	call_from(hit, true);
}

INLINED static inline void prepare(struct hit *hit)
{
	const struct hook_site *site = hit->site;

	hit->running.outer = functions_running;
	hit->running.hook = site->hook;
	hit->running.counted = NULL;
	hit->running.depth = hit->running.outer ? hit->running.outer->depth + 1 : 0;
	hit->passed.provider = site->provider;
	hit->passed.name = site->name;
	hit->passed.path = site->path;
	hit->passed.pc = site->pc;
	hit->passed.args = hit->values;
	hit->passed.arg_count = site->layout.arg_count;
	hit->passed.depth = hit->running.depth;
	if (site->is_plain)
		record_layout_read_plain(&site->layout, hit->frame, hit->values);
}

GENERAL_ONLY void enter_called(const uint64_t *frame, uint64_t site)
{
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
	hit.block = atomic_load(&hit.site->hook->functions.first);
	hit.index = 0;
	functions_running = &hit.running;
	call_from(&hit, false);
	if (hit.block)
		enter_saving(call_saved, &hit);
	functions_running = hit.running.outer;
	*errno_at = saved_errno;
}
