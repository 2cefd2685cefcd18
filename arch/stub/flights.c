/* SPDX-License-Identifier: MIT */
/*
 * Pairs: the time between a begin and its end (struct probe_flight). What an entry holds: begins.c.
 *
 * By thread: an entry belongs to the thread whose thread pointer is its key, and only that
 * thread changes it. A signal handler may come in between. With rseq the sequence of a begin is
 * aborted then. Without rseq, a handler that balances its begins and ends does no harm, and
 * otherwise the depth is off only by its own begins: the time is stored before the depth counts
 * it, in case the handler never returns, and once more afterwards, because the handler may have
 * stored its own there. An end reads the time, and takes its begin off then or, if it needs more
 * of it, when the hit is done: it needs no sequence. Only a thread's first begin uses a locked
 * instruction.
 *
 * If forked children use the table as well, they have the same thread pointers and keys as their
 * parent. So a key is one of a process, which has a number: the word that holds it is wiped by
 * fork(2), and a thread that finds it zero takes the next number of those that share the table.
 * Processes come and go: if no entry is free, a thread takes one whose depth is 0, no matter whose
 * it is. So at depth 0 its owner, too, has to take it, with a locked instruction that compares
 * state and depth at once; above that only the owner changes it.
 *
 * By key: a thread that changes an entry takes it (state FLIGHT_TAKEN) with a locked
 * instruction, and gives it back. It does not wait for others but retries SPINS times, because
 * the owner may be the very thread that a signal interrupted. An entry is free again when nothing
 * of its key is under way, so a free one does not say that no later one has the key. The place
 * where a key belongs counts those that are in later ones, with locked instructions. That is rare,
 * and where it has not happened, nobody looks further: so keys that differ seldom meet in one cache
 * line. The count grows before a begin can be found, and shrinks after its entry is free: a thread
 * that dies in between leaves it too high, never too low.
 *
 * A text is a key by its hash. Its entry also has the text, which whoever takes the entry compares:
 * two texts with one hash have an entry each. Only whole texts are keys: one that was cut off, or
 * cannot be read, is lost.
 *
 * The order of memory: flight_entries.c.
 */
#include "arch/stub/flights.h"

enum { U32 = sizeof(uint32_t), U64 = sizeof(uint64_t) };

#define UNUSABLE (UINT32_C(1) << RING_STRING_TRUNCATED_BIT | UINT32_C(1) << RING_STRING_NULL_BIT)

/* ---- The key -------------------------------------------------------------------------- */

/* Puts the number of the process into its temporary; changes VALUE. */
static void load_process(struct form *f, const struct stub_plan *p)
{
	form_address(f, FORM_VALUE, p->stub->flights.process);
	form_load(f, FORM_VALUE, form_at(FORM_VALUE, 0), U32, false);
	form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, 0, p->number);
	form_place(f, p->numbered);
	form_store_part(f, FORM_VALUE, form_temp(p->process_temp), U32);
}

/* Of two threads that come here at once, one's number is not used. */
static void take_number(struct form *f, const struct stub_plan *p)
{
	form_place(f, p->number);
	form_address(f, FORM_RIGHT, p->stub->flights.processes);
	form_const(f, FORM_SCRATCH, 1);
	form_fetch_add(f, FORM_SCRATCH, form_at(FORM_RIGHT, 0), U32);
	form_sub_jump_if_const(f, false, FORM_SCRATCH, FORM_EQ, -1, p->number);
	form_address(f, FORM_RIGHT, p->stub->flights.process);
	form_const(f, FORM_VALUE, 0);
	form_cas(f, form_at(FORM_RIGHT, 0), U32, FORM_SCRATCH, FORM_NE, p->numbered);
	form_move(f, FORM_VALUE, FORM_SCRATCH);
	form_jump(f, p->numbered);
}

/* FROM = the key of the pair, POINTER = the table. */
static void load_key(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	if (s->flights.text) {
		form_jump_if_bits(
			f, form_temp(p->temp[s->flights.string] + 1), UNUSABLE, FORM_NE, p->lost);
		form_hash_text(f, p, s->flights.pair, s->flights.string);
		form_move(f, FORM_FROM, FORM_VALUE);
		form_store(f, FORM_FROM, form_temp(p->match_temp));
	} else if (s->flights.match) {
		form_expr(f, p, s->flights.match, p->lost);
		form_move(f, FORM_FROM, FORM_VALUE);
	} else if (s->thread.has_tp) {
		form_compute(f, FORM_FROM, form_at(FORM_THREAD, 0));
	} else {
		form_load(f, FORM_FROM, form_temp(p->tid_temp), U64, false);
	}
	if (s->flights.process)
		load_process(f, p);
	form_address(f, FORM_POINTER, s->flights.table);
}

