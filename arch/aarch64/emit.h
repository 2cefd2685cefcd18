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
	A64_UMULH = 0x1bc07c00, /* 64-bit only */
	/* these have no rm; A64_CLZ counts the zero bits above the highest set bit */
	A64_RBIT = 0x5ac00000,
	A64_CLZ = 0x5ac01000
};

/* Instruction words with at most one register operand, rt. */
enum a64_one {
	A64_CALL_KERNEL = 0xd4000001, /* svc 0 */
	A64_UNSIGN_LINK = 0xd50320ff, /* xpaclri: a nop if the processor has no signatures */
	A64_PUSH = 0xf81f0fe0,	      /* str rt, [sp, -16]! */
	A64_POP = 0xf84107e0,	      /* ldr rt, [sp], 16 */
	A64_GET_FLAGS = 0xd53b4200,   /* mrs rt, nzcv */
	A64_SET_FLAGS = 0xd51b4200,   /* msr nzcv, rt */
	/* memory tags (FEAT_MTE): while TCO is set, tags are not checked */
	A64_GET_TAGS = 0xd53b42e0,	/* mrs rt, tco */
	A64_SET_TAGS = 0xd51b42e0,	/* msr tco, rt */
	A64_IGNORE_TAGS = 0xd503419f,	/* msr tco, 1 */
	A64_GET_STREAMING = 0xd53b4240, /* mrs rt, svcr: bit 0 is the streaming mode (FEAT_SME) */
	A64_GET_THREAD = 0xd53bd040,	/* mrs rt, tpidr_el0 */
	A64_GET_TIME = 0xd53be040	/* mrs rt, cntvct_el0: the counter that is the clock */
};

/*
 * Accesses to `bytes` bytes (4 or 8) at rn. The numbers are the words for 4 bytes, with 0 in all
 * registers that the instruction has.
 */
enum a64_atomic {
	/*
	 * Exclusive accesses: rt = the bytes; acquires. The store releases: if no other thread has
	 * changed the bytes since the load, it stores rt, and rs = 0. Otherwise it stores nothing,
	 * and rs = 1.
	 */
	A64_LOAD_EXCLUSIVE = 0x085ffc00,  /* ldaxr */
	A64_STORE_EXCLUSIVE = 0x0800fc00, /* stlxr */
	/* FEAT_LSE; all acquire and release, except that A64_ADD_TO only releases */
	A64_CAS = 0x08e0fc00,	    /* casal: stores rt if the bytes equal rs; rs = the old bytes */
	A64_SWAP = 0x38e08000,	    /* swpal: stores rs; rt = the old bytes */
	A64_ADD_TO = 0x38600000,    /* staddl: adds rs; rt is A64_ZERO */
	A64_FETCH_ADD = 0x38e00000, /* ldaddal: adds rs; rt = the old bytes */
	/*
	 * C11's memory_order_acquire and memory_order_release. In addition, the load comes after
	 * all store-releases that precede it in the code.
	 */
	A64_LOAD_ACQUIRE = 0x08dffc00, /* ldar */
	A64_STORE_RELEASE = 0x089ffc00 /* stlr */
};

void a64_put(struct a64 *e, uint32_t insn);
/* `rt` is 0 for an instruction without a register. */
void a64_one(struct a64 *e, enum a64_one op, int rt);
void a64_op(struct a64 *e, bool wide, enum a64_op op, int rd, int rn, int rm);
/* rd = rn + (rm << shift). */
void a64_add_shifted(struct a64 *e, int rd, int rn, int rm, unsigned int shift);
/* rd = ra - rn * rm. */
void a64_msub(struct a64 *e, bool wide, int rd, int rn, int rm, int ra);
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
/* `rs` is 0 for the accesses that have none. */
void a64_atomic(struct a64 *e, enum a64_atomic op, int rs, int rt, int rn, unsigned int bytes);
/* Stores a vector register, 16 bytes, at rn. */
void a64_store_vector(struct a64 *e, int vector, int rn);
/*
 * a64_keep_vectors() pushes the SVE state of a thread onto the stack: vectors, predicates and FFR,
 * at most 8960 bytes. a64_restore_vectors() pops it.
 */
void a64_keep_vectors(struct a64 *e);
void a64_restore_vectors(struct a64 *e);
/*
 * Accesses to a pair of registers. a64_store_pair() and a64_load_pair() store and load the pair at
 * sp + disp; disp is a multiple of 8, up to 504. a64_push_pair() lowers sp by `bytes` and stores
 * the pair at sp. a64_pop_pair() reverses this.
 */
void a64_store_pair(struct a64 *e, int rt, int rt2, int disp);
void a64_load_pair(struct a64 *e, int rt, int rt2, int disp);
void a64_push_pair(struct a64 *e, int rt, int rt2, int bytes);
void a64_pop_pair(struct a64 *e, int rt, int rt2, int bytes);
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
