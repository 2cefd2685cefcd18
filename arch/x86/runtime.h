/* SPDX-License-Identifier: MIT */
#pragma once

#include "arch/runtime.h"

/* nopl 0(%rax,%rax): a jump replaces its five bytes without moving an instruction. */
#define X86_64_JUMP_ROOM ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00"

/*
 * A user event's function: a nop, which stays; mov $0,%eax, whose five bytes a jump can replace
 * anywhere; ret. Another tool might use a second nop as a site.
 */
static const struct arch_event event_x86_64 = {
	.elf_machine = EM_X86_64,
	.segment_bytes = 4096,
	.args = "8@%rdi 8@%rsi",
	.code = {0x90, 0xb8, 0x00, 0x00, 0x00, 0x00, 0xc3},
	.code_length = 7,
	/* The return address, column 16, is right below the CFA. */
	.cie = ARCH_CIE(16, 1, 7 /* rsp */, 8, DW_CFA_offset | 16, 1),
};
