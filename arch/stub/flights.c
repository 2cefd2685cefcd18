/* SPDX-License-Identifier: MIT */
/*
 * Pairs: the time between a start and an end event (struct probe_flight), called start and end
 * below. An entry of the table is found by the thread or by a key.
 *
 * By thread: only the thread whose thread pointer is the key changes the entry. A signal handler
 * may interrupt that. With rseq, it aborts the sequence of the start. Without rseq, a handler with
 * balanced starts and ends does no harm, and after any other the depth is off by the handler's own
 * starts only. Therefore the time is stored twice: before the depth counts the start, in case the
 * handler does not return, and afterwards, because it may have used the same place. An end reads
 * the time, and lowers the depth at once or, if the hit needs the start's data, when it is done,
 * without a sequence. Only a thread's first start has a locked instruction.
 *
 * If forked children use the table, their threads have their parent's keys, so a key includes a
 * process's number. fork(2) clears its word; a thread that finds 0 takes the next number from a
 * shared counter. Processes come and go: without a free entry, a thread takes one at depth 0. So at
 * depth 0 the owner, too, must take its entry, by a locked instruction on state and depth. Above,
 * only the owner changes it.
 *
 * By key: a thread takes an entry (state FLIGHT_TAKEN) by a locked instruction, and then gives it
 * back. If the entry is already taken, the thread retries SPINS times without waiting, because the
 * owner may be itself, interrupted by a signal. An entry is freed with its key's last open pair. A
 * free entry does not end a search: a later one may have the key. A key's home, the entry its hash
 * leads to, counts keys in later entries (`away`); this is rare. If it is 0, a search ends there,
 * so keys seldom share a cache line. It is raised before a start can be found, and lowered after
 * its entry is free: a thread that dies in between leaves it too high, never too low.
 *
 * A text is found by its hash, and compared by the thread that takes the entry. A hit is lost if
 * its text was cut off or unreadable.
 *
 * flight_entries.c describes the memory order.
 */

#include "arch/stub/flights.h"

/* ==== Start events ============================================================================ */

/*
 * The start events (starts) in an entry (struct probe_flight): a stack of times, each with data for
 * the end (struct probe_begun): arguments for its expressions and, for a span, the start's record,
 * as in a ring (record.c).
 *
 * A start writes its data to the next place, then raises the depth, which publishes it. Without a
 * sequence, a signal handler may use the place before, so the data is written twice: before, in
 * case the handler does not return, and afterwards.
 *
 * A start without an end stays on the stack, as when the program leaves by longjmp(3) (PostgreSQL,
 * when a query fails). So the stack is a ring: a start takes the place of the oldest. An end clears
 * its start's time: if a newer start took the place, it has ended before, and the end finds no
 * time.
 *
 * With identities (arch_flights.compares), an end looks for its own identity's start. Fibers,
 * coroutines and jumps leave newer starts on the stack: then the end only clears the time, and the
 * depth counts its start until all newer ones have ended, so that the newest one counted is open.
 *
 * A pair that does not nest (arch_flights.single) has its start in the newest place. If another
 * probe gives its arguments, that probe's hit stores them there without a time, which the start
 * sets, without a sequence: a handler's start has ended when the handler returns.
 *
 * An end that uses its start's data holds the start until the hit is done: the depth counts it, and
 * nobody writes to its place (except signal handlers with as many open starts as places). By key,
 * the whole entry stays taken.
 */

enum { U32 = sizeof(uint32_t), U64 = sizeof(uint64_t) };

/* The times of marks of tail calls: the other function was entered, or was jumped to. */
enum { TAIL_ENTERED = 1, TAIL_JUMPED };

/* ---- Places of start events --------------------------------------------------------- */

/* The offset in an entry of place 0's data. */
static int32_t kept_offset(const struct stub_plan *p)
{
	const struct arch_flights *flights = &p->at->action->flights;

	return (int32_t)(sizeof(struct probe_flight) +
			 (flights->identities ? 16 : 8) * flights->depth);
}

static struct form_mem time_of_begin(void)
{
	struct form_mem time = FIELD(times);

	time.index = FORM_SET;
	time.scale = sizeof(uint64_t);
	return time;
}

static struct form_mem identity_of_begin(const struct stub_plan *p)
{
	struct form_mem identity = time_of_begin();

