/* SPDX-License-Identifier: MIT */
/*
 * Notes which connected functions each thread is in: with plain stores, in a record of its own. A
 * thread that disconnects a function reads all records.
 */
#ifndef LIBPROBE_SELF_CALLERS_H
#define LIBPROBE_SELF_CALLERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/general.h"
#include "libprobe/base/error.h"

enum { CALLER_CALLS = 15 };

/* The record of a thread. It is never freed, but taken by another thread after the thread's end. */
struct caller {
	/* Low half: the id of the owning thread; high half: the number of owners so far. */
	_Alignas(128) _Atomic uint64_t owner;
	/* The function that the thread is in at each depth of nesting, or NULL. */
	_Atomic(const void *) in[CALLER_CALLS];
};

/* This thread's record, or NULL. */
extern __thread struct caller *callers_own __attribute__((tls_model("initial-exec")));

/*
 * True if notes are plain stores, which callers_order() makes the kernel order before other
 * threads' later loads. False if each note has an instruction for that, which takes longer. Set by
 * callers_init().
 */
extern bool callers_are_ordered;

/* Call this with the lock, before a function is connected. */
void callers_init(void);

/* Tries to find a record for this thread, which has none. Does not change errno. */
void callers_claim(void);

/* Is another thread in the function `what`, by its notes? */
bool callers_are_in(const void *what);

/* For a child that was just forked: frees the records of the parent's other threads. */
void callers_after_fork(void);

/* Returns where this thread, in `depth` calls, notes the next one. NULL: count the call instead. */
GENERAL_ONLY static inline _Atomic(const void *) *callers_place(unsigned int depth)
{
	struct caller *own = callers_own;

	return own && depth < CALLER_CALLS ? &own->in[depth] : NULL;
}

/* Notes a call. Pairs with callers_order(). */
GENERAL_ONLY static inline void callers_enter(_Atomic(const void *) *place, const void *what)
{
	if (callers_are_ordered) {
		atomic_store_explicit(place, what, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
	} else {
		atomic_store(place, what);
	}
}

/* Clears the note after the call. Pairs with the loads in callers_are_in(). */
GENERAL_ONLY static inline void callers_leave(_Atomic(const void *) *place)
{
	atomic_store_explicit(place, NULL, memory_order_release);
}

#endif
