/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "arch/x86/emit.h"

void emit_u8(struct emit *e, uint8_t byte)
{
	if (e->length < e->room)
		e->out[e->length] = byte;
	e->length++;
}

void emit_u32(struct emit *e, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		emit_u8(e, value >> (8 * i));
}

void emit_u64(struct emit *e, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		emit_u8(e, value >> (8 * i));
}

void emit_bytes(struct emit *e, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		emit_u8(e, ((const uint8_t *)bytes)[i]);
}

static void emit_opcode(struct emit *e, unsigned int op)
{
	if (op > 0xff)
		emit_u8(e, op >> 8);
	emit_u8(e, op);
}

static void emit_rex(struct emit *e, bool wide, int reg, int index, int rm, bool force)
{
	uint8_t rex = 0x40 | (wide ? 8 : 0) | ((reg & 8) ? 4 : 0) |
		      ((index > 0 && (index & 8)) ? 2 : 0) | ((rm > 0 && (rm & 8)) ? 1 : 0);

	if (rex != 0x40 || force)
		emit_u8(e, rex);
}

static void emit_operand(struct emit *e, int reg, struct emit_mem m)
{
	bool sib = m.index != REG_NONE || m.base == REG_NONE || (m.base & 7) == RSP;
	int mod = 2;

	if (m.base == REG_NONE)
		mod = 0; /* with mod 0, the SIB base 101 means disp32 and no base */
	else if (m.disp == 0 && (m.base & 7) != RBP)
		mod = 0;
	else if (m.disp >= -128 && m.disp <= 127)
		mod = 1;
	emit_u8(e, mod << 6 | (reg & 7) << 3 | (sib ? 4 : (m.base & 7)));
	if (sib)
		emit_u8(e, (m.scale == 8 ? 3 : m.scale >> 1) << 6 |
				   (m.index == REG_NONE ? 4 : (m.index & 7)) << 3 |
				   (m.base == REG_NONE ? 5 : (m.base & 7)));
	if (m.base == REG_NONE || mod == 2)
		emit_u32(e, m.disp);
	else if (mod == 1)
		emit_u8(e, m.disp);
}

void emit_mem(struct emit *e, bool wide, enum emit_op op, int reg, struct emit_mem m)
{
	if (m.fs)
		emit_u8(e, 0x64);
	/* Without REX, byte registers 4 to 7 would be %ah to %bh. */
	emit_rex(e, wide, reg, m.index, m.base,
		(op == OP_MOV_STORE8 || op == OP_CMP8) && reg >= RSP);
	emit_opcode(e, op);
	emit_operand(e, reg, m);
}

void emit_reg(struct emit *e, bool wide, enum emit_op op, int reg, int rm)
{
	/* Without REX, byte registers 4 to 7 would be %ah to %bh. */
	emit_rex(e, wide, reg, REG_NONE, rm, op == OP_MOVZX8 || op == OP_MOVSX8);
	emit_opcode(e, op);
	emit_u8(e, 0xc0 | (reg & 7) << 3 | (rm & 7));
}

void emit_imm(struct emit *e, bool wide, int digit, int reg, int32_t imm)
{
	bool small = imm >= -128 && imm <= 127;

	emit_rex(e, wide, 0, REG_NONE, reg, false);
	emit_u8(e, small ? 0x83 : 0x81);
	emit_u8(e, 0xc0 | digit << 3 | (reg & 7));
	if (small)
		emit_u8(e, imm);
	else
		emit_u32(e, imm);
}

void emit_group(struct emit *e, bool wide, enum emit_group group, int digit, int reg)
{
	emit_rex(e, wide, 0, REG_NONE, reg, false);
	emit_u8(e, group);
	emit_u8(e, 0xc0 | digit << 3 | (reg & 7));
}

void emit_group_mem(struct emit *e, bool wide, enum emit_group group, int digit, struct emit_mem m)
{
	if (m.fs)
		emit_u8(e, 0x64);
	emit_rex(e, wide, 0, m.index, m.base, false);
	emit_u8(e, group);
	emit_operand(e, digit, m);
}

void emit_multiply(struct emit *e, int reg, int from, int32_t factor)
{
	emit_rex(e, true, reg, REG_NONE, from, false);
	emit_u8(e, 0x69);
	emit_u8(e, 0xc0 | (reg & 7) << 3 | (from & 7));
	emit_u32(e, factor);
}

void emit_flip(struct emit *e, int reg, uint8_t bit)
{
	emit_rex(e, true, 0, REG_NONE, reg, false);
	emit_bytes(e, "\x0f\xba", 2); /* btc $bit, reg */
	emit_u8(e, 0xf8 | (reg & 7));
	emit_u8(e, bit);
}

void emit_const(struct emit *e, int reg, uint64_t value)
{
	if (value <= UINT32_MAX) { /* movl $imm32: the upper half becomes zero */
		emit_rex(e, false, 0, REG_NONE, reg, false);
		emit_u8(e, 0xb8 | (reg & 7));
		emit_u32(e, value);
	} else if ((int64_t)value == (int32_t)value) {
		emit_rex(e, true, 0, REG_NONE, reg, false);
		emit_u8(e, 0xc7);
		emit_u8(e, 0xc0 | (reg & 7));
		emit_u32(e, value);
	} else {
		emit_rex(e, true, 0, REG_NONE, reg, false);
		emit_u8(e, 0xb8 | (reg & 7));
		emit_u64(e, value);
	}
}

