/* SPDX-License-Identifier: MIT */
/*
 * The table of what is in flight (flights.c): its entries (flight_entries.c), and the begins in an
 * entry (begins.c).
 *
 *	from	the key
 *	pointer	the table
 *	right	the entry looked at, number `spare`
 *	spare_2	how many more may be looked at
 *	next	how many more times (by key)
 *	set	some entry was taken (by key); the depth of the thread's own
 */
#ifndef ARCH_STUB_FLIGHTS_H
#define ARCH_STUB_FLIGHTS_H

#include "arch/layout.h"
#include "arch/stub/plan.h"

static inline struct form_mem flight_field(size_t offset)
{
	return form_at(FORM_RIGHT, (int32_t)offset);
}

#define FIELD(name) flight_field(offsetof(struct probe_flight, name))

/* Is the key one of the program's, and not the thread? */
static inline bool flights_by_key(const struct arch_flights *flights)
{
	return flights->match || flights->text;
}

/* ---- Entries (flight_entries.c) ------------------------------------------------------- */

/*
 * RIGHT = the thread's entry; jumps to `missing` if there is none. A jump to `other` looks for a
 * further one. If others can take entries, SET = the depth before the key was compared: an entry
 * that had the thread's key after a depth above 0 cannot be taken any more. (In between, a signal
 * handler may have made another thread's entry this thread's. It left depth 0, so the depth is
 * looked at once more.) An end skips entries at depth 0.
 */
void flight_find_own(struct form *f, const struct stub_plan *plan, int other, int missing);
/* RIGHT = an entry of the key, taken; jumps to `missing` if there is none. */
void flight_take(struct form *f, const struct stub_plan *plan, int missing);
/*
 * RIGHT = an entry for the key, taken; without one the hit is lost. Unless `own_entry` is -1, jumps
 * there with the thread's entry that a signal handler has made meanwhile.
 */
void flight_claim(struct form *f, const struct stub_plan *plan, int own_entry);
/* Takes the thread's own entry at depth 0; jumps to `other` if another thread was faster. */
void flight_retake(struct form *f, const struct stub_plan *plan, int other);
/* The entry at RIGHT, which was taken and is whole, can be found again. */
void flight_publish(struct form *f, const struct stub_plan *plan);
/* Frees the entry at RIGHT, which was taken by key; changes SCRATCH, NEXT, SPARE. */
void flight_free(struct form *f, const struct stub_plan *plan);

/* ---- The begins in an entry, which is at RIGHT (begins.c) ------------------------------- */

#endif
