/* SPDX-License-Identifier: MIT */
/*
 * A small aarch64 encoder with only the instruction forms that stubs use.
 *
 * Source: Arm Architecture Reference Manual for A-profile, DDI 0487, C6.2.
 */
#ifndef ARCH_AARCH64_EMIT_H
#define ARCH_AARCH64_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Registers are numbers; 31 is the stack pointer in addresses and additions, else zero. */
enum { A64_LINK = 30, A64_SP = 31, A64_ZERO = 31 };

/* Flipping the last bit negates a condition. */
enum a64_condition {
	A64_EQ = 0,
	A64_NE = 1,
	A64_HS = 2, /* of unsigned numbers: not below */
	A64_LO = 3, /* below */
	A64_HI = 8,
	A64_LS = 9,
	A64_GE = 10,
	A64_LT = 11,
	A64_GT = 12,
	A64_LE = 13
};

enum { A64_LABELS = 1024, A64_FIXUPS = 2048 };

/* Code written to `out` for execution at `at`, both multiples of four. */
struct a64 {
	uint8_t *out;
	size_t room, length;
	uint64_t at;
	bool overflow;	 /* a table below was too small, or a number does not fit */
	bool has_thread; /* A64_STEP is the thread pointer (arch/aarch64/stub/lower.c) */
	int label_count, fixup_count;
	size_t labels[A64_LABELS];
	struct {
		size_t at;
		int label;
		uint8_t low, bits; /* the field that has the distance; no bits: that of adr */
	} fixups[A64_FIXUPS];
};

/* The words of instructions between registers (rd, rn, rm), narrow: bit 31 makes them wide. */
enum a64_op {
	A64_ADD = 0x0b000000,
	A64_ADDS = 0x2b000000,
	A64_SUB = 0x4b000000,
	A64_SUBS = 0x6b000000,
	A64_AND = 0x0a000000,
	A64_ORR = 0x2a000000,
	A64_EOR = 0x4a000000,
	A64_ORN = 0x2a200000,
	A64_MUL = 0x1b007c00,
	A64_UDIV = 0x1ac00800,
	A64_SDIV = 0x1ac00c00,
	A64_LSLV = 0x1ac02000,
	A64_LSRV = 0x1ac02400,
	A64_ASRV = 0x1ac02800,
	A64_UMULH = 0x1bc07c00 /* only wide */
};

void a64_put(struct a64 *e, uint32_t insn);
void a64_op(struct a64 *e, bool wide, enum a64_op op, int rd, int rn, int rm);
/* ADD, with rm shifted to the left. */
void a64_add_shifted(struct a64 *e, int rd, int rn, int rm, unsigned int shift);
/* rd = ra - rn * rm. */
void a64_msub(struct a64 *e, bool wide, int rd, int rn, int rm, int ra);
/* rd = the number of zeros above the highest bit of rn. */
void a64_clz(struct a64 *e, bool wide, int rd, int rn);
/* rd = the bits of rn in the opposite order. */
void a64_rbit(struct a64 *e, bool wide, int rd, int rn);
void a64_move(struct a64 *e, int rd, int rn);
void a64_const(struct a64 *e, int rd, uint64_t value);
/* Loads an address, relative to the program counter if it is in reach. */
void a64_address(struct a64 *e, int rd, uint64_t address);
/* Loads the u32 there. */
void a64_load_word(struct a64 *e, int rt, uint64_t address);
/* ADD, SUB, ADDS or SUBS of a number; false, and nothing, if it does not fit: 12 bits, or 12
 * above 12. */
bool a64_op_const(struct a64 *e, bool wide, enum a64_op op, int rd, int rn, uint64_t value);
/* AND, ORR or EOR of a number; false, and nothing, if it is no repeated run of bits. */
bool a64_op_mask(struct a64 *e, bool wide, enum a64_op op, int rd, int rn, uint64_t value);
/* Shifts by a number below the width. */
void a64_shift_left(struct a64 *e, bool wide, int rd, int rn, unsigned int count);
void a64_shift_right(struct a64 *e, bool wide, int rd, int rn, unsigned int count);
/* rd = 64 bits of rn:rm from bit `low` on. */
void a64_extract_pair(struct a64 *e, int rd, int rn, int rm, unsigned int low);
/* rd = the `bits` bits of rn from bit `low` on, extended to 64 bits. */
void a64_extract(
	struct a64 *e, int rd, int rn, unsigned int low, unsigned int bits, bool is_signed);
/*
 * rt = `bytes` bytes (1, 2, 4 or 8) at rn + disp, or at rn + (rm << shift), where shift is 0 or the
 * logarithm of bytes; extended. False, and nothing, if the displacement does not fit.
 */
