/* SPDX-License-Identifier: MIT */
/*
 * The table of flights, which are open pairs (flights.c), and its entries (flight_entries.c). The
 * functions use registers as follows:
 *
 *	from	the key
 *	pointer	the table
 *	right	the current entry, number `spare`
 *	spare_2	the number of entries still to look at
 *	next	the number of searches left (by key)
 *	set	whether some entry was taken (by key); the depth of the thread's entry
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

/* Is the key a value of the program, and not the thread? */
static inline bool flights_by_key(const struct arch_flights *flights)
{
	return flights->match || flights->text;
}

/* ---- Entries (flight_entries.c) ------------------------------------------------------- */

/*
 * RIGHT = the thread's entry. Jumps to `missing` if the thread has no entry. A jump to `other`
 * continues the search behind RIGHT. If several processes share the table, SET = the depth before
 * the key was compared: an entry with the thread's key that had a depth above 0 cannot be taken by
 * another thread any more. (Before the compare, a signal handler may have made another thread's
 * entry this thread's. The handler left depth 0, so the caller reads the depth again.) An end event
 * skips entries at depth 0.
 */
void flight_find_own(struct form *f, const struct stub_plan *plan, int other, int missing);
/* RIGHT = the key's entry, taken. Jumps to `missing` if the key has no entry. */
void flight_take(struct form *f, const struct stub_plan *plan, int missing);
/*
 * RIGHT = a new entry for the key, taken. The hit is lost if no entry is free. Unless `own_entry`
 * is -1: jumps there with RIGHT = the thread's entry if a signal handler has made one meanwhile.
 */
void flight_claim(struct form *f, const struct stub_plan *plan, int own_entry);
/* Takes the thread's own entry at depth 0; jumps to `other` if another thread was faster. */
void flight_retake(struct form *f, const struct stub_plan *plan, int other);
/* Makes the entry at RIGHT, which is taken and complete, visible to searches. */
void flight_publish(struct form *f, const struct stub_plan *plan);
/* Frees the entry at RIGHT, which was taken by key; changes SCRATCH, NEXT, SPARE. */
void flight_free(struct form *f, const struct stub_plan *plan);

#endif
