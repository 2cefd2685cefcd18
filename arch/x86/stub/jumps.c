/* SPDX-License-Identifier: MIT */
/*
 * Translates operands, control flow (labels, jumps, subroutines, and data between them) and
 * operators.
 */

#include "arch/x86/stub/lower.h"

/* ==== Operands ================================================================================ */

int lower_register(int form_register)
{
	static const int registers[FORM_REGISTERS] = {
		[FORM_VALUE] = RAX,
		[FORM_RIGHT] = RCX,
		[FORM_SCRATCH] = RDX,
		[FORM_POINTER] = R8,
		[FORM_NEXT] = R9,
		[FORM_SET] = RDI,
		[FORM_FROM] = RSI,
		[FORM_SPARE] = R10,
		[FORM_SPARE_2] = R11,
	};

	return registers[form_register];
}

struct emit_mem lower_mem(struct form_mem m)
{
	struct emit_mem ret = {.index = m.index == FORM_NONE ? REG_NONE : lower_register(m.index),
		.scale = m.scale,
		.disp = m.disp};

	switch (m.base) {
	case FORM_THREAD:
		ret.fs = true;
		/* fall through */
	case FORM_NONE:
		ret.base = REG_NONE;
		break;
	case FORM_CALLER: /* the caller's frame begins above the return address */
		ret.disp += (int32_t)sizeof(uint64_t);
		/* fall through */
	case FORM_FRAME:
		ret.base = RSP;
		break;
	default:
		ret.base = lower_register(m.base);
	}
	return ret;
}

/* ==== Jumps =================================================================================== */

/* ---- Jumps --------------------------------------------------------------------------- */

/* cmpb $imm, mem */
static void compare_byte(struct emit *e, struct emit_mem m, uint8_t imm)
{
	emit_group_mem(e, false, GROUP_BYTE, IMM_CMP, m);
	emit_u8(e, imm);
}

static void compare_memory(struct emit *e, const struct form_insn *i)
{
	struct emit_mem m = lower_mem(i->mem);

	if (i->is_constant && i->bytes == 1)
		compare_byte(e, m, (uint8_t)i->value);
	else if (i->is_constant)
		emit_imm_mem(e, i->wide, IMM_CMP, m, (int32_t)i->value);
	else
		emit_mem(e, i->wide, i->bytes == 1 ? OP_CMP8 : OP_CMP, lower_register(i->a), m);
}

/* A comparison or, for FORM_SUB_JUMP_IF, a subtraction, with the same flags. */
static void compare(struct emit *e, const struct form_insn *i)
{
	int a = lower_register(i->a);

	if (i->op == FORM_SUB_JUMP_IF && i->is_constant)
		emit_imm(e, i->wide, IMM_SUB, a, (int32_t)i->value);
	else if (i->op == FORM_SUB_JUMP_IF)
		emit_reg(e, i->wide, OP_SUB, a, lower_register(i->b));
	else if (i->is_memory)
		compare_memory(e, i);
	else if (!i->is_constant)
		emit_reg(e, i->wide, OP_CMP, a, lower_register(i->b));
	else if (i->value)
		emit_imm(e, i->wide, IMM_CMP, a, (int32_t)i->value);
	else
		emit_reg(e, i->wide, OP_TEST, a, a);
}

/* Does it compare a register with 0 while the flags already hold the result? */
static bool is_tested(const struct lowering *l, const struct form_insn *i)
{
	return i->op != FORM_SUB_JUMP_IF && !i->is_memory && i->is_constant && !i->value &&
	       (i->when == FORM_EQ || i->when == FORM_NE) && l->tested == i->a &&
	       l->tested_wide == i->wide;
}

static void jump_if(const struct lowering *l, const struct form_insn *i)
{
	static const int conditions[] = {
		[FORM_EQ] = CC_E,
		[FORM_NE] = CC_NE,
		[FORM_LT] = CC_L,
		[FORM_GE] = CC_GE,
		[FORM_GT] = CC_G,
		[FORM_LE] = CC_LE,
		[FORM_BELOW] = CC_B,
		[FORM_NOT_BELOW] = CC_AE,
		[FORM_ABOVE] = CC_A,
		[FORM_NOT_ABOVE] = CC_BE,
	};

	if (!is_tested(l, i))
		compare(l->e, i);
	emit_jump_label(l->e, conditions[i->when], i->label);
}

static void jump_unless_bytes(struct emit *e, const struct form_insn *i)
{
	struct emit_mem m = lower_mem(i->mem);

	if (i->bytes == 1) {
		compare_byte(e, m, (uint8_t)i->value);
	} else {
		emit_const(e, RCX, i->value);
		emit_mem(e, true, OP_CMP, RCX, m);
	}
	emit_jump_label(e, CC_NE, i->label);
}

/* ---- Data ---------------------------------------------------------------------------- */

static void emit_align(struct emit *e, size_t alignment)
{
	while (e->length % alignment)
		emit_u8(e, 0xcc); /* never executed */
}

