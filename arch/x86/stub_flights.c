/* SPDX-License-Identifier: MIT */
/*
 * Pairs: the time between a begin and its end (struct probe_flight).
 *
 * By thread: an entry belongs to the thread whose thread pointer is its key, and only that
 * thread changes it. A signal handler may come in between. With rseq the sequence is aborted
 * then. Without rseq, a handler that balances its begins and ends does no harm, and otherwise
 * the depth is off only by its own begins: the time is stored before the depth counts it, in
 * case the handler never returns, and once more afterwards, because the handler may have stored
 * its own there. Only a thread's first begin uses a locked instruction.
 *
 * By key: a thread that changes an entry takes it (state FLIGHT_TAKEN) with a locked
 * instruction, and gives it back. It does not wait for others but retries SPINS times, because
 * the owner may be the very thread that a signal interrupted.
 *
 *	rsi	the key
 *	r8	the table
 *	rcx	the entry looked at, number r10
 *	r11	how many more may be looked at
 *	r9	how many more times (by key)
 *	rdi	some entry was taken (by key)
 */
#include "arch/layout.h"
#include "arch/x86/stub_plan.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)
#define FIELD(name) mem_at(RCX, offsetof(struct probe_flight, name))

enum { SPINS = 64 };

static uint32_t pair_state(const struct stub_plan *p)
{
	return FLIGHT_PAIR + p->stub->flights.pair;
}

static int32_t entry_bytes(const struct stub_plan *p)
{
	uint32_t bytes = sizeof(struct probe_flight) + 8 * p->stub->flights.depth;

	return (int32_t)((bytes + 63) & ~63u);
}

/* ---- Looking for an entry ----------------------------------------------------------- */

/* Sets %rsi and %r8, then %r10, %r11 and %rcx to the first entry. */
static void emit_first_entry(struct emit *e, const struct stub_plan *p)
{
	const struct arch_flights *f = &p->stub->flights;

	emit_const(e, RCX, GOLDEN);
	emit_mem(e, true, OP_LEA, R10, mem_at(RSI, (int32_t)f->pair));
	emit_reg(e, true, OP_IMUL, R10, RCX);
	emit_shift(e, true, false, R10, 32);
	emit_imm(e, false, IMM_AND, R10, (int32_t)f->entries - 1);
	emit_const(e, R11, FLIGHT_PROBES_MAX);
}

static void emit_entry_address(struct emit *e, const struct stub_plan *p)
{
	emit_multiply(e, RCX, R10, entry_bytes(p));
	emit_reg(e, true, OP_ADD, RCX, R8);
}

/* Continues at `next` with the next entry, if one is left to look at. */
static void emit_advance(struct emit *e, const struct stub_plan *p, int next)
{
	emit_imm(e, false, IMM_ADD, R10, 1);
	emit_imm(e, false, IMM_AND, R10, (int32_t)p->stub->flights.entries - 1);
	emit_imm(e, false, IMM_SUB, R11, 1);
	emit_jump_label(e, CC_NE, next);
}

/* %rsi = the key of the pair. */
static void emit_flight_key(struct emit *e, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	if (s->flights.match) {
		emit_expr(e, p, &p->frame, s->flights.match, p->lost);
		emit_reg(e, true, OP_MOV_LOAD, RSI, RAX);
	} else if (s->thread.has_tp) {
		/* The thread pointer points to itself (System V ABI, TLS). */
		emit_mem(e, true, OP_MOV_LOAD, RSI, mem_fs(0));
	} else {
		emit_mem(e, true, OP_MOV_LOAD, RSI, temp_at(p->tid_temp));
	}
	emit_lea_to(e, R8, s->flights.table);
}

/* %rcx = the thread's entry; jumps to `missing` if there is none. */
static void emit_find_own(struct emit *e, const struct stub_plan *p, int missing)
{
	int next = emit_label(e), other = emit_label(e), found = emit_label(e);

	emit_first_entry(e, p);
	emit_place(e, next);
	emit_entry_address(e, p);
	emit_imm_mem(e, false, IMM_CMP, FIELD(state), (int32_t)pair_state(p));
	emit_jump_label(e, CC_NE, other);
	emit_mem(e, true, OP_CMP, RSI, FIELD(key));
	emit_jump_label(e, CC_E, found);
	emit_place(e, other);
	emit_advance(e, p, next);
	emit_jump_label(e, -1, missing);
	emit_place(e, found);
}