	identity.disp += (int32_t)(8 * p->at->action->flights.depth);
	return identity;
}

/* If identities are compared, stores the identity of this hit for the start event in place SET. */
static void keep_identity(struct form *f, const struct stub_plan *p)
{
	if (!p->at->action->flights.compares)
		return;
	form_load(f, FORM_SCRATCH, form_temp(p->at->same_temp), U64, false);
	form_store(f, FORM_SCRATCH, identity_of_begin(p));
}

/* a = the data of the start event in place SET, plus `offset`. */
static void kept_address(
	struct form *f, const struct stub_plan *p, int a, int scratch, int32_t offset)
{
	form_multiply(f, scratch, FORM_SET, (int32_t)p->at->action->flights.keep);
	form_compute(f, a, form_indexed(FORM_RIGHT, scratch, kept_offset(p) + offset));
}

/* Saves the entry's address for begin_push(). */
static void begin_keep_entry(struct form *f, const struct stub_plan *p)
{
	if (action_keeps_begins(p->at->action))
		form_store(f, FORM_RIGHT, form_temp(p->at->entry_temp));
}

/* ---- Arguments for expressions of the end event ------------------------------------- */

/* Returns a word of a start event's data. FORM_RECORD must point to the record or to the data. */
static struct form_mem kept_word(const struct stub_plan *p, uint32_t offset)
{
	return form_at(FORM_RECORD, (int32_t)(offset - p->at->action->flights.record));
}

/* Keeps a string, cut off if there is too little space. */
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
	/* A float of a vector register is not sign-extended yet. */
	if (c->arg.kind == ARCH_ARG_FP_REGISTER && c->arg.size == 4 && c->arg.is_signed)
		form_extend(f, FORM_VALUE, FORM_VALUE, U32, true);
	form_store(f, FORM_VALUE, kept_word(p, k->offset + 8));
}

static void keep_arguments(struct form *f, const struct stub_plan *p)
{
	const struct arch_flights *flights = &p->at->action->flights;

	for (int i = 0; i < flights->kept_count; i++) {
		if (flights->takes) {
			/* Mark the argument as unreadable; its bytes are not read. */
			form_const(f, FORM_VALUE, UINT64_C(1) << RING_STRING_NULL_BIT);
			form_store(f, FORM_VALUE, kept_word(p, flights->kept[i].offset));
		} else if (flights->kept[i].bytes)
			keep_string(f, p, &flights->kept[i]);
		else
			keep_number(f, p, &flights->kept[i]);
	}
}

/* ---- Writing start events ----------------------------------------------------------- */

/*
 * Writes the start event's data with a record to place SET of the entry at RIGHT; VALUE = the time.
 * The record has no time until it is complete. Keeps SET and RECORD, the record's address.
 *
 * An end event that copies it sees from its time whether it was overwritten, so times in a place
 * must grow. The clock alone does not: in a virtual machine it moves in steps of up to 80 ticks,
 * and may be read early. Both are written by the thread that has the entry, or its signal handlers,
 * so it sees them in order.
 */
static void keep_record(struct form *f, const struct stub_plan *p)
{
	struct form_mem time = form_at(FORM_RECORD, offsetof(struct ring_record, time));
	int later = form_label(f);

	form_load(f, FORM_VALUE, time, U64, false);
	form_store(f, FORM_VALUE, form_temp(p->at->last_temp));
	form_store_const(f, time, U64, 0);
	keep_arguments(f, p);
	form_record_body(f, p);
	form_two(f, FORM_SUB, true, FORM_OUT, FORM_RECORD);
	form_memory(
		f, FORM_STORE, FORM_OUT, kept_word(p, offsetof(struct probe_begun, bytes)), U32);
	if (p->at->action->flights.gives)
		return;
	form_now(f, p);
	form_load(f, FORM_SCRATCH, form_temp(p->at->last_temp), U64, false);
	form_jump_if(f, true, FORM_VALUE, FORM_ABOVE, FORM_SCRATCH, later);
	form_compute(f, FORM_VALUE, form_at(FORM_SCRATCH, 1));
	form_place(f, later);
	form_store(f, FORM_VALUE, time);
}

/*
 * Counts a mark of a tail call, or one less. One that loses its place to a mark of another function
 * stays counted. Changes VALUE.
 */
