/* SPDX-License-Identifier: MIT */
/*
 * The functions of a hook (hook.h): all threads call them at once without a lock, while
 * functions are added and removed.
 */
#ifndef LIBPROBE_SELF_FUNCTIONS_H
#define LIBPROBE_SELF_FUNCTIONS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "probe/self.h"

typedef void function_call(const struct probe_self_hit *hit, void *data);

enum { FUNCTION_STRIPES = 32, FUNCTIONS_AT_ONCE = 4 };

/* Counts of calls that began and ended, for some of the threads. */
struct function_count {
	_Alignas(64) _Atomic uint64_t in, out;
};

/* A place for a function; it is reused, and freed only with its hook. */
struct function {
	_Atomic(function_call *) call; /* NULL: none, or it is being disconnected */
	void *data;
	bool is_general; /* see general_function() */
	bool is_taken;	 /* protected by the lock */
	struct function_count counts[FUNCTION_STRIPES];
};

struct function_block {
	struct function items[FUNCTIONS_AT_ONCE];
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
 * Whether one more can be called after all others without more memory than they need; with the
 * lock. Places before the last one that is taken are not reused.
 */
bool functions_accept(const struct functions *functions);

/*
 * Both with the lock. functions_add() adds one that is called after all others, and returns NULL
 * without memory. functions_find() returns NULL if there is none.
 */
struct function *functions_add(
	struct functions *functions, function_call *call, void *data, bool is_general);
struct function *functions_find(const struct functions *functions, function_call *call, void *data);

/* Prevents further calls; with the lock. */
void function_stop(struct function *function);
/* Waits until no other thread is in the function; without the lock. */
void function_wait(struct function *function);
/* Frees its place; with the lock. */
void functions_remove(struct functions *functions, struct function *function);

/*
 * The calls that this thread is in, innermost first. It also tells a forked child which
 * functions its only thread is in.
 */
struct running {
	struct running *outer;
	const void *hook;
	const struct function *function;
	unsigned int depth;
};
extern __thread struct running *functions_running __attribute__((tls_model("initial-exec")));

/*
 * A hit that is to call functions. decode() fills in `hit->args` if there is one to call.
 * `is_general` is set if decode() is GENERAL_ONLY.
 */
struct calling {
	struct functions *functions;
	const void *hook;
	struct probe_self_hit *hit;
	void (*decode)(struct calling *calling);
	bool is_general;
	/* For functions_call(): the next function, and whether the others' state is saved. */
	struct function_block *block;
	size_t index;
	bool is_saved;
};

/*
 * Calls all functions, and saves the program's vector and floating-point state from the first one
 * on that may change it. GENERAL_ONLY.
 */
void functions_call(struct calling *calling);

/* In a child that was just forked: the other threads are gone. */
void functions_after_fork(struct functions *functions);

#endif
