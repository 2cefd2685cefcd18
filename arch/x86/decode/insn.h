/* SPDX-License-Identifier: MIT */
/* Decoding x86-64 instructions: operations of struct arch, documented there. */
#pragma once

#include "arch/arch.h"

enum {
	X86_64_JUMP_LENGTH = 5,	      /* length of jump() */
	X86_64_FAR_JUMP_LENGTH = 21,  /* maximum length of far_jump() */
	X86_64_SHORT_JUMP_LENGTH = 2, /* length of short_jump() */
	X86_64_SHORT_REACH = 130      /* reach of a short branch, from its address */
};

/* The prefixes before an opcode. If there are several of one group, the last one counts. */
struct x86_64_prefixes {
	uint8_t length;	   /* number of bytes, REX included: the offset of the opcode */
	uint8_t rex;	   /* 0 if absent */
	uint8_t repeat;	   /* f2, f3 or 0 */
	uint8_t segment;   /* 26, 2e, 36, 3e, 64, 65 or 0 */
	bool operand_size; /* 66 */
	bool address_size; /* 67 */
	bool lock;
};

/* Bits of struct x86_64_prefixes.rex. */
enum { X86_64_REX_W = 8, X86_64_REX_B = 1 };

/* Returns the prefixes; their length is `length` if no opcode follows. */
struct x86_64_prefixes x86_64_prefixes(const uint8_t *bytes, size_t length);

/*
 * Returns true if decode() and move() work, which need the disassembler library. This loads the
 * library.
 */
bool x86_64_can_decode(void);

bool x86_64_decode(const uint8_t *bytes, size_t length, uint64_t address, struct arch_insn *ret);
size_t x86_64_nop_length(const uint8_t *bytes, size_t length);

/*
 * The few functions that we need of a disassembler library, with types of our own. Any thread may
 * call them: the first call loads the library, for good; each thread has a handle.
 */

/* The parts of an instruction. Offsets count from its first byte. */
struct disasm_insn {
	uint8_t length;	      /* 1 to 15 */
	uint8_t modrm_offset; /* 0 if there is no ModRM byte */
	uint8_t disp_offset;  /* 0 if there is no displacement */
	uint8_t disp_size;    /* size of the displacement in bytes */
	bool reads_pc;	      /* a memory operand is relative to %rip */
	bool reads_pc32;      /* a memory operand is relative to %eip (address-size prefix) */
	int64_t disp;	      /* displacement of the operand relative to %rip or %eip */
};

/* Returns the length of the instruction, or 0. */
size_t disasm_length(const uint8_t *bytes, size_t length);

/* Decodes an instruction with its operands. Takes a quarter longer than disasm_length(). */
bool disasm_insn(const uint8_t *bytes, size_t length, struct disasm_insn *ret);

/*
 * Registers that an instruction may write: bits 0 to 5 are those of the first integer arguments
 * (System V ABI, AMD64: %rdi, %rsi, %rdx, %rcx, %r8, %r9), from bit 8 on those of the first eight
 * floating ones.
 */
enum { DISASM_INTEGERS = 6, DISASM_FLOATS = 8, DISASM_WRITES_SP = 1 << 16, DISASM_ALL = 0x1ffff };

/* Returns the registers that an instruction may write; all if it cannot be decoded. */
uint32_t disasm_writes(const uint8_t *bytes, size_t length);

/* Operations of struct arch that are about registers (registers.c). */
bool x86_64_is_general(const uint8_t *bytes, size_t length);
bool x86_64_overwrites_flags(const uint8_t *bytes, size_t length);
bool x86_64_loses_stack(const uint8_t *bytes, size_t length);
bool x86_64_may_lose_stack(const uint8_t *bytes, size_t length);
bool x86_64_argument_dies(const uint8_t *bytes, size_t length);