/* %rcx = an entry of the key, taken; jumps to `missing` if there is none. */
static void emit_take(struct emit *e, const struct stub_plan *p, int missing)
{
	int again = emit_label(e), next = emit_label(e), other = emit_label(e);
	int busy = emit_label(e), taken = emit_label(e);

	emit_const(e, R9, SPINS);
	emit_place(e, again);
	emit_const(e, RDI, 0);
	emit_first_entry(e, p);
	emit_place(e, next);
	emit_entry_address(e, p);
	emit_mem(e, false, OP_MOV_LOAD, RAX, FIELD(state));
	emit_imm(e, false, IMM_CMP, RAX, FLIGHT_TAKEN);
	emit_jump_label(e, CC_E, busy);
	emit_imm(e, false, IMM_CMP, RAX, (int32_t)pair_state(p));
	emit_jump_label(e, CC_NE, other);
	emit_mem(e, true, OP_CMP, RSI, FIELD(key));
	emit_jump_label(e, CC_NE, other);
	emit_const(e, RDX, FLIGHT_TAKEN);
	emit_lock(e);
	emit_mem(e, false, OP_CMPXCHG, RDX, FIELD(state));
	emit_jump_label(e, CC_NE, busy);
	/* Meanwhile it may have become another key's. */
	emit_mem(e, true, OP_CMP, RSI, FIELD(key));
	emit_jump_label(e, CC_E, taken);
	emit_store_imm(e, false, FIELD(state), (int32_t)pair_state(p));
	emit_place(e, busy);
	emit_const(e, RDI, 1);
	emit_place(e, other);
	emit_advance(e, p, next);
	emit_reg(e, false, OP_TEST, RDI, RDI);
	emit_jump_label(e, CC_E, missing);
	emit_bytes(e, "\xf3\x90", 2); /* pause */
	emit_imm(e, false, IMM_SUB, R9, 1);
	emit_jump_label(e, CC_NE, again);
	emit_jump_label(e, -1, missing);
	emit_place(e, taken);
}

/* %rcx = a free entry, claimed for the key and taken; without one the hit is lost. */
static void emit_claim(struct emit *e, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	int next = emit_label(e), claimed = emit_label(e);

	emit_first_entry(e, p);
	emit_place(e, next);
	emit_entry_address(e, p);
	emit_const(e, RAX, FLIGHT_FREE);
	emit_const(e, RDX, FLIGHT_TAKEN);
	emit_lock(e);
	emit_mem(e, false, OP_CMPXCHG, RDX, FIELD(state));
	emit_jump_label(e, CC_E, claimed);
	emit_advance(e, p, next);
	emit_jump_label(e, -1, p->lost);
	emit_place(e, claimed);
	emit_mem(e, true, OP_MOV_STORE, RSI, FIELD(key));
	emit_store_imm(e, false, FIELD(depth), 0);
	if (s->thread.has_tid) {
		emit_mem(e, false, OP_MOV_LOAD, RAX, mem_fs(s->thread.tid_offset));
		emit_mem(e, false, OP_MOV_STORE, RAX, FIELD(tid));
	}
}

/* ---- By thread ------------------------------------------------------------------------- */

/*
 * A dead thread may have left an entry to the thread that now has its thread pointer: what it
 * had begun will never end.
 */
static void emit_disown(struct emit *e, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	int same = emit_label(e);

	if (!s->thread.has_tid)
		return;
	emit_mem(e, false, OP_MOV_LOAD, RAX, mem_fs(s->thread.tid_offset));
	emit_mem(e, false, OP_CMP, RAX, FIELD(tid));
	emit_jump_label(e, CC_E, same);
	emit_store_imm(e, false, FIELD(depth), 0);
	emit_mem(e, false, OP_MOV_STORE, RAX, FIELD(tid));
	emit_place(e, same);
}

static struct emit_mem time_of(int index, int32_t disp)
{
	return (struct emit_mem){.base = RCX,
		.index = index,
		.scale = 8,
		.disp = (int32_t)offsetof(struct probe_flight, times) + disp};
}

/* Stores the time on top of the entry at %rcx; the depth publishes it. */
static void emit_push_time(struct emit *e, const struct stub_plan *p, int full)
{
	emit_mem(e, false, OP_MOV_LOAD, RDI, FIELD(depth));
	emit_imm(e, false, IMM_CMP, RDI, (int32_t)p->stub->flights.depth);
	emit_jump_label(e, CC_AE, full);
	emit_time(e, p);
	emit_mem(e, true, OP_MOV_STORE, RAX, time_of(RDI, 0));
	emit_inc(e, false, FIELD(depth));
}

/* The same without a sequence. */
static void emit_push_time_again(struct emit *e, const struct stub_plan *p, int full)
{
	emit_push_time(e, p, full);
	emit_mem(e, true, OP_MOV_STORE, RAX, time_of(RDI, 0));
}

