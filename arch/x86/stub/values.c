/* SPDX-License-Identifier: MIT */
/* Values: constants, addresses, and what registers had at the site. */
#include "arch/stub/plan.h"
#include "arch/x86/stub/lower.h"

/* The instruction that extends so many bytes to 64 bits; *wide_ret: its operand has 64 bits. */
static enum emit_op extension(unsigned int bytes, bool is_signed, bool *wide_ret)
{
	*wide_ret = is_signed || (bytes != 1 && bytes != 2 && bytes != 4);
	switch (bytes) {
	case 1:
		return is_signed ? OP_MOVSX8 : OP_MOVZX8;
	case 2:
		return is_signed ? OP_MOVSX16 : OP_MOVZX16;
	case 4:
		return is_signed ? OP_MOVSX32 : OP_MOV_LOAD;
	default:
		return OP_MOV_LOAD;
	}
}

/* dst = the low `bytes` bytes of a register, extended to 64 bits. */
static void emit_extend(struct emit *e, int reg, unsigned int bytes, bool is_signed, int dst)
{
	bool wide;
	enum emit_op op = extension(bytes, is_signed, &wide);

	emit_reg(e, wide, op, dst, reg);
}

void emit_load(struct emit *e, struct emit_mem m, unsigned int bytes, bool is_signed, int dst)
{
	bool wide;
	enum emit_op op = extension(bytes, is_signed, &wide);

	emit_mem(e, wide, op, dst, m);
}

void lower_original(const struct lowering *l, const struct form_insn *i, int dst)
{
	struct emit *e = l->e;
	int reg = i->b, saved = l->frame->saved[reg];

	if (reg == RSP) {
		emit_mem(e, true, OP_LEA, dst, mem_at(RSP, l->frame->size));
		if (i->bytes < sizeof(uint64_t))
			emit_extend(e, dst, i->bytes, i->is_signed, dst);
	} else if (saved >= 0) {
		emit_load(e, mem_at(RSP, saved + i->shift / 8), i->bytes, i->is_signed, dst);
	} else if (i->shift) {
		emit_reg(e, true, OP_MOV_LOAD, dst, reg);
		emit_shift(e, true, false, dst, i->shift);
		emit_extend(e, dst, i->bytes, i->is_signed, dst);
	} else {
		emit_extend(e, reg, i->bytes, i->is_signed, dst);
	}
}

/* dst = the low 4 or 8 bytes of a vector register. */
static void emit_vector(struct emit *e, int vector, unsigned int bytes, int dst)
{
	uint8_t rex = (bytes == 8 ? 8 : 0) | (vector & 8 ? 4 : 0) | (dst & 8 ? 1 : 0);

	emit_u8(e, 0x66);
	if (rex)
		emit_u8(e, 0x40 | rex);
	emit_bytes(e, "\x0f\x7e", 2); /* movd or movq %xmmN, reg */
	emit_u8(e, 0xc0 | (vector & 7) << 3 | (dst & 7));
}

void lower_value(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;
	int a = lower_register(i->a);

	switch (i->op) {
	case FORM_CONST:
		emit_const(e, a, i->value);
		break;
	case FORM_ADDRESS:
		emit_lea_to(e, a, i->value);
		break;
	case FORM_LABEL:
		emit_lea_label(e, a, i->label);
		break;
	case FORM_MOVE:
		emit_extend(e, lower_register(i->b), i->bytes, i->is_signed, a);
		break;
	case FORM_ORIGINAL:
		lower_original(l, i, a);
		break;
	default: /* FORM_VECTOR */
		emit_vector(e, i->b, i->bytes, a);
		break;
	}
}