static void count_mark(struct form *f, const struct stub_plan *p, int32_t change)
{
	form_address(f, FORM_VALUE, p->at->action->flights.marks);
	form_memory_const(f, FORM_COUNT_SHARED, form_at(FORM_VALUE, 0), U32, change);
}

/* Stores identity and data of a start event at time VALUE in place SET of the entry at RIGHT. */
static void keep_begin(struct form *f, const struct stub_plan *p)
{
	const struct arch_flights *flights = &p->at->action->flights;
	bool keeps = action_keeps_begins(p->at->action),
	     has_time = !flights->gives && !flights->marks;

	keep_identity(f, p);
	if (keeps)
		kept_address(f, p, FORM_RECORD, FORM_VALUE, (int32_t)flights->record);
	if (keeps && action_has_spans(p->at->action)) {
		keep_record(f, p);
	} else {
		if (keeps)
			keep_arguments(f, p);
		if (has_time)
			form_now(f, p);
	}
	if (!has_time)
		form_const(f, FORM_VALUE, flights->marks ? TAIL_JUMPED : 0);
	if (keeps)
		form_load(f, FORM_RIGHT, form_temp(p->at->entry_temp), U64, false);
}

/* SET = the place of the next start event. */
static void next_place(struct form *f, const struct stub_plan *p)
{
	form_load(f, FORM_SET, FIELD(depth), U32, false);
	form_two_const(f, FORM_AND, false, FORM_SET, (int32_t)p->at->action->flights.depth - 1);
}

/*
 * Pushes a start event on the entry at RIGHT: stores data and time, then publishes them by the
 * depth, which the operation `count` raises. Keeps only RIGHT.
 */
static void begin_push(struct form *f, const struct stub_plan *p, enum form_op count)
{
	next_place(f, p);
	keep_begin(f, p);
	form_store(f, FORM_VALUE, time_of_begin());
	form_memory_const(f, count, FIELD(depth), U32, 1);
}

/*
 * Like begin_push() without a sequence: writes time and data before it raises the depth, and again
 * afterwards.
 */
static void begin_push_again(struct form *f, const struct stub_plan *p)
{
	int once_more = form_label(f), done = form_label(f);

	if (!action_keeps_begins(p->at->action)) {
		begin_push(f, p, FORM_PUBLISH_ADD_WHOLE);
		form_store(f, FORM_VALUE, time_of_begin());
		keep_identity(f, p);
		return;
	}
	next_place(f, p);
	form_store_const(f, form_temp(p->at->pass_temp), U32, 0);
	form_place(f, once_more);
	keep_begin(f, p);
	form_store(f, FORM_VALUE, time_of_begin());
	form_jump_if_at_const(f, U32, form_temp(p->at->pass_temp), FORM_NE, 0, done);
	form_memory_const(f, FORM_PUBLISH_ADD_WHOLE, FIELD(depth), U32, 1);
	form_store_const(f, form_temp(p->at->pass_temp), U32, 1);
	form_jump(f, once_more);
	form_place(f, done);
}

static void begin_newest_place(struct form *f, const struct stub_plan *p, int empty);

/*
 * Before a function's start event: counts one as unmatched that will lose its place, and a mark as
 * lost, whose return may yet come. If the newest start event has the same frame, the program has
 * left that call without an end event, and its place is used again. (At depth 0, other threads
 * could take the entry.) Otherwise the oldest may be replaced. Changes VALUE, SCRATCH and SET.
 */
static void begin_replace(struct form *f, const struct stub_plan *p)
{
	int next = form_label(f), left = form_label(f);
	int count = form_label(f), counted = form_label(f);
	bool marks = p->at->action->flights.marks;

	begin_newest_place(f, p, next);
	form_load(f, FORM_SCRATCH, form_temp(p->at->same_temp), U64, false);
	form_jump_if_at(f, U64, FORM_SCRATCH, FORM_NE, identity_of_begin(p), next);
	form_jump_if_at_const(f, U64, time_of_begin(), FORM_EQ, 0, next);
	form_store_const(f, time_of_begin(), U64, 0);
	form_jump_if_at_const(f, U32, FIELD(depth), FORM_EQ, 1, left);
	form_memory_const(f, FORM_PUBLISH_ADD_WHOLE, FIELD(depth), U32, -1);
	form_place(f, left);
	if (marks)
		count_mark(f, p, -1);
	form_jump(f, marks ? counted : count);
	form_place(f, next);
	next_place(f, p);
	form_jump_if_at_const(f, U64, time_of_begin(), FORM_EQ, 0, counted);
	form_place(f, count);
	form_shared_inc(f, p,
		marks ? offsetof(struct probe_slot, lost) : offsetof(struct probe_slot, unmatched));
	form_place(f, counted);
}

