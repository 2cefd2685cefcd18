/* SPDX-License-Identifier: MIT */
#include "arch/aarch64/emit.h"
#include "arch/aarch64/encoding.h"

static uint32_t wide_bit(bool wide)
{
	return (uint32_t)wide << 31;
}

static uint32_t three(int rd, int rn, int rm)
{
	return (uint32_t)rm << 16 | (uint32_t)rn << 5 | (uint32_t)rd;
}

void a64_put(struct a64 *e, uint32_t insn)
{
	if (e->length + AARCH64_INSN_LENGTH <= e->room)
		aarch64_store(e->out + e->length, insn);
	e->length += AARCH64_INSN_LENGTH;
}

void a64_one(struct a64 *e, enum a64_one op, int rt)
{
	a64_put(e, op | (uint32_t)rt);
}

/* ---- Register operands ------------------------------------------------------------- */

void a64_op(struct a64 *e, bool wide, enum a64_op op, int rd, int rn, int rm)
{
	a64_put(e, op | wide_bit(wide) | three(rd, rn, rm));
}

void a64_move(struct a64 *e, int rd, int rn)
{
	a64_op(e, true, A64_ORR, rd, A64_ZERO, rn);
}

/* ---- Constants ------------------------------------------------------------------------ */

void a64_const(struct a64 *e, int rd, uint64_t value)
{
	enum { MOVN = 0x92800000, MOVZ = 0xd2800000, MOVK = 0xf2800000 };
	int zeros = 0, ones = 0;
	bool first = true, is_plain = value == 0 || value == UINT64_MAX;
	uint64_t usual;

	for (int i = 0; i < 4; i++) {
		zeros += (uint16_t)(value >> 16 * i) == 0;
		ones += (uint16_t)(value >> 16 * i) == 0xffff;
	}
	usual = ones > zeros ? 0xffff : 0;
	for (int i = 0; i < 4; i++) {
		uint32_t part = (uint16_t)(value >> 16 * i);

		if (part == usual && !(is_plain && i == 0))
			continue;
		if (!first)
			a64_put(e, MOVK | (uint32_t)i << 21 | part << 5 | (uint32_t)rd);
		else if (usual)
			a64_put(e, MOVN | (uint32_t)i << 21 | (part ^ 0xffff) << 5 | (uint32_t)rd);
		else
			a64_put(e, MOVZ | (uint32_t)i << 21 | part << 5 | (uint32_t)rd);
		first = false;
	}
}

/* rd = the page of an address. Returns false, and emits nothing, if it is out of reach. */
static bool a64_page(struct a64 *e, int rd, uint64_t address)
{
	uint64_t here = e->at + e->length;
	uint32_t insn = 0x90000000 | (uint32_t)rd; /* adrp */

	if (!aarch64_set_page_field(&insn, (int64_t)(address >> 12) - (int64_t)(here >> 12)))
		return false;
	a64_put(e, insn);
	return true;
}

void a64_address(struct a64 *e, int rd, uint64_t address)
{
	if (!a64_page(e, rd, address))
		a64_const(e, rd, address);
	else if (address & 0xfff)
		a64_op_const(e, true, A64_ADD, rd, rd, address & 0xfff);
}

void a64_load_word(struct a64 *e, int rt, uint64_t address)
{
	int64_t disp = (int64_t)(address & 0xfff);

	if (disp % 4 || !a64_page(e, rt, address)) {
		a64_address(e, rt, address);
		disp = 0;
	}
	a64_memory(e, A64_LOAD, rt, rt, disp, sizeof(uint32_t));
}

bool a64_op_const(struct a64 *e, bool wide, enum a64_op op, int rd, int rn, uint64_t value)
{
	uint32_t upper = value > 0xfff, part = (uint32_t)(upper ? value >> 12 : value);

	if (upper && (value & 0xfff || value >> 24))
		return false;
	/* Converts the opcode for registers into the opcode for constants. */
	a64_put(e,
		(op + 0x06000000) | wide_bit(wide) | upper << 22 | part << 10 | three(rd, rn, 0));
	return true;
}

/*
 * Encodes a bit mask (DecodeBitMasks() of the manual): a rotated run of ones in an element of 2, 4,
 * ... 64 bits, repeated. Returns 0 for other constants, such as all zeros or all ones.
 */
static uint32_t mask_field(uint64_t value)
{
	unsigned int size = 64, ones, rotated = 0;
	uint64_t element;

	while (size > 2 && value << (64 - size / 2) >> (64 - size / 2) ==
				   value << (64 - size) >> (64 - size / 2))
		size /= 2;
	element = value << (64 - size) >> (64 - size);
	ones = (unsigned int)__builtin_popcountll(element);
	if (ones == 0 || ones == size)
		return 0;
	/* `rotated` is the number of bits by which the run is rotated left from the lowest bits. */
	while (rotated < size && element != (UINT64_C(1) << ones) - 1) {
		element = (element << 1 | element >> (size - 1)) << (64 - size) >> (64 - size);
		rotated++;
	}
	if (rotated == size)
		return 0;
	return (size == 64) << 12 | rotated << 6 | ((-(size << 1) & 0x3f) | (ones - 1));
}

