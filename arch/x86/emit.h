/* SPDX-License-Identifier: MIT */
/*
 * A small x86-64 encoder, for the instruction forms of stubs.
 *
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2
 * (prefixes, ModRM, SIB) and appendix B.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RAX,
	RCX,
	RDX,
	RBX,
	RSP,
	RBP,
	RSI,
	RDI,
	R8,
	R9,
	R10,
	R11,
	R12,
	R13,
	R14,
	R15,
	REG_NONE = -1
};

/* Condition codes: the low four bits of opcode 0f 8x. Bit 0 negates. */
enum {
	CC_B = 2,
	CC_AE = 3,
	CC_E = 4,
	CC_NE = 5,
	CC_BE = 6,
	CC_A = 7,
	CC_L = 12,
	CC_GE = 13,
	CC_LE = 14,
	CC_G = 15
};

enum { EMIT_LABELS = 1024, EMIT_FIXUPS = 2048 };

/*
 * Code, written to `out` for address `at`. It is emitted twice: with long jumps and, after
 * emit_again(), with short jumps where these reach.
 */
struct emit {
	uint8_t *out;
	size_t room, length;
	uint64_t at;
	bool overflow; /* a table below is too small */
	int label_count, fixup_count;
	size_t labels[EMIT_LABELS];
	struct {
		size_t at; /* offset of the rel8 or rel32 */
		int label;
		bool is_fixed; /* the jump always has a rel32 */
		bool is_short;
	} fixups[EMIT_FIXUPS];
};

/* A memory operand. `fs` adds the thread pointer; base and index may be REG_NONE. */
struct emit_mem {
	int base, index;
	unsigned int scale;
	int32_t disp;
	bool fs;
};

/* Opcodes. A number at the end is the operand's width in bits. */
enum emit_op {
	OP_MOV_LOAD = 0x8b,  /* reg <- mem */
	OP_MOV_STORE = 0x89, /* mem <- reg */
	OP_MOV_STORE8 = 0x88,
	OP_LEA = 0x8d,
	OP_CMP = 0x3b,	  /* compares reg with mem */
	OP_CMP8 = 0x3a,	  /* compares the low byte of reg with mem */
	OP_ADD_TO = 0x01, /* mem += reg */
	OP_ADD = 0x03,	  /* reg += mem */
	OP_SUB = 0x2b,	  /* reg -= mem */
	OP_OR = 0x0b,
	OP_AND = 0x23,
	OP_XOR = 0x33,
	OP_TEST = 0x85,
	OP_XCHG = 0x87,
	OP_MOVZX8 = 0x0fb6,
	OP_MOVZX16 = 0x0fb7,
	OP_MOVSX8 = 0x0fbe,
	OP_MOVSX16 = 0x0fbf,
	OP_MOVSX32 = 0x63,
	OP_BSF = 0x0fbc,
	OP_BSR = 0x0fbd,
	OP_IMUL = 0x0faf,
	OP_CMPXCHG = 0x0fb1, /* compares mem with %rax; if equal, mem <- reg */
	OP_XADD = 0x0fc1,    /* mem += reg, reg <- the old mem */
	OP_LSL = 0x0f03,
	/*
	 * SSE: the comment names the mandatory prefix, `reg` is an xmm register. OP_MOVLP_* and
	 * OP_ADDS use only its low double.
	 */
	OP_MOVLP_LOAD = 0x0f12,	 /* 66: %xmm <- mem */
	OP_MOVLP_STORE = 0x0f13, /* 66: mem <- %xmm */
	OP_ADDS = 0x0f58,	 /* f2: %xmm += mem */
	OP_MOVU_STORE = 0x0f11,	 /* no prefix: mem <- all of %xmm */
	OP_MXCSR = 0x0fae	 /* no prefix; `reg` is MXCSR_LOAD or MXCSR_STORE */
};
enum { MXCSR_LOAD = 2, MXCSR_STORE = 3 };

/* Opcodes whose extension, the digit, says which instruction they are. */
enum emit_group {
	GROUP_BYTE = 0x80, /* IMM_*, with memory of one byte and an immediate of one byte */
	GROUP_SHIFT = 0xc1,
	GROUP_STORE = 0xc7,    /* digit 0: mem = an immediate of 4 bytes */
	GROUP_SHIFT_CL = 0xd3, /* SHIFT_* */
	GROUP_ONE = 0xf7,      /* ONE_* */
	GROUP_STEP = 0xff      /* STEP_* */
};
enum { IMM_ADD = 0, IMM_OR = 1, IMM_AND = 4, IMM_SUB = 5, IMM_XOR = 6, IMM_CMP = 7 };
enum { SHIFT_LEFT = 4, SHIFT_RIGHT = 5, SHIFT_RIGHT_SIGNED = 7 };
/* ONE_TEST has an immediate of 4 bytes. */
enum { ONE_TEST = 0, ONE_NOT = 2, ONE_NEG = 3, ONE_MUL = 4, ONE_DIV = 6, ONE_IDIV = 7 };
enum { STEP_INC = 0, STEP_DEC = 1 };
/* A prefix for the next instruction, which must write memory. */
enum { PREFIX_LOCK = 0xf0 };

void emit_u8(struct emit *e, uint8_t byte);
void emit_u32(struct emit *e, uint32_t value);
void emit_u64(struct emit *e, uint64_t value);
void emit_bytes(struct emit *e, const void *bytes, size_t length);

/* op reg, mem; `wide` is REX.W. */
void emit_mem(struct emit *e, bool wide, enum emit_op op, int reg, struct emit_mem mem);
/* op reg, rm. */
void emit_reg(struct emit *e, bool wide, enum emit_op op, int reg, int rm);
/* add, or, and, sub, xor or cmp (group 1, `digit`) with an immediate. */
void emit_imm(struct emit *e, bool wide, int digit, int reg, int32_t imm);
/* An instruction of a group, with a register or memory; the caller emits its immediate. */
void emit_group(struct emit *e, bool wide, enum emit_group group, int digit, int reg);
void emit_group_mem(
	struct emit *e, bool wide, enum emit_group group, int digit, struct emit_mem mem);
/* reg = from * factor. */
void emit_multiply(struct emit *e, int reg, int from, int32_t factor);
void emit_flip(struct emit *e, int reg, uint8_t bit);
/* Loads a constant in the shortest form; keeps flags. */
void emit_const(struct emit *e, int reg, uint64_t value);
/* Loads an address, by a %rip-relative lea if in reach. */
void emit_lea_to(struct emit *e, int reg, uint64_t address);
/* Compares the u32 at `address` with 0; may change `scratch`. */
void emit_test_u32(struct emit *e, uint64_t address, int scratch);
void emit_push(struct emit *e, int reg);
void emit_pop(struct emit *e, int reg);
/* Group 1 with an immediate and a memory operand. */
void emit_imm_mem(struct emit *e, bool wide, int digit, struct emit_mem mem, int32_t imm);

/* Make a label, and put it at the next instruction. A jump with cc < 0 is unconditional. */
int emit_label(struct emit *e);
void emit_place(struct emit *e, int label);
void emit_jump_label(struct emit *e, int cc, int label);
void emit_call_label(struct emit *e, int label);
void emit_lea_label(struct emit *e, int reg, int label);
/* Starts the second pass, which must emit the same code. */
void emit_again(struct emit *e);
/* Resolves labels. Returns false if the code does not fit, or a label has no place. */
bool emit_finish(struct emit *e);

static inline struct emit_mem mem_at(int base, int32_t disp)
{
	return (struct emit_mem){.base = base, .index = REG_NONE, .scale = 1, .disp = disp};
}