/* ---- By thread ------------------------------------------------------------------------- */

/*
 * A dead thread may have left an entry to the thread that now has its thread pointer: what it
 * had begun will never end. If others may take the entry for that, jumps to `idle`.
 */
static void disown(struct form *f, const struct stub_plan *p, int idle)
{
	const struct arch_stub *s = p->stub;
	int same = form_label(f);

	if (!s->thread.has_tid)
		return;
	form_load(f, FORM_VALUE, form_at(FORM_THREAD, s->thread.tid_offset), U32, false);
	form_jump_if_at(f, U32, FORM_VALUE, FORM_EQ, FIELD(tid), same);
	form_store_const(f, FIELD(depth), U32, 0);
	if (s->flights.process)
		form_jump(f, idle);
	else
		form_store_part(f, FORM_VALUE, FIELD(tid), U32);
	form_place(f, same);
}

static bool begins_single(const struct stub_plan *p)
{
	return p->stub->flights.single && !p->stub->flights.gives;
}

/* The entry at RIGHT, which is taken, gets its first begin, and can be found. */
static void push_and_publish(struct form *f, const struct stub_plan *p)
{
	begin_keep_entry(f, p);
	if (begins_single(p))
		begin_single(f, p);
	else
		begin_push(f, p);
	flight_publish(f, p);
}

/*
 * No thread, and no signal handler, sees a new entry before the time is in it. So a handler may
 * have made another one for the thread. The innermost begin is always in the first of them: a
 * handler that comes after an entry was taken makes a later one, and the entry of a handler that
 * came before is found when one is taken. (Where processes share the table, others may free earlier
 * ones; but there an end goes by entries that have no begin.)
 */
static void begin_own(struct form *f, struct stub_plan *p)
{
	int missing = form_label(f), idle = form_label(f), push = form_label(f);
	int other = form_label(f), found = form_label(f);
	const struct sequence *q;

	flight_find_own(f, p, other, missing);
	form_place(f, found);
	if (p->stub->flights.process) {
		form_jump_if_const(f, false, FORM_SET, FORM_EQ, 0, idle);
		form_jump_if_at_const(f, U32, FIELD(depth), FORM_EQ, 0, idle);
	}
	disown(f, p, idle);
	if (p->stub->flights.gives)
		begin_forget_newest(f, p);
	begin_keep_entry(f, p);
	if (begins_single(p)) {
		begin_single(f, p);
	} else if (p->stub->thread.has_rseq) {
		q = form_sequence_begin(f, p, FORM_SET, p->slow_flight);
		begin_push(f, p);
		form_sequence_end(f, p, q);
	} else {
		begin_push_again(f, p);
	}
	form_place(f, p->timed);
	form_jump(f, p->out);
	form_place(f, idle);
	if (p->stub->flights.process) {
		flight_retake(f, p, other);
		form_jump(f, push);
	}
	form_place(f, missing);
	flight_claim(f, p, p->stub->flights.process ? -1 : found);
	form_place(f, push);
	push_and_publish(f, p);
}

static void end_own(struct form *f, const struct stub_plan *p)
{
	int other = form_label(f);

	flight_find_own(f, p, other, p->unmatched);
	if (p->stub->flights.process)
		form_jump_if_at_const(f, U32, FIELD(depth), FORM_EQ, 0, other);
	disown(f, p, p->unmatched);
	if (p->stub->flights.compares)
		begin_newest_same(f, p, p->unmatched);
	else
		begin_newest(f, p, p->unmatched, p->gone);
}

/* After an aborted sequence, RIGHT is still the entry, unless a begin was being kept. */
static void begin_again(struct form *f, const struct stub_plan *p)
{
	form_place(f, p->slow_flight);
	if (stub_keeps_begins(p->stub))
		form_load(f, FORM_RIGHT, form_temp(p->entry_temp), U64, false);
	begin_push_again(f, p);
	form_jump(f, p->timed);
}

/* ---- By key ---------------------------------------------------------------------------- */

static void begin_key(struct form *f, const struct stub_plan *p)
{
	int missing = form_label(f), push = form_label(f);

	flight_take(f, p, missing);
	form_jump(f, push);
	form_place(f, missing);
	flight_claim(f, p, -1);
	form_place(f, push);
	push_and_publish(f, p);
}

static void end_key(struct form *f, const struct stub_plan *p)
{
	int empty = form_label(f), found = form_label(f);

	flight_take(f, p, p->unmatched);
	begin_newest(f, p, empty, p->gone);
	form_jump(f, found);
	form_place(f, empty); /* the program overwrote it */
	flight_free(f, p);
	form_jump(f, p->unmatched);
	form_place(f, found);
}