/*
 * Computes the distance from an instruction's end, and whether it reaches. Distances near the limit
 * count as out of reach, so that the second pass, at other addresses, decides the same.
 */
static bool emit_reaches(const struct emit *e, size_t length, uint64_t address, int64_t *ret)
{
	enum { MARGIN = 1 << 20 };

	*ret = (int64_t)(address - (e->at + e->length + length));
	return *ret > INT32_MIN + MARGIN && *ret < INT32_MAX - MARGIN;
}

void emit_lea_to(struct emit *e, int reg, uint64_t address)
{
	int64_t distance;

	if (!emit_reaches(e, 7, address, &distance)) {
		emit_const(e, reg, address);
		return;
	}
	emit_rex(e, true, reg, REG_NONE, 0, false);
	emit_u8(e, OP_LEA);
	emit_u8(e, (reg & 7) << 3 | 5);
	emit_u32(e, distance);
}

void emit_test_u32(struct emit *e, uint64_t address, int scratch)
{
	int64_t distance;

	if (!emit_reaches(e, 7, address, &distance)) {
		emit_const(e, scratch, address);
		emit_imm_mem(e, false, 7, mem_at(scratch, 0), 0);
		return;
	}
	emit_bytes(e, "\x83\x3d", 2); /* cmpl $0, distance(%rip) */
	emit_u32(e, distance);
	emit_u8(e, 0);
}

void emit_push(struct emit *e, int reg)
{
	emit_rex(e, false, 0, REG_NONE, reg, false);
	emit_u8(e, 0x50 | (reg & 7));
}

void emit_pop(struct emit *e, int reg)
{
	emit_rex(e, false, 0, REG_NONE, reg, false);
	emit_u8(e, 0x58 | (reg & 7));
}

void emit_imm_mem(struct emit *e, bool wide, int digit, struct emit_mem m, int32_t imm)
{
	bool small = imm >= -128 && imm <= 127;

	emit_rex(e, wide, 0, m.index, m.base, false);
	emit_u8(e, small ? 0x83 : 0x81);
	emit_operand(e, digit, m);
	if (small)
		emit_u8(e, imm);
	else
		emit_u32(e, imm);
}

int emit_label(struct emit *e)
{
	if (e->label_count == EMIT_LABELS) {
		e->overflow = true;
		return 0;
	}
	e->labels[e->label_count] = SIZE_MAX;
	return e->label_count++;
}

void emit_place(struct emit *e, int label)
{
	e->labels[label] = e->length;
}

/* Emits the displacement to a label, in the size that emit_again() has chosen. */
static void emit_relative(struct emit *e, int label, bool is_fixed)
{
	int k = e->fixup_count;

	if (k == EMIT_FIXUPS) {
		e->overflow = true;
		return;
	}
	e->fixups[k].at = e->length;
	e->fixups[k].label = label;
	e->fixups[k].is_fixed = is_fixed;
	e->fixup_count++;
	if (e->fixups[k].is_short)
		emit_u8(e, 0);
	else
		emit_u32(e, 0);
}

void emit_jump_label(struct emit *e, int cc, int label)
{
	bool is_short = e->fixup_count < EMIT_FIXUPS && e->fixups[e->fixup_count].is_short;

	if (is_short) {
		emit_u8(e, cc < 0 ? 0xeb : 0x70 | cc);
	} else if (cc < 0) {
		emit_u8(e, 0xe9);
	} else {
		emit_u8(e, 0x0f);
		emit_u8(e, 0x80 | cc);
	}
	emit_relative(e, label, false);
}

void emit_call_label(struct emit *e, int label)
{
	emit_u8(e, 0xe8);
	emit_relative(e, label, true);
}

void emit_lea_label(struct emit *e, int reg, int label)
{
	emit_rex(e, true, reg, REG_NONE, 0, false);
	emit_u8(e, OP_LEA);
	emit_u8(e, (reg & 7) << 3 | 5);
	emit_relative(e, label, true);
}

static int64_t fixup_distance(const struct emit *e, int k)
{
	size_t end = e->fixups[k].at + (e->fixups[k].is_short ? 1 : 4);

	return (int64_t)e->labels[e->fixups[k].label] - (int64_t)end;
}

void emit_again(struct emit *e)
{
	/* Short jumps only bring labels closer, so a jump that can be short can stay short. */
	for (int k = 0; !e->overflow && k < e->fixup_count; k++) {
		int64_t distance = fixup_distance(e, k);

		e->fixups[k].is_short = !e->fixups[k].is_fixed && distance == (int8_t)distance;
	}
	e->length = 0;
	e->label_count = e->fixup_count = 0;
}

bool emit_finish(struct emit *e)
{
	if (e->overflow || e->length > e->room)
		return false;
	for (int k = 0; k < e->fixup_count; k++) {
		int64_t distance = fixup_distance(e, k);
		int32_t rel32 = distance;

		if (e->labels[e->fixups[k].label] == SIZE_MAX)
			return false;
		if (!e->fixups[k].is_short)
			memcpy(e->out + e->fixups[k].at, &rel32, sizeof(rel32));
		else if (distance == (int8_t)distance)
			e->out[e->fixups[k].at] = distance;
		else
			return false;
	}
	return true;
}
