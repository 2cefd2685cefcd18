/* SPDX-License-Identifier: MIT */
/*
 * Instructions that a patch reads or writes. A jump is as long as a nop, so no instruction has to
 * be moved.
 */
#include "arch/aarch64/decode.h"
#include "arch/aarch64/encoding.h"
#include "arch/aarch64/patch.h"

#define NOP UINT32_C(0xd503201f)
#define BRK UINT32_C(0xd4200000) /* brk with any number: gdb uses 0, a uprobe 5 */
#define BRK_MASK UINT32_C(0xffe0001f)
#define B UINT32_C(0x14000000)

bool aarch64_is_breakpoint(const uint8_t *bytes)
{
	return (aarch64_load(bytes) & BRK_MASK) == BRK;
}

size_t aarch64_nop_length(const uint8_t *bytes, size_t length)
{
	return length >= AARCH64_INSN_LENGTH && aarch64_load(bytes) == NOP ? AARCH64_INSN_LENGTH
									   : 0;
}

size_t aarch64_jump(uint64_t at, uint64_t to, uint8_t *out)
{
	uint32_t insn = B;

	if (!aarch64_set_distance(&insn, 0, 26, (int64_t)(to - at)))
		return 0;
	aarch64_store(out, insn);
	return AARCH64_INSN_LENGTH;
}

uint64_t aarch64_jump_target(uint64_t at, const uint8_t *bytes)
{
	uint32_t insn = aarch64_load(bytes);
	enum aarch64_kind kind = aarch64_kind_of(insn);

	return kind == AARCH64_B ? aarch64_target(insn, kind, at) : 0;
}

/*
 * In a stub, every blr is a call of a function: only a64_call_register() emits blr, and subroutines
 * are called by bl.
 */
bool aarch64_is_function_call(const uint8_t *bytes)
{
	return aarch64_kind_of(aarch64_load(bytes)) == AARCH64_BLR;
}
