/* SPDX-License-Identifier: MIT */
/*
 * Recording: a hit writes time, thread, site and arguments into a ring.
 *
 * The time is read in the sequence, or with the lock, so a ring's records are in order.
 * docs/ring.md says why a reader finds only whole records.
 */

#include "arch/layout.h"
#include "arch/stub/plan.h"

/* ==== Waiting for room ======================================================================== */

/*
 * Waiting for room in a ring (struct probe_room). In outline, with the labels of the code:
 *
 *   wait_first:               no room, for the first time: the time of the wait begins
 *   wait:                     no room, once more
 *     is this a forked child that does not count, or has the controller let go of the session?
 *       leave
 *     is the controller dead, or has another hit waited in vain?
 *       this hit is lost
 *     has the controller made no room for too long?
 *       is there still no room? this hit is lost, and no hit waits until the controller makes room
 *     have other hits taken the room that was made, again and again, for much too long?
 *       only this hit is lost
 *     poll the ring for a moment; if there is room, write the record again
 *     sleep until the controller makes room, at most for the time left; go to wait
 *   again:                    write the record again, on whichever CPU the thread runs now; if
 *                             there is no room, go to wait
 *
 * A waiting thread is in no sequence and holds no lock, so it keeps no other thread from writing.
 * Only hits on the slow path pay for waiting. A hit that finds room runs the same instructions as
 * in a stub that does not wait; only its frame is some words larger.
 *
 * No wake-up is missed. The thread sets the bit ROOM_WAITED in the word that it sleeps on, and then
 * looks for room. The controller makes room by storing `tail`, and then looks at the bit. Both
 * change that word, so one of the changes comes first: either the thread sees the room, or the
 * controller sees the bit, clears it and wakes the thread. If the controller clears the bit before
 * the thread sleeps, the word is no longer the one that the thread expects, and the sleep ends at
 * once.
 *
 * A sleep may end early: by a signal, by a seccomp filter that forbids the call, or because the
 * target overwrites these words. Then the thread sleeps again; only the time ends the wait.
 */

enum {
	/* Looks at the ring before a sleep: some microseconds. */
	SPINS = 32,
	/* After this number of time limits, a wait ends even if room is still made. */
	ANEW = 9,
	OWNER_AT = offsetof(struct probe_room, gate.turns[0].owner),
	ARRIVED_AT = offsetof(struct probe_room, gate.arrived)
};

/*
 * Registers that a stub may need after a wait, and that the wait, with its system calls, changes.
 */
static const int kept[] = {FORM_FROM, FORM_POINTER, FORM_NEXT, FORM_SPARE, FORM_SPARE_2};
enum { KEPT = sizeof(kept) / sizeof(*kept) };

/*
 * Words on the stack, behind the saved registers, about the wait of a hit. SINCE: its start, or 0
 * if the hit does not wait. QUIET: when `moved` last changed. MADE: its value then.
 */
enum { SINCE, QUIET, MADE, FIRST_KEPT, SECONDS = FIRST_KEPT + KEPT, NANOSECONDS, WORDS };
_Static_assert((int)WORDS == (int)WAIT_WORDS, "so much is skipped");

/*
 * Labels: look again; there is room; a hit has waited in vain; the controller is dead; the time is
 * over; others have taken all room for too long.
 */
struct ways {
	int again, room, vain, dead, late, starved;
};

static struct form_mem word(const struct stub_plan *p, int number)
{
	return form_temp(p->wait_temp + number);
}

static struct form_mem room_word(size_t offset)
{
	return form_at(FORM_NEXT, (int32_t)offset);
}

/* Notes that the hit has not waited yet. */
static void form_wait_none(struct form *f, const struct stub_plan *p)
{
	if (p->at->action->record.room)
		form_store_const(f, word(p, SINCE), sizeof(uint64_t), 0);
}

static void form_jump_by_room(
	struct form *f, const struct stub_plan *p, int ring, int head, bool has_room, int label);

/* Jumps to `room` if the ring at POINTER has room; changes VALUE, SCRATCH. */
static void if_room(struct form *f, const struct stub_plan *p, int room)
{
	form_jump_by_room(f, p, FORM_POINTER, FORM_SCRATCH, true, room);
}

