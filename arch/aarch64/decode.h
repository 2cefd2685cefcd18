/* SPDX-License-Identifier: MIT */
/*
 * A decoder for aarch64 that tells only what an instruction does with the program counter. It needs
 * no library.
 */
#ifndef ARCH_AARCH64_DECODE_H
#define ARCH_AARCH64_DECODE_H

#include "arch/arch.h"

enum aarch64_kind {
	AARCH64_UNKNOWN, /* not an instruction, or one that may depend on its address in some way */
	AARCH64_PLAIN,	 /* does not depend on its address, and the next instruction follows */
	AARCH64_FIXED,	 /* must not be moved; the next instruction follows */
	AARCH64_ADR,	 /* adr */
	AARCH64_ADRP,	 /* adrp */
	AARCH64_LITERAL, /* ldr, ldrsw, prfm with a pc-relative address */
	AARCH64_B,	 /* b */
	AARCH64_BL,	 /* bl */
	AARCH64_B_COND,	 /* b.cond, bc.cond */
	AARCH64_CB,	 /* cbz, cbnz */
	AARCH64_TB,	 /* tbz, tbnz */
	AARCH64_BR,	 /* br, braa ... */
	AARCH64_BLR,	 /* blr, blraa ... */
	AARCH64_RET,	 /* ret, retaa ... */
	AARCH64_TRAP	 /* brk, hlt, udf ...: execution never continues */
};

/*
 * aarch64_kind_of() returns the kind of an instruction. aarch64_target() returns the address that
 * an instruction jumps to, computes or reads; 0 if instructions of its kind have no such address.
 */
enum aarch64_kind aarch64_kind_of(uint32_t insn);
uint64_t aarch64_target(uint32_t insn, enum aarch64_kind kind, uint64_t address);

/* Implements decode() of arch/arch.h. */
bool aarch64_decode(const uint8_t *bytes, size_t length, uint64_t address, struct arch_insn *ret);

#endif
