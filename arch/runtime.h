/* SPDX-License-Identifier: MIT */
/*
 * Machine code of the libraries that are linked into traced programs (libprobe/runtime). These
 * need only the C library, so all of it is in headers.
 */
#ifndef ARCH_RUNTIME_H
#define ARCH_RUNTIME_H

#include <elf.h>
#include <stdint.h>

/*
 * A first argument of the loader's function for debuggers, which has none: the caller is no loader,
 * and its thread is held at the gate there (struct probe_gate) whatever the loader is doing.
 */
#define ARCH_GATE_CALLER UINT64_C(0x8f3a6d1e52c794b7)

/* The parts of a user event's ELF file that depend on the instruction set. */
struct arch_event {
	uint16_t elf_machine;	/* EM_* of <elf.h> */
	uint32_t segment_bytes; /* of the code, and of the data after it: the largest page size */
	const char *args;	/* where a function's first two arguments are, in note syntax */
	uint8_t code[8];	/* a function: the site, and a return */
	uint8_t code_length;
	uint8_t cie[24]; /* of .eh_frame, without its length; padded with 0, DW_CFA_nop */
};

enum {
	/* Augmentation "zR": pointers are 4 bytes, relative to their own address. */
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
 * For the machine this is compiled for: its event, or NULL; and a statement for after a probe:
 * another nop, unless a jump fits into the probe's own, so that the probe can be enabled wherever
 * the library is loaded.
 */
#if defined(__x86_64__)
#define ARCH_EVENT (&event_x86_64)
#define ARCH_JUMP_ROOM() __asm__ volatile(X86_64_JUMP_ROOM)
#elif defined(__aarch64__)
#define ARCH_EVENT (&event_aarch64)
#define ARCH_JUMP_ROOM() ((void)0)
#else
#define ARCH_EVENT NULL
#define ARCH_JUMP_ROOM() ((void)0)
#endif

#endif
