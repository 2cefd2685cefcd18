/* SPDX-License-Identifier: MIT */
/*
 * Notes which functions each thread of this process is in. A thread notes each call in its own
 * record with plain stores, and a thread that disconnects a function reads all records.
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

/* The record of one thread. It is never freed; when the thread has ended, another takes it. */
struct caller {
	_Alignas(128) _Atomic uint64_t
		owner; /* low half: the thread's id; high half: the number of owners so far */
	/* Functions that the thread is in, by nesting depth; NULL if no call is that deep. */
	_Atomic(const void *) in[CALLER_CALLS];
};

/* This thread's record; NULL if it has no record yet, or cannot get one. */
extern __thread struct caller *callers_own __attribute__((tls_model("initial-exec")));

/*
 * If true, the kernel orders a note before later loads, when callers_order() asks for it. If false,
 * each note orders itself, which takes longer. Set by callers_init().
 */
extern bool callers_are_ordered;

/* Call this with the lock, before any function is connected. */
void callers_init(void);

/* Gives this thread a record, if possible; keeps errno. The thread must not have one yet. */
void callers_claim(void);

/* Does another thread have a note of `what`? */
bool callers_are_in(const void *what);

/* Call this in a child that was just forked: the parent's other threads do not exist there. */
void callers_after_fork(void);

/*
 * Returns the place for the note of a thread that is in `depth` calls already. Returns NULL if the
 * call must be counted instead.
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

/* Clears the note after the function has returned. Pairs with the loads in callers_are_in(). */
GENERAL_ONLY static inline void callers_leave(_Atomic(const void *) *place)
{
	atomic_store_explicit(place, NULL, memory_order_release);
}

#endif
