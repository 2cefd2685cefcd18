/* SPDX-License-Identifier: MIT */
/*
 * Patches that must keep some of a site's bytes.
 *
 * A pun writes one byte, the opcode of a jump, before bytes that stay:
 *
 *	site:	90 8d 87 01 00 ..	lea 1(%rdi),%eax after the nop
 *		e9 8d 87 01 00 ..	jmp site + 5 + 0x1878d
 *
 * A jump may overwrite a whole long nop. But another tool, for example a kernel uprobe, may have a
 * breakpoint there. That tool restores one byte when it leaves, and the restored byte must form a
 * nop with the bytes after it. In the usual 5-byte nop, the last two bytes can have any value:
 *
 *	0f 1f 44 00 00		nopl 0(%rax,%rax,1)
 *	e9 1f 44 xx yy		jmp, to one of 65,536 places, 64 KiB apart
 *	0f 1f 44 xx yy		nopl yy(...)
 *
 * If only the first bytes of a jump have room, its last bytes are those of the code behind it:
 *
 *	site:	90 48 89 c7 83 c0 01
 *	+ 1:	   e9 xx yy 83 c0 01	jmp, to one of 65,536 places in a row
 *
 * If a thread may enter right after the nop, a second jump is written there, one byte after the
 * first. The second jump runs no stub: it leads where a thread continues after the stubs of the
 * first jump. A thread that continues after a breakpoint at the nop also takes the second jump.
 *
 * In long nops of other forms only the first byte is changed. One kind of nop can hold any jump,
 * because no other tool uses it: it follows the site's own nop and has a length that the kernel
 * does not use.
 */
#include <string.h>

#include "arch/x86/decode/insn.h"
#include "arch/x86/patch.h"

enum {
	/* length of the nops that the kernel uses, one or two (arch_uprobe_optimize()) */
	KERNEL_NOP = 5,
	DISTANCE = X86_64_JUMP_LENGTH - X86_64_PUN_LENGTH
};

static size_t toggle_enter(uint8_t *out)
{
	static const uint8_t drop[] = {0x48, 0x8d, 0x64, 0x24, 0x08}; /* lea 8(%rsp),%rsp */

	memcpy(out, drop, sizeof(drop));
	return sizeof(drop);
}

/* Writes the 32-bit distance from `next` to `to` at `out`. Returns false if it is too far. */
static bool put_distance(uint8_t *out, uint64_t next, uint64_t to)
{
	int64_t distance = (int64_t)(to - next);
	int32_t value = (int32_t)distance;

	memcpy(out, &value, sizeof(value));
	return value == distance;
}

static size_t toggle_leave(uint64_t at, uint64_t count, uint64_t to, uint64_t back, uint8_t *out)
{
	static const uint8_t code[] = {
		0x66, 0x83, 0x3d, 0, 0, 0, 0, 0,    /*  0: cmpw $0,count(%rip) */
		0x74, 0x12,			    /*  8: je 28 */
		0x68, 0, 0, 0, 0,		    /* 10: push $low half of back */
		0xc7, 0x44, 0x24, 0x04, 0, 0, 0, 0, /* 15: movl $high half,4(%rsp) */
		0xe9, 0, 0, 0, 0,		    /* 23: jmp to */
		0xe9, 0, 0, 0, 0		    /* 28: jmp back */
	};
	uint32_t low = (uint32_t)back, high = (uint32_t)(back >> 32);

	memcpy(out, code, sizeof(code));
	memcpy(out + 11, &low, sizeof(low));
	memcpy(out + 19, &high, sizeof(high));
	return put_distance(out + 3, at + 8, count) && put_distance(out + 24, at + 28, to) &&
			       put_distance(out + 29, at + 33, back)
		       ? sizeof(code)
		       : 0;
}

/* The switch is cmp $imm32,%eax or call rel32, after a one-byte nop. */
const struct arch_toggle x86_64_toggle = {.offset = 1,
	.off = 0x3d,
	.on = 0xe8,
	.covers = X86_64_JUMP_LENGTH,
	.enter = toggle_enter,
	.leave = toggle_leave};

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

struct arch_extent x86_64_part(const uint8_t *bytes, uint64_t at, unsigned int length)
{
	uint32_t size = UINT32_C(1) << 8 * (length - X86_64_PUN_LENGTH);
	int32_t distance;

	memcpy(&distance, bytes + X86_64_PUN_LENGTH, sizeof(distance));
	distance &= (int32_t)-size;
	return (struct arch_extent){at + X86_64_JUMP_LENGTH + (uint64_t)(int64_t)distance, size};
}

/*
 * Returns a twin, two overlapping jumps:
 *
 *	site:	e9 e9 dd hh hh hh	jmp site + 5 + 0xhhhhdde9
 *	+ 1:	   e9 dd hh hh hh	jmp site + 6 + 0xhhhhhhdd
 *
 * If dd and hh differ only in their low four bits, the distances differ only in their low 12 bits.
 */
struct arch_twin x86_64_twin(uint64_t at, unsigned int choice)
{
	/* `high`, as a signed number, is in turn 0, 1, -1, 2, -2 ... -128 */
	unsigned int turn = choice / 16;
	uint8_t high = (uint8_t)(turn & 1 ? turn / 2 + 1 : 256 - turn / 2);
	uint8_t low = (uint8_t)((high & 0xf0) | choice % 16);
	struct arch_twin twin = {.bytes = {0xe9, 0xe9, low, high, high, high}};

	for (unsigned int i = 0; i < 2; i++) {
		int32_t distance;

		memcpy(&distance, twin.bytes + i + 1, sizeof(distance));
		*(i ? &twin.second : &twin.first) =
			at + i + X86_64_JUMP_LENGTH + (uint64_t)(int64_t)distance;
	}
	return twin;
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