bool a64_op_mask(struct a64 *e, bool wide, enum a64_op op, int rd, int rn, uint64_t value)
{
	uint32_t field = mask_field(wide ? value : (value & UINT32_MAX) | value << 32);

	if (!field)
		return false;
	/* Converts the opcode for registers into the opcode for masks. */
	a64_put(e, (op + 0x08000000) | wide_bit(wide) | field << 10 | three(rd, rn, 0));
	return true;
}

void a64_bits(struct a64 *e, bool wide, bool is_signed, int rd, int rn, unsigned int low,
	unsigned int high)
{
	a64_put(e, (is_signed ? 0x13000000 : 0x53000000) | wide_bit(wide) | (uint32_t)wide << 22 |
			   low << 16 | high << 10 | three(rd, rn, 0));
}

/* ---- Memory ----------------------------------------------------------------------------- */

static uint32_t size_of(unsigned int bytes)
{
	return bytes == 8 ? 3 : bytes == 4 ? 2 : bytes == 2 ? 1 : 0;
}

static bool is_scaled(int64_t disp, unsigned int bytes)
{
	return disp >= 0 && disp % bytes == 0 && disp / bytes < 4096;
}

bool a64_disp_fits(int64_t disp, unsigned int bytes)
{
	return is_scaled(disp, bytes) || (disp >= -256 && disp < 256);
}

bool a64_memory(
	struct a64 *e, enum a64_access access, int rt, int rn, int64_t disp, unsigned int bytes)
{
	uint32_t insn = 0x38000000 | size_of(bytes) << 30 | access << 22 | three(rt, rn, 0);

	if (is_scaled(disp, bytes))
		a64_put(e, insn | 0x01000000 | (uint32_t)(disp / bytes) << 10);
	else if (a64_disp_fits(disp, bytes))
		a64_put(e, insn | ((uint32_t)disp & 0x1ff) << 12);
	else
		return false;
	return true;
}

void a64_indexed(struct a64 *e, enum a64_access access, int rt, int rn, int rm, unsigned int shift,
	unsigned int bytes)
{
	if (shift && shift != size_of(bytes))
		e->overflow = true;
	a64_put(e, 0x38206800 | size_of(bytes) << 30 | access << 22 | (uint32_t)(shift != 0) << 12 |
			   three(rt, rn, rm));
}

void a64_atomic(struct a64 *e, enum a64_atomic op, int rs, int rt, int rn, unsigned int bytes)
{
	a64_put(e, op | size_of(bytes) << 30 | three(rt, rn, rs));
}

void a64_pair(struct a64 *e, enum a64_pair op, int rt, int rt2, int disp)
{
	a64_put(e, op | ((uint32_t)(disp / 8) & 0x7f) << 15 | (uint32_t)rt2 << 10 |
			   (uint32_t)A64_SP << 5 | (uint32_t)rt);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

int a64_label(struct a64 *e)
{
	if (e->label_count == A64_LABELS) {
		e->overflow = true;
		return 0;
	}
	e->labels[e->label_count] = SIZE_MAX;
	return e->label_count++;
}

void a64_place(struct a64 *e, int label)
{
	e->labels[label] = e->length;
}

void a64_branch(struct a64 *e, uint32_t insn, int label)
{
	if (e->fixup_count == A64_FIXUPS) {
		e->overflow = true;
		return;
	}
	e->fixups[e->fixup_count].at = e->length;
	e->fixups[e->fixup_count++].label = label;
	a64_put(e, insn);
}

void a64_jump_zero(struct a64 *e, bool wide, bool is_zero, int rt, int label)
{
	a64_branch(e, (is_zero ? 0x34000000 : 0x35000000) | wide_bit(wide) | (uint32_t)rt, label);
}

bool a64_jump_to(struct a64 *e, uint64_t to)
{
	uint32_t insn = A64_B;
	bool ok = aarch64_set_distance(&insn, 0, 26, (int64_t)(to - (e->at + e->length)));

	a64_put(e, insn);
	return ok;
}

/* Writes a distance into the field that the instruction has for it. */
static bool set_distance(uint32_t *insn, int64_t distance)
{
	if ((*insn & 0x1f000000) == A64_ADR)
		return aarch64_set_page_field(insn, distance);
	if ((*insn & 0x7c000000) == A64_B)
		return aarch64_set_distance(insn, 0, 26, distance);
	return aarch64_set_distance(insn, 5, 19, distance);
}

bool a64_finish(struct a64 *e)
{
	if (e->overflow || e->length > e->room)
		return false;
	for (int k = 0; k < e->fixup_count; k++) {
		size_t to = e->labels[e->fixups[k].label], at = e->fixups[k].at;
		uint32_t insn = aarch64_load(e->out + at);

		if (to == SIZE_MAX || !set_distance(&insn, (int64_t)to - (int64_t)at))
			return false;
		aarch64_store(e->out + at, insn);
	}
	return true;
}
