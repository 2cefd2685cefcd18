/* SPDX-License-Identifier: MIT */
/*
 * Recording: a hit's time, thread, site and arguments go into a ring.
 *
 * The time is read inside the sequence, or with the lock held, so the records of one ring are
 * in time order. docs/ring.md says why who reads finds whole records.
 */

#include "arch/layout.h"
#include "arch/stub/isa.h"
#include "arch/stub/plan.h"

/* ==== Wait ==================================================================================== */

/*
 * Waiting for room in a ring (struct probe_room).
 *
 *   wait_first:               no room, for the first time: the time is not known yet
 *   wait:                     no room, again
 *     a forked child that does not count, or the controller has let go? leave
 *     the controller is dead, or somebody has waited in vain? lost
 *     too long since the controller has made room, and no room?
 *       lost, and nobody waits until the controller has made room
 *     room was made again and again, but others took it, for much too long? only this hit is lost
 *     look at the ring for a moment; room? again
 *     sleep until the controller makes room, at most for what is left; wait
 *   again:                    the record once more, wherever the thread is now; no room? wait
 *
 * The thread is in no sequence and has no lock, so that it keeps nobody from writing. Only here,
 * and in the slow path, is there anything that hits without waiting lack: a hit that finds room
 * takes the same instructions, and its frame has some words more.
 *
 * Room is looked for after ROOM_WAITED is set; the controller stores `tail` before it looks at that
 * bit. Both change the word that is slept on, in one order. So either the thread sees the
 * room, or the controller sees the bit, clears it and wakes; and if it does so before the thread
 * sleeps, the word is no longer what the thread expects.
 *
 * A signal, a filter that forbids the call and a target that writes these words as it likes end a
 * sleep early: then there is another one, and the time is what ends the wait.
 */

enum {
	SPINS = 32, /* some microseconds: while the controller is just about to make room */
	ANEW = 9,   /* so many times the limit after its begin, a wait begins anew no more */
	OWNER_AT = offsetof(struct probe_room, gate.turns[0].owner),
	ARRIVED_AT = offsetof(struct probe_room, gate.arrived)
};

/* What the record itself may still need at the site's value, and calls or this code change. */
static const int kept[] = {FORM_FROM, FORM_POINTER, FORM_NEXT, FORM_SPARE, FORM_SPARE_2};
enum { KEPT = sizeof(kept) / sizeof(*kept) };

/*
 * The words behind the saved registers. SINCE: the time at which the wait began; 0: it has not.
 * QUIET: since when `moved` is what the thread has seen, MADE.
 */
enum { SINCE, QUIET, MADE, FIRST_KEPT, SECONDS = FIRST_KEPT + KEPT, NANOSECONDS, WORDS };
_Static_assert((int)WORDS == (int)WAIT_WORDS, "so much is skipped");

/* Where a wait goes on. */
struct ways {
	int again, room, vain, dead, late, starved;
};

static struct form_mem word(const struct stub_plan *p, int number)
{
	return form_temp(p->wait_temp + number);
}

/* In the room at NEXT. */
static struct form_mem room_word(size_t offset)
{
	return form_at(FORM_NEXT, (int32_t)offset);
}

/* The hit has not waited yet; and what is out of line. */
static void form_wait_none(struct form *f, const struct stub_plan *p)
{
	if (p->stub->room)
		form_store_const(f, word(p, SINCE), sizeof(uint64_t), 0);
}

static void form_jump_by_room(
	struct form *f, const struct stub_plan *p, int ring, int head, bool has_room, int label);

/* Jumps to `room` if there is room in the ring at POINTER; changes VALUE, SCRATCH. */
static void if_room(struct form *f, const struct stub_plan *p, int room)
{
	form_jump_by_room(f, p, FORM_POINTER, FORM_SCRATCH, true, room);
}

/* Those who sleep on a word of the room at NEXT. */
static void wake_all(struct form *f, int32_t at)
{
	form_compute(f, FORM_SET, room_word((size_t)at));
	form_futex_wake(f);
}

/*
 * SPARE = the ticks that are left. FROM is what `moved` is: if it has changed, they count from now
 * on. Jumps to `late` if there are none, or to `starved` if others have taken all room for so long
 * that they do not begin anew.
 */
