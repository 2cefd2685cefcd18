/* SPDX-License-Identifier: MIT */
/* The values of operands that need no check: constants, registers, memory. */
#include "arch/arch.h"
#include "arch/x86/emit.h"
#include "arch/x86/stub/stub.h"
#include "arch/x86/stub/plan.h"

void emit_original(struct emit *e, const struct frame *f, int reg, int dst)
{
	if (reg == RSP)
		emit_mem(e, true, OP_LEA, dst, mem_at(RSP, f->size));
	else if (f->saved[reg] >= 0)
		emit_mem(e, true, OP_MOV_LOAD, dst, mem_at(RSP, f->saved[reg]));
	else
		emit_reg(e, true, OP_MOV_LOAD, dst, reg);
}

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

void emit_load(struct emit *e, struct emit_mem m, unsigned int bytes, bool is_signed)
{
	bool wide;
	enum emit_op op = extension(bytes, is_signed, &wide);

	emit_mem(e, wide, op, REG_VALUE, m);
}

void emit_store(struct emit *e, struct emit_mem m, unsigned int bytes)
{
	struct emit_mem upper = m;

	if (bytes == 2)
		emit_u8(e, 0x66);
	emit_mem(e, false, bytes == 1 ? OP_MOV_STORE8 : OP_MOV_STORE, REG_VALUE, m);
	if (bytes < 8)
		return;
	/* In halves: the whole may be misaligned, and then in two cache lines. */
	upper.disp += 4;
	emit_shift(e, true, false, REG_VALUE, 32);
	emit_mem(e, false, OP_MOV_STORE, REG_VALUE, upper);
}

/* REG_VALUE = the low `bytes` bytes of a register, extended to 64 bits. */
static void emit_extend(struct emit *e, int reg, unsigned int bytes, bool is_signed)
{
	bool wide;
	enum emit_op op = extension(bytes, is_signed, &wide);

	emit_reg(e, wide, op, REG_VALUE, reg);
}

bool value_is_signed(const struct arch_arg *arg)
{
	return arg->is_signed && !arg->is_float;
}

/* REG_VALUE = a general register's value at the site. */
static void emit_register_value(struct emit *e, const struct frame *f, const struct arch_arg *arg)
{
	unsigned int bytes = arg->size < arg->width ? arg->size : arg->width;
	bool is_signed = value_is_signed(arg);

	if (arg->base == RSP) {
		emit_original(e, f, RSP, REG_VALUE);
		emit_extend(e, REG_VALUE, bytes, is_signed);
	} else if (f->saved[arg->base] >= 0) {
		emit_load(e, mem_at(RSP, f->saved[arg->base] + arg->shift / 8), bytes, is_signed);
	} else if (arg->shift) {
		emit_reg(e, true, OP_MOV_LOAD, REG_VALUE, arg->base);
		emit_shift(e, true, false, REG_VALUE, arg->shift);
		emit_extend(e, REG_VALUE, bytes, is_signed);
	} else {
		emit_extend(e, arg->base, bytes, is_signed);
	}
}

uint64_t value_of_immediate(const struct arch_arg *arg)
{
	unsigned int bits = arg->size * 8;
	uint64_t value = arg->disp;

	if (bits >= 64)
		return value;
	value &= (UINT64_C(1) << bits) - 1;
	if (value_is_signed(arg) && value >> (bits - 1))
		value |= ~UINT64_C(0) << bits;
	return value;
}

void emit_address(struct emit *e, const struct frame *f, const struct arch_arg *arg, int dst)
{
	bool far = arg->disp != (int32_t)arg->disp;
	bool based = arg->base >= 0;
	struct emit_mem m = {.base = dst,
		.index = REG_NONE,
		.scale = arg->scale ? arg->scale : 1,
		.disp = far || !based ? 0 : arg->disp};

	if (based)
		emit_original(e, f, arg->base, dst);
	else
		emit_lea_to(e, dst, arg->disp);
	if (arg->index >= 0) {
		emit_original(e, f, arg->index, REG_SCRATCH);
		m.index = REG_SCRATCH;
	}
	if (m.index != REG_NONE || m.disp)
		emit_mem(e, true, OP_LEA, dst, m);
	if (based && far) {
		emit_const(e, REG_SCRATCH, arg->disp);
		emit_reg(e, true, OP_ADD, dst, REG_SCRATCH);
	}
}

/* mov between a vector register and REG_VALUE (4 or 8 bytes). */
static void emit_vector_value(struct emit *e, const struct arch_arg *arg)
{
	uint8_t rex = (arg->size == 8 ? 8 : 0) | (arg->base & 8 ? 4 : 0);

	emit_u8(e, 0x66);
	if (rex)
		emit_u8(e, 0x40 | rex);
	emit_bytes(e, "\x0f\x7e", 2); /* movd or movq %xmmN, %rax */
	emit_u8(e, 0xc0 | (arg->base & 7) << 3 | REG_VALUE);
}

void emit_value(struct emit *e, const struct frame *f, const struct arch_arg *arg)
{
	switch (arg->kind) {
	case ARCH_ARG_IMMEDIATE:
		emit_const(e, REG_VALUE, value_of_immediate(arg));
		break;
	case ARCH_ARG_REGISTER:
		emit_register_value(e, f, arg);
		break;
	case ARCH_ARG_FP_REGISTER:
		emit_vector_value(e, arg);
		break;
	case ARCH_ARG_MEMORY:
		emit_address(e, f, arg, REG_VALUE);
		emit_load(e, mem_at(REG_VALUE, 0), arg->size, value_is_signed(arg));
		break;
	case ARCH_ARG_UNKNOWN:
		break;
	}
}
