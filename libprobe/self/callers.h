/* SPDX-License-Identifier: MIT */
/*
 * Notes which connected functions each thread of this process is in. A thread notes its calls in a
 * record of its own, with plain stores. A thread that disconnects a function reads the records of
 * all threads.
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

/*
 * The record of one thread. It is never freed: when the thread has ended, another thread takes the
 * record.
 */
struct caller {
	/* Low half: the id of the owning thread; high half: the number of owners so far. */
	_Alignas(128) _Atomic uint64_t owner;
	/*
	 * The function at each nesting depth that the thread is in; NULL if the thread is in no
	 * call that deep.
	 */
	_Atomic(const void *) in[CALLER_CALLS];
};

/* This thread's record; NULL if the thread has none yet, or cannot get one. */
extern __thread struct caller *callers_own __attribute__((tls_model("initial-exec")));

/*
 * If true, a note is a plain store, and callers_order() makes the kernel order the notes of all
 * threads before their later loads. If false, each note is ordered by an instruction of its own,
 * which takes longer. Set by callers_init().
 */
extern bool callers_are_ordered;

/* Call this with the lock, before any function is connected. */
void callers_init(void);

/*
 * Gives this thread a record if possible. Does not change errno. The thread must not have a record
 * yet.
 */
void callers_claim(void);

/* Returns true if another thread has a note of the function `what`. */
bool callers_are_in(const void *what);

/*
 * Call this in a child that was just forked. Frees the records of the parent's other threads, which
 * do not exist in the child.
 */
void callers_after_fork(void);

/*
 * Returns where this thread, which is in `depth` calls already, notes one more call. Returns NULL
 * if there is no place for the note; the call must then be counted.
 */
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