static void time_left(struct form *f, const struct stub_plan *p, const struct ways *to)
{
	int began = form_label(f), known = form_label(f);
	int anew = form_label(f), same = form_label(f);

	form_now(f, p);
	form_jump_if_at_const(f, sizeof(uint64_t), word(p, SINCE), FORM_NE, 0, began);
	/* Not 0: where a filter forbids to ask for the time, that would be each time's begin. */
	form_jump_if_const(f, true, FORM_VALUE, FORM_NE, 0, known);
	form_const(f, FORM_VALUE, 1);
	form_place(f, known);
	form_store(f, FORM_VALUE, word(p, SINCE));
	form_jump(f, anew);
	form_place(f, began);
	form_jump_if_at(f, sizeof(uint64_t), FORM_FROM, FORM_EQ, word(p, MADE), same);
	form_move(f, FORM_RIGHT, FORM_VALUE);
	form_two_at(f, FORM_SUB, FORM_RIGHT, word(p, SINCE));
	form_const(f, FORM_SPARE, ANEW * p->stub->wait_ticks);
	form_sub_jump_if(f, true, FORM_SPARE, FORM_NOT_ABOVE, FORM_RIGHT, to->starved);
	form_place(f, anew);
	form_store(f, FORM_VALUE, word(p, QUIET));
	form_store(f, FORM_FROM, word(p, MADE));
	form_place(f, same);
	form_two_at(f, FORM_SUB, FORM_VALUE, word(p, QUIET));
	form_const(f, FORM_SPARE, p->stub->wait_ticks);
	/* Also where the counters of two CPUs differ, and time has gone back. */
	form_sub_jump_if(f, true, FORM_SPARE, FORM_NOT_ABOVE, FORM_VALUE, to->late);
}

/* Jumps back to `again` if the controller has made room meanwhile, or is gone. FROM = the owner. */
static void announce(struct form *f, int again)
{
	int retry = form_label(f), announced = form_label(f);

	form_load(f, FORM_VALUE, room_word(OWNER_AT), sizeof(uint32_t), false);
	form_place(f, retry);
	form_move(f, FORM_SCRATCH, FORM_VALUE);
	form_two_const(f, FORM_OR, false, FORM_SCRATCH, ROOM_WAITED);
	form_cas(f, room_word(OWNER_AT), sizeof(uint32_t), FORM_SCRATCH, FORM_NE, retry);
	form_two_const(f, FORM_AND, false, FORM_VALUE, ROOM_WAITED);
	form_jump_if_const(f, false, FORM_VALUE, FORM_NE, 0, announced);
	form_add_const_to(f, FORM_COUNT_SHARED, room_word(ARRIVED_AT), sizeof(uint32_t), 1);
	wake_all(f, ARRIVED_AT);
	form_place(f, announced);
	form_acquire(f, FORM_FROM, room_word(OWNER_AT), sizeof(uint32_t));
	form_move(f, FORM_VALUE, FORM_FROM);
	form_two_const(f, FORM_AND, false, FORM_VALUE, ROOM_WAITED);
	form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, 0, again);
	form_move(f, FORM_VALUE, FORM_FROM);
	form_two_const(f, FORM_AND, false, FORM_VALUE, GATE_OWNER);
	form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, 0, again);
}

/* While the owner is what FROM is, for SPARE ticks, which are less than a second. */
static void sleep_once(struct form *f, const struct stub_plan *p)
{
	form_const(f, FORM_VALUE, p->stub->wait_scale);
	form_move(f, FORM_RIGHT, FORM_SPARE);
	form_mul_high(f, 32);
	form_store(f, FORM_VALUE, word(p, NANOSECONDS));
	form_store_const(f, word(p, SECONDS), sizeof(uint64_t), 0);
	form_compute(f, FORM_SET, room_word(OWNER_AT));
	form_move(f, FORM_SCRATCH, FORM_FROM);
	form_futex_wait(f, p->wait_temp + SECONDS);
}

/* Waits for room in the ring at POINTER. */
static void wait_loop(struct form *f, const struct stub_plan *p, const struct ways *to)
{
	int spin = form_label(f);

	form_place(f, to->again);
	/* A signal handler may have forked. */
	form_jump_if_word(f, FORM_RIGHT, p->stub->guard, FORM_EQ, p->wait_over);
	form_address(f, FORM_NEXT, p->stub->room);
	form_acquire(f, FORM_VALUE, room_word(OWNER_AT), sizeof(uint32_t));
	form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, 0, p->wait_over);
	form_two_const(f, FORM_AND, false, FORM_VALUE, GATE_OWNER);
	form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, 0, to->dead);
	form_acquire(
		f, FORM_VALUE, room_word(offsetof(struct probe_room, gave_up)), sizeof(uint64_t));
	form_acquire(f, FORM_FROM, room_word(offsetof(struct probe_room, moved)), sizeof(uint64_t));
	form_jump_if(f, true, FORM_VALUE, FORM_EQ, FORM_FROM, to->vain);
	time_left(f, p, to);
	form_const(f, FORM_RIGHT, SPINS);
	form_place(f, spin);
	if_room(f, p, to->room);
	form_alone(f, FORM_YIELD);
	form_sub_jump_if_const(f, false, FORM_RIGHT, FORM_NE, 1, spin);
	announce(f, to->again);
	if_room(f, p, to->room);
	sleep_once(f, p);
	form_jump(f, to->again);
}

