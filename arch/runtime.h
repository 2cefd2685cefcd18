/* SPDX-License-Identifier: MIT */
/*
 * Machine code for libraries of traced programs (libprobe/runtime), which need only the C library:
 * so it is all in headers.
 */
#pragma once

#include <elf.h>
#include <stdint.h>

/*
 * As first argument of the loader's function for debuggers, it says that the caller is not the
 * loader: its thread is held at the gate (struct probe_gate) whatever the loader does.
 */
#define ARCH_GATE_CALLER UINT64_C(0x8f3a6d1e52c794b7)

/* A user event's ELF file, as far as it depends on the ISA. */
struct arch_event {
	uint16_t elf_machine; /* EM_* of <elf.h> */
	/* Size of the code segment, and of the data segment: the largest page size. */
	uint32_t segment_bytes;
	const char *args; /* operands of a function's first two arguments, in note syntax */
	uint8_t code[8];  /* code of a function: the site, and a return instruction */
	uint8_t code_length;
	uint8_t cie[24]; /* the CIE of .eh_frame, without its length; padded with 0, DW_CFA_nop */
};

enum {
	/* "zR": pointers are 4 bytes, relative to their own address. */
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
 * The struct arch_event of this machine, or NULL. ARCH_JUMP_ROOM(), put after a probe, adds a nop
 * if a jump does not fit into the probe's own, so that it can be enabled anywhere.
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
