/* SPDX-License-Identifier: MIT */
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
#include "arch/layout.h"
#include "arch/stub/plan.h"

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

void form_wait_none(struct form *f, const struct stub_plan *p)
{
	if (p->stub->room)
		form_store_const(f, word(p, SINCE), sizeof(uint64_t), 0);
}

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

void form_wait(struct form *f, struct stub_plan *p)
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
