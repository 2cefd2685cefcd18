/* SPDX-License-Identifier: MIT */
/* Addresses, loads and stores. */
#include "arch/aarch64/stub/lower.h"
#include "arch/stub/plan.h"

/* ---- Addresses -------------------------------------------------------------------------- */

static unsigned int log2_of(unsigned int scale)
{
	return (unsigned int)__builtin_ctz(scale);
}

/* A register is about to be changed. */
static void changes(struct a64 *e, int rd)
{
	if (rd == A64_STEP)
		e->has_thread = false;
}

void a64_add_disp(struct a64 *e, int rd, int rn, int64_t disp)
{
	changes(e, rd);
	if (a64_op_const(e, true, disp < 0 ? A64_SUB : A64_ADD, rd, rn,
		    (uint64_t)(disp < 0 ? -disp : disp)))
		return;
	a64_const(e, A64_STEP_2, (uint64_t)disp);
	if (rn == A64_SP) {
		changes(e, A64_STEP);
		a64_op_const(e, true, A64_ADD, A64_STEP, A64_SP, 0);
		rn = A64_STEP;
	}
	a64_op(e, true, A64_ADD, rd, rn, A64_STEP_2);
}

/* A64_STEP = the thread pointer, which it may have been since the last instruction. */
static void load_thread(struct a64 *e)
{
	if (!e->has_thread)
		a64_thread(e, A64_STEP);
	e->has_thread = true;
}

static int plain_base(struct form_mem m)
{
	switch (m.base) {
	case FORM_FRAME:
	case FORM_CALLER: /* return addresses are in registers */
		return A64_SP;
	case FORM_THREAD:
		return A64_STEP;
	case FORM_NONE:
		return A64_ZERO;
	default:
		return a64_register(m.base);
	}
}

/*
 * The register that has an address without its displacement: if there is no base, there is an
 * index. May change rd, or A64_STEP.
 */
static int base_of(struct a64 *e, struct form_mem m, int rd)
{
	int base = plain_base(m);

	if (m.base == FORM_THREAD)
		load_thread(e);
	if (m.index == FORM_NONE)
		return base;
	changes(e, rd);
	if (base == A64_SP && m.base != FORM_NONE) {
		changes(e, A64_STEP);
		a64_op_const(e, true, A64_ADD, A64_STEP, A64_SP, 0);
		base = A64_STEP;
	}
	a64_add_shifted(e, rd, base, a64_register(m.index), log2_of(m.scale));
	return rd;
}

int a64_address_of(struct a64 *e, struct form_mem m, int rd)
{
	int base = base_of(e, m, rd);

	if (base != A64_SP && !m.disp)
		return base;
	a64_add_disp(e, rd, base, m.disp);
	return rd;
}

/* Whether one instruction can add the index itself. */
static bool is_indexed(struct form_mem m, unsigned int bytes)
{
	return m.base != FORM_NONE && m.index != FORM_NONE && !m.disp &&
	       (m.scale == 1 || m.scale == bytes);
}

bool a64_is_direct(struct form_mem m, unsigned int bytes)
{
	if (m.base == FORM_THREAD || m.base == FORM_NONE)
		return false;
	return m.index == FORM_NONE ? a64_disp_fits(m.disp, bytes) : is_indexed(m, bytes);
}

/* ---- Loads and stores ------------------------------------------------------------------- */

void a64_lower_load(struct a64 *e, int rt, struct form_mem m, unsigned int bytes, bool is_signed)
{
	bool indexed = is_indexed(m, bytes);
	int index = m.index, base;

	if (indexed)
		m.index = FORM_NONE;
	base = base_of(e, m, A64_STEP);
	if (indexed) {
		a64_load_indexed(
			e, rt, base, a64_register(index), log2_of(m.scale), bytes, is_signed);
		return;
	}
	if (a64_load(e, rt, base, m.disp, bytes, is_signed))
		return;
	a64_const(e, A64_STEP_2, (uint64_t)(int64_t)m.disp);
	a64_load_indexed(e, rt, base, A64_STEP_2, 0, bytes, is_signed);
}

void a64_lower_store(struct a64 *e, int rt, struct form_mem m, unsigned int bytes)
{
	bool indexed = is_indexed(m, bytes);
	int index = m.index, base;

	if (indexed)
		m.index = FORM_NONE;
	base = base_of(e, m, A64_STEP);
	if (indexed) {
		a64_store_indexed(e, rt, base, a64_register(index), log2_of(m.scale), bytes);
		return;
	}
	if (a64_store(e, rt, base, m.disp, bytes))
		return;
	a64_const(e, A64_STEP_2, (uint64_t)(int64_t)m.disp);
	a64_store_indexed(e, rt, base, A64_STEP_2, 0, bytes);
}

int a64_operand(struct a64 *e, const struct form_insn *i, int rd)
{
	if (!i->is_constant)
		return a64_register(i->a);
	if (!i->value)
		return A64_ZERO;
	a64_const(e, rd, i->value);
	return rd;
}

/* A number goes through A64_STEP_2, which what is not direct needs for the address. */
static void store(struct a64 *e, const struct form_insn *i)
{
	struct form_mem mem = i->mem;

	if (i->is_constant && i->value && !a64_is_direct(mem, i->bytes)) {
		int at = a64_address_of(e, mem, A64_STEP);

		a64_store(e, a64_operand(e, i, A64_STEP_2), at, 0, i->bytes);
	} else {
		a64_lower_store(e, a64_operand(e, i, A64_STEP_2), mem, i->bytes);
	}
}

/* A register that is as it was at the site is stored without a copy. */
static void store_original(const struct a64_lowering *l, const struct form_insn *i)
{
	int from = i->b;

	if (from == A64_SP || l->frame->saved[from] >= 0 || i->shift) {
		from = a64_register(FORM_VALUE);
		a64_original(l, i, from);
	}
	a64_lower_store(l->e, from, i->mem, i->bytes);
}

void a64_lower_memory(const struct a64_lowering *l, const struct form_insn *i)
{
	struct a64 *e = l->e;
	int at;

	switch (i->op) {
	case FORM_COMPUTE:
		at = a64_register(i->a);
		a64_add_disp(e, at, base_of(e, i->mem, at), i->mem.disp);
		break;
	case FORM_LOAD:
		a64_lower_load(e, a64_register(i->a), i->mem, i->bytes, i->is_signed);
		break;
	case FORM_STORE:
	case FORM_STORE_HALVES:
		store(e, i);
		break;
	case FORM_STORE_ORIGINAL:
		store_original(l, i);
		break;
	case FORM_STORE_VECTOR:
		a64_store_vector(e, i->b, a64_address_of(e, i->mem, A64_STEP));
		break;
	case FORM_ACQUIRE:
		at = a64_register(i->a);
		a64_load_acquire(e, at, a64_address_of(e, i->mem, at), i->bytes);
		break;
	default: /* FORM_PUBLISH */
		at = a64_address_of(e, i->mem, A64_STEP);
		a64_store_release(e, a64_operand(e, i, A64_STEP_2), at, i->bytes);
		break;
	}
}
