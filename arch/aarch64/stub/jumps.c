/* SPDX-License-Identifier: MIT */
/* The back end for control: labels, jumps, subroutines, and the data in the code of a stub. */
#include "arch/aarch64/stub/lower.h"

/* ---- Jumps ---------------------------------------------------------------------------- */

/*
 * rd = a - value, and sets the flags; rd may be the zero register. If value is negative, adds
 * -value instead, which sets the same flags. (For 0 it would not.) Changes A64_STEP_2.
 */
static void subtract_const(struct a64 *e, bool wide, int rd, int a, int32_t value)
{
	int64_t number = value;

	if (a64_op_const(e, wide, number < 0 ? A64_ADDS : A64_SUBS, rd, a,
		    (uint64_t)(number < 0 ? -number : number)))
		return;
	a64_const(e, A64_STEP_2, (uint64_t)number);
	a64_op(e, wide, A64_SUBS, rd, a, A64_STEP_2);
}

/*
 * Returns the register with the left operand of a comparison. If the right operand is a constant,
 * the left one may be in memory; then it is loaded into A64_STEP.
 */
static int left_of(struct a64 *e, const struct form_insn *i)
{
	if (!i->is_memory || !i->is_constant)
		return a64_register(i->a);
	a64_lower_load(e, A64_STEP, i->mem, i->bytes, false);
	return A64_STEP;
}

/*
 * Compares, which sets the flags. FORM_SUB_JUMP_IF also stores the difference in `a`. Changes
 * A64_STEP_2.
 */
static void compare(struct a64 *e, const struct form_insn *i, int a)
{
	int result = i->op == FORM_SUB_JUMP_IF ? a : A64_ZERO, b = a64_register(i->b);

	if (i->is_constant) {
		subtract_const(e, i->wide, result, a, (int32_t)i->value);
		return;
	}
	if (i->is_memory) {
		b = A64_STEP_2;
		a64_lower_load(e, b, i->mem, i->bytes, false);
	}
	a64_op(e, i->wide, A64_SUBS, result, a, b);
}

static void jump_if(struct a64 *e, const struct form_insn *i)
{
	static const enum a64_condition conditions[] = {
		[FORM_EQ] = A64_EQ,
		[FORM_NE] = A64_NE,
		[FORM_LT] = A64_LT,
		[FORM_GE] = A64_GE,
		[FORM_GT] = A64_GT,
		[FORM_LE] = A64_LE,
		[FORM_BELOW] = A64_LO,
		[FORM_NOT_BELOW] = A64_HS,
		[FORM_ABOVE] = A64_HI,
		[FORM_NOT_ABOVE] = A64_LS,
	};
	bool subtracts = i->op == FORM_SUB_JUMP_IF;
	int a = left_of(e, i);

	if (i->is_constant && !i->value && !subtracts &&
		(i->when == FORM_EQ || i->when == FORM_NE)) {
		a64_jump_zero(e, i->wide, i->when == FORM_EQ, a, i->label);
		return;
	}
	compare(e, i, a);
	a64_jump_if(e, conditions[i->when], i->label);
}

static void jump_if_bits(struct a64 *e, const struct form_insn *i)
{
	a64_lower_load(e, A64_STEP, i->mem, i->bytes, false);
	if (!a64_op_mask(e, false, A64_AND, A64_STEP, A64_STEP, i->value)) {
		a64_const(e, A64_STEP_2, i->value);
		a64_op(e, false, A64_AND, A64_STEP, A64_STEP, A64_STEP_2);
	}
	a64_jump_zero(e, false, i->when == FORM_EQ, A64_STEP, i->label);
}

static void jump_unless_bytes(struct a64 *e, const struct form_insn *i)
{
	a64_lower_load(e, A64_STEP, i->mem, i->bytes, false);
	if (i->bytes == 1) {
		subtract_const(e, false, A64_ZERO, A64_STEP, (int32_t)i->value);
	} else {
		a64_const(e, A64_STEP_2, i->value);
		a64_op(e, true, A64_SUBS, A64_ZERO, A64_STEP, A64_STEP_2);
	}
	a64_jump_if(e, A64_NE, i->label);
}

static void jump_if_word(struct a64 *e, const struct form_insn *i)
{
	a64_load_word(e, A64_STEP, i->value);
	a64_jump_zero(e, false, i->when == FORM_EQ, A64_STEP, i->label);
}

/* ---- Data ------------------------------------------------------------------------------ */

static void data(struct a64 *e, const struct form_insn *i)
{
	switch (i->op) {
	case FORM_ALIGN:
		while (e->length % i->value)
			a64_put(e, 0); /* udf: never executed */
		break;
	case FORM_WORD:
		a64_put(e, (uint32_t)i->value);
		if (i->bytes == sizeof(uint64_t))
			a64_put(e, (uint32_t)(i->value >> 32));
		break;
	default: /* FORM_LABEL_WORD */
		a64_label_word(e, i->label, i->from);
		break;
	}
}

/* ---- Subroutines ------------------------------------------------------------------------ */

/* A subroutine returns its answer in the zero flag: the flag is set if the answer is yes. */
static void subroutine(struct a64 *e, const struct form_insn *i)
{
	int other;

	switch (i->op) {
	case FORM_CALL:
	case FORM_CALL_NEST:
		a64_call(e, i->label);
		break;
	case FORM_ASK:
		a64_call(e, i->label);
		a64_jump_if(e, A64_NE, i->no);
		break;
	case FORM_NEST:
		a64_move(e, A64_NESTED, A64_LINK);
		break;
	case FORM_RETURN_NESTED:
		a64_return(e, A64_NESTED);
		break;
	case FORM_YES:
		a64_op(e, true, A64_SUBS, A64_ZERO, A64_ZERO, A64_ZERO);
		a64_return(e, A64_LINK);
		break;
	case FORM_NO:
		/* clears the zero flag, because sp is not 0 */
		a64_op_const(e, true, A64_SUBS, A64_ZERO, A64_SP, 0);
		a64_return(e, A64_LINK);
		break;
	case FORM_YES_IF:
		other = a64_label(e);
		compare(e, i, left_of(e, i));
		a64_jump_if(e, A64_NE, other);
		a64_return(e, A64_LINK);
		a64_place(e, other);
		break;
	case FORM_PUSH:
		a64_push(e, a64_register(i->a));
		break;
	case FORM_POP:
		a64_pop(e, a64_register(i->a));
		break;
	default: /* FORM_RETURN */
		a64_return(e, A64_LINK);
		break;
	}
}

/* ---- All operations --------------------------------------------------------------------- */

void a64_lower_control(const struct a64_lowering *l, const struct form_insn *i)
{
	struct a64 *e = l->e;

	switch (i->op) {
	case FORM_PLACE:
	case FORM_MARK:
		a64_place(e, i->label);
		break;
	case FORM_JUMP:
		a64_jump(e, i->label);
		break;
	case FORM_JUMP_IF:
	case FORM_SUB_JUMP_IF:
		jump_if(e, i);
		break;
	case FORM_JUMP_IF_BITS:
		jump_if_bits(e, i);
		break;
	case FORM_JUMP_IF_WORD:
		jump_if_word(e, i);
		break;
	case FORM_JUMP_UNLESS_BYTES:
		jump_unless_bytes(e, i);
		break;
	case FORM_ALIGN:
	case FORM_WORD:
	case FORM_LABEL_WORD:
		data(e, i);
		break;
	default:
		subroutine(e, i);
		break;
	}
}
