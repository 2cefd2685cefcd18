/* SPDX-License-Identifier: MIT */
/*
 * Recording: a hit's time, thread, site and arguments go into a ring.
 *
 * The time is read inside the sequence, or with the lock held, so the records of one ring are
 * in time order.
 */
#include "arch/layout.h"
#include "arch/x86/stub/plan.h"

bool stub_has_spans(const struct arch_stub *s)
{
	return s->flights.table && s->flights.record;
}

bool stub_keeps_begins(const struct arch_stub *s)
{
	return s->flights.table && s->flights.keep;
}

/*
 * In a flight recorder, the word at the new head leads back to this record, which begins at the
 * old head. REG_OUT holds its length if it varies.
 */
static void emit_publish_over(struct emit *e, const struct stub_plan *p)
{
	struct emit_mem head = mem_at(REG_RING, offsetof(struct ring_header, head));

	emit_mem(e, true, OP_MOV_LOAD, REG_RECORD, head);
	if (p->recorded_pairs)
		emit_mem(e, true, OP_LEA, RAX, mem_indexed(REG_RECORD, REG_OUT, RING_BACK_BYTES));
	else
		emit_mem(
			e, true, OP_LEA, RAX, mem_at(REG_RECORD, p->fixed_bytes + RING_BACK_BYTES));
	emit_reg(e, false, OP_MOV_LOAD, RDX, RAX);
	emit_imm(e, false, IMM_AND, RDX, p->stub->ring_bytes - 1);
	emit_mem(e, true, OP_MOV_STORE, REG_RECORD,
		mem_indexed(REG_RING, RDX, sizeof(struct ring_header)));
	emit_mem(e, true, OP_MOV_STORE, RAX, head);
}

/* The thread's id, marked if in a forked child. Changes %rax, %rdx. */
static void emit_tid(struct emit *e, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	if (s->thread.has_tid)
		emit_mem(e, false, OP_MOV_LOAD, RAX, mem_fs(s->thread.tid_offset));
	else if (p->kernel_tid)
		emit_mem(e, false, OP_MOV_LOAD, RAX, temp_at(p->tid_temp));
	else
		emit_const(e, RAX, 0);
	if (s->own) {
		int own = emit_label(e);

		emit_test_u32(e, s->own, RDX);
		emit_jump_label(e, CC_NE, own);
		emit_imm(e, false, IMM_OR, RAX, (int32_t)RING_TID_CHILD);
		emit_place(e, own);
	}
	emit_mem(
		e, false, OP_MOV_STORE, RAX, mem_at(REG_RECORD, offsetof(struct ring_record, tid)));
}

void emit_record_body(struct emit *e, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	emit_tid(e, p);
	emit_store_imm(e, false, mem_at(REG_RECORD, offsetof(struct ring_record, site)), s->site);
	for (int i = 0; i < s->recorded; i++)
		emit_capture(e, p, i);
	if (p->records_mask) {
		emit_mem(e, false, OP_MOV_LOAD, RAX, temp_at(p->mask_temp));
		emit_store(e, mem_at(REG_RECORD, p->record_mask_at), ring_mask_bytes(s->recorded));
	}
	if (p->recorded_pairs || stub_has_spans(s))
		emit_mem(e, true, OP_LEA, REG_OUT, mem_at(REG_RECORD, p->fixed_bytes));
	if (p->recorded_pairs)
		emit_copy_pairs(e, p);
}

/* ---- Spans -------------------------------------------------------------------------- */

/*
 * Appends the duration and the begin's record at REG_OUT. The end holds the begin, but a signal
 * handler that begins as much as there is room for writes there. Its time then differs, and the
 * span is lost: jumps to `lost`. The writer changes the time first, and x86 keeps the order of
 * stores, and that of loads.
 */
static void emit_begin_of_span(struct emit *e, const struct stub_plan *p, int lost)
{
	const struct arch_flights *f = &p->stub->flights;
	uint32_t most = f->keep - f->record;

	emit_mem(e, true, OP_MOV_LOAD, RAX, temp_at(p->duration_temp));
	emit_store(e, mem_at(REG_OUT, 0), 8);
	emit_imm(e, true, IMM_ADD, REG_OUT, 8);
	emit_mem(e, true, OP_MOV_LOAD, RSI, temp_at(p->kept_temp));
	emit_mem(e, false, OP_MOV_LOAD, RDX, mem_at(RSI, offsetof(struct probe_begun, bytes)));
	/* The program may have overwritten it. */
	emit_imm(e, false, IMM_AND, RDX, -RING_ALIGN);
	emit_mem(e, false, OP_LEA, RAX, mem_at(RDX, -(int32_t)sizeof(struct ring_record)));
	emit_imm(e, false, IMM_CMP, RAX, (int32_t)(most - sizeof(struct ring_record)));
	emit_jump_label(e, CC_A, lost);
	emit_imm(e, true, IMM_ADD, RSI, (int32_t)f->record);
	emit_copy(e);
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_at(RSI, offsetof(struct ring_record, time)));
	emit_mem(e, true, OP_CMP, RAX, temp_at(p->begin_temp));
	emit_jump_label(e, CC_NE, lost);
	emit_reg(e, true, OP_ADD, REG_OUT, RDX);
}

/* ---- In a ring ---------------------------------------------------------------------- */

/*
 * Writes a record into the ring at REG_RING and publishes it; jumps to `full` if there is no
 * room. The last instruction publishes. Everything before it can be repeated, or interrupted by
 * another hit, without loss.
 *
 * The store to `head` pairs with the consumer's acquiring load of it, and the load of `tail`
 * with the consumer's releasing store: on x86, plain moves are enough.
 */
