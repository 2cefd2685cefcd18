/* SPDX-License-Identifier: MIT */
/*
 * Patches of which a part is not ours to choose.
 *
 * A pun writes one byte, the opcode of a jump, before bytes that stay:
 *
 *	site:	90 8d 87 01 00 ..	lea 1(%rdi),%eax behind the nop
 *		e9 8d 87 01 00 ..	jmp site + 5 + 0x1878d
 *
 * A jump may be written over a long nop as a whole. But where somebody else may have a
 * breakpoint, as a kernel uprobe, he puts one byte back when he leaves, and what is behind
 * that byte has to make a nop with it. That is so of any two bytes at the end of the usual nop
 * of five:
 *
 *	0f 1f 44 00 00		nopl 0(%rax,%rax,1)
 *	e9 1f 44 xx yy		jmp, to one of 65,536 places, 64 KiB apart
 *	0f 1f 44 xx yy		nopl yy(...)
 *
 * Of other nops only the first byte is changed. A nop that nobody takes, as it is behind the
 * site's own and not of a length that the kernel knows, holds any jump.
 */
#include <string.h>

#include "arch/x86/insn.h"
#include "arch/x86/patch.h"

enum {
	KERNEL_NOP = 5, /* that the kernel takes, or two of them (arch_uprobe_optimize()) */
	DISTANCE = X86_64_JUMP_LENGTH - X86_64_PUN_LENGTH
};

/* cmp $imm32,%eax and call rel32, behind a nop of one byte. */
const struct arch_toggle x86_64_toggle = {.offset = 1, .off = 0x3d, .on = 0xe8, .covers = 5};

bool x86_64_is_breakpoint(const uint8_t *bytes)
{
	return bytes[0] == X86_64_BREAKPOINT;
}

struct arch_pun x86_64_pun(const uint8_t *bytes, uint64_t at, unsigned int fixed)
{
	uint64_t step = fixed < DISTANCE ? UINT64_C(1) << 8 * fixed : 0;
	int32_t distance;

	memcpy(&distance, bytes + X86_64_PUN_LENGTH, sizeof(distance));
	if (step)
		distance &= (int32_t)(step - 1);
	return (struct arch_pun){at + X86_64_JUMP_LENGTH + (uint64_t)(int64_t)distance, step};
}

uint8_t x86_64_nop_fixed(const uint8_t *nop, size_t length, bool is_site)
{
	static const uint8_t usual[] = {0x0f, 0x1f, 0x44};

	if (!is_site && length != KERNEL_NOP && length != 2 * KERNEL_NOP)
		return 0;
	return length == X86_64_JUMP_LENGTH && memcmp(nop, usual, sizeof(usual)) == 0
		       ? sizeof(usual) - X86_64_PUN_LENGTH
		       : DISTANCE;
}
