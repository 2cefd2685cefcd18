/* SPDX-License-Identifier: MIT */
/* Operators with one operand and with two. */
#include "arch/x86/stub/lower.h"

/* %rax / %rcx or its remainder. The smallest number by -1 would trap. */
static void divide(struct emit *e, const struct form_insn *i)
{
	bool remainder = i->op == FORM_MOD;
	int done = emit_label(e), plain = emit_label(e);

	if (i->is_signed) {
		emit_imm(e, i->wide, IMM_CMP, RCX, -1);
		emit_jump_label(e, CC_NE, plain);
		if (remainder)
			emit_const(e, RAX, 0);
		else
			emit_one(e, i->wide, ONE_NEG, RAX);
		emit_jump_label(e, -1, done);
		emit_place(e, plain);
		emit_bytes(e, i->wide ? "\x48\x99" : "\x99", i->wide ? 2 : 1); /* cqo, cdq */
		emit_one(e, i->wide, ONE_IDIV, RCX);
	} else {
		emit_reg(e, false, OP_XOR, RDX, RDX);
		emit_one(e, i->wide, ONE_DIV, RCX);
	}
	if (remainder)
		emit_reg(e, i->wide, OP_MOV_LOAD, RAX, RDX);
	emit_place(e, done);
}

static void shift(struct emit *e, const struct form_insn *i)
{
	if (i->is_constant)
		emit_shift(e, i->wide, i->op == FORM_SHL, lower_register(i->a), (uint8_t)i->value);
	else
		emit_shift_cl(e, i->wide,
			i->op == FORM_SHL ? SHIFT_LEFT
			: i->is_signed	  ? SHIFT_RIGHT_SIGNED
					  : SHIFT_RIGHT,
			lower_register(i->a));
}

void lower_operator(const struct lowering *l, const struct form_insn *i)
{
	/* clang-format off */
	static const struct { enum emit_op op; int digit; } plain[] = {
		[FORM_ADD] = {OP_ADD, IMM_ADD},
		[FORM_SUB] = {OP_SUB, IMM_SUB},
		[FORM_AND] = {OP_AND, IMM_AND},
		[FORM_OR] = {OP_OR, IMM_OR},
		[FORM_XOR] = {OP_XOR, IMM_XOR},
		[FORM_MUL] = {OP_IMUL, -1},
	};
	/* clang-format on */
	struct emit *e = l->e;
	int a = lower_register(i->a);

	switch (i->op) {
	case FORM_NEGATE:
	case FORM_COMPLEMENT:
		emit_one(e, i->wide, i->op == FORM_NEGATE ? ONE_NEG : ONE_NOT, a);
		break;
	case FORM_UNTAG: /* all bits count; and return addresses are not signed */
	case FORM_UNSIGN:
		break;
	case FORM_FLIP:
		emit_flip(e, a, i->shift);
		break;
	case FORM_HIGHEST:
		emit_reg(e, true, OP_BSR, a, lower_register(i->b));
		break;
	case FORM_LOWEST:
		emit_reg(e, true, OP_BSF, a, lower_register(i->b));
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
		emit_multiply(e, a, lower_register(i->b), (int32_t)i->value);
		break;
	case FORM_MUL_HIGH:
		emit_one(e, true, ONE_MUL, RCX);      /* rdx:rax */
		emit_bytes(e, "\x48\x0f\xac\xd0", 4); /* shrd $shift, %rdx, %rax */
		emit_u8(e, i->shift);
		break;
	default:
		if (i->is_memory)
			emit_mem(e, i->wide, plain[i->op].op, a, lower_mem(i->mem));
		else if (i->is_constant)
			emit_imm(e, i->wide, plain[i->op].digit, a, (int32_t)i->value);
		else
			emit_reg(e, i->wide, plain[i->op].op, a, lower_register(i->b));
		break;
	}
}
