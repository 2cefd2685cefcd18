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

void a64_add_shifted(struct a64 *e, int rd, int rn, int rm, unsigned int shift)
{
	a64_put(e, A64_ADD | wide_bit(true) | shift << 10 | three(rd, rn, rm));
}

void a64_msub(struct a64 *e, bool wide, int rd, int rn, int rm, int ra)
{
	a64_put(e, 0x1b008000 | wide_bit(wide) | (uint32_t)ra << 10 | three(rd, rn, rm));
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
	a64_load(e, rt, rt, disp, sizeof(uint32_t), false);
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

/* rd = bits `low` to `high` of rn, by ubfm or sbfm. */
static void a64_bits(struct a64 *e, bool wide, bool is_signed, int rd, int rn, unsigned int low,
	unsigned int high)
{
	a64_put(e, (is_signed ? 0x13000000 : 0x53000000) | wide_bit(wide) | (uint32_t)wide << 22 |
			   low << 16 | high << 10 | three(rd, rn, 0));
}

void a64_shift_left(struct a64 *e, bool wide, int rd, int rn, unsigned int count)
{
	unsigned int width = wide ? 64 : 32;

	a64_bits(e, wide, false, rd, rn, (width - count) % width, width - 1 - count);
}

void a64_shift_right(struct a64 *e, bool wide, int rd, int rn, unsigned int count)
{
	a64_bits(e, wide, false, rd, rn, count, wide ? 63 : 31);
}

void a64_extract(struct a64 *e, int rd, int rn, unsigned int low, unsigned int bits, bool is_signed)
{
	a64_bits(e, true, is_signed, rd, rn, low, low + bits - 1);
}

void a64_extract_pair(struct a64 *e, int rd, int rn, int rm, unsigned int low)
{
	a64_put(e, 0x93c00000 | low << 10 | three(rd, rn, rm));
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

/* `opc`: 0 stores, 1 loads, 2 loads with sign extension */
static bool a64_memory(
	struct a64 *e, uint32_t opc, int rt, int rn, int64_t disp, unsigned int bytes)
{
	uint32_t insn = 0x38000000 | size_of(bytes) << 30 | opc << 22 | three(rt, rn, 0);

	if (is_scaled(disp, bytes))
		a64_put(e, insn | 0x01000000 | (uint32_t)(disp / bytes) << 10);
	else if (a64_disp_fits(disp, bytes))
		a64_put(e, insn | ((uint32_t)disp & 0x1ff) << 12);
	else
		return false;
	return true;
}

static uint32_t load_of(unsigned int bytes, bool is_signed)
{
	return is_signed && bytes < 8 ? 2 : 1;
}

bool a64_load(struct a64 *e, int rt, int rn, int64_t disp, unsigned int bytes, bool is_signed)
{
	return a64_memory(e, load_of(bytes, is_signed), rt, rn, disp, bytes);
}

bool a64_store(struct a64 *e, int rt, int rn, int64_t disp, unsigned int bytes)
{
	return a64_memory(e, 0, rt, rn, disp, bytes);
}

static void a64_indexed(
	struct a64 *e, uint32_t opc, int rt, int rn, int rm, unsigned int shift, unsigned int bytes)
{
	if (shift && shift != size_of(bytes))
		e->overflow = true;
	a64_put(e, 0x38206800 | size_of(bytes) << 30 | opc << 22 | (uint32_t)(shift != 0) << 12 |
			   three(rt, rn, rm));
}

void a64_load_indexed(struct a64 *e, int rt, int rn, int rm, unsigned int shift, unsigned int bytes,
	bool is_signed)
{
	a64_indexed(e, load_of(bytes, is_signed), rt, rn, rm, shift, bytes);
}

void a64_store_indexed(
	struct a64 *e, int rt, int rn, int rm, unsigned int shift, unsigned int bytes)
{
	a64_indexed(e, 0, rt, rn, rm, shift, bytes);
}

void a64_atomic(struct a64 *e, enum a64_atomic op, int rs, int rt, int rn, unsigned int bytes)
{
	a64_put(e, op | size_of(bytes) << 30 | three(rt, rn, rs));
}

static void a64_pair(struct a64 *e, uint32_t insn, int rt, int rt2, int disp)
{
	a64_put(e, insn | ((uint32_t)(disp / 8) & 0x7f) << 15 | (uint32_t)rt2 << 10 |
			   (uint32_t)A64_SP << 5 | (uint32_t)rt);
}

void a64_store_pair(struct a64 *e, int rt, int rt2, int disp)
{
	a64_pair(e, 0xa9000000, rt, rt2, disp);
}

void a64_load_pair(struct a64 *e, int rt, int rt2, int disp)
{
	a64_pair(e, 0xa9400000, rt, rt2, disp);
}

void a64_push_pair(struct a64 *e, int rt, int rt2, int bytes)
{
	a64_pair(e, 0xa9800000, rt, rt2, -bytes);
}

void a64_pop_pair(struct a64 *e, int rt, int rt2, int bytes)
{
	a64_pair(e, 0xa8c00000, rt, rt2, bytes);
}

/* ---- Other instructions ------------------------------------------------------------------- */

void a64_store_vector(struct a64 *e, int vector, int rn)
{
	a64_put(e, 0x3d800000 | three(vector, rn, 0)); /* str qN, [rn] */
}

void a64_vector(struct a64 *e, int rd, int vector, unsigned int bytes)
{
	a64_put(e, (bytes == 8 ? 0x9e660000 : 0x1e260000) | three(rd, vector, 0)); /* fmov */
}

/* ---- SVE. The stack holds predicates and FFR, in the space of three vectors; then the vectors. */

enum { PREDICATES = 16, VECTORS = 32, PREDICATE_VECTORS = 3, VECTORS_MOST = 31 };

/* Loads or stores a predicate (pN) or vector (zN) in slot `slot` above sp. */
static void a64_sve(struct a64 *e, bool is_load, bool is_vector, int number, uint32_t slot)
{
	a64_put(e, (is_load ? 0x85800000 : 0xe5800000) | (uint32_t)is_vector << 14 |
			   slot >> 3 << 16 | (slot & 7) << 10 | three(number, A64_SP, 0));
}

static void a64_sve_all(struct a64 *e, bool is_load)
{
	for (int i = 0; i < PREDICATES; i++)
		a64_sve(e, is_load, false, i, (uint32_t)i);
	for (int i = 0; i < VECTORS; i++)
		a64_sve(e, is_load, true, i, (uint32_t)(PREDICATE_VECTORS + i));
}

/* sp += the size of `vectors` vector registers. */
static void a64_sve_stack(struct a64 *e, int vectors)
{
	a64_put(e, 0x04205000 | ((uint32_t)vectors & 0x3f) << 5 | three(A64_SP, 0, A64_SP));
}

void a64_keep_vectors(struct a64 *e)
{
	a64_sve_stack(e, -VECTORS_MOST);
	a64_sve_stack(e, VECTORS_MOST - VECTORS - PREDICATE_VECTORS);
	a64_sve_all(e, false);
	a64_put(e, 0x2519f000); /* rdffr p0.b */
	a64_sve(e, false, false, 0, PREDICATES);
}

void a64_restore_vectors(struct a64 *e)
{
	a64_sve(e, true, false, 0, PREDICATES);
	a64_put(e, 0x25289000); /* wrffr p0.b */
	a64_sve_all(e, true);
	a64_sve_stack(e, VECTORS_MOST);
	a64_sve_stack(e, VECTORS + PREDICATE_VECTORS - VECTORS_MOST);
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

void a64_label_word(struct a64 *e, int label, int from)
{
	uint64_t value = e->labels[label] - (from < 0 ? -e->at : e->labels[from]);

	if (e->labels[label] == SIZE_MAX || (from >= 0 && e->labels[from] == SIZE_MAX))
		e->overflow = true;
	a64_put(e, (uint32_t)value);
	a64_put(e, (uint32_t)(value >> 32));
}

static void a64_branch(struct a64 *e, uint32_t insn, uint8_t low, uint8_t bits, int label)
{
	if (e->fixup_count == A64_FIXUPS) {
		e->overflow = true;
		return;
	}
	e->fixups[e->fixup_count].at = e->length;
	e->fixups[e->fixup_count].label = label;
	e->fixups[e->fixup_count].low = low;
	e->fixups[e->fixup_count].bits = bits;
	e->fixup_count++;
	a64_put(e, insn);
}

void a64_label_address(struct a64 *e, int rd, int label)
{
	a64_branch(e, 0x10000000 | (uint32_t)rd, 0, 0, label);
}

void a64_jump(struct a64 *e, int label)
{
	a64_branch(e, 0x14000000, 0, 26, label);
}

void a64_call(struct a64 *e, int label)
{
	a64_branch(e, 0x94000000, 0, 26, label);
}

void a64_call_register(struct a64 *e, int rn)
{
	a64_put(e, 0xd63f0000 | three(0, rn, 0)); /* blr */
}

void a64_return(struct a64 *e, int rn)
{
	a64_put(e, 0xd65f0000 | three(0, rn, 0));
}

void a64_jump_if(struct a64 *e, enum a64_condition condition, int label)
{
	a64_branch(e, 0x54000000 | condition, 5, 19, label);
}

void a64_jump_zero(struct a64 *e, bool wide, bool is_zero, int rt, int label)
{
	a64_branch(e, (is_zero ? 0x34000000 : 0x35000000) | wide_bit(wide) | (uint32_t)rt, 5, 19,
		label);
}

bool a64_jump_to(struct a64 *e, uint64_t to)
{
	uint32_t insn = 0x14000000;
	bool ok = aarch64_set_distance(&insn, 0, 26, (int64_t)(to - (e->at + e->length)));

	a64_put(e, insn);
	return ok;
}

static bool set_distance(uint32_t *insn, uint8_t low, uint8_t bits, int64_t distance)
{
	return bits ? aarch64_set_distance(insn, low, bits, distance)
		    : aarch64_set_page_field(insn, distance);
}

bool a64_finish(struct a64 *e)
{
	if (e->overflow || e->length > e->room)
		return false;
	for (int k = 0; k < e->fixup_count; k++) {
		size_t to = e->labels[e->fixups[k].label], at = e->fixups[k].at;
		uint32_t insn = aarch64_load(e->out + at);

		if (to == SIZE_MAX || !set_distance(&insn, e->fixups[k].low, e->fixups[k].bits,
					      (int64_t)to - (int64_t)at))
			return false;
		aarch64_store(e->out + at, insn);
	}
	return true;
}
