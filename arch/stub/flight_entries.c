/* SPDX-License-Identifier: MIT */
/*
 * Entries of the table of flights: finding, taking, freeing. flights.c explains the table.
 *
 * Memory order. Only one thread writes to an entry: the one that has taken it by a compare and swap
 * of its state, which acquires, or that it belongs to. It lets other threads in by a store to the
 * state (by key, and for a new entry) or to the depth (by thread), which publishes its writes. The
 * compare and swap may become visible after some of the writes, but others use a key only after
 * reading a state or depth that was published after it.
 *
 * By key: a search acquires the state before it compares the key, which is that of this state or
 * newer, and is compared again when the entry is taken, because the state may have changed back. A
 * start publishes the state after raising `away` in the home entry; an end lowers `away` after
 * freeing the entry. So a thread that has learned of a start sees both.
 *
 * By thread, if others can take entries at depth 0: a search acquires the depth before it compares
 * the key, and so sees the key of whoever published a depth above 0. At depth 0, the compare and
 * swap covers state and depth, and the key is compared again. An end lowers the depth with a
 * store-release, after its reads and writes.
 *
 * By thread, if others cannot take entries: a thread sees its own writes, and other threads'
 * entries never have its key.
 */
#include "arch/stub/flights.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

enum { SPINS = 128, U32 = sizeof(uint32_t), U64 = sizeof(uint64_t) };

static int32_t pair_state(const struct stub_plan *p)
{
	return (int32_t)(FLIGHT_PAIR + p->at->action->flights.pair);
}

static int32_t entry_bytes(const struct stub_plan *p)
{
	const struct arch_flights *f = &p->at->action->flights;
	uint32_t bytes =
		sizeof(struct probe_flight) + f->depth * (8 + (f->identities ? 8 : 0) + f->keep);

	bytes += f->text ? 8 + ((f->text + 7) & ~7u) : 0;
	return (int32_t)((bytes + 63) & ~63u);
}

static int32_t text_offset(const struct stub_plan *p)
{
	const struct arch_flights *f = &p->at->action->flights;

	return (int32_t)(sizeof(struct probe_flight) + f->depth * (8 + f->keep));
}

/* ---- Searching ---------------------------------------------------------------------- */

/*
 * SPARE = the first entry to look at for the key in FROM, SPARE_2 = the number of entries to look
 * at. Changes RIGHT.
 */
static void first_entry(struct form *f, const struct stub_plan *p)
{
	const struct arch_flights *flights = &p->at->action->flights;

	form_const(f, FORM_RIGHT, GOLDEN);
	form_compute(f, FORM_SPARE, form_at(FORM_FROM, (int32_t)flights->pair));
	if (flights->process) {
		/*
		 * The upper half of the product is the index. This adds GOLDEN times the process.
		 */
		form_load(f, FORM_SPARE_2, form_temp(p->at->process_temp), U32, false);
		form_two_const(f, FORM_SHL, true, FORM_SPARE_2, 32);
		form_two(f, FORM_ADD, true, FORM_SPARE, FORM_SPARE_2);
	}
	form_two(f, FORM_MUL, true, FORM_SPARE, FORM_RIGHT);
	form_two_const(f, FORM_SHR, true, FORM_SPARE, 32);
	form_two_const(f, FORM_AND, false, FORM_SPARE, (int32_t)flights->entries - 1);
	form_const(f, FORM_SPARE_2, FLIGHT_PROBES_MAX);
}

static void entry_address(struct form *f, const struct stub_plan *p)
{
	form_multiply(f, FORM_RIGHT, FORM_SPARE, entry_bytes(p));
	form_two(f, FORM_ADD, true, FORM_RIGHT, FORM_POINTER);
}

/* Goes to the next entry and jumps to `next`; falls through after the last. */
static void advance(struct form *f, const struct stub_plan *p, int next)
{
	form_two_const(f, FORM_ADD, false, FORM_SPARE, 1);
	form_two_const(f, FORM_AND, false, FORM_SPARE, (int32_t)p->at->action->flights.entries - 1);
	form_sub_jump_if_const(f, false, FORM_SPARE_2, FORM_NE, 1, next);
}

/*
 * Compares the entry at RIGHT with this hit's key and process. Jumps to `label` if both are equal
 * (FORM_EQ), or not (FORM_NE); then maybe to `other`. Changes SCRATCH.
 */
static void compare_key(
	struct form *f, const struct stub_plan *p, int other, enum form_when when, int label)
{
	if (!p->at->action->flights.process) {
		form_jump_if_at(f, U64, FORM_FROM, when, FIELD(key), label);
		return;
	}
	form_jump_if_at(f, U64, FORM_FROM, FORM_NE, FIELD(key), other);
	form_load(f, FORM_SCRATCH, form_temp(p->at->process_temp), U32, false);
	form_jump_if_at(f, U32, FORM_SCRATCH, when, FIELD(process), label);
}

