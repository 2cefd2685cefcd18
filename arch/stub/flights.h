/* SPDX-License-Identifier: MIT */
/*
 * The table of flights. A flight is an open pair (flights.c); flight_entries.c handles the entries
 * of the table. The functions use registers as follows:
 *
 *	from	the key
 *	pointer	the table
 *	right	the current entry, number `spare`
 *	spare_2	the number of entries still to look at
 *	next	by key: the number of searches left
 *	set	by key: whether some entry was taken; by thread: the depth of the thread's entry
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

/* Returns true if the key is a value of the program; false if the key is the thread. */
static inline bool flights_by_key(const struct arch_flights *flights)
{
	return flights->match || flights->text;
}

/* ---- Entries (flight_entries.c) ------------------------------------------------------- */

/*
 * RIGHT = the thread's entry. Jumps to `missing` if the thread has no entry. A jump to `other`
 * continues the search after RIGHT. An end event skips entries at depth 0.
 *
 * If several processes share the table, SET = the depth that was read before the key was compared.
 * If SET is above 0, no other thread can take the entry any more. If SET is 0, another thread may
 * take the entry. (Before the compare, a signal handler may have given another thread's entry to
 * this thread. The handler leaves depth 0 in it, so the caller reads the depth again.)
 */
void flight_find_own(struct form *f, const struct stub_plan *plan, int other, int missing);
/* RIGHT = the key's entry, taken. Jumps to `missing` if the key has no entry. */
void flight_take(struct form *f, const struct stub_plan *plan, int missing);
/*
 * RIGHT = a new entry for the key, taken. The hit is lost if no entry is free. If a signal handler
 * has meanwhile made an entry for the thread, jumps to `own_entry` with RIGHT = that entry;
 * `own_entry` is -1 if the caller need not know.
 */
void flight_claim(struct form *f, const struct stub_plan *plan, int own_entry);
/* Takes the thread's own entry at depth 0; jumps to `other` if another thread was faster. */
void flight_retake(struct form *f, const struct stub_plan *plan, int other);
/* Makes the entry at RIGHT, which is taken and complete, visible to searches. */
void flight_publish(struct form *f, const struct stub_plan *plan);
/* Frees the entry at RIGHT, which was taken by key; changes SCRATCH, NEXT, SPARE. */
void flight_free(struct form *f, const struct stub_plan *plan);

#endif
