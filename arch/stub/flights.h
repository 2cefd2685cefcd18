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
#pragma once

#include "arch/layout.h"
#include "arch/stub/plan.h"

#define FIELD(name) form_at(FORM_RIGHT, offsetof(struct probe_flight, name))

/* Is the key a value of the program, rather than the thread? */
static inline bool flights_by_key(const struct arch_flights *flights)
{
	return flights->match || flights->text;
}

/* ---- Entries (flight_entries.c) ------------------------------------------------------- */

/*
 * RIGHT = the thread's entry; jumps to `missing` if the thread has no entry. A jump to `other`
 * continues the search behind RIGHT. An end event skips entries at depth 0.
 *
 * If processes share the table, SET = the depth read before the key was compared: above 0, no other
 * thread can take the entry. (A signal handler may have given it to this thread just before, at
 * depth 0, so the caller reads the depth again.)
 */
void flight_find_own(struct form *f, const struct stub_plan *plan, int other, int missing);
/* RIGHT = the key's entry, taken; jumps to `missing` if the key has no entry. */
void flight_take(struct form *f, const struct stub_plan *plan, int missing);
/*
 * RIGHT = a new entry for the key, taken. Without a free entry the hit is lost. If a signal handler
 * has made the thread's entry, jumps to `own_entry` (-1: never) with that entry.
 */
void flight_claim(struct form *f, const struct stub_plan *plan, int own_entry);
/* Takes the thread's own entry at depth 0; jumps to `other` if another thread was faster. */
void flight_retake(struct form *f, const struct stub_plan *plan, int other);
/* Makes the taken, complete entry at RIGHT visible to searches. */
void flight_publish(struct form *f, const struct stub_plan *plan);
/* Frees the entry at RIGHT, taken by key; changes SCRATCH, NEXT, SPARE. */
void flight_free(struct form *f, const struct stub_plan *plan);