/* %rax = the time on top, which is removed. */
static void emit_pop_time(struct emit *e, int empty)
{
	emit_mem(e, false, OP_MOV_LOAD, RDI, FIELD(depth));
	emit_reg(e, false, OP_TEST, RDI, RDI);
	emit_jump_label(e, CC_E, empty);
	emit_mem(e, true, OP_MOV_LOAD, RAX, time_of(RDI, -8));
	emit_dec(e, false, FIELD(depth));
}

static void emit_begin_own(struct emit *e, struct stub_plan *p)
{
	const struct sequence *q;
	int missing = emit_label(e), push = emit_label(e);

	emit_find_own(e, p, missing);
	emit_disown(e, p);
	emit_jump_label(e, -1, push);
	emit_place(e, missing);
	emit_claim(e, p);
	emit_store_imm(e, false, FIELD(state), (int32_t)pair_state(p));
	emit_place(e, push);
	if (p->stub->thread.has_rseq) {
		q = emit_sequence_begin(e, p, RDI, p->slow_flight);
		emit_push_time(e, p, p->full);
		emit_sequence_end(e, p, q);
	} else {
		emit_push_time_again(e, p, p->full);
	}
	emit_place(e, p->timed);
}

static void emit_end_own(struct emit *e, struct stub_plan *p)
{
	const struct sequence *q = NULL;

	emit_find_own(e, p, p->unmatched);
	emit_disown(e, p);
	if (p->stub->thread.has_rseq)
		q = emit_sequence_begin(e, p, RDI, p->slow_flight);
	emit_pop_time(e, p->unmatched);
	if (q)
		emit_sequence_end(e, p, q);
	emit_place(e, p->timed);
}

/* After an aborted sequence; %rcx is still the entry. */
void emit_flights_slow(struct emit *e, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	if (!s->flights.table || s->flights.match || !s->thread.has_rseq)
		return;
	emit_place(e, p->slow_flight);
	if (s->kind == ARCH_STUB_BEGIN)
		emit_push_time_again(e, p, p->full);
	else
		emit_pop_time(e, p->unmatched);
	emit_jump_label(e, -1, p->timed);
}

/* ---- By key ---------------------------------------------------------------------------- */

static void emit_begin_key(struct emit *e, struct stub_plan *p)
{
	int missing = emit_label(e), push = emit_label(e), full = emit_label(e);

	emit_take(e, p, missing);
	emit_jump_label(e, -1, push);
	emit_place(e, missing);
	emit_claim(e, p);
	emit_place(e, push);
	emit_push_time(e, p, full);
	emit_store_imm(e, false, FIELD(state), (int32_t)pair_state(p));
	emit_jump_label(e, -1, p->out);
	emit_place(e, full);
	emit_store_imm(e, false, FIELD(state), (int32_t)pair_state(p));
	emit_jump_label(e, -1, p->lost);
}

static void emit_end_key(struct emit *e, const struct stub_plan *p)
{
	int empty = emit_label(e), more = emit_label(e), done = emit_label(e);

	emit_take(e, p, p->unmatched);
	emit_pop_time(e, empty);
	emit_imm(e, false, IMM_CMP, RDI, 1);
	emit_jump_label(e, CC_NE, more);
	emit_store_imm(e, false, FIELD(state), FLIGHT_FREE);
	emit_jump_label(e, -1, done);
	emit_place(e, empty); /* the program overwrote it */
	emit_store_imm(e, false, FIELD(state), FLIGHT_FREE);
	emit_jump_label(e, -1, p->unmatched);
	emit_place(e, more);
	emit_store_imm(e, false, FIELD(state), (int32_t)pair_state(p));
	emit_place(e, done);
}

/* ---- Both ------------------------------------------------------------------------------ */

void emit_begin(struct emit *e, struct stub_plan *p)
{
	emit_flight_key(e, p);
	if (p->stub->flights.match)
		emit_begin_key(e, p);
	else
		emit_begin_own(e, p);
}

void emit_end(struct emit *e, struct stub_plan *p)
{
	int forward = emit_label(e);

	emit_time(e, p); /* first, to exclude our own time */
	emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->time_temp));
	emit_flight_key(e, p);
	if (p->stub->flights.match)
		emit_end_key(e, p);
	else
		emit_end_own(e, p);
	/* Time stamp counters of two CPUs may differ by a few ticks. */
	emit_mem(e, true, OP_MOV_LOAD, RCX, temp_at(p->time_temp));
	emit_reg(e, true, OP_SUB, RCX, RAX);
	emit_jump_label(e, CC_AE, forward);
	emit_const(e, RCX, 0);
	emit_place(e, forward);
	emit_mem(e, true, OP_MOV_STORE, RCX, temp_at(p->value_temp));
}