/* Sets the time VALUE of a start event whose arguments another probe has stored in place SET. */
static void keep_time(struct form *f, const struct stub_plan *p)
{
	form_now(f, p);
	if (!action_has_spans(p->at->action))
		return;
	form_store(f, FORM_VALUE, form_temp(p->at->last_temp));
	kept_address(f, p, FORM_RECORD, FORM_SCRATCH, (int32_t)p->at->action->flights.record);
	form_store_const(f, form_at(FORM_RECORD, offsetof(struct ring_record, tid)), U32,
		(int32_t)p->stub->site);
	form_load(f, FORM_VALUE, form_temp(p->at->last_temp), U64, false);
	form_store(f, FORM_VALUE, form_at(FORM_RECORD, offsetof(struct ring_record, time)));
	form_load(f, FORM_RIGHT, form_temp(p->at->entry_temp), U64, false);
}

/* Like begin_push(), for a pair that does not nest. */
static void begin_single(struct form *f, const struct stub_plan *p)
{
	int first = form_label(f), timed = form_label(f), counted = form_label(f);

	begin_newest_place(f, p, first);
	if (p->at->action->flights.takes) {
		keep_time(f, p);
		form_jump(f, timed);
	}
	form_place(f, first);
	keep_begin(f, p);
	form_place(f, timed);
	form_store(f, FORM_VALUE, time_of_begin());
	form_jump_if_at_const(f, U32, FIELD(depth), FORM_NE, 0, counted);
	form_memory_const(f, FORM_PUBLISH, FIELD(depth), U32, 1);
	form_place(f, counted);
}

/* SET = the newest start event's place; jumps to `empty` at depth 0. */
static void begin_newest_place(struct form *f, const struct stub_plan *p, int empty)
{
	form_load(f, FORM_SET, FIELD(depth), U32, false);
	form_jump_if_const(f, false, FORM_SET, FORM_EQ, 0, empty);
	form_two_const(f, FORM_SUB, false, FORM_SET, 1);
	form_two_const(f, FORM_AND, false, FORM_SET, (int32_t)p->at->action->flights.depth - 1);
}

/*
 * VALUE = the newest start event's time, SET = its place; the depth still counts it. Jumps to
 * `empty` at depth 0, and to `gone` if a newer start event has used the place.
 */
static void begin_newest(struct form *f, const struct stub_plan *p, int empty, int gone)
{
	begin_newest_place(f, p, empty);
	form_load(f, FORM_VALUE, time_of_begin(), U64, false);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, gone);
}

/*
 * VALUE = the time and SET = the place of the newest open start event whose identity is this hit's
 * or unknown. Jumps to `none` if there is no such event. Changes SCRATCH, SPARE and SPARE_2.
 */
static void begin_newest_same(struct form *f, const struct stub_plan *p, int none)
{
	int32_t depth = (int32_t)p->at->action->flights.depth;
	int next = form_label(f), older = form_label(f), found = form_label(f);

	form_load(f, FORM_SPARE, FIELD(depth), U32, false);
	form_load(f, FORM_SCRATCH, form_temp(p->at->same_temp), U64, false);
	form_const(f, FORM_SPARE_2, (uint64_t)depth);
	form_place(f, next);
	form_jump_if_const(f, false, FORM_SPARE, FORM_EQ, 0, none);
	form_two_const(f, FORM_SUB, false, FORM_SPARE, 1);
	form_move(f, FORM_SET, FORM_SPARE);
	form_two_const(f, FORM_AND, false, FORM_SET, depth - 1);
	form_load(f, FORM_VALUE, time_of_begin(), U64, false);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, older);
	form_jump_if_at(f, U64, FORM_SCRATCH, FORM_EQ, identity_of_begin(p), found);
	if (!flights_by_frame(&p->at->action->flights)) {
		form_jump_if_const(f, true, FORM_SCRATCH, FORM_EQ, 0, found);
		form_jump_if_at_const(f, U64, identity_of_begin(p), FORM_EQ, 0, found);
	}
	form_place(f, older);
	form_sub_jump_if_const(f, false, FORM_SPARE_2, FORM_NE, 1, next);
	form_jump(f, none);
	form_place(f, found);
}

