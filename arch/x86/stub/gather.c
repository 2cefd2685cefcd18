/* SPDX-License-Identifier: MIT */
/*
 * Gathering: a hit's value is added to a cell (struct probe_cell).
 *
 * A restartable sequence publishes with one store, so a cell takes two sequences. One stores
 * the sum, and before it whatever may safely be done twice (the extremes, the last value); the
 * other stores the count or the value's bucket. Each is exact by itself, on whichever CPU it
 * runs.
 *
 * The sum of doubles takes a vector register and the processor's rules for rounding and
 * exceptions, which are the program's: half of %xmm0 and %mxcsr are kept in temporaries before
 * the sequence, and put back before it ends, or wherever it is left. Exceptions are masked
 * meanwhile, and rounding is to the nearest.
 */
#include "arch/layout.h"
#include "arch/x86/stub/plan.h"

#define FIELD(name) mem_at(RDI, offsetof(struct probe_cell, name))

/* Whether there is anything besides the count. */
static bool has_values(const struct stub_plan *p)
{
	return p->stub->gather.parts & ~(unsigned int)ARCH_GATHER_BUCKETS;
}

static bool adds_doubles(const struct stub_plan *p)
{
	return p->stub->gather.is_double && p->stub->gather.parts & ARCH_GATHER_SUM;
}

/* ---- Doubles ---------------------------------------------------------------------- */

enum { MXCSR_DEFAULT = 0x1f80, PREFIX_DOUBLE = 0x66, PREFIX_SCALAR = 0xf2, XMM0 = 0 };

/* The temporaries from p->double_temp on. */
enum { KEPT_XMM, KEPT_MXCSR, OUR_MXCSR, OPERAND, OLD_SUM };

static struct emit_mem kept(const struct stub_plan *p, int which)
{
	return temp_at(p->double_temp + which);
}

/* An instruction of the low half of %xmm0. */
static void emit_double(struct emit *e, uint8_t prefix, enum emit_op op, struct emit_mem mem)
{
	emit_u8(e, prefix);
	emit_mem(e, false, op, XMM0, mem);
}

static void emit_keep_vector(struct emit *e, const struct stub_plan *p)
{
	if (!adds_doubles(p))
		return;
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_STORE, kept(p, KEPT_XMM));
	emit_mem(e, false, OP_MXCSR, MXCSR_STORE, kept(p, KEPT_MXCSR));
	emit_store_imm(e, false, kept(p, OUR_MXCSR), MXCSR_DEFAULT);
}

/* May be done again. */
static void emit_restore_vector(struct emit *e, const struct stub_plan *p)
{
	if (!adds_doubles(p))
		return;
	emit_mem(e, false, OP_MXCSR, MXCSR_LOAD, kept(p, KEPT_MXCSR));
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_LOAD, kept(p, KEPT_XMM));
}

/* %rcx = %rcx + the double in memory. */
static void emit_add_double(struct emit *e, const struct stub_plan *p, struct emit_mem mem)
{
	emit_mem(e, true, OP_MOV_STORE, RCX, kept(p, OPERAND));
	emit_mem(e, false, OP_MXCSR, MXCSR_LOAD, kept(p, OUR_MXCSR));
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_LOAD, kept(p, OPERAND));
	emit_double(e, PREFIX_SCALAR, OP_ADDS, mem);
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_STORE, kept(p, OPERAND));
	emit_restore_vector(e, p);
	emit_mem(e, true, OP_MOV_LOAD, RCX, kept(p, OPERAND));
}

