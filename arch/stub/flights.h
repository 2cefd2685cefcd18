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

/* Keeps the entry for begin_push(). */
void begin_keep_entry(struct form *f, const struct stub_plan *plan);

/*
 * Stores the time on top of the entry, and what is kept of the begin; the depth publishes it.
 * Changes all registers but RIGHT.
 */
void begin_push(struct form *f, const struct stub_plan *plan);

/* The same without a sequence: before the depth counts it, and once more. */
void begin_push_again(struct form *f, const struct stub_plan *plan);

/* The same for a pair that does not nest. */
void begin_single(struct form *f, const struct stub_plan *plan);

/*
 * VALUE = the time of the newest begin, which stays counted; SET = its place. Jumps to `gone` if
 * another begin has taken its place.
 */
void begin_newest(struct form *f, const struct stub_plan *plan, int empty, int gone);

/*
 * The same of the newest begin that has not ended and has our identity, or either is not known;
 * jumps to `none` if there is none. Changes SCRATCH, SPARE and SPARE_2.
 */
void begin_newest_same(struct form *f, const struct stub_plan *plan, int none);

/* SET = the place of the newest begin; jumps to `empty` if there is none. */
void begin_newest_place(struct form *f, const struct stub_plan *plan, int empty);
/* The newest begin, if there is one, will have no end. */
void begin_forget_newest(struct form *f, const struct stub_plan *plan);
/* The newest begin, in place SET, has ended: its time is gone; and it is not counted any more. */
void begin_clear(struct form *f);
void begin_uncount(struct form *f);
/*
 * Uncounts the newest begins that have ended, up to one that has not. Changes NEXT, SPARE, SPARE_2
 * and SET.
 */
void begin_uncount_ended(struct form *f, const struct stub_plan *plan);

/* SET = the place of the begin that an end has found; may jump to `empty` if there is none. */
void begin_found_place(struct form *f, const struct stub_plan *plan, int empty);

/*
 * Notes the place of the begin that was found, where it is kept, and its time, which is in VALUE;
 * changes SCRATCH.
 */
void begin_note_kept(struct form *f, const struct stub_plan *plan);

/* Once that is noted: prepares the captures that are the begin's. */
void begin_prepare(struct form *f, const struct stub_plan *plan);

#endif