/*
 * Lowers the depth past the newest start event, which has just ended in place SET, and jumps to
 * `done`. Falls through if it was not the newest one, or if the next one has ended, too. Signal
 * handlers leave the depth as it was. Changes SPARE and SPARE_2.
 */
static void begin_uncount_newest(struct form *f, const struct stub_plan *p, int done)
{
	int32_t depth = (int32_t)p->at->action->flights.depth;
	int last = form_label(f), other = form_label(f);

	form_load(f, FORM_SPARE, FIELD(depth), U32, false);
	form_compute(f, FORM_SPARE_2, form_at(FORM_SPARE, -1));
	form_two_const(f, FORM_AND, false, FORM_SPARE_2, depth - 1);
	form_jump_if(f, false, FORM_SPARE_2, FORM_NE, FORM_SET, other);
	form_jump_if_const(f, false, FORM_SPARE, FORM_EQ, 1, last);
	form_compute(f, FORM_SET, form_at(FORM_SPARE, -2));
	form_two_const(f, FORM_AND, false, FORM_SET, depth - 1);
	form_jump_if_at_const(f, U64, time_of_begin(), FORM_EQ, 0, other);
	form_place(f, last);
	form_memory_const(f, FORM_PUBLISH_ADD_WHOLE, FIELD(depth), U32, -1);
	form_jump(f, done);
	form_place(f, other);
}

/*
 * Lowers the depth past ended start events, down to the newest open one, by a compare and swap.
 * Repeats this if a signal handler's end event has changed the depth. Changes NEXT, SPARE, SPARE_2
 * and SET.
 */
static void begin_uncount_ended(struct form *f, const struct stub_plan *p)
{
	int32_t depth = (int32_t)p->at->action->flights.depth;
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
	form_const(f, FORM_SPARE, 0); /* no place has an open start event */
	form_place(f, last);
	form_jump_if(f, false, FORM_SPARE, FORM_EQ, FORM_VALUE, done);
	form_cas(f, FIELD(depth), U32, FORM_SPARE, FORM_NE, again);
	form_place(f, done);
	form_move(f, FORM_VALUE, FORM_SPARE_2);
}

/* ==== Start and end events ==================================================================== */

#define UNUSABLE (UINT32_C(1) << RING_STRING_TRUNCATED_BIT | UINT32_C(1) << RING_STRING_NULL_BIT)

/* ---- The key -------------------------------------------------------------------------- */

/* FROM = the pair's key, POINTER = the table. */
static void load_key(struct form *f, const struct stub_plan *p)
{
	const struct arch_flights *flights = &p->at->action->flights;

	if (flights->text) {
		form_jump_if_bits(
			f, form_temp(p->temp[flights->string] + 1), UNUSABLE, FORM_NE, p->at->lost);
		form_hash_text(f, p, flights->pair, flights->string);
		form_move(f, FORM_FROM, FORM_VALUE);
		form_store(f, FORM_FROM, form_temp(p->at->match_temp));
	} else if (flights->match) {
		form_expr(f, p, flights->match, p->at->lost);
		form_move(f, FORM_FROM, FORM_VALUE);
	} else if (p->stub->thread.has_tp) {
		form_compute(f, FORM_FROM, form_at(FORM_THREAD, 0));
	} else {
		form_load(f, FORM_FROM, form_temp(p->tid_temp), U64, false);
	}
	if (flights->process) {
		form_address(f, FORM_VALUE, p->at->action->flights.process);
		form_load(f, FORM_VALUE, form_at(FORM_VALUE, 0), U32, false);
		form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, 0, p->at->number);
		form_place(f, p->at->numbered);
		form_memory(f, FORM_STORE, FORM_VALUE, form_temp(p->at->process_temp), U32);
	}
	form_address(f, FORM_POINTER, flights->table);
}

/* ---- By thread ------------------------------------------------------------------------- */

