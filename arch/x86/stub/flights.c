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
 *	rsi	the key
 *	r8	the table
 *	rcx	the entry looked at, number r10
 *	r11	how many more may be looked at
 *	r9	how many more times (by key)
 *	rdi	some entry was taken (by key)
 */
#include "arch/layout.h"
#include "arch/x86/stub/flights.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

enum { SPINS = 128 };

static uint32_t pair_state(const struct stub_plan *p)
{
	return FLIGHT_PAIR + p->stub->flights.pair;
}

static int32_t entry_bytes(const struct stub_plan *p)
{
	const struct arch_flights *f = &p->stub->flights;
	uint32_t bytes = sizeof(struct probe_flight) + f->depth * (8 + f->keep);

	return (int32_t)((bytes + 63) & ~63u);
}

/* ---- Looking for an entry ----------------------------------------------------------- */

/* Sets %rsi and %r8, then %r10, %r11 and %rcx to the first entry. */
static void emit_first_entry(struct emit *e, const struct stub_plan *p)
{
	const struct arch_flights *f = &p->stub->flights;

	emit_const(e, RCX, GOLDEN);
	emit_mem(e, true, OP_LEA, R10, mem_at(RSI, (int32_t)f->pair));
	if (f->process) {
		/* The product's upper half, of which the index is taken, then has it times GOLDEN.
		 */
		emit_mem(e, false, OP_MOV_LOAD, R11, temp_at(p->process_temp));
		emit_shift(e, true, true, R11, 32);
		emit_reg(e, true, OP_ADD, R10, R11);
	}
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

/*
 * Compares the key and the process of the entry at %rcx with ours: where the key is another, jumps
 * to `other`, else leaves the flags; changes %rdx.
 */
static void emit_compare_key(struct emit *e, const struct stub_plan *p, int other)
{
	emit_mem(e, true, OP_CMP, RSI, FIELD(key));
	if (!p->stub->flights.process)
		return;
	emit_jump_label(e, CC_NE, other);
	emit_mem(e, false, OP_MOV_LOAD, RDX, temp_at(p->process_temp));
	emit_mem(e, false, OP_CMP, RDX, FIELD(process));
}

/* Puts the number of the process into its temporary; changes %rax. */
static void emit_process(struct emit *e, const struct stub_plan *p)
{
	emit_lea_to(e, RAX, p->stub->flights.process);
	emit_mem(e, false, OP_MOV_LOAD, RAX, mem_at(RAX, 0));
	emit_reg(e, false, OP_TEST, RAX, RAX);
	emit_jump_label(e, CC_E, p->number);
	emit_place(e, p->numbered);
	emit_mem(e, false, OP_MOV_STORE, RAX, temp_at(p->process_temp));
}

/* Of two threads that come here at once, one's number is not used. */
static void emit_take_number(struct emit *e, const struct stub_plan *p)
{
	emit_place(e, p->number);
	emit_lea_to(e, RCX, p->stub->flights.processes);
	emit_const(e, RDX, 1);
	emit_lock(e);
	emit_mem(e, false, OP_XADD, RDX, mem_at(RCX, 0));
	emit_imm(e, false, IMM_ADD, RDX, 1);
	emit_jump_label(e, CC_E, p->number);
	emit_lea_to(e, RCX, p->stub->flights.process);
	emit_const(e, RAX, 0);
	emit_lock(e);
	emit_mem(e, false, OP_CMPXCHG, RDX, mem_at(RCX, 0));
	emit_jump_label(e, CC_NE, p->numbered);
	emit_reg(e, false, OP_MOV_LOAD, RAX, RDX);
	emit_jump_label(e, -1, p->numbered);
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
	if (s->flights.process)
		emit_process(e, p);
	emit_lea_to(e, R8, s->flights.table);
}

/*
 * %rcx = the thread's entry; jumps to `missing` if there is none. A jump to `other` looks for a
 * further one. If others can take entries, %rdi = the depth before the key was compared: an entry
 * that had the thread's key after a depth above 0 cannot be taken any more. (In between, a signal
 * handler may have made another thread's entry this thread's. It left depth 0, so the depth is
 * looked at once more.) An end skips entries at depth 0.
 */
static void emit_find_own(struct emit *e, const struct stub_plan *p, int other, int missing)
{
	int next = emit_label(e), found = emit_label(e);

	emit_first_entry(e, p);
	emit_place(e, next);
	emit_entry_address(e, p);
	emit_imm_mem(e, false, IMM_CMP, FIELD(state), (int32_t)pair_state(p));
	emit_jump_label(e, CC_NE, other);
	if (p->stub->flights.process) {
		emit_mem(e, false, OP_MOV_LOAD, RDI, FIELD(depth));
		if (p->stub->kind != ARCH_STUB_BEGIN) {
			emit_reg(e, false, OP_TEST, RDI, RDI);
			emit_jump_label(e, CC_E, other);
		}
	}
	emit_compare_key(e, p, other);
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
	int busy = emit_label(e), taken = emit_label(e), stale = emit_label(e);
	int more = emit_label(e), looked = emit_label(e);

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
	emit_compare_key(e, p, other);
	emit_jump_label(e, CC_NE, other);
	emit_const(e, RDX, FLIGHT_TAKEN);
	emit_lock(e);
	emit_mem(e, false, OP_CMPXCHG, RDX, FIELD(state));
	emit_jump_label(e, CC_NE, busy);
	/* Meanwhile it may have become another key's. */
	emit_compare_key(e, p, stale);
	emit_jump_label(e, CC_E, taken);
	emit_place(e, stale);
	emit_store_imm(e, false, FIELD(state), (int32_t)pair_state(p));
	emit_place(e, busy);
	emit_const(e, RDI, 1);
	emit_place(e, other);
	emit_imm(e, false, IMM_CMP, R11, FLIGHT_PROBES_MAX);
	emit_jump_label(e, CC_NE, more);
	emit_imm_mem(e, false, IMM_CMP, FIELD(away), 0);
	emit_jump_label(e, CC_E, looked);
	emit_place(e, more);
	emit_advance(e, p, next);
	emit_place(e, looked);
	emit_reg(e, false, OP_TEST, RDI, RDI);
	emit_jump_label(e, CC_E, missing);
	emit_bytes(e, "\xf3\x90", 2); /* pause */
	emit_imm(e, false, IMM_SUB, R9, 1);
	emit_jump_label(e, CC_NE, again);
	emit_jump_label(e, -1, missing);
	emit_place(e, taken);
}

/* %rcx = an unused entry, taken; jumps to `taken` with it. Others follow after it. */
static void emit_take_idle(struct emit *e, const struct stub_plan *p, int taken)
{
	int next = emit_label(e), other = emit_label(e);

	emit_first_entry(e, p);
	emit_place(e, next);
	emit_entry_address(e, p);
	emit_mem(e, true, OP_MOV_LOAD, RAX, FIELD(state)); /* and the depth */
	emit_imm(e, true, IMM_CMP, RAX, FLIGHT_PAIR);
	emit_jump_label(e, CC_B, other);
	emit_reg(e, true, OP_MOV_LOAD, RDX, RAX);
	emit_shift(e, true, false, RDX, 32);
	emit_jump_label(e, CC_NE, other);
	emit_const(e, RDX, FLIGHT_TAKEN);
	emit_lock(e);
	emit_mem(e, true, OP_CMPXCHG, RDX, FIELD(state));
	emit_jump_label(e, CC_E, taken);
	emit_place(e, other);
	emit_advance(e, p, next);
}

/* Notes in the entry at %rcx, which is taken, whose it is. */
static void emit_own(struct emit *e, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	emit_mem(e, true, OP_MOV_STORE, RSI, FIELD(key));
	emit_store_imm(e, false, FIELD(depth), 0);
	if (s->flights.process) {
		emit_mem(e, false, OP_MOV_LOAD, RAX, temp_at(p->process_temp));
		emit_mem(e, false, OP_MOV_STORE, RAX, FIELD(process));
	}
	if (s->thread.has_tid) {
		emit_mem(e, false, OP_MOV_LOAD, RAX, mem_fs(s->thread.tid_offset));
		emit_mem(e, false, OP_MOV_STORE, RAX, FIELD(tid));
	}
}

/* Notes how far the entry at %rcx is from where its key belongs, and there that it is away. */
static void emit_note_distance(struct emit *e, const struct stub_plan *p)
{
	int near = emit_label(e);

	emit_const(e, RDX, FLIGHT_PROBES_MAX);
	emit_reg(e, false, OP_SUB, RDX, R11);
	emit_mem(e, false, OP_MOV_STORE, RDX, FIELD(distance));
	emit_jump_label(e, CC_E, near);
	emit_reg(e, false, OP_SUB, R10, RDX);
	emit_imm(e, false, IMM_AND, R10, (int32_t)p->stub->flights.entries - 1);
	emit_multiply(e, R10, R10, entry_bytes(p));
	emit_lock(e);
	emit_inc(e, false, mem_indexed(R8, R10, offsetof(struct probe_flight, away)));
	emit_place(e, near);
}

/* Frees the entry at %rcx, which was taken by key; changes %rdx, %r9, %r10. */
static void emit_free(struct emit *e, const struct stub_plan *p)
{
	int near = emit_label(e), inside = emit_label(e);

	emit_mem(e, false, OP_MOV_LOAD, RDX, FIELD(distance));
	emit_store_imm(e, false, FIELD(state), FLIGHT_FREE);
	/* The program may have overwritten it. */
	emit_imm(e, false, IMM_AND, RDX, FLIGHT_PROBES_MAX - 1);
	emit_jump_label(e, CC_E, near);
	emit_multiply(e, RDX, RDX, entry_bytes(p));
	emit_reg(e, true, OP_MOV_LOAD, R9, RCX);
	emit_reg(e, true, OP_SUB, R9, RDX);
	emit_lea_to(e, R10, p->stub->flights.table);
	emit_reg(e, true, OP_CMP, R9, R10);
	emit_jump_label(e, CC_AE, inside);
	emit_const(e, R10, (uint64_t)p->stub->flights.entries * (uint32_t)entry_bytes(p));
	emit_reg(e, true, OP_ADD, R9, R10);
	emit_place(e, inside);
	emit_lock(e);
	emit_dec(e, false, mem_at(R9, offsetof(struct probe_flight, away)));
	emit_place(e, near);
}

/* %rcx = an entry for the key, taken; without one the hit is lost. */
static void emit_claim(struct emit *e, const struct stub_plan *p)
{
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
	if (p->stub->flights.process && !p->stub->flights.match)
		emit_take_idle(e, p, claimed);
	emit_jump_label(e, -1, p->lost);
	emit_place(e, claimed);
	if (p->stub->flights.match)
		emit_note_distance(e, p);
	emit_own(e, p);
}

/* ---- By thread ------------------------------------------------------------------------- */

/*
 * A dead thread may have left an entry to the thread that now has its thread pointer: what it
 * had begun will never end. If others may take the entry for that, jumps to `idle`.
 */
static void emit_disown(struct emit *e, const struct stub_plan *p, int idle)
{
	const struct arch_stub *s = p->stub;
	int same = emit_label(e);

	if (!s->thread.has_tid)
		return;
	emit_mem(e, false, OP_MOV_LOAD, RAX, mem_fs(s->thread.tid_offset));
	emit_mem(e, false, OP_CMP, RAX, FIELD(tid));
	emit_jump_label(e, CC_E, same);
	emit_store_imm(e, false, FIELD(depth), 0);
	if (s->flights.process)
		emit_jump_label(e, -1, idle);
	else
		emit_mem(e, false, OP_MOV_STORE, RAX, FIELD(tid));
	emit_place(e, same);
}

/* Takes the thread's own entry at depth 0; jumps to `other` if another thread was faster. */
static void emit_retake(struct emit *e, const struct stub_plan *p, int other)
{
	int ours = emit_label(e), stale = emit_label(e);

	emit_const(e, RAX, pair_state(p));
	emit_const(e, RDX, FLIGHT_TAKEN);
	emit_lock(e);
	emit_mem(e, true, OP_CMPXCHG, RDX, FIELD(state)); /* and the depth */
	emit_jump_label(e, CC_NE, other);
	/* Somebody else may also have had it meanwhile. */
	emit_compare_key(e, p, stale);
	emit_jump_label(e, CC_E, ours);
	emit_place(e, stale);
	emit_store_imm(e, false, FIELD(state), (int32_t)pair_state(p));
	emit_jump_label(e, -1, other);
	emit_place(e, ours);
	emit_own(e, p);
}

/*
 * No thread, and no signal handler, sees a new entry before the time is in it. So a handler
 * may have made another one for the thread. The innermost begin is always in the first of them.
 */
static void emit_begin_own(struct emit *e, struct stub_plan *p)
{
	int missing = emit_label(e), idle = emit_label(e), push = emit_label(e);
	int other = emit_label(e);
	const struct sequence *q;

	emit_find_own(e, p, other, missing);
	if (p->stub->flights.process) {
		emit_reg(e, false, OP_TEST, RDI, RDI);
		emit_jump_label(e, CC_E, idle);
		emit_imm_mem(e, false, IMM_CMP, FIELD(depth), 0);
		emit_jump_label(e, CC_E, idle);
	}
	emit_disown(e, p, idle);
	emit_keep_entry(e, p);
	if (p->stub->thread.has_rseq) {
		q = emit_sequence_begin(e, p, RDI, p->slow_flight);
		emit_push_begin(e, p);
		emit_sequence_end(e, p, q);
	} else {
		emit_push_begin_again(e, p);
	}
	emit_place(e, p->timed);
	emit_jump_label(e, -1, p->out);
	emit_place(e, idle);
	if (p->stub->flights.process) {
		emit_retake(e, p, other);
		emit_jump_label(e, -1, push);
	}
	emit_place(e, missing);
	emit_claim(e, p);
	emit_place(e, push);
	emit_keep_entry(e, p);
	emit_push_begin(e, p);
	emit_store_imm(e, false, FIELD(state), (int32_t)pair_state(p));
}

static void emit_end_own(struct emit *e, const struct stub_plan *p)
{
	int other = emit_label(e);

	emit_find_own(e, p, other, p->unmatched);
	if (p->stub->flights.process) {
		emit_imm_mem(e, false, IMM_CMP, FIELD(depth), 0);
		emit_jump_label(e, CC_E, other);
	}
	emit_disown(e, p, p->unmatched);
	emit_newest_begin(e, p, p->unmatched, p->gone);
}

/* After an aborted sequence, %rcx is still the entry, unless a begin was being kept. */
static void emit_begin_again(struct emit *e, const struct stub_plan *p)
{
	emit_place(e, p->slow_flight);
	if (stub_keeps_begins(p->stub))
		emit_mem(e, true, OP_MOV_LOAD, RCX, temp_at(p->entry_temp));
	emit_push_begin_again(e, p);
	emit_jump_label(e, -1, p->timed);
}

/* ---- By key ---------------------------------------------------------------------------- */

static void emit_begin_key(struct emit *e, const struct stub_plan *p)
{
	int missing = emit_label(e), push = emit_label(e);

	emit_take(e, p, missing);
	emit_jump_label(e, -1, push);
	emit_place(e, missing);
	emit_claim(e, p);
	emit_place(e, push);
	emit_keep_entry(e, p);
	emit_push_begin(e, p);
	emit_store_imm(e, false, FIELD(state), (int32_t)pair_state(p));
}

static void emit_end_key(struct emit *e, const struct stub_plan *p)
{
	int empty = emit_label(e), found = emit_label(e);

	emit_take(e, p, p->unmatched);
	emit_newest_begin(e, p, empty, p->gone);
	emit_jump_label(e, -1, found);
	emit_place(e, empty); /* the program overwrote it */
	emit_free(e, p);
	emit_jump_label(e, -1, p->unmatched);
	emit_place(e, found);
}

/* ---- Both ------------------------------------------------------------------------------ */

/*
 * The newest begin of the entry at %rcx, in place %edi, has ended; an entry that was taken by key
 * is given back, which changes %rdx, %r9 and %r10. `empty`: there is none, because the program has
 * overwritten it.
 */
static void emit_give_back(struct emit *e, const struct stub_plan *p, int empty)
{
	int more = emit_label(e), done = emit_label(e);

	emit_drop_begin(e);
	if (p->stub->flights.match) {
		emit_jump_label(e, CC_NE, more);
		emit_place(e, empty);
		emit_free(e, p);
		emit_jump_label(e, -1, done);
		emit_place(e, more);
		emit_store_imm(e, false, FIELD(state), (int32_t)pair_state(p));
		emit_place(e, done);
	} else {
		emit_place(e, empty);
	}
}

static bool holds_begins(const struct stub_plan *p)
{
	return stub_keeps_begins(p->stub) && p->stub->kind != ARCH_STUB_BEGIN;
}

void emit_hold_none(struct emit *e, const struct stub_plan *p)
{
	if (holds_begins(p))
		emit_store_imm(e, true, temp_at(p->entry_temp), 0);
}

void emit_release(struct emit *e, const struct stub_plan *p)
{
	int none = emit_label(e), empty = emit_label(e);

	if (!holds_begins(p))
		return;
	emit_mem(e, true, OP_MOV_LOAD, RCX, temp_at(p->entry_temp));
	emit_reg(e, true, OP_TEST, RCX, RCX);
	emit_jump_label(e, CC_E, none);
	emit_newest_place(e, p, empty);
	emit_give_back(e, p, empty);
	emit_place(e, none);
}

/* The end of a begin whose place another one has taken. */
static void emit_end_gone(struct emit *e, const struct stub_plan *p)
{
	emit_place(e, p->gone);
	emit_give_back(e, p, emit_label(e));
	emit_jump_label(e, -1, p->unmatched);
}

void emit_flights_slow(struct emit *e, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	if (!s->flights.table)
		return;
	if (s->flights.process)
		emit_take_number(e, p);
	if (s->kind != ARCH_STUB_BEGIN)
		emit_end_gone(e, p);
	else if (!s->flights.match && s->thread.has_rseq)
		emit_begin_again(e, p);
}

void emit_begin(struct emit *e, struct stub_plan *p)
{
	emit_flight_key(e, p);
	if (p->stub->flights.match)
		emit_begin_key(e, p);
	else
		emit_begin_own(e, p);
}

/* The duration in nanoseconds, of %rcx ticks; a pair that does not pass leaves nothing. */
static void emit_duration(struct emit *e, const struct stub_plan *p)
{
	const struct arch_flights *f = &p->stub->flights;

	if (p->has_duration) {
		emit_const(e, RAX, f->scale);
		emit_one(e, true, ONE_MUL, RCX);	  /* rdx:rax */
		emit_bytes(e, "\x48\x0f\xac\xd0\x20", 5); /* shrd $32,%rdx,%rax */
		emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->duration_temp));
	}
	if (p->has_duration && f->min_ns) {
		emit_const(e, RCX, f->min_ns);
		emit_reg(e, true, OP_CMP, RAX, RCX);
		emit_jump_label(e, CC_B, p->out);
	}
	emit_prepare_begun(e, p);
	if (f->filter)
		emit_filter(e, p, &p->frame, f->filter, p->out);
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
	if (holds_begins(p)) {
		emit_keep_entry(e, p);
		emit_note_kept(e, p);
	} else {
		emit_give_back(e, p, emit_label(e));
	}
	/* Time stamp counters of two CPUs may differ by a few ticks. */
	emit_mem(e, true, OP_MOV_LOAD, RCX, temp_at(p->time_temp));
	emit_reg(e, true, OP_SUB, RCX, RAX);
	emit_jump_label(e, CC_AE, forward);
	emit_const(e, RCX, 0);
	emit_place(e, forward);
	emit_mem(e, true, OP_MOV_STORE, RCX, temp_at(p->value_temp));
	emit_duration(e, p);
}
