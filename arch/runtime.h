/* SPDX-License-Identifier: MIT */
/*
 * Machine code of the libraries that are linked into traced programs (libprobe/runtime). They
 * need nothing but the C library, so this is all in headers.
 */
#ifndef ARCH_RUNTIME_H
#define ARCH_RUNTIME_H

#include <elf.h>
#include <stdint.h>

/* What the ELF file of a user event has that depends on the instruction set. */
struct arch_event {
	uint16_t elf_machine;	/* EM_* of <elf.h> */
	uint32_t segment_bytes; /* of the code, and of the data behind it: the largest page */
	const char *args;	/* where a function's first two arguments are, as a note says */
	uint8_t code[8];	/* a function: the site, and a return */
	uint8_t code_length;
	uint8_t cie[24]; /* of .eh_frame, without its length; padded with 0, DW_CFA_nop */
};

enum {
	/* Augmentation "zR": pointers are relative to where they stand, of 4 bytes. */
	DW_EH_PE_pcrel_sdata4 = 0x1b,
	DW_CFA_def_cfa = 0x0c,
	DW_CFA_offset = 0x80
};

/* clang-format off */
#define ARCH_CIE(ra, code_align, ...) \
	{0, 0, 0, 0, 1, 'z', 'R', 0, code_align, 0x78 /* -8 */, ra, 1, \
	 DW_EH_PE_pcrel_sdata4, DW_CFA_def_cfa, __VA_ARGS__}
/* clang-format on */

#include "arch/aarch64/runtime.h"
#include "arch/x86/runtime.h"

/*
 * Of the machine that this is compiled for: its event, or NULL; and, where the nop of
 * <sys/sdt.h> holds no jump, one that does.
 */
#if defined(__x86_64__)
#define ARCH_EVENT (&event_x86_64)
#define ARCH_JUMP_ROOM X86_64_JUMP_ROOM
#elif defined(__aarch64__)
#define ARCH_EVENT (&event_aarch64)
#define ARCH_JUMP_ROOM ""
#else
#define ARCH_EVENT NULL
#define ARCH_JUMP_ROOM ""
#endif

#endif