/*
 * If the entry was left by a dead thread that had the same thread pointer, sets the depth to 0
 * (others can then take the entry, if processes share the table) and jumps to `idle`.
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
	if (p->at->action->flights.process)
		form_jump(f, idle);
	else
		form_memory(f, FORM_STORE, FORM_VALUE, FIELD(tid), U32);
	form_place(f, same);
}

static bool begins_single(const struct stub_plan *p)
{
	return p->at->action->flights.single && !p->at->action->flights.gives;
}

/* Pushes the first start event on the taken entry at RIGHT, and publishes it. */
static void push_and_publish(struct form *f, const struct stub_plan *p)
{
	begin_keep_entry(f, p);
	if (begins_single(p))
		begin_single(f, p);
	else
		begin_push(f, p, FORM_PUBLISH_ADD);
	flight_publish(f, p);
}

/*
 * A hit's start event, by thread.
 *
 * A new entry is not seen before its time is in it, so a signal handler may make a second one for
 * the thread. The innermost start event is always in the first: the entry of a handler that runs
 * later is behind this one, and the entry of a handler that ran before is found while looking for a
 * free entry. (If processes share the table, earlier entries may be freed; but then end events skip
 * those without a start event.)
 */
static void begin_own(struct form *f, struct stub_plan *p)
{
	int missing = form_label(f), idle = form_label(f), push = form_label(f);
	int other = form_label(f), found = form_label(f);
	const struct sequence *q;

	flight_find_own(f, p, other, missing);
	form_place(f, found);
	if (p->at->action->flights.process) {
		form_jump_if_const(f, false, FORM_SET, FORM_EQ, 0, idle);
		form_jump_if_at_const(f, U32, FIELD(depth), FORM_EQ, 0, idle);
	}
	disown(f, p, idle);
	if (p->at->action->flights.gives) {
		/* Its end event will not come. */
		int none = form_label(f);

		begin_newest_place(f, p, none);
		form_store_const(f, time_of_begin(), U64, 0);
		form_place(f, none);
	}
	if (flights_by_frame(&p->at->action->flights))
		begin_replace(f, p);
	begin_keep_entry(f, p);
	if (begins_single(p)) {
		begin_single(f, p);
	} else if (p->stub->thread.has_rseq) {
		q = form_sequence_begin(f, p, FORM_SET, p->at->slow_flight);
		begin_push(f, p, FORM_PUBLISH_ADD);
		form_sequence_end(f, p, q);
	} else {
		begin_push_again(f, p);
	}
	form_place(f, p->at->timed);
	form_jump(f, p->at->done);
	form_place(f, idle);
	if (p->at->action->flights.process) {
		flight_retake(f, p, other);
		form_jump(f, push);
	}
	form_place(f, missing);
	flight_claim(f, p, p->at->action->flights.process ? -1 : found);
	form_place(f, push);
	push_and_publish(f, p);
}

static void end_own(struct form *f, const struct stub_plan *p)
{
	int other = form_label(f);

	flight_find_own(f, p, other, p->at->unmatched);
	if (p->at->action->flights.process)
		form_jump_if_at_const(f, U32, FIELD(depth), FORM_EQ, 0, other);
	disown(f, p, p->at->unmatched);
	if (p->at->action->flights.compares)
		begin_newest_same(f, p, p->at->unmatched);
	else
		begin_newest(f, p, p->at->unmatched, p->at->gone);
}

/* ---- By key ---------------------------------------------------------------------------- */

static void end_key(struct form *f, const struct stub_plan *p)
{
	int empty = form_label(f), found = form_label(f);

	flight_take(f, p, p->at->unmatched);
	begin_newest(f, p, empty, p->at->gone);
	form_jump(f, found);
	/* The program has overwritten the depth. */
	form_place(f, empty);
	flight_free(f, p);
	form_jump(f, p->at->unmatched);
	form_place(f, found);
}

/* ---- By thread or by key --------------------------------------------------------------- */

/*
 * Ends the start event in place SET of the entry at RIGHT, which it gives back if taken by key.
 * Keeps VALUE, FROM and RIGHT. The code at `empty` only gives the entry back, because the program
 * has overwritten the depth.
 */
