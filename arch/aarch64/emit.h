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

/*
 * Registers are numbers. In addresses, and where a constant is added, 31 is the stack pointer;
 * elsewhere 31 is the zero register.
 */
enum { A64_LINK = 30, A64_SP = 31, A64_ZERO = 31 };

/* Conditions. Flipping the lowest bit negates a condition. */
enum a64_condition {
	A64_EQ = 0,
	A64_NE = 1,
	A64_HS = 2, /* unsigned >= */
	A64_LO = 3, /* unsigned < */
	A64_HI = 8,
	A64_LS = 9,
	A64_GE = 10,
	A64_LT = 11,
	A64_GT = 12,
	A64_LE = 13
};

enum { A64_LABELS = 1024, A64_FIXUPS = 2048 };

/*
 * An encoder. The code is written to `out` and will run at address `at`; both are multiples of
 * four.
 */
struct a64 {
	uint8_t *out;
	size_t room, length;
	uint64_t at;
	bool overflow;	 /* `labels` or `fixups` was too small, or a number did not fit */
	bool has_thread; /* A64_STEP holds the thread pointer (stub/lower.c) */
	int label_count, fixup_count;
	size_t labels[A64_LABELS];
	struct {
		size_t at;
		int label;
		/*
		 * The bit field of the instruction that holds the distance. `bits` is 0 for the
		 * field of adr, which has two parts.
		 */
		uint8_t low, bits;
	} fixups[A64_FIXUPS];
};

/*
 * Instruction words with register operands rd, rn, rm. As listed, they work on 32 bits; with bit 31
 * set, they work on 64 bits.
 */
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
	A64_UMULH = 0x1bc07c00 /* 64-bit only */
};

void a64_put(struct a64 *e, uint32_t insn);
void a64_op(struct a64 *e, bool wide, enum a64_op op, int rd, int rn, int rm);
/* rd = rn + (rm << shift). */
void a64_add_shifted(struct a64 *e, int rd, int rn, int rm, unsigned int shift);
/* rd = ra - rn * rm. */
void a64_msub(struct a64 *e, bool wide, int rd, int rn, int rm, int ra);
/* rd = the number of zero bits above the highest set bit of rn. */
void a64_clz(struct a64 *e, bool wide, int rd, int rn);
/* rd = rn with its bits in reverse order. */
void a64_rbit(struct a64 *e, bool wide, int rd, int rn);
void a64_move(struct a64 *e, int rd, int rn);
void a64_const(struct a64 *e, int rd, uint64_t value);
/* rd = an address. It is computed relative to the program counter if it is in reach. */
void a64_address(struct a64 *e, int rd, uint64_t address);
/* rt = the u32 at an address. */
void a64_load_word(struct a64 *e, int rt, uint64_t address);
/*
 * Emits ADD, SUB, ADDS or SUBS of a constant of 12 bits, or of 12 bits shifted left by 12. For
 * other constants, emits nothing and returns false.
 */
bool a64_op_const(struct a64 *e, bool wide, enum a64_op op, int rd, int rn, uint64_t value);
/*
 * Emits AND, ORR or EOR of a constant that is a repeated run of ones. For other constants, emits
 * nothing and returns false.
 */
bool a64_op_mask(struct a64 *e, bool wide, enum a64_op op, int rd, int rn, uint64_t value);
/* rd = rn shifted by a constant that is less than the width; the shift to the right is logical. */
void a64_shift_left(struct a64 *e, bool wide, int rd, int rn, unsigned int count);
void a64_shift_right(struct a64 *e, bool wide, int rd, int rn, unsigned int count);
/* rd = 64 bits of the 128-bit number rn:rm, starting at bit `low`. */
void a64_extract_pair(struct a64 *e, int rd, int rn, int rm, unsigned int low);
/* rd = the `bits` bits of rn that start at bit `low`, extended to 64 bits. */
void a64_extract(
	struct a64 *e, int rd, int rn, unsigned int low, unsigned int bits, bool is_signed);
/*
 * Loads and stores: rt = `bytes` bytes (1, 2, 4 or 8) at an address, extended; or the bytes at the
 * address = rt. The address is rn + disp, or rn + (rm << shift), where shift is 0 or log2(bytes).
 * a64_load() and a64_store() emit nothing and return false if the displacement does not fit.
 */
bool a64_disp_fits(int64_t disp, unsigned int bytes);
bool a64_load(struct a64 *e, int rt, int rn, int64_t disp, unsigned int bytes, bool is_signed);
bool a64_store(struct a64 *e, int rt, int rn, int64_t disp, unsigned int bytes);
void a64_load_indexed(struct a64 *e, int rt, int rn, int rm, unsigned int shift, unsigned int bytes,
	bool is_signed);
void a64_store_indexed(
	struct a64 *e, int rt, int rn, int rm, unsigned int shift, unsigned int bytes);
