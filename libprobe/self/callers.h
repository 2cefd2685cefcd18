/* SPDX-License-Identifier: MIT */
/*
 * Which functions the threads of this process are in. A thread notes each call in a record of its
 * own with plain stores, and a thread that disconnects a function reads them all.
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

/* Of one thread; never freed, but given to another one when that has ended. */
struct caller {
	_Alignas(128) _Atomic uint64_t owner; /* its id, below the number of owners so far */
	/* What it is in, by the number of calls that it was in already; NULL: none. */
	_Atomic(const void *) in[CALLER_CALLS];
};

/* This thread's record; NULL: it has none yet, or there is none for it. */
extern __thread struct caller *callers_own __attribute__((tls_model("initial-exec")));

/*
 * If set, the kernel orders a note and what follows it when callers_order() asks for that.
 * Otherwise each note orders itself, which takes longer. Set by callers_init().
 */
extern bool callers_are_ordered;

/* With the lock, before any function is connected. */
void callers_init(void);

/* Gives this thread a record, if possible; keeps errno. Not while one is noted for it. */
void callers_claim(void);

/* Whether another thread has a note of it. */
bool callers_are_in(const void *what);

/* In a child that was just forked: the others are gone. */
void callers_after_fork(void);

/*
 * The place for the note of a thread that is in so many calls already. NULL: count the call
 * instead.
 */
GENERAL_ONLY static inline _Atomic(const void *) *callers_place(unsigned int depth)
{
	struct caller *own = callers_own;

	return own && depth < CALLER_CALLS ? &own->in[depth] : NULL;
}

/* Pairs with callers_order(). */
GENERAL_ONLY static inline void callers_enter(_Atomic(const void *) *place, const void *what)
{
	if (callers_are_ordered) {
		atomic_store_explicit(place, what, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
	} else {
		atomic_store(place, what);
	}
}

/* Pairs with the loads of callers_are_in(): the function has ended. */
GENERAL_ONLY static inline void callers_leave(_Atomic(const void *) *place)
{
	atomic_store_explicit(place, NULL, memory_order_release);
}

#endif
