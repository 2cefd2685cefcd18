/* SPDX-License-Identifier: MIT */
/*
 * The functions of a hook (hook.h). Other threads call them without a lock (hits.c) while functions
 * are added and removed.
 */
#ifndef LIBPROBE_SELF_FUNCTIONS_H
#define LIBPROBE_SELF_FUNCTIONS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "probe/self.h"

typedef void function_call(const struct probe_self_hit *hit, void *data);

enum { FUNCTIONS_AT_ONCE = 4 };

/* A place for a function. After a removal another may get it; it is freed only with the hook. */
struct function {
	_Atomic(function_call *)
		call; /* NULL if the place is free, or while its function is being disconnected */
	void *data;
	bool is_general; /* the function changes only general registers, see general_function() */
	bool is_taken;	 /* the place is in use; protected by the lock */
	/* Calls begun and ended by threads without a place for a note (callers.h). */
	_Atomic uint64_t in, out;
};

struct function_block {
	struct function items[FUNCTIONS_AT_ONCE];
	_Atomic uint32_t used; /* the places from this index on have never held a function */
	_Atomic(struct function_block *) next;
};

/*
 * The functions of a hook, in the order of calls. Initialise with {0}. No thread may be in one at
 * functions_deinit().
 */
struct functions {
	_Atomic(struct function_block *) first;
	size_t count; /* places in use; protected by the lock */
};
void functions_deinit(struct functions *functions);

/* Adds a function behind the others, with the lock. Returns NULL if memory is short. */
struct function *functions_add(
	struct functions *functions, function_call *call, void *data, bool is_general);

/*
 * Prevents new calls, with the lock. After an error, the function is still called. Errors: as
 * callers_order().
 */
PROBE_MUST_CHECK struct probe_error *function_stop(struct function *function);
/* Waits until no other thread is in the function, without the lock. */
void function_wait(struct function *function);
/* Frees the function's place, with the lock. */
void functions_remove(struct functions *functions, struct function *function);

/* The hits that this thread is handling, the innermost first. */
struct running {
	struct running *outer;
	const void *hook;
	const struct function *counted; /* the function whose call was counted, or NULL */
	unsigned int depth;
};
extern __thread struct running *functions_running __attribute__((tls_model("initial-exec")));

/* For a child that was just forked: the calls of the parent's other threads count as ended. */
void functions_after_fork(struct functions *functions);

#endif