/*
 * Exclusive accesses to 4 or 8 bytes at rn. The load acquires: rt = the bytes. The store releases:
 * if no other thread has changed the bytes since the load, stores rt, and rs = 0. Otherwise nothing
 * is stored, and rs = 1.
 */
void a64_load_exclusive(struct a64 *e, int rt, int rn, unsigned int bytes);
void a64_store_exclusive(struct a64 *e, int rs, int rt, int rn, unsigned int bytes);
/*
 * Atomic instructions of FEAT_LSE, on 4 or 8 bytes at rn. cas stores rt if the bytes equal rs; rs =
 * the old bytes. swap stores rs; rt = the old bytes. add_to adds rs, and releases. fetch_add adds
 * rs; rt = the old bytes. All except add_to acquire and release.
 */
void a64_cas(struct a64 *e, int rs, int rt, int rn, unsigned int bytes);
void a64_swap(struct a64 *e, int rs, int rt, int rn, unsigned int bytes);
void a64_add_to(struct a64 *e, int rs, int rn, unsigned int bytes);
void a64_fetch_add(struct a64 *e, int rs, int rt, int rn, unsigned int bytes);
/*
 * Accesses to 4 or 8 bytes at rn with C11's memory_order_acquire and memory_order_release. In
 * addition, the load comes after all store-releases that precede it in the code.
 */
void a64_load_acquire(struct a64 *e, int rt, int rn, unsigned int bytes);
void a64_store_release(struct a64 *e, int rt, int rn, unsigned int bytes);
/* Stores a vector register, 16 bytes, at rn. */
void a64_store_vector(struct a64 *e, int vector, int rn);
/* Removes the signature, if any, from the address in the link register. */
void a64_unsign_link(struct a64 *e);
/*
 * a64_keep_vectors() pushes the SVE state of a thread onto the stack: vectors, predicates and FFR,
 * at most 8960 bytes. a64_restore_vectors() pops it.
 */
void a64_keep_vectors(struct a64 *e);
void a64_restore_vectors(struct a64 *e);
/* a64_push() pushes a register and a64_pop() pops it. Each uses 16 bytes of stack. */
void a64_push(struct a64 *e, int rt);
void a64_pop(struct a64 *e, int rt);
/*
 * Accesses to a pair of registers. a64_store_pair() and a64_load_pair() store and load the pair at
 * sp + disp; disp is a multiple of 8, up to 504. a64_push_pair() lowers sp by `bytes` and stores
 * the pair at sp. a64_pop_pair() reverses this.
 */
void a64_store_pair(struct a64 *e, int rt, int rt2, int disp);
void a64_load_pair(struct a64 *e, int rt, int rt2, int disp);
void a64_push_pair(struct a64 *e, int rt, int rt2, int bytes);
void a64_pop_pair(struct a64 *e, int rt, int rt2, int bytes);
/* a64_flags(): rt = the flags. a64_set_flags(): the flags = rt. */
void a64_flags(struct a64 *e, int rt);
void a64_set_flags(struct a64 *e, int rt);
/*
 * Memory tags (FEAT_MTE). TCO is the setting that turns tag checks off. a64_tags(): rt = TCO.
 * a64_set_tags(): TCO = rt. a64_ignore_tags(): TCO = 1, so tag checks are off from here on.
 */
void a64_tags(struct a64 *e, int rt);
void a64_set_tags(struct a64 *e, int rt);
void a64_ignore_tags(struct a64 *e);
/* rt = 1 if the thread is in streaming mode (FEAT_SME), else 0. */
void a64_streaming(struct a64 *e, int rt);
/* rt = the thread pointer. */
void a64_thread(struct a64 *e, int rt);
/* rt = the virtual counter, which serves as the clock. */
void a64_time(struct a64 *e, int rt);
void a64_call_kernel(struct a64 *e);
/* rd = the low 4 or 8 bytes of a vector register. */
void a64_vector(struct a64 *e, int rd, int vector, unsigned int bytes);

/* a64_label() makes a label; a64_place() defines it at the current position. */
int a64_label(struct a64 *e);
void a64_place(struct a64 *e, int label);
/*
 * Emits 8 bytes of data: the address of `label`, or the distance from `from` to `label` if `from`
 * is not negative. Both labels must be defined already.
 */
void a64_label_word(struct a64 *e, int label, int from);
void a64_label_address(struct a64 *e, int rd, int label);
void a64_jump(struct a64 *e, int label);
void a64_call(struct a64 *e, int label);
void a64_call_register(struct a64 *e, int rn);
void a64_return(struct a64 *e, int rn);
void a64_jump_if(struct a64 *e, enum a64_condition condition, int label);
/* Jumps if the register rt is zero (is_zero), or if it is not zero. */
void a64_jump_zero(struct a64 *e, bool wide, bool is_zero, int rt, int label);
/* Jumps to an address; returns false if the address is out of reach. */
bool a64_jump_to(struct a64 *e, uint64_t to);
/* Resolves the labels; returns false if any step of emitting has failed. */
bool a64_finish(struct a64 *e);

#endif