/* ---- Both ------------------------------------------------------------------------------ */

/*
 * The begin in place SET of the entry at RIGHT has ended: the newest one, or the one that was found
 * by its identity. An entry that was taken by key is given back. Changes all registers but
 * VALUE, FROM and RIGHT. `empty`: there is no begin, because the program has overwritten it.
 */
static void give_back(struct form *f, const struct stub_plan *p, int empty)
{
	int more = form_label(f), done = form_label(f);

	begin_clear(f);
	if (p->stub->flights.single) {
		form_place(f, empty);
		return;
	}
	if (p->stub->flights.compares) {
		begin_uncount_ended(f, p);
		form_place(f, empty);
		return;
	}
	if (!flights_by_key(&p->stub->flights)) {
		begin_uncount(f);
		form_place(f, empty);
		return;
	}
	form_jump_if_at_const(f, U32, FIELD(depth), FORM_NE, 1, more);
	form_place(f, empty);
	flight_free(f, p);
	form_jump(f, done);
	form_place(f, more);
	begin_uncount(f);
	flight_publish(f, p);
	form_place(f, done);
}

static bool holds_begins(const struct stub_plan *p)
{
	return stub_keeps_begins(p->stub) && p->stub->kind != ARCH_STUB_BEGIN;
}

void form_hold_none(struct form *f, const struct stub_plan *p)
{
	if (holds_begins(p))
		form_store_const(f, form_temp(p->entry_temp), U64, 0);
}

void form_release(struct form *f, const struct stub_plan *p)
{
	int none = form_label(f), empty = form_label(f);

	if (!holds_begins(p))
		return;
	form_load(f, FORM_RIGHT, form_temp(p->entry_temp), U64, false);
	form_jump_if_const(f, true, FORM_RIGHT, FORM_EQ, 0, none);
	begin_found_place(f, p, empty);
	give_back(f, p, empty);
	form_place(f, none);
}

/* The end of a begin whose place another one has taken. */
static void end_gone(struct form *f, const struct stub_plan *p)
{
	if (p->stub->flights.compares)
		return; /* it is not looked at */
	form_place(f, p->gone);
	if (p->stub->flights.single) {
		form_jump(f, p->out);
		return;
	}
	give_back(f, p, form_label(f));
	form_jump(f, p->unmatched);
}

void form_flights_slow(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	if (!s->flights.table)
		return;
	if (s->flights.process)
		take_number(f, p);
	if (s->kind != ARCH_STUB_BEGIN)
		end_gone(f, p);
	else if (!flights_by_key(&s->flights) && s->thread.has_rseq && !begins_single(p))
		begin_again(f, p);
}

void form_begin(struct form *f, struct stub_plan *p)
{
	if (p->stub->flights.compares)
		form_identity(f, p);
	load_key(f, p);
	if (flights_by_key(&p->stub->flights))
		begin_key(f, p);
	else
		begin_own(f, p);
}

/* The duration in nanoseconds, of RIGHT ticks; a pair that does not pass leaves nothing. */
static void duration(struct form *f, const struct stub_plan *p)
{
	const struct arch_flights *flights = &p->stub->flights;

	if (p->has_duration) {
		form_const(f, FORM_VALUE, flights->scale);
		form_mul_high(f, 32);
		form_store(f, FORM_VALUE, form_temp(p->duration_temp));
	}
	if (p->has_duration && flights->min_ns) {
		form_const(f, FORM_RIGHT, flights->min_ns);
		form_jump_if(f, true, FORM_VALUE, FORM_BELOW, FORM_RIGHT, p->out);
	}
	begin_prepare(f, p);
	if (flights->filter)
		form_filter(f, p, flights->filter, p->out);
}

void form_end(struct form *f, struct stub_plan *p)
{
	int forward = form_label(f);

	form_now(f, p); /* first, to exclude our own time */
	form_store(f, FORM_VALUE, form_temp(p->time_temp));
	if (p->stub->flights.compares)
		form_identity(f, p);
	load_key(f, p);
	if (flights_by_key(&p->stub->flights))
		end_key(f, p);
	else
		end_own(f, p);
	if (holds_begins(p)) {
		begin_keep_entry(f, p);
		begin_note_kept(f, p);
	} else {
		give_back(f, p, form_label(f));
	}
	/* The clocks of two CPUs may differ by a few ticks. */
	form_load(f, FORM_RIGHT, form_temp(p->time_temp), U64, false);
	form_sub_jump_if(f, true, FORM_RIGHT, FORM_NOT_BELOW, FORM_VALUE, forward);
	form_const(f, FORM_RIGHT, 0);
	form_place(f, forward);
	form_store(f, FORM_RIGHT, form_temp(p->value_temp));
	duration(f, p);
}
