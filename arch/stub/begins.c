/* SPDX-License-Identifier: MIT */
/*
 * The begins that an entry of the table holds (struct probe_flight): a stack of times, and next to
 * each of them what the end needs of the begin (struct probe_begun): arguments that its
 * expressions ask for, and, if it leaves a record (a span), what the begin has captured.
 *
 * The latter is a record as a ring would have it (record.c). What is kept is written where the next
 * begin belongs, and the depth publishes it. Without a sequence a signal handler may use the same
 * place before that, so it is written once more afterwards: before, in case the handler never
 * returns, and after, because the handler may have written there.
 *
 * A begin whose end never comes stays on the stack of times: the program has left it by longjmp(3),
 * as PostgreSQL leaves a query that fails. So the stack is a ring, which never fills up with these:
 * a begin takes the place of the oldest one. An end clears the time of its begin. So an end whose
 * begin has lost its place finds no time there: whatever took the place has ended before.
 *
 * An end may have to find the begin of its own identity (arch_flights.compares): fibers, coroutines
 * and functions that were left by a jump leave begins on the stack that are newer. The begin that
 * is found is in the middle then, so nothing is uncounted but its time is cleared. What has ended
 * is uncounted when all that is newer has ended, too: the newest begin that is counted is open.
 *
 * A pair that does not nest (arch_flights.single) has its begin in the newest place. If its
 * arguments come from another probe, a hit of that probe makes the place, without a time, and the
 * begin only sets the time. A begin does that without a sequence: a signal handler that begins in
 * between has ended by then, and the time is set again.
 *
 * An end that needs what its begin has kept holds the begin until the hit is done: it is still
 * counted, and nobody else writes there (except signal handlers that begin as much as there is room
 * for, all at once). If entries are found by key, the whole entry stays taken meanwhile.
 */
#include "arch/stub/flights.h"

enum { U32 = sizeof(uint32_t), U64 = sizeof(uint64_t) };

/* ---- Places ------------------------------------------------------------------------- */

/* Where the first begin is kept in an entry. */
static int32_t kept_offset(const struct stub_plan *p)
{
	const struct arch_flights *flights = &p->stub->flights;

	return (int32_t)(sizeof(struct probe_flight) +
			 (flights->identities ? 16 : 8) * flights->depth);
}

/* The time of the begin in place SET. */
static struct form_mem time_of_begin(void)
{
	struct form_mem time = FIELD(times);

	time.index = FORM_SET;
	time.scale = sizeof(uint64_t);
	return time;
}

/* The identity of the begin in place SET. */
static struct form_mem identity_of_begin(const struct stub_plan *p)
{
	struct form_mem identity = time_of_begin();

	identity.disp += (int32_t)(8 * p->stub->flights.depth);
	return identity;
}

/* Stores our identity as that of the begin in place SET, if identities are compared. */
static void keep_identity(struct form *f, const struct stub_plan *p)
{
	if (!p->stub->flights.compares)
		return;
	form_load(f, FORM_SCRATCH, form_temp(p->same_temp), U64, false);
	form_store(f, FORM_SCRATCH, identity_of_begin(p));
}

/* a = where the begin in place SET is kept, plus `offset`. */
static void kept_address(
	struct form *f, const struct stub_plan *p, int a, int scratch, int32_t offset)
{
	form_multiply(f, scratch, FORM_SET, (int32_t)p->stub->flights.keep);
	form_compute(f, a, form_indexed(FORM_RIGHT, scratch, kept_offset(p) + offset));
}

void begin_keep_entry(struct form *f, const struct stub_plan *p)
{
	if (stub_keeps_begins(p->stub))
		form_store(f, FORM_RIGHT, form_temp(p->entry_temp));
}

/* ---- Arguments for expressions of the end ------------------------------------------- */

/* A word in what is kept; RECORD is at the record, if there is one, else at the start. */
static struct form_mem kept_word(const struct stub_plan *p, uint32_t offset)
{
	return form_at(FORM_RECORD, (int32_t)(offset - p->stub->flights.record));
}

