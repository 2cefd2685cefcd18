/* SPDX-License-Identifier: MIT */
/* Operators with one operand and with two. */
#include "arch/aarch64/stub/lower.h"

/* The processor's division of the smallest number by -1 is that of the form. */
static void divide(struct a64 *e, const struct form_insn *i)
{
	int value = a64_register(FORM_VALUE), right = a64_register(FORM_RIGHT);
	int quotient = i->op == FORM_MOD ? A64_STEP : value;

	a64_op(e, i->wide, i->is_signed ? A64_SDIV : A64_UDIV, quotient, value, right);
	if (i->op == FORM_MOD)
		a64_msub(e, i->wide, value, quotient, right, value);
}

static void shift(struct a64 *e, const struct form_insn *i)
{
	int a = a64_register(i->a);

	if (!i->is_constant)
		a64_op(e, i->wide,
			i->op == FORM_SHL ? A64_LSLV
			: i->is_signed	  ? A64_ASRV
					  : A64_LSRV,
			a, a, a64_register(FORM_RIGHT));
	else if (i->op == FORM_SHL)
		a64_shift_left(e, i->wide, a, a, (unsigned int)i->value);
	else
		a64_shift_right(e, i->wide, a, a, (unsigned int)i->value);
}

static void operate_const(struct a64 *e, const struct form_insn *i, enum a64_op op)
{
	int a = a64_register(i->a);
	int64_t number = (int64_t)i->value;

	if (op == A64_ADD || op == A64_SUB) {
		enum a64_op other = op == A64_ADD ? A64_SUB : A64_ADD;

		if (a64_op_const(e, i->wide, number < 0 ? other : op, a, a,
			    (uint64_t)(number < 0 ? -number : number)))
			return;
	} else if (a64_op_mask(e, i->wide, op, a, a, i->value)) {
		return;
	}
	a64_const(e, A64_STEP_2, i->value);
	a64_op(e, i->wide, op, a, a, A64_STEP_2);
}

static void mul_high(struct a64 *e, unsigned int shift)
{
	int value = a64_register(FORM_VALUE), right = a64_register(FORM_RIGHT);

	a64_op(e, true, A64_UMULH, A64_STEP, value, right);
	a64_op(e, true, A64_MUL, value, value, right);
	a64_extract_pair(e, value, A64_STEP, value, shift);
}

void a64_lower_operator(const struct a64_lowering *l, const struct form_insn *i)
{
	static const enum a64_op plain[] = {
		[FORM_ADD] = A64_ADD,
		[FORM_SUB] = A64_SUB,
		[FORM_AND] = A64_AND,
		[FORM_OR] = A64_ORR,
		[FORM_XOR] = A64_EOR,
		[FORM_MUL] = A64_MUL,
	};
	struct a64 *e = l->e;
	int a = a64_register(i->a);

	switch (i->op) {
	case FORM_NEGATE:
		a64_op(e, i->wide, A64_SUB, a, A64_ZERO, a);
		break;
	case FORM_COMPLEMENT:
		a64_op(e, i->wide, A64_ORN, a, A64_ZERO, a);
		break;
	case FORM_UNTAG: /* its first byte */
		a64_op_mask(e, true, A64_AND, a, a, UINT64_MAX >> 8);
		break;
	case FORM_UNSIGN:
		a64_move(e, A64_LINK, a);
		a64_unsign_link(e);
		a64_move(e, a, A64_LINK);
		break;
	case FORM_FLIP:
		a64_op_mask(e, true, A64_EOR, a, a, UINT64_C(1) << i->shift);
		break;
	case FORM_HIGHEST:
		a64_clz(e, true, a, a64_register(i->b));
		a64_op_mask(e, true, A64_EOR, a, a, 63);
		break;
	case FORM_LOWEST:
		a64_rbit(e, true, a, a64_register(i->b));
		a64_clz(e, true, a, a);
		break;
	case FORM_DIV:
	case FORM_MOD:
		divide(e, i);
		break;
	case FORM_SHL:
	case FORM_SHR:
		shift(e, i);
		break;
	case FORM_MULTIPLY:
		a64_const(e, A64_STEP_2, i->value);
		a64_op(e, true, A64_MUL, a, a64_register(i->b), A64_STEP_2);
		break;
	case FORM_MUL_HIGH:
		mul_high(e, i->shift);
		break;
	default:
		if (i->is_memory) {
			a64_lower_load(e, A64_STEP, i->mem, i->bytes, false);
			a64_op(e, i->wide, plain[i->op], a, a, A64_STEP);
		} else if (i->is_constant) {
			operate_const(e, i, plain[i->op]);
		} else {
			a64_op(e, i->wide, plain[i->op], a, a, a64_register(i->b));
		}
		break;
	}
}
