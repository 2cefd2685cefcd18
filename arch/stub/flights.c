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

/* ==== Begins ================================================================================== */

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

enum { BEGINS_U32 = sizeof(uint32_t), BEGINS_U64 = sizeof(uint64_t) };

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
	form_load(f, FORM_SCRATCH, form_temp(p->same_temp), BEGINS_U64, false);
	form_store(f, FORM_SCRATCH, identity_of_begin(p));
}

/* a = where the begin in place SET is kept, plus `offset`. */
static void kept_address(
	struct form *f, const struct stub_plan *p, int a, int scratch, int32_t offset)
{
	form_multiply(f, scratch, FORM_SET, (int32_t)p->stub->flights.keep);
	form_compute(f, a, form_indexed(FORM_RIGHT, scratch, kept_offset(p) + offset));
}

/* Keeps the entry for begin_push(). */
static void begin_keep_entry(struct form *f, const struct stub_plan *p)
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

	form_load(f, FORM_VALUE, form_temp(temp + 1), BEGINS_U64, false);
	form_extend(f, FORM_SCRATCH, FORM_VALUE, BEGINS_U32, false);
	form_two_const(f, FORM_AND, false, FORM_SCRATCH, RING_STRING_LENGTH);
	form_jump_if_const(f, false, FORM_SCRATCH, FORM_NOT_ABOVE, k->bytes, fits);
	form_const(f, FORM_VALUE, k->bytes | UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	form_const(f, FORM_SCRATCH, k->bytes);
	form_place(f, fits);
	form_store(f, FORM_VALUE, kept_word(p, k->offset));
	form_load(f, FORM_FROM, form_temp(temp), BEGINS_U64, false);
	form_compute(f, FORM_OUT, kept_word(p, k->offset + 8));
	form_copy(f);
}