/* At most as many bytes as there is room for. */
static void keep_string(struct form *f, const struct stub_plan *p, const struct arch_kept *k)
{
	int temp = p->temp[k->capture], fits = form_label(f);

	form_load(f, FORM_VALUE, form_temp(temp + 1), U64, false);
	form_extend(f, FORM_SCRATCH, FORM_VALUE, U32, false);
	form_two_const(f, FORM_AND, false, FORM_SCRATCH, RING_STRING_LENGTH);
	form_jump_if_const(f, false, FORM_SCRATCH, FORM_NOT_ABOVE, k->bytes, fits);
	form_const(f, FORM_VALUE, k->bytes | UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	form_const(f, FORM_SCRATCH, k->bytes);
	form_place(f, fits);
	form_store(f, FORM_VALUE, kept_word(p, k->offset));
	form_load(f, FORM_FROM, form_temp(temp), U64, false);
	form_compute(f, FORM_OUT, kept_word(p, k->offset + 8));
	form_copy(f);
}

static void keep_number(struct form *f, const struct stub_plan *p, const struct arch_kept *k)
{
	const struct arch_capture *c = &p->stub->captures[k->capture];
	uint32_t readable = UINT32_C(1) << k->capture;
	int written = form_label(f);

	form_store_const(f, kept_word(p, k->offset), U64, 0);
	if (p->checked & readable) {
		form_jump_if_bits(f, form_temp(p->mask_temp), readable, FORM_NE, written);
		form_const(f, FORM_VALUE, UINT64_C(1) << RING_STRING_NULL_BIT);
		form_store(f, FORM_VALUE, kept_word(p, k->offset));
	}
	form_place(f, written);
	form_captured(f, FORM_VALUE, p, k->capture);
	/* What is in a vector register was not extended. */
	if (c->arg.kind == ARCH_ARG_FP_REGISTER && c->arg.size == 4 && c->arg.is_signed)
		form_extend(f, FORM_VALUE, FORM_VALUE, U32, true);
	form_store(f, FORM_VALUE, kept_word(p, k->offset + 8));
}

/* Only its word: nobody reads what follows. */
static void keep_null(struct form *f, const struct stub_plan *p, const struct arch_kept *k)
{
	form_const(f, FORM_VALUE, UINT64_C(1) << RING_STRING_NULL_BIT);
	form_store(f, FORM_VALUE, kept_word(p, k->offset));
}

static void keep_arguments(struct form *f, const struct stub_plan *p)
{
	const struct arch_flights *flights = &p->stub->flights;

	for (int i = 0; i < flights->kept_count; i++) {
		if (flights->takes)
			keep_null(f, p, &flights->kept[i]);
		else if (flights->kept[i].bytes)
			keep_string(f, p, &flights->kept[i]);
		else
			keep_number(f, p, &flights->kept[i]);
	}
}

void begin_prepare(struct form *f, const struct stub_plan *p)
{
	for (int i = 0; i < p->stub->capture_count; i++) {
		const struct arch_capture *c = &p->stub->captures[i];

		if (!c->begun || !c->is_string)
			continue;
		form_load(f, FORM_SCRATCH, form_temp(p->kept_temp), U64, false);
		form_load(f, FORM_VALUE, form_at(FORM_SCRATCH, c->begun), U64, false);
		form_compute(f, FORM_POINTER, form_at(FORM_SCRATCH, c->begun + 8));
		form_store(f, FORM_POINTER, form_temp(p->temp[i]));
		form_store(f, FORM_VALUE, form_temp(p->temp[i] + 1));
		/* The program may have overwritten it. */
		form_two_const(f, FORM_AND, false, FORM_VALUE, RING_STRING_LENGTH);
		form_jump_if_const(
			f, false, FORM_VALUE, FORM_ABOVE, (int32_t)c->bytes_max, p->lost);
	}
}

/* ---- Begins ------------------------------------------------------------------------- */

/*
 * Writes number SET of what the entry at RIGHT keeps, a record with no time until it is whole;
 * VALUE = the time. Changes all registers but SET and RECORD, where the record is.
 *
 * An end that copies what is kept knows by the time that nobody has written there meanwhile. So
 * each time in a place is later than the one before. The clock alone does not see to that: in a
 * virtual machine it moves in steps of up to 80 ticks, and a processor reads it ahead. Both are
 * written by the thread that has the entry, or by its signal handlers, so they are in order for it.
 */
static void keep_record(struct form *f, const struct stub_plan *p)
{
	struct form_mem time = form_at(FORM_RECORD, offsetof(struct ring_record, time));
	int later = form_label(f);

	form_load(f, FORM_VALUE, time, U64, false);
	form_store(f, FORM_VALUE, form_temp(p->last_temp));
	form_store_const(f, time, U64, 0);
	keep_arguments(f, p);
	form_record_body(f, p);
	form_two(f, FORM_SUB, true, FORM_OUT, FORM_RECORD);
	form_store_part(f, FORM_OUT, kept_word(p, offsetof(struct probe_begun, bytes)), U32);
	if (p->stub->flights.gives)
		return;
	form_now(f, p);
	form_load(f, FORM_SCRATCH, form_temp(p->last_temp), U64, false);
	form_jump_if(f, true, FORM_VALUE, FORM_ABOVE, FORM_SCRATCH, later);
	form_compute(f, FORM_VALUE, form_at(FORM_SCRATCH, 1));
	form_place(f, later);
	form_store(f, FORM_VALUE, time);
}

/*
 * VALUE = the time of the begin in place SET of the entry at RIGHT; stores its identity, and what
 * is kept of it.
 */
static void keep_begin(struct form *f, const struct stub_plan *p)
{
	bool keeps = stub_keeps_begins(p->stub);

	keep_identity(f, p);
	if (keeps)
		kept_address(f, p, FORM_RECORD, FORM_VALUE, (int32_t)p->stub->flights.record);
	if (keeps && stub_has_spans(p->stub)) {
		keep_record(f, p);
	} else {
		if (keeps)
			keep_arguments(f, p);
		if (!p->stub->flights.gives)
			form_now(f, p);
	}
	if (p->stub->flights.gives)
		form_const(f, FORM_VALUE, 0);
	if (keeps)
		form_load(f, FORM_RIGHT, form_temp(p->entry_temp), U64, false);
}

/* SET = the place of the next begin. */
static void next_place(struct form *f, const struct stub_plan *p)
{
	form_load(f, FORM_SET, FIELD(depth), U32, false);
	form_two_const(f, FORM_AND, false, FORM_SET, (int32_t)p->stub->flights.depth - 1);
}

static void push(struct form *f, const struct stub_plan *p, enum form_op count)
{
	next_place(f, p);
	keep_begin(f, p);
	form_store(f, FORM_VALUE, time_of_begin());
	form_add_const_to(f, count, FIELD(depth), U32, 1);
}

void begin_push(struct form *f, const struct stub_plan *p)
{
	push(f, p, FORM_PUBLISH_ADD);
}

void begin_push_again(struct form *f, const struct stub_plan *p)
{
	int once_more = form_label(f), done = form_label(f);

	if (!stub_keeps_begins(p->stub)) {
		push(f, p, FORM_PUBLISH_ADD_WHOLE);
		form_store(f, FORM_VALUE, time_of_begin());
		keep_identity(f, p);
		return;
	}
	next_place(f, p);
	form_store_const(f, form_temp(p->pass_temp), U32, 0);
	form_place(f, once_more);
	keep_begin(f, p);
	form_store(f, FORM_VALUE, time_of_begin());
	form_jump_if_at_const(f, U32, form_temp(p->pass_temp), FORM_NE, 0, done);
	form_add_const_to(f, FORM_PUBLISH_ADD_WHOLE, FIELD(depth), U32, 1);
	form_store_const(f, form_temp(p->pass_temp), U32, 1);
	form_jump(f, once_more);
	form_place(f, done);
}

/* The time of a begin whose arguments are in place SET already; VALUE = the time. */
static void keep_time(struct form *f, const struct stub_plan *p)
{
	form_now(f, p);
	if (!stub_has_spans(p->stub))
		return;
	form_store(f, FORM_VALUE, form_temp(p->last_temp));
	kept_address(f, p, FORM_RECORD, FORM_SCRATCH, (int32_t)p->stub->flights.record);
	form_store_const(f, form_at(FORM_RECORD, offsetof(struct ring_record, tid)), U32,
		(int32_t)p->stub->site);
	form_load(f, FORM_VALUE, form_temp(p->last_temp), U64, false);
	form_store(f, FORM_VALUE, form_at(FORM_RECORD, offsetof(struct ring_record, time)));
	form_load(f, FORM_RIGHT, form_temp(p->entry_temp), U64, false);
}

void begin_single(struct form *f, const struct stub_plan *p)
{
	int first = form_label(f), timed = form_label(f), counted = form_label(f);

	begin_newest_place(f, p, first);
	if (p->stub->flights.takes) {
		keep_time(f, p);
		form_jump(f, timed);
	}
	form_place(f, first);
	keep_begin(f, p);
	form_place(f, timed);
	form_store(f, FORM_VALUE, time_of_begin());
	form_jump_if_at_const(f, U32, FIELD(depth), FORM_NE, 0, counted);
	form_publish_const(f, FIELD(depth), U32, 1);
	form_place(f, counted);
}

void begin_newest_place(struct form *f, const struct stub_plan *p, int empty)
{
	form_load(f, FORM_SET, FIELD(depth), U32, false);
	form_jump_if_const(f, false, FORM_SET, FORM_EQ, 0, empty);
	form_two_const(f, FORM_SUB, false, FORM_SET, 1);
	form_two_const(f, FORM_AND, false, FORM_SET, (int32_t)p->stub->flights.depth - 1);
}

void begin_newest(struct form *f, const struct stub_plan *p, int empty, int gone)
{
	begin_newest_place(f, p, empty);
	form_load(f, FORM_VALUE, time_of_begin(), U64, false);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, gone);
}