static void give_back(struct form *f, const struct stub_plan *p, int empty)
{
	int more = form_label(f), done = form_label(f);

	form_store_const(f, time_of_begin(), U64, 0);
	if (p->at->action->flights.single) {
		form_place(f, empty);
		return;
	}
	if (p->at->action->flights.compares) {
		if (flights_by_frame(&p->at->action->flights))
			begin_uncount_newest(f, p, empty);
		begin_uncount_ended(f, p);
		form_place(f, empty);
		return;
	}
	if (!flights_by_key(&p->at->action->flights)) {
		form_memory_const(f, FORM_PUBLISH_ADD_WHOLE, FIELD(depth), U32, -1);
		form_place(f, empty);
		return;
	}
	form_jump_if_at_const(f, U32, FIELD(depth), FORM_NE, 1, more);
	form_place(f, empty);
	flight_free(f, p);
	form_jump(f, done);
	form_place(f, more);
	form_memory_const(f, FORM_PUBLISH_ADD_WHOLE, FIELD(depth), U32, -1);
	flight_publish(f, p);
	form_place(f, done);
}

static bool holds_begins(const struct stub_plan *p)
{
	return action_keeps_begins(p->at->action) && p->at->action->kind != ARCH_ACTION_BEGIN;
}

void form_hold_none(struct form *f, const struct stub_plan *p)
{
	if (holds_begins(p))
		form_store_const(f, form_temp(p->at->entry_temp), U64, 0);
}

void form_release(struct form *f, const struct stub_plan *p)
{
	int none = form_label(f), empty = form_label(f);

	if (!holds_begins(p))
		return;
	form_load(f, FORM_RIGHT, form_temp(p->at->entry_temp), U64, false);
	form_jump_if_const(f, true, FORM_RIGHT, FORM_EQ, 0, none);
	if (p->at->action->flights.compares)
		form_load(f, FORM_SET, form_temp(p->at->place_temp), U64, false);
	else
		begin_newest_place(f, p, empty);
	give_back(f, p, empty);
	form_place(f, none);
}

/* The path of an end event whose start event was replaced. */
static void end_gone(struct form *f, const struct stub_plan *p)
{
	if (p->at->action->flights.compares)
		/* a search by identity does not jump to `gone` */
		return;
	form_place(f, p->at->gone);
	if (p->at->action->flights.single) {
		form_jump(f, p->at->done);
		return;
	}
	give_back(f, p, form_label(f));
	form_jump(f, p->at->unmatched);
}

void form_flights_slow(struct form *f, const struct stub_plan *p)
{
	const struct arch_flights *flights = &p->at->action->flights;

	if (!flights->table)
		return;
	if (flights->process) {
		/* Take a number. If two threads do so at once, one of the numbers is wasted. */
		form_place(f, p->at->number);
		form_address(f, FORM_RIGHT, p->at->action->flights.processes);
		form_const(f, FORM_SCRATCH, 1);
		form_memory(f, FORM_FETCH_ADD, FORM_SCRATCH, form_at(FORM_RIGHT, 0), U32);
		form_sub_jump_if_const(f, false, FORM_SCRATCH, FORM_EQ, -1, p->at->number);
		form_address(f, FORM_RIGHT, p->at->action->flights.process);
		form_const(f, FORM_VALUE, 0);
		form_cas(f, form_at(FORM_RIGHT, 0), U32, FORM_SCRATCH, FORM_NE, p->at->numbered);
		form_move(f, FORM_VALUE, FORM_SCRATCH);
		form_jump(f, p->at->numbered);
	}
	if (p->at->action->kind != ARCH_ACTION_BEGIN)
		end_gone(f, p);
	else if (!flights_by_key(flights) && p->stub->thread.has_rseq && !begins_single(p)) {
		/* Continue after an abort. A start event that keeps data has changed RIGHT. */
		form_place(f, p->at->slow_flight);
		if (action_keeps_begins(p->at->action))
			form_load(f, FORM_RIGHT, form_temp(p->at->entry_temp), U64, false);
		begin_push_again(f, p);
		form_jump(f, p->at->timed);
	}
}

void form_begin(struct form *f, struct stub_plan *p)
{
	if (p->at->action->flights.marks)
		count_mark(f, p, 1);
	if (p->at->action->flights.compares)
		form_identity(f, p);
	load_key(f, p);
	if (flights_by_key(&p->at->action->flights)) {
		int missing = form_label(f), push = form_label(f);

		flight_take(f, p, missing);
		form_jump(f, push);
		form_place(f, missing);
		flight_claim(f, p, -1);
		form_place(f, push);
		push_and_publish(f, p);
	} else {
		begin_own(f, p);
	}
}

/*
 * Stores the duration, RIGHT ticks, in ns. Jumps to the exit if the pair is too short or filtered.
 */