static void keep(struct form *f, const struct stub_plan *p)
{
	for (int i = 0; i < KEPT; i++)
		form_store(f, kept[i], word(p, FIRST_KEPT + i));
}

static void restore(struct form *f, const struct stub_plan *p)
{
	for (int i = 0; i < KEPT; i++)
		form_load(f, kept[i], word(p, FIRST_KEPT + i), sizeof(uint64_t), false);
}

/* Counts a hit that has waited, with its ticks: none if time has gone back. */
static void count_waited(struct form *f, const struct stub_plan *p)
{
	int none = form_label(f), forward = form_label(f);

	form_jump_if_at_const(f, sizeof(uint64_t), word(p, SINCE), FORM_EQ, 0, none);
	form_now(f, p);
	form_two_at(f, FORM_SUB, FORM_VALUE, word(p, SINCE));
	form_jump_if_const(f, true, FORM_VALUE, FORM_GE, 0, forward);
	form_const(f, FORM_VALUE, 0);
	form_place(f, forward);
	form_address(f, FORM_RIGHT, p->stub->room);
	form_add_to(f, FORM_COUNT_SHARED, form_at(FORM_RIGHT, offsetof(struct probe_room, ticks)),
		sizeof(uint64_t), FORM_VALUE);
	form_change(f, FORM_COUNT_SHARED, form_at(FORM_RIGHT, offsetof(struct probe_room, waited)));
	form_place(f, none);
}

/* How a wait ends. */
static void wait_ends(struct form *f, const struct stub_plan *p)
{
	form_place(f, p->wait_over);
	restore(f, p);
	form_place(f, p->wait_done);
	count_waited(f, p);
	form_jump(f, p->out);
	form_place(f, p->wait_lost);
	count_waited(f, p);
	form_jump(f, p->lost);
}

static void form_record_again(struct form *f, struct stub_plan *p);

static void form_wait(struct form *f, struct stub_plan *p)
{
	struct ways to = {form_label(f), form_label(f), form_label(f), form_label(f), form_label(f),
		form_label(f)};

	if (!p->stub->room)
		return;
	form_place(f, p->wait_first);
	form_wait_none(f, p);
	form_place(f, p->wait);
	keep(f, p);
	form_move(f, FORM_POINTER, FORM_SET);
	wait_loop(f, p, &to);

	form_place(f, to.room);
	restore(f, p);
	form_record_again(f, p);

	form_place(f, to.dead); /* the kernel wakes only one of those who wait */
	form_jump_if_at_const(f, sizeof(uint64_t), word(p, SINCE), FORM_EQ, 0, to.vain);
	wake_all(f, OWNER_AT);
	form_jump(f, to.vain);
	/*
	 * A thread that was woken in time may have run only now, and others have taken the room.
	 * `moved` is read first: if there is room right after the second look, it is not what
	 * `gave_up` becomes.
	 */
	form_place(f, to.late);
	form_acquire(f, FORM_FROM, room_word(offsetof(struct probe_room, moved)), sizeof(uint64_t));
	if_room(f, p, to.room);
	form_jump_if_at(f, sizeof(uint64_t), FORM_FROM, FORM_NE, word(p, MADE), to.again);
	form_store(f, FORM_FROM, room_word(offsetof(struct probe_room, gave_up)));
	form_jump(f, to.vain);
	form_place(f, to.starved); /* the wait is in vain for this hit only */
	if_room(f, p, to.room);
	form_place(f, to.vain);
	restore(f, p);
	form_jump(f, p->wait_lost);
	wait_ends(f, p);
}

/* ==== Record ================================================================================== */

/* In the ring at SET. */
static struct form_mem ring_word(size_t offset)
{
	return form_at(FORM_SET, (int32_t)offset);
}