void begin_newest_same(struct form *f, const struct stub_plan *p, int none)
{
	int32_t depth = (int32_t)p->stub->flights.depth;
	int next = form_label(f), older = form_label(f), found = form_label(f);

	form_load(f, FORM_SPARE, FIELD(depth), U32, false);
	form_load(f, FORM_SCRATCH, form_temp(p->same_temp), U64, false);
	form_const(f, FORM_SPARE_2, (uint64_t)depth);
	form_place(f, next);
	form_jump_if_const(f, false, FORM_SPARE, FORM_EQ, 0, none);
	form_two_const(f, FORM_SUB, false, FORM_SPARE, 1);
	form_move(f, FORM_SET, FORM_SPARE);
	form_two_const(f, FORM_AND, false, FORM_SET, depth - 1);
	form_load(f, FORM_VALUE, time_of_begin(), U64, false);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, older);
	form_jump_if_at(f, U64, FORM_SCRATCH, FORM_EQ, identity_of_begin(p), found);
	form_jump_if_const(f, true, FORM_SCRATCH, FORM_EQ, 0, found);
	form_jump_if_at_const(f, U64, identity_of_begin(p), FORM_EQ, 0, found);
	form_place(f, older);
	form_sub_jump_if_const(f, false, FORM_SPARE_2, FORM_NE, 1, next);
	form_jump(f, none);
	form_place(f, found);
}

