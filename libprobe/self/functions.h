/* SPDX-License-Identifier: MIT */
/*
 * The functions of a hook (hook.h): called by all threads at once without a lock, added
 * and taken away meanwhile.
 */
#ifndef LIBPROBE_SELF_FUNCTIONS_H
#define LIBPROBE_SELF_FUNCTIONS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "probe/self.h"

typedef void function_call(const struct probe_self_hit *hit, void *data);

enum { FUNCTION_STRIPES = 32, FUNCTIONS_AT_ONCE = 4 };

/* Calls that began and that ended, of some of the threads. */
struct function_count {
	_Alignas(64) _Atomic uint64_t in, out;
};

/* A place for one; it is used again, and given back with its hook only. */
struct function {
	_Atomic(function_call *) call; /* NULL: none, or one that is taken away */
	void *data;
	bool is_taken; /* with the lock */
	struct function_count counts[FUNCTION_STRIPES];
};

struct function_block {
	struct function items[FUNCTIONS_AT_ONCE];
	_Atomic(struct function_block *) next;
};

/* All of them. Initialise with {0}; nobody may be within when it is given back. */
struct functions {
	_Atomic(struct function_block *) first;
	size_t count; /* that are taken; with the lock */
};
void functions_deinit(struct functions *functions);

/* Both with the lock. NULL without memory; the one that is called so, or NULL. */
struct function *functions_add(struct functions *functions, function_call *call, void *data);
struct function *functions_find(const struct functions *functions, function_call *call, void *data);

/* It is called no more; with the lock. */
void function_stop(struct function *function);
/* Waits until no other thread is in it; without the lock. */
void function_wait(struct function *function);
/* Its place is free; with the lock. */
void functions_remove(struct functions *functions, struct function *function);

/*
 * What this thread is within, innermost first. It is also what tells a forked child
 * who is in which function: its only thread.
 */
struct running {
	struct running *outer;
	const void *hook;
	const struct function *function;
	unsigned int depth;
};
extern __thread struct running *functions_running __attribute__((tls_model("initial-exec")));

/* Calls all of them; `hit->args` are found out by decode(), if there is one to be called. */
void functions_call(struct functions *functions, const void *hook, struct probe_self_hit *hit,
	void (*decode)(struct probe_self_hit *hit, void *data), void *data);

/* In a child that was just forked: the other threads are gone. */
void functions_after_fork(struct functions *functions);

#endif