/* In the record at FORM_RECORD. */
static struct form_mem record_word(size_t offset)
{
	return form_at(FORM_RECORD, (int32_t)offset);
}

/* ---- The record ------------------------------------------------------------------------ */

/* The thread's id, marked if in a forked child. Changes VALUE, SCRATCH. */
static void form_tid(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	if (s->thread.has_tid)
		form_load(f, FORM_VALUE, form_at(FORM_THREAD, s->thread.tid_offset),
			sizeof(uint32_t), false);
	else if (p->kernel_tid)
		form_load(f, FORM_VALUE, form_temp(p->tid_temp), sizeof(uint32_t), false);
	else
		form_const(f, FORM_VALUE, 0);
	if (s->own) {
		int own = form_label(f);

		form_jump_if_word(f, FORM_SCRATCH, s->own, FORM_NE, own);
		form_two_const(f, FORM_OR, false, FORM_VALUE, (int32_t)RING_TID_CHILD);
		form_place(f, own);
	}
	form_store_part(
		f, FORM_VALUE, record_word(offsetof(struct ring_record, tid)), sizeof(uint32_t));
}

void form_record_body(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	form_tid(f, p);
	form_store_const(f, record_word(offsetof(struct ring_record, site)), sizeof(uint32_t),
		(int32_t)s->site);
	for (int i = 0; i < s->recorded; i++)
		form_capture(f, p, i);
	if (p->records_mask) {
		form_load(f, FORM_VALUE, form_temp(p->mask_temp), sizeof(uint32_t), false);
		form_store_packed(f, FORM_VALUE, record_word((size_t)p->record_mask_at),
			(uint8_t)ring_mask_bytes(s->recorded));
	}
	if (p->recorded_pairs || stub_has_spans(s))
		form_compute(f, FORM_OUT, record_word(p->fixed_bytes));
	if (p->recorded_pairs)
		form_copy_pairs(f, p);
}

/*
 * Appends the duration and the begin's record at OUT. The end holds the begin, but a signal
 * handler that begins as much as there is room for writes there. Its time then differs, and the
 * span is lost: jumps to `lost`. The writer, which is this thread, changes the time first.
 */
static void form_begin_of_span(struct form *f, const struct stub_plan *p, int lost)
{
	const struct arch_flights *flights = &p->stub->flights;
	uint32_t most = flights->keep - flights->record;

	form_load(f, FORM_VALUE, form_temp(p->duration_temp), sizeof(uint64_t), false);
	form_store_packed(f, FORM_VALUE, form_at(FORM_OUT, 0), sizeof(uint64_t));
	form_two_const(f, FORM_ADD, true, FORM_OUT, sizeof(uint64_t));
	form_load(f, FORM_FROM, form_temp(p->kept_temp), sizeof(uint64_t), false);
	form_load(f, FORM_SCRATCH, form_at(FORM_FROM, offsetof(struct probe_begun, bytes)),
		sizeof(uint32_t), false);
	/* The program may have overwritten it. */
	form_two_const(f, FORM_AND, false, FORM_SCRATCH, -RING_ALIGN);
	form_compute(f, FORM_VALUE, form_at(FORM_SCRATCH, -(int32_t)sizeof(struct ring_record)));
	form_jump_if_const(f, true, FORM_VALUE, FORM_ABOVE,
		(int32_t)(most - sizeof(struct ring_record)), lost);
	form_two_const(f, FORM_ADD, true, FORM_FROM, (int32_t)flights->record);
	form_copy(f);
	form_load(f, FORM_VALUE, form_at(FORM_FROM, offsetof(struct ring_record, time)),
		sizeof(uint64_t), false);
	form_jump_if_at(f, sizeof(uint64_t), FORM_VALUE, FORM_NE, form_temp(p->begin_temp), lost);
	form_two(f, FORM_ADD, true, FORM_OUT, FORM_SCRATCH);
}

/* ---- In a ring ------------------------------------------------------------------------- */

/*
 * Jumps to `label` if the longest record has room in the ring at `ring`, or has none. head = the
 * ring's head; changes FORM_VALUE.
 */
static void form_jump_by_room(
	struct form *f, const struct stub_plan *p, int ring, int head, bool has_room, int label)
{
	const struct arch_stub *s = p->stub;