/* Wakes all threads that sleep on a word of the struct probe_room at NEXT. */
static void wake_all(struct form *f, int32_t at)
{
	form_compute(f, FORM_SET, room_word((size_t)at));
	form_futex_wake(f);
}

/*
 * SPARE = the ticks left. If `moved`, in FROM, has changed, the time starts anew; jumps to `late`
 * without time, to `starved` if others took all room for too long.
 */
static void time_left(struct form *f, const struct stub_plan *p, const struct ways *to)
{
	int began = form_label(f), known = form_label(f);
	int anew = form_label(f), same = form_label(f);

	form_now(f, p);
	form_jump_if_at_const(f, sizeof(uint64_t), word(p, SINCE), FORM_NE, 0, began);
	/* SINCE must not be 0, but the time is 0 if a filter forbids its system call. */
	form_jump_if_const(f, true, FORM_VALUE, FORM_NE, 0, known);
	form_const(f, FORM_VALUE, 1);
	form_place(f, known);
	form_store(f, FORM_VALUE, word(p, SINCE));
	form_jump(f, anew);
	form_place(f, began);
	form_jump_if_at(f, sizeof(uint64_t), FORM_FROM, FORM_EQ, word(p, MADE), same);
	form_move(f, FORM_RIGHT, FORM_VALUE);
	form_two_at(f, FORM_SUB, FORM_RIGHT, word(p, SINCE));
	form_const(f, FORM_SPARE, ANEW * p->at->action->record.wait_ticks);
	form_sub_jump_if(f, true, FORM_SPARE, FORM_NOT_ABOVE, FORM_RIGHT, to->starved);
	form_place(f, anew);
	form_store(f, FORM_VALUE, word(p, QUIET));
	form_store(f, FORM_FROM, word(p, MADE));
	form_place(f, same);
	form_two_at(f, FORM_SUB, FORM_VALUE, word(p, QUIET));
	form_const(f, FORM_SPARE, p->at->action->record.wait_ticks);
	/*
	 * The time also counts as over if it has gone backwards, because the clocks of CPUs differ.
	 */
	form_sub_jump_if(f, true, FORM_SPARE, FORM_NOT_ABOVE, FORM_VALUE, to->late);
}

/*
 * Sets ROOM_WAITED in the gate's owner word, whose value is in FROM, and wakes the controller if
 * the bit was clear. Jumps to `again` if room was made or the controller is gone.
 */
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
	form_memory_const(f, FORM_COUNT_SHARED, room_word(ARRIVED_AT), sizeof(uint32_t), 1);
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

static void wait_loop(struct form *f, const struct stub_plan *p, const struct ways *to)
{
	int spin = form_label(f);

	form_place(f, to->again);
	/* A signal handler may have called fork(). */
	form_jump_if_word(f, FORM_RIGHT, p->stub->guard, FORM_EQ, p->at->wait_over);
	form_address(f, FORM_NEXT, p->at->action->record.room);
	form_acquire(f, FORM_VALUE, room_word(OWNER_AT), sizeof(uint32_t));
	form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, 0, p->at->wait_over);
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
	FORM(f, .op = FORM_YIELD);
	form_sub_jump_if_const(f, false, FORM_RIGHT, FORM_NE, 1, spin);
	announce(f, to->again);
	if_room(f, p, to->room);
	/* Sleep while the owner equals FROM, for at most SPARE ticks, less than a second. */
	form_const(f, FORM_VALUE, p->at->action->record.wait_scale);
	form_move(f, FORM_RIGHT, FORM_SPARE);
	FORM(f, .op = FORM_MUL_HIGH, .wide = true, .shift = 32);
	form_store(f, FORM_VALUE, word(p, NANOSECONDS));
	form_store_const(f, word(p, SECONDS), sizeof(uint64_t), 0);
	form_compute(f, FORM_SET, room_word(OWNER_AT));
	form_move(f, FORM_SCRATCH, FORM_FROM);
	form_futex_wait(f, p->wait_temp + SECONDS);
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

