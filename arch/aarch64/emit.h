/* SPDX-License-Identifier: MIT */
/*
 * A small aarch64 encoder, for the instruction forms of stubs. Source: Arm Architecture Reference
 * Manual for A-profile, DDI 0487, C6.2.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Register 31 is the stack pointer in addresses and in additions of constants; in other operands it
 * is zero.
 */
enum { A64_LINK = 30, A64_SP = 31, A64_ZERO = 31 };

/* Flipping the lowest bit negates a condition. */
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

/* Code, written to `out` for address `at`, both multiples of four. */
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
	} fixups[A64_FIXUPS];
};

/*
 * Instruction words with registers rd, rn, rm of 32 bits. With bit 31 set, the registers have 64
 * bits.
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
	A64_CLZ = 0x5ac01000,
	A64_MSUB = 0x1b008000, /* rd = ra - rn * rm; ra << 10 is added */
	A64_EXTR =
		0x13c00000, /* 64-bit only: rd = 64 bits of rn:rm; the first bit << 10 is added */
	/* without rd, rm and `wide` */
	A64_BLR = 0xd63f0000,
	A64_RET = 0xd65f0000,
	/* without rm and `wide` */
	A64_STORE_VECTOR = 0x3d800000, /* 16 bytes of vector register rd, at rn */
	A64_FMOV = 0x9e660000,	       /* rd = 8 bytes of vector register rn */
	A64_FMOV_HALF = 0x1e260000     /* 4 bytes */
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
 * Accesses to `bytes` bytes (4 or 8) at rn. Each value is the word for 4 bytes, with 0 in all
 * register fields.
 */
enum a64_atomic {
	/*
	 * Exclusive accesses: the load sets rt = the bytes, and acquires. The store releases: if no
	 * other thread has changed the bytes since the load, it stores rt, and rs = 0. Otherwise it
	 * stores nothing, and rs = 1.
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

/* Accesses to memory, extended to 64 bits. */
enum a64_access { A64_STORE = 0, A64_LOAD = 1, A64_LOAD_SIGNED = 2 };

/*
 * Pairs at sp + disp, a multiple of 8 up to 504. PUSH first changes sp by disp, which is negative;
 * POP does so afterwards.
 */
enum a64_pair {
	A64_STORE_PAIR = 0xa9000000,
	A64_LOAD_PAIR = 0xa9400000,
	A64_PUSH_PAIR = 0xa9800000,
	A64_POP_PAIR = 0xa8c00000
};

/* Instruction words that have the distance to a label. A condition is added to A64_B_IF. */
enum { A64_ADR = 0x10000000, A64_B = 0x14000000, A64_B_IF = 0x54000000, A64_BL = 0x94000000 };

void a64_put(struct a64 *e, uint32_t insn);
/* `rt` is 0 for an instruction without a register. */
void a64_one(struct a64 *e, enum a64_one op, int rt);
void a64_op(struct a64 *e, bool wide, enum a64_op op, int rd, int rn, int rm);
void a64_move(struct a64 *e, int rd, int rn);
void a64_const(struct a64 *e, int rd, uint64_t value);
/* rd = an address, relative to the program counter if in reach. */
void a64_address(struct a64 *e, int rd, uint64_t address);
/* rt = the u32 at an address. */
void a64_load_word(struct a64 *e, int rt, uint64_t address);
/*
 * ADD, SUB, ADDS or SUBS of 12 bits, maybe shifted left by 12. Returns false, and emits nothing,
 * for other constants.
 */
bool a64_op_const(struct a64 *e, bool wide, enum a64_op op, int rd, int rn, uint64_t value);
/*
 * AND, ORR or EOR of a repeated run of ones. Returns false, and emits nothing, for other constants.
 */
bool a64_op_mask(struct a64 *e, bool wide, enum a64_op op, int rd, int rn, uint64_t value);
/* rd = bits `low` to `high` of rn, extended, by ubfm or sbfm; a shift, if they wrap around. */
void a64_bits(struct a64 *e, bool wide, bool is_signed, int rd, int rn, unsigned int low,
	unsigned int high);
/*
 * Access `bytes` bytes (1, 2, 4, 8) at an address: rn + disp, or rn + (rm << shift), with a shift
 * of 0 or log2(bytes). a64_memory() returns false, and emits nothing, if disp does not fit.
 */
bool a64_disp_fits(int64_t disp, unsigned int bytes);
bool a64_memory(
	struct a64 *e, enum a64_access access, int rt, int rn, int64_t disp, unsigned int bytes);
void a64_indexed(struct a64 *e, enum a64_access access, int rt, int rn, int rm, unsigned int shift,
	unsigned int bytes);
/* `rs` is 0 for accesses without that register. */
void a64_atomic(struct a64 *e, enum a64_atomic op, int rs, int rt, int rn, unsigned int bytes);
void a64_pair(struct a64 *e, enum a64_pair op, int rt, int rt2, int disp);

/* a64_label() makes a label; a64_place() puts it at the next instruction. */
int a64_label(struct a64 *e);
void a64_place(struct a64 *e, int label);
/* Emits an instruction with the distance to a label. */
void a64_branch(struct a64 *e, uint32_t insn, int label);
/* Jumps if the register rt is zero, or if it is not. */
void a64_jump_zero(struct a64 *e, bool wide, bool is_zero, int rt, int label);
/* Returns false if the address is out of reach. */
bool a64_jump_to(struct a64 *e, uint64_t to);
/* Resolves labels. Returns false if any emitting function has failed. */
bool a64_finish(struct a64 *e);