static void duration(struct form *f, const struct stub_plan *p)
{
	const struct arch_flights *flights = &p->at->action->flights;

	if (p->at->has_duration) {
		form_const(f, FORM_VALUE, flights->scale);
		FORM(f, .op = FORM_MUL_HIGH, .wide = true, .shift = 32);
		form_store(f, FORM_VALUE, form_temp(p->at->duration_temp));
	}
	if (p->at->has_duration && flights->min_ns) {
		form_const(f, FORM_RIGHT, flights->min_ns);
		form_jump_if(f, true, FORM_VALUE, FORM_BELOW, FORM_RIGHT, p->at->done);
	}
	/* Prepare the captures of the start event's data at kept_temp. */
	for (int i = 0; i < p->stub->capture_count; i++) {
		const struct arch_capture *c = &p->stub->captures[i];

		if (!c->begun || !c->is_string)
			continue;
		form_load(f, FORM_SCRATCH, form_temp(p->at->kept_temp), U64, false);
		form_load(f, FORM_VALUE, form_at(FORM_SCRATCH, c->begun), U64, false);
		form_compute(f, FORM_POINTER, form_at(FORM_SCRATCH, c->begun + 8));
		form_store(f, FORM_POINTER, form_temp(p->temp[i]));
		form_store(f, FORM_VALUE, form_temp(p->temp[i] + 1));
		/* Limit the length, because the program may have overwritten it. */
		form_two_const(f, FORM_AND, false, FORM_VALUE, RING_STRING_LENGTH);
		form_jump_if_const(
			f, false, FORM_VALUE, FORM_ABOVE, (int32_t)c->bytes_max, p->at->lost);
	}
	if (flights->filter)
		form_filter(f, p, flights->filter, p->at->done);
}

void form_end(struct form *f, struct stub_plan *p)
{
	int forward = form_label(f);

	/* read the time first, to exclude the stub's own time */
	form_now(f, p);
	form_store(f, FORM_VALUE, form_temp(p->at->time_temp));
	if (p->at->action->flights.compares)
		form_identity(f, p);
	load_key(f, p);
	if (flights_by_key(&p->at->action->flights))
		end_key(f, p);
	else
		end_own(f, p);
	if (holds_begins(p)) {
		begin_keep_entry(f, p);
		/* Save what this hit still needs: place, data's address, and time. */
		if (p->at->action->flights.compares)
			form_store(f, FORM_SET, form_temp(p->at->place_temp));
		if (action_has_spans(p->at->action))
			form_store(f, FORM_VALUE, form_temp(p->at->begin_temp));
		kept_address(f, p, FORM_SCRATCH, FORM_SCRATCH, 0);
		form_store(f, FORM_SCRATCH, form_temp(p->at->kept_temp));
	} else {
		give_back(f, p, form_label(f));
	}
	/* Two CPUs' clocks may differ by a few ticks, so the difference may be negative. */
	form_load(f, FORM_RIGHT, form_temp(p->at->time_temp), U64, false);
	form_sub_jump_if(f, true, FORM_RIGHT, FORM_NOT_BELOW, FORM_VALUE, forward);
	form_const(f, FORM_RIGHT, 0);
	form_place(f, forward);
	form_store(f, FORM_RIGHT, form_temp(p->at->value_temp));
	duration(f, p);
}

/* ---- Marks of tail calls ------------------------------------------------------------------ */

void form_tail(struct form *f, const struct stub_plan *p)
{
	enum arch_action_kind kind = p->at->action->kind;
	int again = form_label(f), stale = form_label(f);

	form_identity(f, p);
	form_place(f, again);
	load_key(f, p);
	end_own(f, p);
	if (kind == ARCH_ACTION_TAIL_JUMP) {
		form_store_const(f, time_of_begin(), U64, TAIL_JUMPED);
		form_jump(f, p->out);
		return;
	}
	if (kind == ARCH_ACTION_TAIL_ENTRY) {
		form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, TAIL_ENTERED, stale);
		form_store_const(f, time_of_begin(), U64, TAIL_ENTERED);
		form_jump(f, p->out);
	}
	form_place(f, stale);
	give_back(f, p, form_label(f));
	count_mark(f, p, -1);
	/* There may be older marks of the frame that the program has left, too. */
	if (kind == ARCH_ACTION_TAIL_ENTRY)
		form_jump(f, again);
}
