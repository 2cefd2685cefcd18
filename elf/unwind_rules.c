/* SPDX-License-Identifier: MIT */
/*
 * Rules of call frame information.
 *
 * libdw returns every rule as a DWARF expression. Nearly all are "register plus offset" or "in
 * memory at the CFA plus offset"; these are recognised once, when the rule is built. The rest
 * (signal frames, the PLT, realigned stacks) run on a small stack machine that knows the
 * operations on 64-bit numbers (DWARF 5, 2.5.1). Files are untrusted, so its stack is bounded,
 * and it refuses jumps, with which an expression could loop forever.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "elf/unwind_rules.h"

enum { STACK_MAX = 32, OPS_MAX = 64 };

/* ---- Building rules ----------------------------------------------------------- */

/* DW_OP_bregN and its long form. */
static bool is_register(const Dwarf_Op *op, uint8_t *reg_ret, int64_t *offset_ret)
{
	uint64_t reg = op->number;

	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		reg = op->atom - DW_OP_breg0;
		*offset_ret = (int64_t)op->number;
	} else if (op->atom == DW_OP_bregx) {
		*offset_ret = (int64_t)op->number2;
	} else {
		return false;
	}
	*reg_ret = (uint8_t)reg;
	return reg < UNWIND_REGISTERS;
}

/* DW_OP_regN: the value is in another register. */
static bool is_in_register(const Dwarf_Op *op, uint8_t *reg_ret)
{
	uint64_t reg = op->number;

	if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)
		reg = op->atom - DW_OP_reg0;
	else if (op->atom != DW_OP_regx)
		return false;
	*reg_ret = (uint8_t)reg;
	return reg < UNWIND_REGISTERS;
}

/* "CFA" or "CFA + offset": the memory there or, with DW_OP_stack_value, the sum itself. */
static bool make_of_cfa(struct unwind_rule *rule, const Dwarf_Op *ops, size_t count)
{
	size_t at = 1;

	if (ops[0].atom != DW_OP_call_frame_cfa)
		return false;
	rule->offset = 0;
	if (at < count && ops[at].atom == DW_OP_plus_uconst)
		rule->offset = (int64_t)ops[at++].number;
	rule->how = UNWIND_AT_CFA;
	if (at < count && ops[at].atom == DW_OP_stack_value) {
		rule->how = UNWIND_CFA;
		at++;
	}
	return at == count;
}

static bool make_expression(struct unwind_rule *rule, const Dwarf_Op *ops, size_t count)
{
	if (!count || count > OPS_MAX)
		return false;
	rule->ops = malloc(count * sizeof(*rule->ops));
	if (!rule->ops)
		return false;
	memcpy(rule->ops, ops, count * sizeof(*rule->ops));
	rule->op_count = count;
	rule->how = UNWIND_EXPRESSION;
	return true;
}

bool unwind_rule_init_cfa(struct unwind_rule *rule, const Dwarf_Op *ops, size_t count)
{
	*rule = (struct unwind_rule){.is_cfa = true};
	if (count == 0)
		return false;
	if (count == 1 && is_register(&ops[0], &rule->reg, &rule->offset)) {
		rule->how = UNWIND_REGISTER;
		return true;
	}
	return make_expression(rule, ops, count);
}

bool unwind_rule_init(struct unwind_rule *rule, const Dwarf_Op *ops, size_t count)
{
	*rule = (struct unwind_rule){.how = ops ? UNWIND_UNDEFINED : UNWIND_SAME};
	if (count == 0 || make_of_cfa(rule, ops, count))
		return true;
	if (count == 1 && is_in_register(&ops[0], &rule->reg)) {
		rule->how = UNWIND_REGISTER;
		return true;
	}
	return make_expression(rule, ops, count);
}

void unwind_rule_deinit(struct unwind_rule *rule)
{
	free(rule->ops);
	*rule = (struct unwind_rule){0};
}

/* ---- Computing ------------------------------------------------------------------ */

struct machine {
	const struct unwind_registers *registers;
	const struct unwind_memory *memory;
	uint64_t cfa;
	uint64_t stack[STACK_MAX];
	size_t depth;
};

static bool push(struct machine *m, uint64_t value)
{
	if (m->depth == STACK_MAX)
		return false;
	m->stack[m->depth++] = value;
	return true;
}

static bool known(const struct unwind_registers *registers, uint8_t reg, uint64_t *ret)
{
	if (!(registers->known >> reg & 1))
		return false;
	*ret = registers->values[reg];
	return true;
}