static void keep_number(struct form *f, const struct stub_plan *p, const struct arch_kept *k)
{
	const struct arch_capture *c = &p->stub->captures[k->capture];
	uint32_t readable = UINT32_C(1) << k->capture;
	int written = form_label(f);

	form_store_const(f, kept_word(p, k->offset), BEGINS_U64, 0);
	if (p->checked & readable) {
		form_jump_if_bits(f, form_temp(p->mask_temp), readable, FORM_NE, written);
		form_const(f, FORM_VALUE, UINT64_C(1) << RING_STRING_NULL_BIT);
		form_store(f, FORM_VALUE, kept_word(p, k->offset));
	}
	form_place(f, written);
	form_captured(f, FORM_VALUE, p, k->capture);
	/* What is in a vector register was not extended. */
	if (c->arg.kind == ARCH_ARG_FP_REGISTER && c->arg.size == 4 && c->arg.is_signed)
		form_extend(f, FORM_VALUE, FORM_VALUE, BEGINS_U32, true);
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

/* Once that is noted: prepares the captures that are the begin's. */
static void begin_prepare(struct form *f, const struct stub_plan *p)
{
	for (int i = 0; i < p->stub->capture_count; i++) {
		const struct arch_capture *c = &p->stub->captures[i];

		if (!c->begun || !c->is_string)
			continue;
		form_load(f, FORM_SCRATCH, form_temp(p->kept_temp), BEGINS_U64, false);
		form_load(f, FORM_VALUE, form_at(FORM_SCRATCH, c->begun), BEGINS_U64, false);
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

	form_load(f, FORM_VALUE, time, BEGINS_U64, false);
	form_store(f, FORM_VALUE, form_temp(p->last_temp));
	form_store_const(f, time, BEGINS_U64, 0);
	keep_arguments(f, p);
	form_record_body(f, p);
	form_two(f, FORM_SUB, true, FORM_OUT, FORM_RECORD);
	form_store_part(f, FORM_OUT, kept_word(p, offsetof(struct probe_begun, bytes)), BEGINS_U32);
	if (p->stub->flights.gives)
		return;
	form_now(f, p);
	form_load(f, FORM_SCRATCH, form_temp(p->last_temp), BEGINS_U64, false);
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
		form_load(f, FORM_RIGHT, form_temp(p->entry_temp), BEGINS_U64, false);
}

/* SET = the place of the next begin. */
static void next_place(struct form *f, const struct stub_plan *p)
{
	form_load(f, FORM_SET, FIELD(depth), BEGINS_U32, false);
	form_two_const(f, FORM_AND, false, FORM_SET, (int32_t)p->stub->flights.depth - 1);
}

static void push(struct form *f, const struct stub_plan *p, enum form_op count)
{
	next_place(f, p);
	keep_begin(f, p);
	form_store(f, FORM_VALUE, time_of_begin());
	form_add_const_to(f, count, FIELD(depth), BEGINS_U32, 1);
}

/*
 * Stores the time on top of the entry, and what is kept of the begin; the depth publishes it.
 * Changes all registers but RIGHT.
 */
static void begin_push(struct form *f, const struct stub_plan *p)
{
	push(f, p, FORM_PUBLISH_ADD);
}

/* The same without a sequence: before the depth counts it, and once more. */
static void begin_push_again(struct form *f, const struct stub_plan *p)
{
	int once_more = form_label(f), done = form_label(f);

	if (!stub_keeps_begins(p->stub)) {
		push(f, p, FORM_PUBLISH_ADD_WHOLE);
		form_store(f, FORM_VALUE, time_of_begin());
		keep_identity(f, p);
		return;
	}
	next_place(f, p);
	form_store_const(f, form_temp(p->pass_temp), BEGINS_U32, 0);
	form_place(f, once_more);
	keep_begin(f, p);
	form_store(f, FORM_VALUE, time_of_begin());
	form_jump_if_at_const(f, BEGINS_U32, form_temp(p->pass_temp), FORM_NE, 0, done);
	form_add_const_to(f, FORM_PUBLISH_ADD_WHOLE, FIELD(depth), BEGINS_U32, 1);
	form_store_const(f, form_temp(p->pass_temp), BEGINS_U32, 1);
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
	form_store_const(f, form_at(FORM_RECORD, offsetof(struct ring_record, tid)), BEGINS_U32,
		(int32_t)p->stub->site);
	form_load(f, FORM_VALUE, form_temp(p->last_temp), BEGINS_U64, false);
	form_store(f, FORM_VALUE, form_at(FORM_RECORD, offsetof(struct ring_record, time)));
	form_load(f, FORM_RIGHT, form_temp(p->entry_temp), BEGINS_U64, false);
}

static void begin_newest_place(struct form *f, const struct stub_plan *p, int empty);

/* The same for a pair that does not nest. */
static void begin_single(struct form *f, const struct stub_plan *p)
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
	form_jump_if_at_const(f, BEGINS_U32, FIELD(depth), FORM_NE, 0, counted);
	form_publish_const(f, FIELD(depth), BEGINS_U32, 1);
	form_place(f, counted);
}

/* SET = the place of the newest begin; jumps to `empty` if there is none. */
static void begin_newest_place(struct form *f, const struct stub_plan *p, int empty)
{
	form_load(f, FORM_SET, FIELD(depth), BEGINS_U32, false);
	form_jump_if_const(f, false, FORM_SET, FORM_EQ, 0, empty);
	form_two_const(f, FORM_SUB, false, FORM_SET, 1);
	form_two_const(f, FORM_AND, false, FORM_SET, (int32_t)p->stub->flights.depth - 1);
}

/*
 * VALUE = the time of the newest begin, which stays counted; SET = its place. Jumps to `gone` if
 * another begin has taken its place.
 */
static void begin_newest(struct form *f, const struct stub_plan *p, int empty, int gone)
{
	begin_newest_place(f, p, empty);
	form_load(f, FORM_VALUE, time_of_begin(), BEGINS_U64, false);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, gone);
}

/*
 * The same of the newest begin that has not ended and has our identity, or either is not known;
 * jumps to `none` if there is none. Changes SCRATCH, SPARE and SPARE_2.
 */