/*
 * A signal handler that ends something in between uncounts what has ended here, too. So this is
 * a compare and swap, which starts again if the depth has changed.
 */
void begin_uncount_ended(struct form *f, const struct stub_plan *p)
{
	int32_t depth = (int32_t)p->stub->flights.depth;
	int again = form_label(f), next = form_label(f), last = form_label(f), done = form_label(f);

	form_move(f, FORM_SPARE_2, FORM_VALUE);
	form_place(f, again);
	form_load(f, FORM_VALUE, FIELD(depth), U32, false);
	form_move(f, FORM_SPARE, FORM_VALUE);
	form_const(f, FORM_NEXT, (uint64_t)depth);
	form_place(f, next);
	form_jump_if_const(f, false, FORM_SPARE, FORM_EQ, 0, last);
	form_compute(f, FORM_SET, form_at(FORM_SPARE, -1));
	form_two_const(f, FORM_AND, false, FORM_SET, depth - 1);
	form_jump_if_at_const(f, U64, time_of_begin(), FORM_NE, 0, last);
	form_two_const(f, FORM_SUB, false, FORM_SPARE, 1);
	form_sub_jump_if_const(f, false, FORM_NEXT, FORM_NE, 1, next);
	form_const(f, FORM_SPARE, 0); /* all that have a place have ended */
	form_place(f, last);
	form_jump_if(f, false, FORM_SPARE, FORM_EQ, FORM_VALUE, done);
	form_cas(f, FIELD(depth), U32, FORM_SPARE, FORM_NE, again);
	form_place(f, done);
	form_move(f, FORM_VALUE, FORM_SPARE_2);
}

void begin_clear(struct form *f)
{
	form_store_const(f, time_of_begin(), U64, 0);
}

void begin_forget_newest(struct form *f, const struct stub_plan *p)
{
	int none = form_label(f);

	begin_newest_place(f, p, none);
	begin_clear(f);
	form_place(f, none);
}

void begin_uncount(struct form *f)
{
	form_add_const_to(f, FORM_PUBLISH_ADD_WHOLE, FIELD(depth), U32, -1);
}

void begin_found_place(struct form *f, const struct stub_plan *p, int empty)
{
	if (p->stub->flights.compares)
		form_load(f, FORM_SET, form_temp(p->place_temp), U64, false);
	else
		begin_newest_place(f, p, empty);
}

void begin_note_kept(struct form *f, const struct stub_plan *p)
{
	if (p->stub->flights.compares)
		form_store(f, FORM_SET, form_temp(p->place_temp));
	if (stub_has_spans(p->stub))
		form_store(f, FORM_VALUE, form_temp(p->begin_temp));
	kept_address(f, p, FORM_SCRATCH, FORM_SCRATCH, 0);
	form_store(f, FORM_SCRATCH, form_temp(p->kept_temp));
}
