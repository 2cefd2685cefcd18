/* SPDX-License-Identifier: MIT */
/*
 * The few functions that we need of a disassembler library, with types of our own.
 *
 * The first call loads the library, in whichever thread makes it, and the library stays loaded.
 * Each thread has its own handle, created at its first call and freed when the thread ends. All
 * functions may be called from any thread.
 */
#ifndef ARCH_X86_DECODE_DISASM_H
#define ARCH_X86_DECODE_DISASM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The parts of an x86-64 instruction. Offsets count from its first byte. */
struct disasm_insn {
	uint8_t length;	      /* 1 to 15 */
	uint8_t modrm_offset; /* 0 if there is no ModRM byte */
	uint8_t disp_offset;  /* 0 if there is no displacement */
	uint8_t disp_size;    /* bytes */
	bool reads_pc;	      /* a memory operand is relative to %rip */
	bool reads_pc32;      /* a memory operand is relative to %eip (address-size prefix) */
	int64_t disp;	      /* displacement of the operand relative to %rip or %eip */
};

/* Returns the length of the instruction at the start of `bytes`, or 0. */
size_t disasm_length(const uint8_t *bytes, size_t length);

/*
 * Decodes one instruction with its operands. Takes about a quarter more time than disasm_length().
 */
bool disasm_insn(const uint8_t *bytes, size_t length, struct disasm_insn *ret);

#endif