static void begin_newest_same(struct form *f, const struct stub_plan *p, int none)
{
	int32_t depth = (int32_t)p->stub->flights.depth;
	int next = form_label(f), older = form_label(f), found = form_label(f);

	form_load(f, FORM_SPARE, FIELD(depth), BEGINS_U32, false);
	form_load(f, FORM_SCRATCH, form_temp(p->same_temp), BEGINS_U64, false);
	form_const(f, FORM_SPARE_2, (uint64_t)depth);
	form_place(f, next);
	form_jump_if_const(f, false, FORM_SPARE, FORM_EQ, 0, none);
	form_two_const(f, FORM_SUB, false, FORM_SPARE, 1);
	form_move(f, FORM_SET, FORM_SPARE);
	form_two_const(f, FORM_AND, false, FORM_SET, depth - 1);
	form_load(f, FORM_VALUE, time_of_begin(), BEGINS_U64, false);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, older);
	form_jump_if_at(f, BEGINS_U64, FORM_SCRATCH, FORM_EQ, identity_of_begin(p), found);
	form_jump_if_const(f, true, FORM_SCRATCH, FORM_EQ, 0, found);
	form_jump_if_at_const(f, BEGINS_U64, identity_of_begin(p), FORM_EQ, 0, found);
	form_place(f, older);
	form_sub_jump_if_const(f, false, FORM_SPARE_2, FORM_NE, 1, next);
	form_jump(f, none);
	form_place(f, found);
}

/*
 * Uncounts the newest begins that have ended, up to one that has not. Changes NEXT, SPARE, SPARE_2
 * and SET.
 *
 * A signal handler that ends something in between uncounts what has ended here, too. So this is
 * a compare and swap, which starts again if the depth has changed.
 */
static void begin_uncount_ended(struct form *f, const struct stub_plan *p)
{
	int32_t depth = (int32_t)p->stub->flights.depth;
	int again = form_label(f), next = form_label(f), last = form_label(f), done = form_label(f);

	form_move(f, FORM_SPARE_2, FORM_VALUE);
	form_place(f, again);
	form_load(f, FORM_VALUE, FIELD(depth), BEGINS_U32, false);
	form_move(f, FORM_SPARE, FORM_VALUE);
	form_const(f, FORM_NEXT, (uint64_t)depth);
	form_place(f, next);
	form_jump_if_const(f, false, FORM_SPARE, FORM_EQ, 0, last);
	form_compute(f, FORM_SET, form_at(FORM_SPARE, -1));
	form_two_const(f, FORM_AND, false, FORM_SET, depth - 1);
	form_jump_if_at_const(f, BEGINS_U64, time_of_begin(), FORM_NE, 0, last);
	form_two_const(f, FORM_SUB, false, FORM_SPARE, 1);
	form_sub_jump_if_const(f, false, FORM_NEXT, FORM_NE, 1, next);
	form_const(f, FORM_SPARE, 0); /* all that have a place have ended */
	form_place(f, last);
	form_jump_if(f, false, FORM_SPARE, FORM_EQ, FORM_VALUE, done);
	form_cas(f, FIELD(depth), BEGINS_U32, FORM_SPARE, FORM_NE, again);
	form_place(f, done);
	form_move(f, FORM_VALUE, FORM_SPARE_2);
}

/* The newest begin, in place SET, has ended: its time is gone; and it is not counted any more. */
static void begin_clear(struct form *f)
{
	form_store_const(f, time_of_begin(), BEGINS_U64, 0);
}

/* The newest begin, if there is one, will have no end. */
static void begin_forget_newest(struct form *f, const struct stub_plan *p)
{
	int none = form_label(f);

	begin_newest_place(f, p, none);
	begin_clear(f);
	form_place(f, none);
}

/* The newest begin, in place SET, has ended: its time is gone; and it is not counted any more. */
static void begin_uncount(struct form *f)
{
	form_add_const_to(f, FORM_PUBLISH_ADD_WHOLE, FIELD(depth), BEGINS_U32, -1);
}

/* SET = the place of the begin that an end has found; may jump to `empty` if there is none. */
static void begin_found_place(struct form *f, const struct stub_plan *p, int empty)
{
	if (p->stub->flights.compares)
		form_load(f, FORM_SET, form_temp(p->place_temp), BEGINS_U64, false);
	else
		begin_newest_place(f, p, empty);
}

/*
 * Notes the place of the begin that was found, where it is kept, and its time, which is in VALUE;
 * changes SCRATCH.
 */
static void begin_note_kept(struct form *f, const struct stub_plan *p)
{
	if (p->stub->flights.compares)
		form_store(f, FORM_SET, form_temp(p->place_temp));
	if (stub_has_spans(p->stub))
		form_store(f, FORM_VALUE, form_temp(p->begin_temp));
	kept_address(f, p, FORM_SCRATCH, FORM_SCRATCH, 0);
	form_store(f, FORM_SCRATCH, form_temp(p->kept_temp));
}

/* ==== Flights ================================================================================= */

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