static void emit_sum_of_doubles(struct emit *e, const struct stub_plan *p, bool shared)
{
	int again = emit_label(e);

	if (!shared) {
		emit_add_double(e, p, FIELD(sum));
		emit_mem(e, true, OP_MOV_STORE, RCX, FIELD(sum));
		return;
	}
	emit_place(e, again);
	emit_mem(e, true, OP_MOV_LOAD, RAX, FIELD(sum));
	emit_mem(e, true, OP_MOV_STORE, RAX, kept(p, OLD_SUM));
	emit_mem(e, true, OP_MOV_LOAD, RCX, temp_at(p->value_temp));
	emit_add_double(e, p, kept(p, OLD_SUM));
	emit_lock(e);
	emit_mem(e, true, OP_CMPXCHG, RCX, FIELD(sum));
	emit_jump_label(e, CC_NE, again);
}

/* %rcx = the bucket of the double in %rax, which is not negative; changes %rax. */
static void emit_bucket_of_double(struct emit *e)
{
	int done = emit_label(e);

	emit_reg(e, false, OP_XOR, RCX, RCX);
	emit_shift(e, true, false, RAX, CELL_DOUBLE_SHIFT);
	emit_imm(e, true, IMM_SUB, RAX, CELL_DOUBLE_FIRST);
	emit_jump_label(e, CC_B, done);
	emit_const(e, RCX, CELL_NEGATIVE - 1);
	emit_reg(e, true, OP_CMP, RAX, RCX);
	emit_jump_label(e, CC_AE, done);
	emit_reg(e, true, OP_MOV_LOAD, RCX, RAX);
	emit_place(e, done);
}

/* ---- With the CPU's own cell at %rdi --------------------------------------------- */

/* A word keeps the largest %rdx it has seen. */
static void emit_keep_largest(struct emit *e, struct emit_mem word, bool shared)
{
	int done = emit_label(e), again = emit_label(e);

	if (!shared) {
		emit_mem(e, true, OP_CMP, RDX, word);
		emit_jump_label(e, CC_BE, done);
		emit_mem(e, true, OP_MOV_STORE, RDX, word);
	} else {
		emit_mem(e, true, OP_MOV_LOAD, RAX, word);
		emit_place(e, again);
		emit_reg(e, true, OP_CMP, RDX, RAX);
		emit_jump_label(e, CC_BE, done);
		emit_lock(e);
		emit_mem(e, true, OP_CMPXCHG, RDX, word);
		emit_jump_label(e, CC_NE, again);
	}
	emit_place(e, done);
}

/* Everything except the count; the sum comes last. */
static void emit_values(struct emit *e, const struct stub_plan *p, bool shared)
{
	const struct arch_gather *g = &p->stub->gather;

	emit_mem(e, true, OP_MOV_LOAD, RCX, temp_at(p->value_temp));
	if (g->parts & ARCH_GATHER_EXTREMES) {
		if (g->is_double)
			emit_order_of_double(e);
		else
			emit_reg(e, true, OP_MOV_LOAD, RDX, RCX);
		if (g->is_signed)
			emit_flip(e, RDX, 63);
		emit_keep_largest(e, FIELD(most), shared);
		emit_one(e, true, ONE_NOT, RDX);
		emit_keep_largest(e, FIELD(least), shared);
	}
	if (g->parts & ARCH_GATHER_LAST) {
		emit_mem(e, true, OP_MOV_STORE, RCX, FIELD(last));
		emit_time(e, p);
		emit_mem(e, true, OP_MOV_STORE, RAX, FIELD(last_time));
	}
	if (adds_doubles(p)) {
		emit_sum_of_doubles(e, p, shared);
	} else if (g->parts & ARCH_GATHER_SUM) {
		if (shared)
			emit_lock(e);
		emit_mem(e, true, OP_ADD_TO, RCX, FIELD(sum));
	}
}

/* %rcx = the bucket of the number in %rax, which is not negative; changes %rax and %rdx. */
static void emit_bucket_of_number(struct emit *e)
{
	emit_reg(e, true, OP_MOV_LOAD, RDX, RAX);
	emit_imm(e, true, IMM_OR, RDX, 1 << CELL_SUB_BITS);
	emit_reg(e, true, OP_BSR, RCX, RDX);
	emit_imm(e, false, IMM_SUB, RCX, CELL_SUB_BITS);
	emit_shift_cl(e, true, SHIFT_RIGHT, RAX);
	emit_shift(e, false, true, RCX, CELL_SUB_BITS);
	emit_reg(e, true, OP_ADD, RCX, RAX);
}