	form_acquire(
		f, FORM_VALUE, form_at(ring, offsetof(struct ring_header, tail)), sizeof(uint64_t));
	form_load(f, head, form_at(ring, offsetof(struct ring_header, head)), sizeof(uint64_t),
		false);
	/* The negative of what is in use. */
	form_two(f, FORM_SUB, true, FORM_VALUE, head);
	form_jump_if_const(f, true, FORM_VALUE, has_room ? FORM_GE : FORM_LT,
		(int32_t)(p->max_bytes - s->ring_bytes), label);
}

/* SCRATCH = the place in the ring of an offset in bytes ever written, which RECORD or VALUE has. */
static struct form_mem form_word_at(struct form *f, const struct stub_plan *p, int offset)
{
	form_extend(f, FORM_SCRATCH, offset, sizeof(uint32_t), false);
	form_two_const(f, FORM_AND, false, FORM_SCRATCH, (int32_t)(p->stub->ring_bytes - 1));
	return form_indexed(FORM_SET, FORM_SCRATCH, sizeof(struct ring_header));
}

/*
 * In a flight recorder, the word at the new head leads back to this record, which begins at the
 * old head, and counts one more than the word there. OUT holds the record's length if it varies.
 */
static void form_publish_over(struct form *f, const struct stub_plan *p)
{
	struct form_mem head = ring_word(offsetof(struct ring_header, head));
	int32_t one = (1 << RING_BACK_BITS) + RING_BACK_BYTES;

	form_load(f, FORM_RECORD, head, sizeof(uint64_t), false);
	if (p->recorded_pairs)
		form_compute(f, FORM_VALUE, form_indexed(FORM_RECORD, FORM_OUT, RING_BACK_BYTES));
	else
		form_compute(f, FORM_VALUE, record_word(p->fixed_bytes + RING_BACK_BYTES));
	form_load(f, FORM_RECORD, form_word_at(f, p, FORM_RECORD), sizeof(uint64_t), false);
	form_two_const(f, FORM_AND, true, FORM_RECORD, -(1 << RING_BACK_BITS));
	if (p->recorded_pairs)
		form_compute(f, FORM_RECORD, form_indexed(FORM_RECORD, FORM_OUT, one));
	else
		form_compute(f, FORM_RECORD, record_word((size_t)one + p->fixed_bytes));
	form_store(f, FORM_RECORD, form_word_at(f, p, FORM_VALUE));
	form_publish(f, FORM_VALUE, head, sizeof(uint64_t));
}

static void form_ring_record(struct form *f, const struct stub_plan *p, int full)
{
	const struct arch_stub *s = p->stub;
	struct form_mem head = ring_word(offsetof(struct ring_header, head));
	bool varies = p->recorded_pairs || stub_has_spans(s);

	if (s->on_until_full)
		form_jump_if_word(f, FORM_VALUE, s->on + sizeof(uint32_t), FORM_NE, full);
	/* A reader that finds a part of this record finds the head that the last one has left. */
	if (s->overwrite)
		form_acquire(f, FORM_RECORD, head, sizeof(uint64_t));
	else
		form_jump_by_room(f, p, FORM_SET, FORM_RECORD, false, full);
	form_two_const(f, FORM_AND, false, FORM_RECORD, (int32_t)(s->ring_bytes - 1));
	form_compute(f, FORM_RECORD,
		form_indexed(FORM_SET, FORM_RECORD,
			sizeof(struct ring_header) + (s->overwrite ? RING_BACK_BYTES : 0)));
	form_store_now(f, p, record_word(offsetof(struct ring_record, time)));
	form_record_body(f, p);
	if (stub_has_spans(s))
		form_begin_of_span(f, p, full);
	if (varies)
		form_two(f, FORM_SUB, true, FORM_OUT, FORM_RECORD);
	if (s->overwrite)
		form_publish_over(f, p);
	else if (varies)
		form_add_to(f, FORM_PUBLISH_ADD, head, sizeof(uint64_t), FORM_OUT);
	else
		form_add_const_to(
			f, FORM_PUBLISH_ADD, head, sizeof(uint64_t), (int32_t)p->fixed_bytes);
}

/* ---- Which ring ------------------------------------------------------------------------ */

/* The record into the ring of this CPU. */
static void form_cpu_record(struct form *f, struct stub_plan *p, int slow, int full)
{
	const struct arch_stub *s = p->stub;
	const struct sequence *q = form_sequence_begin(f, p, FORM_SET, slow);

	form_cpu_set(f, p, FORM_SET, s->rings_shift, s->rings, slow);
	form_two(f, FORM_ADD, true, FORM_SET, FORM_VALUE);
	form_ring_record(f, p, full);
	form_sequence_end(f, p, q);
}

