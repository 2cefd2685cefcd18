/* SPDX-License-Identifier: MIT */
/*
 * The functions of a hook (hook.h): all threads call them at once without a lock, while
 * functions are added and removed (hits.c).
 */
#ifndef LIBPROBE_SELF_FUNCTIONS_H
#define LIBPROBE_SELF_FUNCTIONS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "probe/self.h"

typedef void function_call(const struct probe_self_hit *hit, void *data);

enum { FUNCTIONS_AT_ONCE = 4 };

/* A place for a function; it is reused, and freed only with its hook. */
struct function {
	_Atomic(function_call *) call; /* NULL: none, or it is being disconnected */
	void *data;
	bool is_general; /* see general_function() */
	bool is_taken;	 /* protected by the lock */
	/* Calls that began and ended, of threads without a place for a note (callers.h). */
	_Atomic uint64_t in, out;
};

struct function_block {
	struct function items[FUNCTIONS_AT_ONCE];
	_Atomic uint32_t used; /* no place from here on has had a function */
	_Atomic(struct function_block *) next;
};

/* All functions, in the order of their calls. Initialise with {0}; no thread may be in one at the
 * end. */
struct functions {
	_Atomic(struct function_block *) first;
	size_t count; /* those that are taken; protected by the lock */
};
void functions_deinit(struct functions *functions);

/*
 * Both with the lock. functions_add() adds one that is called after all others, and returns NULL
 * without memory. functions_find() returns NULL if there is none.
 */
struct function *functions_add(
	struct functions *functions, function_call *call, void *data, bool is_general);

/*
 * Prevents further calls; with the lock. Errors: those of callers_order(); then it is called as
 * before.
 */
PROBE_MUST_CHECK struct probe_error *function_stop(struct function *function);
/* Waits until no other thread is in the function; without the lock. */
void function_wait(struct function *function);
/* Frees its place; with the lock. */
void functions_remove(struct functions *functions, struct function *function);

/* The hits that this thread is in, innermost first. */
struct running {
	struct running *outer;
	const void *hook;
	const struct function *counted; /* the function whose call was counted, if one was */
	unsigned int depth;
};
extern __thread struct running *functions_running __attribute__((tls_model("initial-exec")));

/* In a child that was just forked: the other threads are gone. */
void functions_after_fork(struct functions *functions);

#endif