bool a64_disp_fits(int64_t disp, unsigned int bytes);
bool a64_load(struct a64 *e, int rt, int rn, int64_t disp, unsigned int bytes, bool is_signed);
bool a64_store(struct a64 *e, int rt, int rn, int64_t disp, unsigned int bytes);
void a64_load_indexed(struct a64 *e, int rt, int rn, int rm, unsigned int shift, unsigned int bytes,
	bool is_signed);
void a64_store_indexed(
	struct a64 *e, int rt, int rn, int rm, unsigned int shift, unsigned int bytes);
/*
 * rt = 4 or 8 bytes at rn, with what acquires; rs = 0 if rt has been stored there, with what
 * releases, and nobody has changed it in between.
 */
void a64_load_exclusive(struct a64 *e, int rt, int rn, unsigned int bytes);
void a64_store_exclusive(struct a64 *e, int rs, int rt, int rn, unsigned int bytes);
/*
 * FEAT_LSE. If 4 or 8 bytes at rn are rs, they are set to rt; rs = what was there. rt = what was
 * there, which is set to rs. And rs is added, with what releases; or rt = what was there
 * before.
 */
void a64_cas(struct a64 *e, int rs, int rt, int rn, unsigned int bytes);
void a64_swap(struct a64 *e, int rs, int rt, int rn, unsigned int bytes);
void a64_add_to(struct a64 *e, int rs, int rn, unsigned int bytes);
void a64_fetch_add(struct a64 *e, int rs, int rt, int rn, unsigned int bytes);
/*
 * Of 4 or 8 bytes at rn, in the order of C11's memory_order_acquire and _release; and an acquiring
 * load stays after an earlier releasing store.
 */
void a64_load_acquire(struct a64 *e, int rt, int rn, unsigned int bytes);
void a64_store_release(struct a64 *e, int rt, int rn, unsigned int bytes);
/* 16 bytes at rn = the vector register. */
void a64_store_vector(struct a64 *e, int vector, int rn);
/* Removes the signature from an address in the link register, if there may be one. */
void a64_unsign_link(struct a64 *e);
/*
 * Puts all that SVE has in vector registers, predicates and FFR onto the stack, at most 8960 bytes,
 * and takes it back.
 */
void a64_keep_vectors(struct a64 *e);
void a64_restore_vectors(struct a64 *e);
/* A register onto the stack, as 16 bytes, and from there. */
void a64_push(struct a64 *e, int rt);
void a64_pop(struct a64 *e, int rt);
/* Two registers at sp + disp, a multiple of 8 of 504 at most; and below it, which moves sp. */
void a64_store_pair(struct a64 *e, int rt, int rt2, int disp);
void a64_load_pair(struct a64 *e, int rt, int rt2, int disp);
void a64_push_pair(struct a64 *e, int rt, int rt2, int bytes);
void a64_pop_pair(struct a64 *e, int rt, int rt2, int bytes);
/* rt = the flags; and back. */
void a64_flags(struct a64 *e, int rt);
void a64_set_flags(struct a64 *e, int rt);
/* rt = whether tags of addresses are not checked; and back, or they are not from here on. */
void a64_tags(struct a64 *e, int rt);
void a64_set_tags(struct a64 *e, int rt);
void a64_ignore_tags(struct a64 *e);
/* rt = 1 in the streaming mode, else 0. */
void a64_streaming(struct a64 *e, int rt);
/* rt = the thread pointer. */
void a64_thread(struct a64 *e, int rt);
/* rt = the virtual counter. */
void a64_time(struct a64 *e, int rt);
void a64_call_kernel(struct a64 *e);
/* rd = the low 4 or 8 bytes of the vector register. */
void a64_vector(struct a64 *e, int rd, int vector, unsigned int bytes);

/* Labels: a new one, its place, its address, jumps to it. */
int a64_label(struct a64 *e);
void a64_place(struct a64 *e, int label);
/* 8 bytes: the address of a label that has its place, or its distance from such a label. */
void a64_label_word(struct a64 *e, int label, int from);
void a64_label_address(struct a64 *e, int rd, int label);
void a64_jump(struct a64 *e, int label);
void a64_call(struct a64 *e, int label);
void a64_call_register(struct a64 *e, int rn);
void a64_return(struct a64 *e, int rn);
void a64_jump_if(struct a64 *e, enum a64_condition condition, int label);
/* If a register is zero, or is not. */
void a64_jump_zero(struct a64 *e, bool wide, bool is_zero, int rt, int label);
/* A jump to an address; false if it is out of reach. */
bool a64_jump_to(struct a64 *e, uint64_t to);
/* Resolves the labels; false if anything went wrong. */
bool a64_finish(struct a64 *e);

#endif