/* Counts a hit that has waited, and its ticks; 0 if time has gone backwards. */
static void count_waited(struct form *f, const struct stub_plan *p)
{
	int none = form_label(f), forward = form_label(f);

	form_jump_if_at_const(f, sizeof(uint64_t), word(p, SINCE), FORM_EQ, 0, none);
	form_now(f, p);
	form_two_at(f, FORM_SUB, FORM_VALUE, word(p, SINCE));
	form_jump_if_const(f, true, FORM_VALUE, FORM_GE, 0, forward);
	form_const(f, FORM_VALUE, 0);
	form_place(f, forward);
	form_address(f, FORM_RIGHT, p->at->action->record.room);
	form_memory(f, FORM_COUNT_SHARED, FORM_VALUE,
		form_at(FORM_RIGHT, offsetof(struct probe_room, ticks)), sizeof(uint64_t));
	form_change(f, FORM_COUNT_SHARED, form_at(FORM_RIGHT, offsetof(struct probe_room, waited)));
	form_place(f, none);
}

static void form_record_again(struct form *f, struct stub_plan *p);

static void form_wait(struct form *f, struct stub_plan *p)
{
	struct ways to = {form_label(f), form_label(f), form_label(f), form_label(f), form_label(f),
		form_label(f)};

	if (!p->at->action->record.room)
		return;
	form_place(f, p->at->wait_first);
	form_wait_none(f, p);
	form_place(f, p->at->wait);
	keep(f, p);
	form_move(f, FORM_POINTER, FORM_SET);
	wait_loop(f, p, &to);

	form_place(f, to.room);
	restore(f, p);
	form_record_again(f, p);

	form_place(f, to.dead); /* the kernel wakes only one of the waiting threads, so wake all */
	form_jump_if_at_const(f, sizeof(uint64_t), word(p, SINCE), FORM_EQ, 0, to.vain);
	wake_all(f, OWNER_AT);
	form_jump(f, to.vain);
	/*
	 * Others may have taken the room since the wake-up: look once more. `moved` is read before,
	 * so if room is made just now, it differs from `gave_up`, and others still wait.
	 */
	form_place(f, to.late);
	form_acquire(f, FORM_FROM, room_word(offsetof(struct probe_room, moved)), sizeof(uint64_t));
	if_room(f, p, to.room);
	form_jump_if_at(f, sizeof(uint64_t), FORM_FROM, FORM_NE, word(p, MADE), to.again);
	form_store(f, FORM_FROM, room_word(offsetof(struct probe_room, gave_up)));
	form_jump(f, to.vain);
	form_place(f, to.starved); /* only this hit has waited in vain */
	if_room(f, p, to.room);
	form_place(f, to.vain);
	restore(f, p);
	form_jump(f, p->at->wait_lost);
	form_place(f, p->at->wait_over);
	restore(f, p);
	form_place(f, p->at->wait_done);
	count_waited(f, p);
	form_jump(f, p->at->done);
	form_place(f, p->at->wait_lost);
	count_waited(f, p);
	form_jump(f, p->at->lost);
}

/* ==== Writing records ========================================================================= */

static struct form_mem ring_word(size_t offset)
{
	return form_at(FORM_SET, (int32_t)offset);
}

static struct form_mem record_word(size_t offset)
{
	return form_at(FORM_RECORD, (int32_t)offset);
}

/* ---- The contents of a record ---------------------------------------------------------- */

/* In the sequence: copies all recorded pairs' bytes to POINTER, which becomes the record's end. */
static void form_copy_pairs(struct form *f, const struct stub_plan *p)
{
	bool many = p->recorded_pairs > 1;
	int next = form_label(f);

	if (many)
		form_compute(f, FORM_SPARE_2, form_temp(0));
	form_place(f, next);
	form_load(f, FORM_FROM, many ? form_at(FORM_SPARE_2, 0) : form_temp(0), 8, false);
	form_load(f, FORM_SCRATCH, many ? form_at(FORM_SPARE_2, 8) : form_temp(1), 4, false);
	form_two_const(f, FORM_AND, false, FORM_SCRATCH, RING_STRING_LENGTH);
	form_copy(f);
	form_two(f, FORM_ADD, true, FORM_POINTER, FORM_SCRATCH);
	if (many) {
		form_two_const(f, FORM_ADD, true, FORM_SPARE_2, 16);
		form_compute(f, FORM_VALUE, form_temp(2 * p->recorded_pairs));
		form_jump_if(f, true, FORM_SPARE_2, FORM_BELOW, FORM_VALUE, next);
	}
	form_two_const(f, FORM_ADD, true, FORM_POINTER, (int32_t)p->record_align - 1);
	form_two_const(f, FORM_AND, true, FORM_POINTER, -(int32_t)p->record_align);
}