static void data(struct emit *e, const struct form_insn *i)
{
	uint64_t from;

	switch (i->op) {
	/* no short jump may cross the padding, whose length may change in the second pass */
	case FORM_ALIGN:
		emit_align(e, i->value);
		break;
	case FORM_WORD:
		if (i->bytes == sizeof(uint32_t))
			emit_u32(e, (uint32_t)i->value);
		else
			emit_u64(e, i->value);
		break;
	default: /* FORM_LABEL_WORD */
		from = i->from == FORM_NONE ? -e->at : e->labels[i->from];
		emit_u64(e, e->labels[i->label] - from);
		break;
	}
}

/* ---- Subroutines --------------------------------------------------------------------- */

static void emit_return(struct emit *e)
{
	emit_u8(e, 0xc3);
}

/*
 * Calls a subroutine that may make a system call. Call and return are jumps, because ret is
 * predicted from a stack of return addresses. Where Linux clears that against attacks
 * (Documentation/admin-guide/hw-vuln/srso.rst), the first two ret after a system call took 25 ns.
 * An indirect jump is predicted from its own address.
 */
static void emit_call_by_jump(struct emit *e, int label)
{
	int back = emit_label(e);

	emit_lea_label(e, R11, back);
	emit_push(e, R11);
	emit_jump_label(e, -1, label);
	emit_place(e, back);
}

/* Returns from such a subroutine. Keeps flags. */
static void emit_return_by_jump(struct emit *e)
{
	emit_pop(e, R11);
	emit_bytes(e, "\x41\xff\xe3", 3); /* jmp *%r11 */
}

static void yes_if(const struct lowering *l, const struct form_insn *i)
{
	int other = emit_label(l->e);

	if (!is_tested(l, i))
		compare(l->e, i);
	emit_jump_label(l->e, CC_NE, other);
	emit_return_by_jump(l->e);
	emit_place(l->e, other);
}

/* Calls and returns. A subroutine answers yes by setting the zero flag. */
static void subroutine(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;

	switch (i->op) {
	case FORM_CALL:
		emit_call_label(e, i->label);
		break;
	case FORM_CALL_NEST:
		emit_call_by_jump(e, i->label);
		break;
	case FORM_ASK:
		emit_call_by_jump(e, i->label);
		emit_jump_label(e, CC_NE, i->no);
		break;
	case FORM_YES:
		emit_reg(e, false, OP_CMP, RAX, RAX);
		emit_return_by_jump(e);
		break;
	case FORM_NO:
		emit_reg(e, true, OP_TEST, RSP, RSP); /* clears the zero flag */
		emit_return_by_jump(e);
		break;
	case FORM_YES_IF:
		yes_if(l, i);
		break;
	case FORM_PUSH:
		emit_push(e, lower_register(i->a));
		break;
	case FORM_POP:
		emit_pop(e, lower_register(i->a));
		break;
	case FORM_RETURN:
		emit_return(e);
		break;
	case FORM_RETURN_NESTED:
		emit_return_by_jump(e);
		break;
	default: /* FORM_NEST: no code, because return addresses are already on the stack */
		break;
	}
}

/* ---- All of them ----------------------------------------------------------------------- */

void lower_control(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;

	switch (i->op) {
	case FORM_PLACE:
	case FORM_MARK:
		emit_place(e, i->label);
		break;
	case FORM_JUMP:
		emit_jump_label(e, -1, i->label);
		break;
	case FORM_JUMP_IF:
	case FORM_SUB_JUMP_IF:
		jump_if(l, i);
		break;
	case FORM_JUMP_IF_BITS:
		emit_group_mem(e, false, GROUP_ONE, ONE_TEST, lower_mem(i->mem));
		emit_u32(e, (uint32_t)i->value);
		emit_jump_label(e, i->when == FORM_EQ ? CC_E : CC_NE, i->label);
		break;
	case FORM_JUMP_IF_WORD:
		emit_test_u32(e, i->value, lower_register(i->a));
		emit_jump_label(e, i->when == FORM_EQ ? CC_E : CC_NE, i->label);
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
		subroutine(l, i);
		break;
	}
}

/* ==== Operators =============================================================================== */

/* Divides %rax by %rcx, or takes the remainder. Dividing the smallest number by -1 would trap. */
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
			emit_group(e, i->wide, GROUP_ONE, ONE_NEG, RAX);
		emit_jump_label(e, -1, done);
		emit_place(e, plain);
		emit_bytes(e, i->wide ? "\x48\x99" : "\x99", i->wide ? 2 : 1); /* cqo, cdq */
		emit_group(e, i->wide, GROUP_ONE, ONE_IDIV, RCX);
	} else {
		emit_reg(e, false, OP_XOR, RDX, RDX);
		emit_group(e, i->wide, GROUP_ONE, ONE_DIV, RCX);
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
		emit_group(e, i->wide, GROUP_SHIFT_CL,
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
		emit_group(e, i->wide, GROUP_ONE, i->op == FORM_NEGATE ? ONE_NEG : ONE_NOT, a);
		break;
	case FORM_UNTAG: /* addresses on x86-64 have no tag bits and no signature */
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
		emit_group(e, true, GROUP_ONE, ONE_MUL, RCX); /* rdx:rax */
		emit_bytes(e, "\x48\x0f\xac\xd0", 4);	      /* shrd $shift, %rdx, %rax */
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
