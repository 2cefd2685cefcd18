/* SPDX-License-Identifier: MIT */
/*
 * The few functions that we need of a disassembler library, with types of our own. Any thread may
 * call them: the first call loads the library, for good; each thread has a handle.
 */
#ifndef ARCH_X86_DECODE_DISASM_H
#define ARCH_X86_DECODE_DISASM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