void form_record_body(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	/* The thread's id, marked in a forked child. */
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
	form_memory(f, FORM_STORE, FORM_VALUE, record_word(offsetof(struct ring_record, tid)),
		sizeof(uint32_t));
	form_store_const(f, record_word(offsetof(struct ring_record, site)), sizeof(uint32_t),
		(int32_t)s->site);
	for (int i = 0; i < s->recorded; i++)
		form_capture(f, p, i);
	if (p->records_mask) {
		form_load(f, FORM_VALUE, form_temp(p->mask_temp), sizeof(uint32_t), false);
		form_store_packed(f, FORM_VALUE, record_word((size_t)p->record_mask_at),
			(uint8_t)ring_mask_bytes(s->recorded));
	}
	if (p->recorded_pairs || action_has_spans(p->at->action))
		form_compute(f, FORM_OUT, record_word(p->fixed_bytes));
	if (p->recorded_pairs)
		form_copy_pairs(f, p);
}

/*
 * Appends the duration and the start event's record at OUT. Signal handlers with as many open start
 * events as places may overwrite it, its time first: if that changes, jumps to `lost`.
 */
static void form_begin_of_span(struct form *f, const struct stub_plan *p, int lost)
{
	const struct arch_flights *flights = &p->at->action->flights;
	uint32_t most = flights->keep - flights->record;

	form_load(f, FORM_VALUE, form_temp(p->at->duration_temp), sizeof(uint64_t), false);
	form_store_packed(f, FORM_VALUE, form_at(FORM_OUT, 0), sizeof(uint64_t));
	form_two_const(f, FORM_ADD, true, FORM_OUT, sizeof(uint64_t));
	form_load(f, FORM_FROM, form_temp(p->at->kept_temp), sizeof(uint64_t), false);
	form_load(f, FORM_SCRATCH, form_at(FORM_FROM, offsetof(struct probe_begun, bytes)),
		sizeof(uint32_t), false);
	/* Check the length, because the program may have overwritten it. */
	form_two_const(f, FORM_AND, false, FORM_SCRATCH, -RING_ALIGN);
	form_compute(f, FORM_VALUE, form_at(FORM_SCRATCH, -(int32_t)sizeof(struct ring_record)));
	form_jump_if_const(f, true, FORM_VALUE, FORM_ABOVE,
		(int32_t)(most - sizeof(struct ring_record)), lost);
	form_two_const(f, FORM_ADD, true, FORM_FROM, (int32_t)flights->record);
	form_copy(f);
	form_load(f, FORM_VALUE, form_at(FORM_FROM, offsetof(struct ring_record, time)),
		sizeof(uint64_t), false);
	form_jump_if_at(
		f, sizeof(uint64_t), FORM_VALUE, FORM_NE, form_temp(p->at->begin_temp), lost);
	form_two(f, FORM_ADD, true, FORM_OUT, FORM_SCRATCH);
}

/* ---- Into a ring ----------------------------------------------------------------------- */

/*
 * Jumps to `label` if the ring has (`has_room`), or lacks, room for the longest record. head = its
 * head; changes FORM_VALUE.
 */
static void form_jump_by_room(
	struct form *f, const struct stub_plan *p, int ring, int head, bool has_room, int label)
{
	const struct arch_record *r = &p->at->action->record;

