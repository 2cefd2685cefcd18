/* SPDX-License-Identifier: MIT */
/*
 * The .eh_frame section of stubs that call functions of the program (call_unwind in arch/arch.h).
 * Each instruction set has one CIE with its own rules; the rest of the section is the same for all.
 *
 * For an unwinder, the stub is a signal frame (augmentation `S`): the stub interrupted the function
 * at the site. The site is not a call, so the unwinder applies the rules for exactly that address.
 *
 * Sources: DWARF 5, 6.4 (call frame information); Linux Standard Base 5, 10.6.1 (.eh_frame).
 */
#ifndef ARCH_STUB_UNWIND_H
#define ARCH_STUB_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"

/* DW_CFA_* and DW_OP_* of <dwarf.h>. */
enum {
	/*
	 * combined with the register by OR; the operand is the distance below the CFA, divided by 8
	 */
	UNWIND_OFFSET = 0x80,
	UNWIND_DEF_CFA_EXPRESSION = 0x0f,
	UNWIND_EXPRESSION = 0x10,
	UNWIND_OP_BREG = 0x70, /* the register's number is added */
	UNWIND_OP_DEREF = 0x06
};

/*
 * The bytes of a CIE without the length field. The return address is in column `ra`, code addresses
 * are plain 8-byte numbers, the data alignment factor is -8; then the rules follow. The length of
 * these bytes and the length field must be a multiple of 8.
 */
#define UNWIND_CIE(ra, ...)                                                                        \
	{                                                                                          \
		0, 0, 0, 0, 1, 'z', 'R', 'S', 0, 1, 0x78, ra, 1, 0, __VA_ARGS__                    \
	}

/* Implements call_unwind() of arch/arch.h for an instruction set with this CIE. */
size_t unwind_section(const uint8_t *cie, uint32_t cie_bytes, const struct arch_extent *stubs,
	size_t count, uint8_t *out, size_t room);

#endif
