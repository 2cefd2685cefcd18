/* SPDX-License-Identifier: MIT */
/*
 * The functions of a hook (hook.h). All threads call them at once without a lock (hits.c), while
 * functions are added and removed.
 */
#ifndef LIBPROBE_SELF_FUNCTIONS_H
#define LIBPROBE_SELF_FUNCTIONS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "probe/self.h"

typedef void function_call(const struct probe_self_hit *hit, void *data);

enum { FUNCTIONS_AT_ONCE = 4 };

/* A place for a function. It may be reused, and is freed only with its hook. */
struct function {
	_Atomic(function_call *)
		call; /* NULL if the place is free or its function is being disconnected */
	void *data;
	bool is_general; /* changes only general registers: general_function() */
	bool is_taken;	 /* the place is in use; protected by the lock */
	/* Calls that began and that ended, by threads without a place for a note (callers.h). */
	_Atomic uint64_t in, out;
};

struct function_block {
	struct function items[FUNCTIONS_AT_ONCE];
	_Atomic uint32_t used; /* no place from this index on has ever held a function */
	_Atomic(struct function_block *) next;
};

/* All functions, in the order of calls. Initialise with {0}; no thread may be in one at the end. */
struct functions {
	_Atomic(struct function_block *) first;
	size_t count; /* places in use; protected by the lock */
};
void functions_deinit(struct functions *functions);

/*
 * functions_add() adds a function, which is called after all others. Returns NULL without memory.
 * Call it with the lock.
 */
struct function *functions_add(
	struct functions *functions, function_call *call, void *data, bool is_general);

/*
 * Prevents further calls of the function. Call it with the lock. After an error, the function is
 * called as before. Errors: those of callers_order().
 */
PROBE_MUST_CHECK struct probe_error *function_stop(struct function *function);
/* Waits until no other thread is in the function. Call it without the lock. */
void function_wait(struct function *function);
/* Frees the function's place. Call it with the lock. */
void functions_remove(struct functions *functions, struct function *function);

/* The hits that this thread is handling, the innermost first. */
struct running {
	struct running *outer;
	const void *hook;
	const struct function *counted; /* the function whose call was counted, or NULL */
	unsigned int depth;
};
extern __thread struct running *functions_running __attribute__((tls_model("initial-exec")));

/* Call this in a child that was just forked: the parent's other threads do not exist there. */
void functions_after_fork(struct functions *functions);

#endif