void flight_find_own(struct form *f, const struct stub_plan *p, int other, int missing)
{
	int next = form_label(f), found = form_label(f);

	first_entry(f, p);
	form_place(f, next);
	entry_address(f, p);
	form_jump_if_at_const(f, U32, FIELD(state), FORM_NE, pair_state(p), other);
	if (p->at->action->flights.process) {
		form_acquire(f, FORM_SET, FIELD(depth), U32);
		if (p->at->action->kind != ARCH_ACTION_BEGIN)
			form_jump_if_const(f, false, FORM_SET, FORM_EQ, 0, other);
	}
	compare_key(f, p, other, FORM_EQ, found);
	form_place(f, other);
	advance(f, p, next);
	form_jump(f, missing);
	form_place(f, found);
}

/* ---- Taking entries ------------------------------------------------------------------ */

void flight_publish(struct form *f, const struct stub_plan *p)
{
	form_memory_const(f, FORM_PUBLISH, FIELD(state), U32, pair_state(p));
}

/*
 * Takes the entry at RIGHT if its state is VALUE and, with 8 `bytes`, its depth 0. Jumps to `label`
 * if the entry was taken (FORM_EQ), or was not (FORM_NE).
 */
static void take_if(struct form *f, uint8_t bytes, enum form_when when, int label)
{
	form_const(f, FORM_SCRATCH, FLIGHT_TAKEN);
	form_cas(f, FIELD(state), bytes, FORM_SCRATCH, when, label);
}

/* Restores what form_compare_text() has changed: hash, searches left, table. */
static void load_search(struct form *f, const struct stub_plan *p)
{
	form_load(f, FORM_FROM, form_temp(p->at->match_temp), U64, false);
	form_load(f, FORM_NEXT, form_temp(p->at->match_temp + 1), U64, false);
	form_address(f, FORM_POINTER, p->at->action->flights.table);
}

void flight_take(struct form *f, const struct stub_plan *p, int missing)
{
	int again = form_label(f), next = form_label(f), other = form_label(f);
	int busy = form_label(f), taken = form_label(f), stale = form_label(f);
	int more = form_label(f), looked = form_label(f);
	int another = form_label(f);

	form_const(f, FORM_NEXT, SPINS);
	form_place(f, again);
	form_const(f, FORM_SET, 0);
	first_entry(f, p);
	form_place(f, next);
	entry_address(f, p);
	form_acquire(f, FORM_VALUE, FIELD(state), U32);
	form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, FLIGHT_TAKEN, busy);
	form_jump_if_const(f, false, FORM_VALUE, FORM_NE, pair_state(p), other);
	compare_key(f, p, other, FORM_NE, other);
	take_if(f, U32, FORM_NE, busy);
	/* Before it was taken, the entry may have been freed and given to another key. */
	if (p->at->action->flights.text) {
		compare_key(f, p, stale, FORM_NE, stale);
		form_store(f, FORM_NEXT, form_temp(p->at->match_temp + 1));
		form_compare_text(f, p, p->at->action->flights.string, text_offset(p), another);
		load_search(f, p);
		form_jump(f, taken);
		form_place(f, another);
		load_search(f, p);
		form_jump(f, stale);
	} else {
		compare_key(f, p, stale, FORM_EQ, taken);
	}
	form_place(f, stale);
	flight_publish(f, p);
	form_place(f, busy);
	form_const(f, FORM_SET, 1);
	form_place(f, other);
	form_jump_if_const(f, false, FORM_SPARE_2, FORM_NE, FLIGHT_PROBES_MAX, more);
	form_jump_if_at_const(f, U32, FIELD(away), FORM_EQ, 0, looked);
	form_place(f, more);
	advance(f, p, next);
	form_place(f, looked);
	form_jump_if_const(f, false, FORM_SET, FORM_EQ, 0, missing);
	FORM(f, .op = FORM_YIELD);
	form_sub_jump_if_const(f, false, FORM_NEXT, FORM_NE, 1, again);
	form_jump(f, missing);
	form_place(f, taken);
}

/*
 * Takes an entry at depth 0 (RIGHT) and jumps to `taken`. Falls through if there is no such entry.
 */
static void take_idle(struct form *f, const struct stub_plan *p, int taken)
{
	int next = form_label(f), other = form_label(f);

	first_entry(f, p);
	form_place(f, next);
	entry_address(f, p);
	form_load(f, FORM_VALUE, FIELD(state), U64, false); /* the depth is in the upper half */
	form_jump_if_const(f, true, FORM_VALUE, FORM_BELOW, FLIGHT_PAIR, other);
	form_const(f, FORM_SCRATCH, UINT32_MAX);
	form_jump_if(f, true, FORM_VALUE, FORM_ABOVE, FORM_SCRATCH, other);
	take_if(f, U64, FORM_EQ, taken);
	form_place(f, other);
	advance(f, p, next);
}

