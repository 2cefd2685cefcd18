/* SPDX-License-Identifier: MIT */
/* Values: of registers at the site, and of memory. */
#include "arch/x86/emit.h"
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

void emit_original_part(struct emit *e, const struct frame *f, int reg, unsigned int shift,
	unsigned int bytes, bool is_signed, int dst)
{
	if (reg == RSP) {
		emit_original(e, f, RSP, dst);
		if (bytes < sizeof(uint64_t))
			emit_extend(e, dst, bytes, is_signed, dst);
	} else if (f->saved[reg] >= 0) {
		emit_load(
			e, mem_at(RSP, f->saved[reg] + (int32_t)shift / 8), bytes, is_signed, dst);
	} else if (shift) {
		emit_reg(e, true, OP_MOV_LOAD, dst, reg);
		emit_shift(e, true, false, dst, (uint8_t)shift);
		emit_extend(e, dst, bytes, is_signed, dst);
	} else {
		emit_extend(e, reg, bytes, is_signed, dst);
	}
}

void emit_vector(struct emit *e, int vector, unsigned int bytes, int dst)
{
	uint8_t rex = (bytes == 8 ? 8 : 0) | (vector & 8 ? 4 : 0) | (dst & 8 ? 1 : 0);

	emit_u8(e, 0x66);
	if (rex)
		emit_u8(e, 0x40 | rex);
	emit_bytes(e, "\x0f\x7e", 2); /* movd or movq %xmmN, reg */
	emit_u8(e, 0xc0 | (vector & 7) << 3 | (dst & 7));
}

void emit_store_vector(struct emit *e, int vector, struct emit_mem m)
{
	emit_mem(e, false, OP_MOVU_STORE, vector, m);
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

void emit_extend(struct emit *e, int reg, unsigned int bytes, bool is_signed, int dst)
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

void emit_store_part(struct emit *e, int reg, struct emit_mem m, unsigned int bytes)
{
	if (bytes == 2)
		emit_u8(e, 0x66);
	emit_mem(e, bytes == 8, bytes == 1 ? OP_MOV_STORE8 : OP_MOV_STORE, reg, m);
}

void emit_store_halves(struct emit *e, int reg, struct emit_mem m)
{
	emit_store_part(e, reg, m, 4);
	m.disp += 4;
	emit_shift(e, true, false, reg, 32);
	emit_store_part(e, reg, m, 4);
}

void emit_store(struct emit *e, struct emit_mem m, unsigned int bytes)
{
	if (bytes == 8)
		emit_store_halves(e, REG_VALUE, m);
	else
		emit_store_part(e, REG_VALUE, m, bytes);
}