/* Counts the hit: in the bucket of its value (see CELL_SUB_BITS), or in `count`. */
static void emit_count_value(struct emit *e, const struct stub_plan *p, bool shared)
{
	const struct arch_gather *g = &p->stub->gather;
	struct emit_mem word = FIELD(count);
	int found = emit_label(e), plain = emit_label(e);

	if (g->parts & ARCH_GATHER_BUCKETS) {
		word = (struct emit_mem){.base = RDI,
			.index = RCX,
			.scale = 8,
			.disp = offsetof(struct probe_cell, buckets)};
		emit_mem(e, true, OP_MOV_LOAD, RAX, temp_at(p->value_temp));
		if (g->is_signed || g->is_double) {
			emit_reg(e, true, OP_TEST, RAX, RAX);
			emit_jump_label(e, CC_NS, plain);
			emit_const(e, RCX, CELL_NEGATIVE);
			emit_jump_label(e, -1, found);
			emit_place(e, plain);
		}
		if (g->is_double)
			emit_bucket_of_double(e);
		else
			emit_bucket_of_number(e);
	}
	emit_place(e, found);
	if (shared)
		emit_lock(e);
	emit_inc(e, true, word);
}

/* ---- Where the cell is -------------------------------------------------------------- */

static const struct sequence *emit_own_cell(struct emit *e, struct stub_plan *p, int slow)
{
	const struct arch_stub *s = p->stub;
	const struct sequence *q = emit_sequence_begin(e, p, RDI, slow);

	emit_cpu_set(e, p, RDI, s->slots_shift, s->slots + s->gather.cell, slow);
	emit_reg(e, true, OP_ADD, RDI, RAX);
	if (s->gather.key_count)
		emit_lookup(e, p, q->retry, p->full);
	return q;
}

static void emit_shared_cell(struct emit *e, const struct stub_plan *p)
{
	emit_shared_set(e, p, RDI, p->stub->gather.cell);
	if (p->stub->gather.key_count)
		emit_lookup(e, p, -1, p->lost);
}

/* ---- The action ------------------------------------------------------------------------ */

void emit_gather(struct emit *e, struct stub_plan *p)
{
	const struct arch_gather *g = &p->stub->gather;
	const struct sequence *q;

	emit_prepare_stacks(e, p);
	if (g->value) {
		emit_expr(e, p, &p->frame, g->value, p->lost);
		emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->value_temp));
	} else if (p->stub->flights.table) {
		emit_end(e, p);
	}
	if (g->key_count)
		emit_key(e, p);
	emit_keep_vector(e, p);
	if (!p->stub->thread.has_rseq) {
		emit_jump_label(e, -1, p->slow);
		return;
	}
	if (has_values(p)) {
		q = emit_own_cell(e, p, p->slow);
		emit_values(e, p, false);
		emit_sequence_end(e, p, q);
	}
	q = emit_own_cell(e, p, p->slow_update);
	emit_count_value(e, p, false);
	emit_sequence_end(e, p, q);
}

void emit_gather_slow(struct emit *e, const struct stub_plan *p)
{
	emit_place(e, p->slow);
	if (has_values(p)) {
		emit_sequence_leave(e, p);
		emit_restore_vector(e, p);
		emit_shared_cell(e, p);
		emit_values(e, p, true);
	}
	emit_place(e, p->slow_update);
	emit_sequence_leave(e, p);
	emit_shared_cell(e, p);
	emit_count_value(e, p, true);
	emit_jump_label(e, -1, p->out);
	emit_place(e, p->full);
	emit_sequence_leave(e, p);
	emit_restore_vector(e, p);
	emit_jump_label(e, -1, p->lost);
}