/* Operations that push a value without popping one. */
static bool run_leaf(struct machine *m, const Dwarf_Op *op, bool *is_leaf_ret)
{
	uint64_t value;
	int64_t offset;
	uint8_t reg;

	*is_leaf_ret = true;
	if (is_register(op, &reg, &offset))
		return known(m->registers, reg, &value) && push(m, value + (uint64_t)offset);
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		return push(m, op->atom - DW_OP_lit0);
	switch (op->atom) {
	case DW_OP_const1u:
	case DW_OP_const1s:
	case DW_OP_const2u:
	case DW_OP_const2s:
	case DW_OP_const4u:
	case DW_OP_const4s:
	case DW_OP_const8u:
	case DW_OP_const8s:
	case DW_OP_constu:
	case DW_OP_consts:
		return push(m, op->number);
	case DW_OP_call_frame_cfa:
		return push(m, m->cfa);
	default:
		*is_leaf_ret = false;
		return false;
	}
}

/* Operations on the top value. */
static bool run_unary(struct machine *m, const Dwarf_Op *op, bool *is_unary_ret)
{
	uint64_t *top = &m->stack[m->depth - 1];

	*is_unary_ret = true;
	switch (op->atom) {
	case DW_OP_deref:
		return m->memory->read(m->memory->data, *top, top);
	case DW_OP_plus_uconst:
		*top += op->number;
		return true;
	case DW_OP_neg:
		*top = -*top;
		return true;
	case DW_OP_not:
		*top = ~*top;
		return true;
	case DW_OP_dup:
		return push(m, *top);
	case DW_OP_drop:
		m->depth--;
		return true;
	case DW_OP_nop:
	case DW_OP_stack_value:
		return true;
	default:
		*is_unary_ret = false;
		return false;
	}
}

static bool compute(uint8_t atom, uint64_t a, uint64_t b, uint64_t *ret)
{
	switch (atom) {
	case DW_OP_plus:
		*ret = a + b;
		return true;
	case DW_OP_minus:
		*ret = a - b;
		return true;
	case DW_OP_mul:
		*ret = a * b;
		return true;
	case DW_OP_and:
		*ret = a & b;
		return true;
	case DW_OP_or:
		*ret = a | b;
		return true;
	case DW_OP_xor:
		*ret = a ^ b;
		return true;
	case DW_OP_shl:
		*ret = b < 64 ? a << b : 0;
		return true;
	case DW_OP_shr:
		*ret = b < 64 ? a >> b : 0;
		return true;
	case DW_OP_eq:
		*ret = a == b;
		return true;
	case DW_OP_ne:
		*ret = a != b;
		return true;
	case DW_OP_ge:
		*ret = (int64_t)a >= (int64_t)b;
		return true;
	case DW_OP_gt:
		*ret = (int64_t)a > (int64_t)b;
		return true;
	case DW_OP_le:
		*ret = (int64_t)a <= (int64_t)b;
		return true;
	case DW_OP_lt:
		*ret = (int64_t)a < (int64_t)b;
		return true;
	default:
		return false;
	}
}

static bool run_op(struct machine *m, const Dwarf_Op *op)
{
	bool is_it;
	bool done = run_leaf(m, op, &is_it);

	if (is_it || !m->depth)
		return done;
	done = run_unary(m, op, &is_it);
	if (is_it || m->depth < 2)
		return done;
	if (op->atom == DW_OP_swap) {
		uint64_t top = m->stack[m->depth - 1];

		m->stack[m->depth - 1] = m->stack[m->depth - 2];
		m->stack[m->depth - 2] = top;
		return true;
	}
	m->depth--;
	return compute(
		op->atom, m->stack[m->depth - 1], m->stack[m->depth], &m->stack[m->depth - 1]);
}

/* The result is the value's address, unless the expression ends with DW_OP_stack_value. */
static bool compute_expression(const struct unwind_rule *rule, struct machine *m, uint64_t *ret)
{
	const Dwarf_Op *last = &rule->ops[rule->op_count - 1];

	for (size_t i = 0; i < rule->op_count; i++)
		if (!run_op(m, &rule->ops[i]))
			return false;
	if (!m->depth)
		return false;
	*ret = m->stack[m->depth - 1];
	if (rule->is_cfa || last->atom == DW_OP_stack_value)
		return true;
	return m->memory->read(m->memory->data, *ret, ret);
}

bool unwind_rule_compute(const struct unwind_rule *rule, const struct unwind_registers *registers,
	uint64_t cfa, const struct unwind_memory *memory, uint64_t *ret)
{
	struct machine machine;

	switch (rule->how) {
	case UNWIND_UNDEFINED:
	case UNWIND_SAME:
		return false;
	case UNWIND_REGISTER:
		if (!known(registers, rule->reg, ret))
			return false;
		*ret += (uint64_t)rule->offset;
		return true;
	case UNWIND_CFA:
		*ret = cfa + (uint64_t)rule->offset;
		return true;
	case UNWIND_AT_CFA:
		return memory->read(memory->data, cfa + (uint64_t)rule->offset, ret);
	case UNWIND_EXPRESSION:
		break;
	}
	machine = (struct machine){.registers = registers, .memory = memory, .cfa = cfa};
	return compute_expression(rule, &machine, ret);
}
