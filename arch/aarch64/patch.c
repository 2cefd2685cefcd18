/* SPDX-License-Identifier: MIT */
/*
 * All instructions are four bytes, little-endian whatever the byte order of data (Arm ARM, DDI
 * 0487, B2.6.2), so a jump fits into a nop, and no instruction has to be moved for it.
 */
#include "arch/aarch64/patch.h"

#define NOP UINT32_C(0xd503201f)
#define BRK UINT32_C(0xd4200000) /* brk #imm16: gdb uses #0, a uprobe #5 */
#define BRK_MASK UINT32_C(0xffe0001f)
#define B UINT32_C(0x14000000) /* b: a distance of 26 bits, in instructions */
#define B_MASK UINT32_C(0xfc000000)

static uint32_t load(const uint8_t *bytes)
{
	return (uint32_t)bytes[3] << 24 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[1] << 8 |
	       bytes[0];
}

bool aarch64_is_breakpoint(const uint8_t *bytes)
{
	return (load(bytes) & BRK_MASK) == BRK;
}

size_t aarch64_nop_length(const uint8_t *bytes, size_t length)
{
	return length >= AARCH64_INSN_LENGTH && load(bytes) == NOP ? AARCH64_INSN_LENGTH : 0;
}

size_t aarch64_jump(uint64_t at, uint64_t to, uint8_t *out)
{
	int64_t distance = (int64_t)(to - at);
	uint32_t insn = B | ((uint32_t)(distance / AARCH64_INSN_LENGTH) & ~B_MASK);

	if (distance % AARCH64_INSN_LENGTH || distance < -(INT64_C(1) << 27) ||
		distance >= INT64_C(1) << 27)
		return 0;
	for (int i = 0; i < AARCH64_INSN_LENGTH; i++)
		out[i] = (uint8_t)(insn >> 8 * i);
	return AARCH64_INSN_LENGTH;
}

uint64_t aarch64_jump_target(uint64_t at, const uint8_t *bytes)
{
	uint32_t insn = load(bytes);
	/* The highest of the 26 bits is the sign. */
	int32_t distance = (int32_t)(insn << 6) / 16;

	return (insn & B_MASK) == B ? at + (uint64_t)(int64_t)distance : 0;
}
