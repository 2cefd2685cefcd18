/* SPDX-License-Identifier: MIT */
/*
 * The .eh_frame section of stubs that call functions (call_unwind in arch/arch.h): a CIE for each
 * instruction set; the rest is the same for all.
 *
 * The stub is a signal frame (augmentation `S`) that interrupted the function at the site, so rules
 * for exactly that address apply.
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
	/* ORed with the register; the operand is the distance below the CFA / 8 */
	UNWIND_OFFSET = 0x80,
	UNWIND_DEF_CFA_EXPRESSION = 0x0f,
	UNWIND_EXPRESSION = 0x10,
	UNWIND_OP_BREG = 0x70, /* the register's number is added */
	UNWIND_OP_DEREF = 0x06
};

/*
 * A CIE without its length: the return address is in column `ra`, code addresses are 8-byte
 * numbers, the data alignment is -8; then the rules. Its size with the length is a multiple of 8
 * bytes.
 */
#define UNWIND_CIE(ra, ...)                                                                        \
	{                                                                                          \
		0, 0, 0, 0, 1, 'z', 'R', 'S', 0, 1, 0x78, ra, 1, 0, __VA_ARGS__                    \
	}

/* Implements call_unwind() with this CIE. */
size_t unwind_section(const uint8_t *cie, uint32_t cie_bytes, const struct arch_extent *stubs,
	size_t count, uint8_t *out, size_t room);

#endif