/* Stores the taken entry's owner: key, process, thread, text. */
static void own(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	form_store(f, FORM_FROM, FIELD(key));
	form_store_const(f, FIELD(depth), U32, 0);
	if (p->at->action->flights.process) {
		form_load(f, FORM_VALUE, form_temp(p->at->process_temp), U32, false);
		form_memory(f, FORM_STORE, FORM_VALUE, FIELD(process), U32);
	}
	if (s->thread.has_tid) {
		form_load(f, FORM_VALUE, form_at(FORM_THREAD, s->thread.tid_offset), U32, false);
		form_memory(f, FORM_STORE, FORM_VALUE, FIELD(tid), U32);
	}
	if (p->at->action->flights.text)
		form_write_text(f, p, p->at->action->flights.string, text_offset(p));
}

/*
 * Stores the distance of the entry at RIGHT from its key's home. Unless it is 0, counts the entry
 * in the home's `away`.
 */
static void note_distance(struct form *f, const struct stub_plan *p)
{
	int near = form_label(f);

	form_store_const(f, FIELD(distance), U32, 0);
	form_const(f, FORM_SCRATCH, FLIGHT_PROBES_MAX);
	form_sub_jump_if(f, false, FORM_SCRATCH, FORM_EQ, FORM_SPARE_2, near);
	form_memory(f, FORM_STORE, FORM_SCRATCH, FIELD(distance), U32);
	form_two(f, FORM_SUB, false, FORM_SPARE, FORM_SCRATCH);
	form_two_const(f, FORM_AND, false, FORM_SPARE, (int32_t)p->at->action->flights.entries - 1);
	form_multiply(f, FORM_SPARE, FORM_SPARE, entry_bytes(p));
	form_memory_const(f, FORM_COUNT_SHARED,
		form_indexed(FORM_POINTER, FORM_SPARE, offsetof(struct probe_flight, away)), U32,
		1);
	form_place(f, near);
}

void flight_claim(struct form *f, const struct stub_plan *p, int own_entry)
{
	int next = form_label(f), claimed = form_label(f), other = form_label(f);

	first_entry(f, p);
	form_place(f, next);
	entry_address(f, p);
	form_const(f, FORM_VALUE, FLIGHT_FREE);
	take_if(f, U32, FORM_EQ, claimed);
	if (own_entry >= 0) {
		form_jump_if_const(f, false, FORM_VALUE, FORM_NE, pair_state(p), other);
		compare_key(f, p, other, FORM_EQ, own_entry);
		form_place(f, other);
	}
	advance(f, p, next);
	if (p->at->action->flights.process && !flights_by_key(&p->at->action->flights))
		take_idle(f, p, claimed);
	form_jump(f, p->at->lost);
	form_place(f, claimed);
	if (flights_by_key(&p->at->action->flights))
		note_distance(f, p);
	own(f, p);
}

void flight_retake(struct form *f, const struct stub_plan *p, int other)
{
	int ours = form_label(f), stale = form_label(f);

	form_const(f, FORM_VALUE, (uint32_t)pair_state(p));
	take_if(f, U64, FORM_NE, other);
	/* Another thread may have had the entry before this one took it. */
	compare_key(f, p, stale, FORM_EQ, ours);
	form_place(f, stale);
	flight_publish(f, p);
	form_jump(f, other);
	form_place(f, ours);
	own(f, p);
}

/* ---- Freeing entries ------------------------------------------------------------------- */

void flight_free(struct form *f, const struct stub_plan *p)
{
	int near = form_label(f), inside = form_label(f), done = form_label(f);

	form_jump_if_at_const(f, U32, FIELD(distance), FORM_EQ, 0, near);
	form_load(f, FORM_SCRATCH, FIELD(distance), U32, false);
	form_memory_const(f, FORM_PUBLISH, FIELD(state), U32, FLIGHT_FREE);
	/* Limit the distance, because the program may have overwritten it. */
	form_two_const(f, FORM_AND, false, FORM_SCRATCH, FLIGHT_PROBES_MAX - 1);
	form_multiply(f, FORM_SCRATCH, FORM_SCRATCH, entry_bytes(p));
	form_move(f, FORM_NEXT, FORM_RIGHT);
	form_two(f, FORM_SUB, true, FORM_NEXT, FORM_SCRATCH);
	form_address(f, FORM_SPARE, p->at->action->flights.table);
	form_jump_if(f, true, FORM_NEXT, FORM_NOT_BELOW, FORM_SPARE, inside);
	form_const(
		f, FORM_SPARE, (uint64_t)p->at->action->flights.entries * (uint32_t)entry_bytes(p));
	form_two(f, FORM_ADD, true, FORM_NEXT, FORM_SPARE);
	form_place(f, inside);
	form_memory_const(f, FORM_COUNT_SHARED,
		form_at(FORM_NEXT, offsetof(struct probe_flight, away)), U32, -1);
	form_jump(f, done);
	form_place(f, near);
	form_memory_const(f, FORM_PUBLISH, FIELD(state), U32, FLIGHT_FREE);
	form_place(f, done);
}