/* RIGHT = where to look first: at the CPU's own number, or at one of the thread's. */
static void form_first_ring(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	int in_range = form_label(f);

	if (s->thread.has_rseq || p->isa->has_cpu_hint) {
		form_cpu(f, FORM_RIGHT);
		form_jump_if_const(f, false, FORM_RIGHT, FORM_BELOW, (int32_t)s->cpus, in_range);
		form_const(f, FORM_RIGHT, 0);
		form_place(f, in_range);
		return;
	}
	/* A hash of the thread pointer, as a fraction of the number of rings. */
	form_compute(f, FORM_RIGHT, form_at(FORM_THREAD, 0));
	form_two_const(f, FORM_SHR, true, FORM_RIGHT, 4);
	form_const(f, FORM_VALUE, UINT32_C(0x9e3779b1));
	form_two(f, FORM_MUL, false, FORM_RIGHT, FORM_VALUE);
	form_multiply(f, FORM_RIGHT, FORM_RIGHT, (int32_t)s->cpus);
	form_two_const(f, FORM_SHR, true, FORM_RIGHT, 32);
}

/* SET = a ring of the sets [cpus, 2 * cpus), locked; jumps to `lost` if none is free. */
static void form_lock_ring(struct form *f, const struct stub_plan *p, int lost)
{
	const struct arch_stub *s = p->stub;
	int next = form_label(f), got = form_label(f), wrapped = form_label(f);

	form_first_ring(f, p);
	form_const(f, FORM_SCRATCH, s->cpus);
	form_place(f, next);
	form_compute(f, FORM_SET, form_at(FORM_RIGHT, (int32_t)s->cpus));
	form_two_const(f, FORM_SHL, true, FORM_SET, s->rings_shift);
	form_address(f, FORM_VALUE, s->rings);
	form_two(f, FORM_ADD, true, FORM_SET, FORM_VALUE);
	form_const(f, FORM_VALUE, 1);
	form_exchange(
		f, FORM_VALUE, ring_word(offsetof(struct ring_header, lock)), sizeof(uint32_t));
	form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, 0, got);
	form_two_const(f, FORM_ADD, false, FORM_RIGHT, 1);
	form_jump_if_const(f, false, FORM_RIGHT, FORM_BELOW, (int32_t)s->cpus, wrapped);
	form_const(f, FORM_RIGHT, 0);
	form_place(f, wrapped);
	form_sub_jump_if_const(f, false, FORM_SCRATCH, FORM_NE, 1, next);
	form_jump(f, lost);
	form_place(f, got);
	/* Do not read the time ahead, while another thread had the lock. */
	form_alone(f, FORM_FENCE);
}

static void form_unlock_ring(struct form *f)
{
	form_publish_const(f, ring_word(offsetof(struct ring_header, lock)), sizeof(uint32_t), 0);
}

void form_record(struct form *f, struct stub_plan *p)
{
	if (stub_has_spans(p->stub))
		form_end(f, p);
	form_prepare_stacks(f, p);
	if (p->stub->thread.has_rseq)
		form_cpu_record(f, p, p->slow, p->full);
	else
		form_jump(f, p->slow);
}

/* The record of a hit that has waited: what pointers lead to may be something else by now. */
static void form_record_again(struct form *f, struct stub_plan *p)
{
	int full = form_label(f);

	form_prepare_again(f, p);
	if (!p->stub->thread.has_rseq) {
		form_jump(f, p->slow_again);
		return;
	}
	form_cpu_record(f, p, p->slow_again, full);
	form_jump(f, p->wait_done);
	form_place(f, full);
	form_sequence_leave(f, p);
	form_jump(f, p->wait);
}

/* The path of threads without rseq, of aborted sequences, and of hits that find no room. */
void form_record_slow(struct form *f, struct stub_plan *p)
{
	bool waits = p->stub->room != 0;
	int full = form_label(f);

	form_place(f, p->slow);
	form_wait_none(f, p);
	form_place(f, p->slow_again);
	form_sequence_leave(f, p);
	form_lock_ring(f, p, waits ? p->wait_lost : p->lost);
	form_ring_record(f, p, full);
	form_unlock_ring(f);
	form_jump(f, waits ? p->wait_done : p->out);
	form_place(f, full);
	form_unlock_ring(f);
	form_jump(f, waits ? p->wait : p->lost);
	form_place(f, p->full);
	form_sequence_leave(f, p);
	form_jump(f, waits ? p->wait_first : p->lost);
	form_wait(f, p);
}
