/* SPDX-License-Identifier: MIT */
/*
 * Sampling: one hit in N, and at most so many per unit of time.
 *
 * One in N is counted on each CPU separately. A rate applies to the session, across all CPUs,
 * in windows of time; one word holds the window's number and its hits, so both change at once.
 */
#include "arch/layout.h"
#include "arch/x86/stub/plan.h"

/* %rdx = the updated number of hits since the last sampled one; 0: sample this one. */
static void emit_every(struct emit *e, struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	struct emit_mem seen = mem_indexed(RAX, RCX, offsetof(struct probe_slot, seen));
	const struct sequence *q;
	int keep = emit_label(e);

	q = emit_sequence_begin(e, p, RCX, p->slow_sample);
	emit_cpu_set(e, p, RCX, s->slots_shift, s->slots + s->slot_offset, p->slow_sample);
	emit_mem(e, true, OP_MOV_LOAD, RDX, seen);
	emit_imm(e, true, IMM_ADD, RDX, 1);
	emit_imm(e, true, IMM_CMP, RDX, (int32_t)s->every);
	emit_jump_label(e, CC_B, keep);
	emit_const(e, RDX, 0);
	emit_place(e, keep);
	emit_mem(e, true, OP_MOV_STORE, RDX, seen);
	emit_sequence_end(e, p, q);
}

/*
 * %rdi = the window's number, shifted left by 32. %rax = the old word; %rdx = the new one: one
 * hit more, or the first hit of a new window.
 */
static void emit_rate(struct emit *e, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	int again = emit_label(e), same = emit_label(e), change = emit_label(e);

	emit_time(e, p);
	emit_const(e, RCX, s->rate_ticks);
	emit_const(e, RDX, 0);
	emit_one(e, true, ONE_DIV, RCX);
	emit_shift(e, true, true, RAX, 32);
	emit_reg(e, true, OP_MOV_LOAD, RDI, RAX);
	emit_lea_to(e, RSI, s->rate_word);
	emit_place(e, again);
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_at(RSI, 0));
	emit_reg(e, true, OP_MOV_LOAD, RCX, RAX);
	emit_reg(e, true, OP_XOR, RCX, RDI);
	emit_shift(e, true, false, RCX, 32);
	emit_jump_label(e, CC_E, same);
	emit_mem(e, true, OP_LEA, RDX, mem_at(RDI, 1));
	emit_jump_label(e, -1, change);
	emit_place(e, same);
	emit_imm(e, false, IMM_CMP, RAX, (int32_t)s->rate);
	emit_jump_label(e, CC_AE, p->out);
	emit_mem(e, true, OP_LEA, RDX, mem_at(RAX, 1));
	emit_place(e, change);
	emit_lock(e);
	emit_mem(e, true, OP_CMPXCHG, RDX, mem_at(RSI, 0));
	emit_jump_label(e, CC_NE, again);
}

void emit_sample(struct emit *e, struct stub_plan *p)
{
	if (p->stub->every > 1) {
		if (p->stub->thread.has_rseq) {
			emit_every(e, p);
			emit_reg(e, true, OP_TEST, RDX, RDX);
			emit_jump_label(e, CC_NE, p->out);
		} else {
			emit_jump_label(e, -1, p->slow_sample);
		}
	}
	emit_place(e, p->sampled);
	if (p->stub->rate)
		emit_rate(e, p);
}

/* A thread without rseq: counts modulo N in the set that all share. */
void emit_sample_slow(struct emit *e, const struct stub_plan *p)
{
	if (p->stub->every <= 1)
		return;
	emit_place(e, p->slow_sample);
	emit_sequence_leave(e, p);
	emit_shared_set(e, p, RCX, p->stub->slot_offset + offsetof(struct probe_slot, seen));
	emit_const(e, RAX, 1);
	emit_lock(e);
	emit_mem(e, true, OP_XADD, RAX, mem_at(RCX, 0));
	emit_imm(e, true, IMM_ADD, RAX, 1);
	emit_const(e, RDX, 0);
	emit_const(e, RCX, p->stub->every);
	emit_one(e, true, ONE_DIV, RCX);
	emit_reg(e, true, OP_TEST, RDX, RDX);
	emit_jump_label(e, CC_E, p->sampled);
	emit_jump_label(e, -1, p->out);
}