void emit_ring_record(struct emit *e, const struct stub_plan *p, int full)
{
	const struct arch_stub *s = p->stub;
	struct emit_mem head = mem_at(REG_RING, offsetof(struct ring_header, head));
	bool varies = p->recorded_pairs || stub_has_spans(s);

	emit_mem(e, true, OP_MOV_LOAD, REG_RECORD, head);
	if (!s->overwrite) {
		emit_mem(e, true, OP_LEA, RAX, mem_at(REG_RECORD, p->max_bytes));
		emit_mem(
			e, true, OP_SUB, RAX, mem_at(REG_RING, offsetof(struct ring_header, tail)));
		emit_imm(e, true, IMM_CMP, RAX, s->ring_bytes);
		emit_jump_label(e, CC_A, full);
	}
	emit_imm(e, false, IMM_AND, REG_RECORD, s->ring_bytes - 1);
	emit_mem(e, true, OP_LEA, REG_RECORD,
		mem_indexed(REG_RING, REG_RECORD,
			sizeof(struct ring_header) + (s->overwrite ? RING_BACK_BYTES : 0)));
	emit_store_time(e, p, mem_at(REG_RECORD, offsetof(struct ring_record, time)));
	emit_record_body(e, p);
	if (stub_has_spans(s))
		emit_begin_of_span(e, p, full);
	if (varies)
		emit_reg(e, true, OP_SUB, REG_OUT, REG_RECORD);
	if (s->overwrite)
		emit_publish_over(e, p);
	else if (varies)
		emit_mem(e, true, OP_ADD_TO, REG_OUT, head);
	else
		emit_imm_mem(e, true, IMM_ADD, head, p->fixed_bytes);
}

/*
 * REG_RING = a ring of the sets [cpus, 2 * cpus), locked; jumps to `lost` if none is free. The
 * search starts at the CPU's own number, if known.
 */
static void emit_lock_ring(struct emit *e, const struct arch_stub *s, int lost)
{
	int in_range = emit_label(e), next = emit_label(e), got = emit_label(e);
	int wrapped = emit_label(e);

	emit_cpu_hint(e, RCX);
	emit_imm(e, false, IMM_CMP, RCX, s->cpus);
	emit_jump_label(e, CC_B, in_range);
	emit_const(e, RCX, 0);
	emit_place(e, in_range);
	emit_const(e, RDX, s->cpus);
	emit_place(e, next);
	emit_mem(e, true, OP_LEA, REG_RING, mem_at(RCX, s->cpus));
	emit_shift(e, true, true, REG_RING, s->rings_shift);
	emit_lea_to(e, RAX, s->rings);
	emit_reg(e, true, OP_ADD, REG_RING, RAX);
	emit_const(e, RAX, 1);
	emit_mem(e, false, OP_XCHG, RAX, mem_at(REG_RING, offsetof(struct ring_header, lock)));
	emit_reg(e, false, OP_TEST, RAX, RAX);
	emit_jump_label(e, CC_E, got);
	emit_mem(e, false, OP_LEA, RCX, mem_at(RCX, 1));
	emit_imm(e, false, IMM_CMP, RCX, s->cpus);
	emit_jump_label(e, CC_B, wrapped);
	emit_const(e, RCX, 0);
	emit_place(e, wrapped);
	emit_imm(e, false, IMM_SUB, RDX, 1);
	emit_jump_label(e, CC_NE, next);
	emit_jump_label(e, -1, lost);
	emit_place(e, got);
	/* Do not read the time ahead, while another thread had the lock. */
	emit_bytes(e, "\x0f\xae\xe8", 3); /* lfence */
}

static void emit_unlock_ring(struct emit *e)
{
	emit_store_imm(e, false, mem_at(REG_RING, offsetof(struct ring_header, lock)), 0);
}

void emit_record(struct emit *e, struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	const struct sequence *q;

	if (stub_has_spans(s))
		emit_end(e, p);
	emit_prepare_stacks(e, p);
	if (!s->thread.has_rseq) {
		emit_jump_label(e, -1, p->slow);
		return;
	}
	q = emit_sequence_begin(e, p, REG_RING, p->slow);
	emit_cpu_set(e, p, REG_RING, s->rings_shift, s->rings, p->slow);
	emit_reg(e, true, OP_ADD, REG_RING, RAX);
	emit_ring_record(e, p, p->full);
	emit_sequence_end(e, p, q);
}

/* The path of threads without rseq, of aborted sequences, and of hits that find no room. */
void emit_record_slow(struct emit *e, struct stub_plan *p)
{
	bool waits = p->stub->room != 0;
	int full = emit_label(e);

	emit_place(e, p->slow);
	emit_wait_none(e, p);
	emit_place(e, p->slow_again);
	emit_sequence_leave(e, p);
	emit_lock_ring(e, p->stub, waits ? p->wait_lost : p->lost);
	emit_ring_record(e, p, full);
	emit_unlock_ring(e);
	emit_jump_label(e, -1, waits ? p->wait_done : p->out);
	emit_place(e, full);
	emit_unlock_ring(e);
	emit_jump_label(e, -1, waits ? p->wait : p->lost);
	emit_place(e, p->full);
	emit_sequence_leave(e, p);
	emit_jump_label(e, -1, waits ? p->wait_first : p->lost);
	emit_wait(e, p);
}