	form_acquire(
		f, FORM_VALUE, form_at(ring, offsetof(struct ring_header, tail)), sizeof(uint64_t));
	form_load(f, head, form_at(ring, offsetof(struct ring_header, head)), sizeof(uint64_t),
		false);
	/* VALUE = minus the bytes in use */
	form_two(f, FORM_SUB, true, FORM_VALUE, head);
	form_jump_if_const(f, true, FORM_VALUE, has_room ? FORM_GE : FORM_LT,
		(int32_t)(p->max_bytes - r->ring_bytes), label);
}

/*
 * Returns the place in the ring at SET of the byte after `offset` (RECORD or VALUE) bytes ever
 * written. Changes SCRATCH.
 */
static struct form_mem form_word_at(struct form *f, const struct stub_plan *p, int offset)
{
	form_extend(f, FORM_SCRATCH, offset, sizeof(uint32_t), false);
	form_two_const(
		f, FORM_AND, false, FORM_SCRATCH, (int32_t)(p->at->action->record.ring_bytes - 1));
	return form_indexed(FORM_SET, FORM_SCRATCH, sizeof(struct ring_header));
}

/*
 * Publishes a flight recorder's record, from the old head on: the word at the new head leads back
 * to it, with the next count. OUT is its length, if that varies.
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
	form_memory(f, FORM_PUBLISH, FORM_VALUE, head, sizeof(uint64_t));
}

static void form_ring_record(struct form *f, const struct stub_plan *p, int full)
{
	const struct arch_record *r = &p->at->action->record;
	struct form_mem head = ring_word(offsetof(struct ring_header, head));
	bool varies = p->recorded_pairs || action_has_spans(p->at->action);

	if (p->stub->on_until_full)
		form_jump_if_word(f, FORM_VALUE, p->stub->on + sizeof(uint32_t), FORM_NE, full);
	/* Acquire, so that a reader that sees this record sees the previous record's head. */
	if (r->overwrite)
		form_acquire(f, FORM_RECORD, head, sizeof(uint64_t));
	else
		form_jump_by_room(f, p, FORM_SET, FORM_RECORD, false, full);
	form_two_const(f, FORM_AND, false, FORM_RECORD, (int32_t)(r->ring_bytes - 1));
	form_compute(f, FORM_RECORD,
		form_indexed(FORM_SET, FORM_RECORD,
			sizeof(struct ring_header) + (r->overwrite ? RING_BACK_BYTES : 0)));
	form_store_now(f, p, record_word(offsetof(struct ring_record, time)));
	form_record_body(f, p);
	if (action_has_spans(p->at->action))
		form_begin_of_span(f, p, full);
	if (varies)
		form_two(f, FORM_SUB, true, FORM_OUT, FORM_RECORD);
	if (r->overwrite)
		form_publish_over(f, p);
	else if (varies)
		form_memory(f, FORM_PUBLISH_ADD, FORM_OUT, head, sizeof(uint64_t));
	else
		form_memory_const(
			f, FORM_PUBLISH_ADD, head, sizeof(uint64_t), (int32_t)p->fixed_bytes);
}

/* ---- Choosing a ring ------------------------------------------------------------------- */

/* Writes the record into this CPU's ring. */
static void form_cpu_record(struct form *f, struct stub_plan *p, int slow, int full)
{
	const struct arch_record *r = &p->at->action->record;
	const struct sequence *q = form_sequence_begin(f, p, FORM_SET, slow);

	form_cpu_set(f, p, FORM_SET, r->rings_shift, r->rings, slow);
	form_two(f, FORM_ADD, true, FORM_SET, FORM_VALUE);
	form_ring_record(f, p, full);
	form_sequence_end(f, p, q);
}

/* RIGHT = the ring to try first: the CPU's, or one chosen by the thread pointer. */
static void form_first_ring(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	int in_range = form_label(f);

	if (s->thread.has_rseq || p->isa->has_cpu_hint) {
		FORM(f, .op = FORM_CPU, .a = FORM_RIGHT);
		form_jump_if_const(f, false, FORM_RIGHT, FORM_BELOW, (int32_t)s->cpus, in_range);
		form_const(f, FORM_RIGHT, 0);
		form_place(f, in_range);
		return;
	}
	/* A hash of the thread pointer, scaled to the rings. */
	form_compute(f, FORM_RIGHT, form_at(FORM_THREAD, 0));
	form_two_const(f, FORM_SHR, true, FORM_RIGHT, 4);
	form_const(f, FORM_VALUE, UINT32_C(0x9e3779b1));
	form_two(f, FORM_MUL, false, FORM_RIGHT, FORM_VALUE);
	form_multiply(f, FORM_RIGHT, FORM_RIGHT, (int32_t)s->cpus);
	form_two_const(f, FORM_SHR, true, FORM_RIGHT, 32);
}

/* SET = a ring in [cpus, 2 * cpus) that this locks; jumps to `lost` if all are locked. */
static void form_lock_ring(struct form *f, const struct stub_plan *p, int lost)
{
	const struct arch_record *r = &p->at->action->record;
	int next = form_label(f), got = form_label(f), wrapped = form_label(f);

	form_first_ring(f, p);
	form_const(f, FORM_SCRATCH, p->stub->cpus);
	form_place(f, next);
	form_compute(f, FORM_SET, form_at(FORM_RIGHT, (int32_t)p->stub->cpus));
	form_two_const(f, FORM_SHL, true, FORM_SET, r->rings_shift);
	form_address(f, FORM_VALUE, r->rings);
	form_two(f, FORM_ADD, true, FORM_SET, FORM_VALUE);
	form_const(f, FORM_VALUE, 1);
	form_memory(f, FORM_EXCHANGE, FORM_VALUE, ring_word(offsetof(struct ring_header, lock)),
		sizeof(uint32_t));
	form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, 0, got);
	form_two_const(f, FORM_ADD, false, FORM_RIGHT, 1);
	form_jump_if_const(f, false, FORM_RIGHT, FORM_BELOW, (int32_t)p->stub->cpus, wrapped);
	form_const(f, FORM_RIGHT, 0);
	form_place(f, wrapped);
	form_sub_jump_if_const(f, false, FORM_SCRATCH, FORM_NE, 1, next);
	form_jump(f, lost);
	form_place(f, got);
	/* Read the time only after another thread has released the lock. */
	FORM(f, .op = FORM_FENCE);
}

static void form_unlock_ring(struct form *f)
{
	form_memory_const(f, FORM_PUBLISH, ring_word(offsetof(struct ring_header, lock)),
		sizeof(uint32_t), 0);
}

void form_record(struct form *f, struct stub_plan *p)
{
	form_prepare_stacks(f, p);
	if (p->stub->thread.has_rseq)
		form_cpu_record(f, p, p->at->slow, p->at->full);
	else
		form_jump(f, p->at->slow);
}

/* Writes the record after a wait, with captures prepared again, because memory may have changed. */
static void form_record_again(struct form *f, struct stub_plan *p)
{
	int full = form_label(f);

	form_prepare_none(f, p);
	form_prepare(f, p, UINT32_MAX);
	form_prepare_stacks(f, p);
	if (!p->stub->thread.has_rseq) {
		form_jump(f, p->at->slow_again);
		return;
	}
	form_cpu_record(f, p, p->at->slow_again, full);
	form_jump(f, p->at->wait_done);
	form_place(f, full);
	form_sequence_leave(f, p);
	form_jump(f, p->at->wait);
}

/* The path of threads without rseq, of aborted sequences, and of hits without room. */
void form_record_slow(struct form *f, struct stub_plan *p)
{
	bool waits = p->at->action->record.room != 0;
	int full = form_label(f);

	form_place(f, p->at->slow);
	form_wait_none(f, p);
	form_place(f, p->at->slow_again);
	form_sequence_leave(f, p);
	form_lock_ring(f, p, waits ? p->at->wait_lost : p->at->lost);
	form_ring_record(f, p, full);
	form_unlock_ring(f);
	form_jump(f, waits ? p->at->wait_done : p->at->done);
	form_place(f, full);
	form_unlock_ring(f);
	form_jump(f, waits ? p->at->wait : p->at->lost);
	form_place(f, p->at->full);
	form_sequence_leave(f, p);
	form_jump(f, waits ? p->at->wait_first : p->at->lost);
	form_wait(f, p);
}
