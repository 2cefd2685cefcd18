/* SPDX-License-Identifier: MIT */
/*
 * Entries of functions: what has to stay there, and where the arguments are behind it.
 *
 * An indirect call must meet `bti c` or `paciasp`, where branch target identification is on, and
 * `paciasp` signs the return address. So the hints at the start stay; without one, the first
 * instruction does, since a uprobe may be there. Where that is a branch, or the next one cannot
 * move (the svc of a system call) or leaves the function, the first is replaced. A jump of ours is
 * one instruction, so a debugger's breakpoint behind the prologue never is inside it.
 *
 * Source: "Procedure Call Standard for the Arm 64-bit Architecture", 6.4; Arm ARM (DDI 0487), C4.
 */
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "arch/arch.h"
#include "arch/aarch64/encoding.h"

enum { REGISTERS = 8, STACK_ARGS = 2, SP = 31, HINTS_MAX = 4, UNKNOWN = -1 };

/* The argument registers, by bits, that instructions may write, and how they move the stack
 * pointer. */
struct writes {
	uint32_t general, vector;
	int pushed; /* bytes by which they lower the stack pointer, or UNKNOWN */
};

static const struct writes everything = {UINT32_MAX, UINT32_MAX, UNKNOWN};

static bool is_landing_hint(uint32_t insn)
{
	/* bti, bti c, bti j, bti jc; paciasp, pacibsp */
	return (insn & 0xffffff3f) == 0xd503241f || (insn & 0xffffffbf) == 0xd503233f;
}

/* Adds a load or store: "Loads and Stores", C4.1.94. Others than of registers and pairs may write
 * all. */
static void add_transfer(uint32_t insn, struct writes *w)
{
	uint32_t *set = insn >> 26 & 1 ? &w->vector : &w->general;
	bool is_pair = (insn >> 27 & 7) == 5, is_single = (insn >> 27 & 7) == 7;
	bool is_indexed = !(insn >> 24 & 1) && !(insn >> 21 & 1);
	bool is_atomic = is_single && !(insn >> 24 & 1) && insn >> 21 & 1 && !(insn >> 11 & 1);
	bool writes_back = is_pair ? insn >> 23 & 1 : is_indexed && insn >> 10 & 1;
	bool is_load = is_pair ? insn >> 22 & 1 : insn >> 22 & 3;
	unsigned int base = insn >> 5 & 31;

	if ((!is_pair && !is_single) || is_atomic) {
		w->general = w->vector = UINT32_MAX;
		w->pushed = is_atomic ? w->pushed : UNKNOWN;
		return;
	}
	if (is_load)
		*set |= 1u << (insn & 31) | (is_pair ? 1u << (insn >> 10 & 31) : 0);
	if (!writes_back)
		return;
	w->general |= 1u << base;
	/* stp x29,x30,[sp,#-N]! makes the frame; the distance counts eight bytes, with a sign. */
	if (((insn & 0xffc003e0) == 0xa98003e0 || (insn & 0xffc003e0) == 0x6d8003e0) &&
		w->pushed != UNKNOWN)
		w->pushed += 8 * (64 - (int)((insn >> 15 & 127) ^ 64));
	else if ((insn & 0xffe00fe0) == 0xf8000fe0 && w->pushed != UNKNOWN) /* str x19,[sp,#-N]! */
		w->pushed += 256 - (int)((insn >> 12 & 511) ^ 256);
	else if (base == SP)
		w->pushed = UNKNOWN;
}

/* Adds what an instruction that falls through may write. */
static void add_writes(uint32_t insn, struct writes *w)
{
	uint32_t to = 1u << (insn & 31);

	if ((insn & 0x0a000000) == 0x08000000) {
		add_transfer(insn, w);
	} else if ((insn & 0xff8003ff) == 0xd10003ff && w->pushed != UNKNOWN) { /* sub sp,sp,#N */
		w->pushed += (int)(insn >> 10 & 0xfff) << (insn >> 22 & 1 ? 12 : 0);
	} else if ((insn & 0x1c000000) == 0x10000000 || (insn & 0x0e000000) == 0x0a000000) {
		/* Data processing. In an addition of a constant, register 31 is the stack pointer.
		 */
		w->general |= to;
		if ((insn & 31) == SP && (insn & 0x3f000000) == 0x11000000)
			w->pushed = UNKNOWN;
	} else if ((insn & 0x0e000000) == 0x0e000000) {
		w->general |= to;
		w->vector |= to;
	} else if ((insn & 0xfffff01f) != 0xd503201f) {
		*w = everything;
	}
}

static void write_args(const struct writes *w, char text[ARCH_FUNCTION_TEXT])
{
	int at = 0;

	for (int i = 0; i < REGISTERS; i++)
		at += snprintf(text + at, ARCH_FUNCTION_TEXT - (size_t)at,
			w->general >> i & 1 ? "%s8@?" : "%s-8@x%d", i ? " " : "", i);
	for (int i = 0; i < STACK_ARGS; i++)
		at += snprintf(text + at, ARCH_FUNCTION_TEXT - (size_t)at, " -8@[sp, %d]",
			w->pushed + 8 * i);
	for (int i = 0; i < REGISTERS; i++)
		at += snprintf(text + at, ARCH_FUNCTION_TEXT - (size_t)at,
			w->vector >> i & 1 ? " 8@?" : " 8f@d%d", i);
}

/* Can a jump replace the second instruction? At an exit, that of the exit is there. */
static bool can_be_second(const uint8_t *bytes, size_t length, uint64_t address)
{
	struct arch_moved moved;
	struct arch_insn insn;

	return arch_aarch64.decode(bytes, length, address, &insn) &&
	       insn.flow != ARCH_FLOW_RETURN && insn.flow != ARCH_FLOW_JUMP &&
	       insn.flow != ARCH_FLOW_INDIRECT_JUMP &&
	       arch_aarch64.move(bytes, length, address, address + (1 << 20), 4, &moved) ==
		       ARCH_MOVE_OK;
}

static const char *find_entry(
	const uint8_t *bytes, size_t length, uint64_t address, struct arch_entry *ret)
{
	struct writes writes = {0};
	struct arch_insn insn;
	size_t keep = 0;

	while (keep + 4 <= length && keep < HINTS_MAX * 4 &&
		is_landing_hint(aarch64_load(bytes + keep)))
		keep += 4;
	if (!keep) {
		if (!arch_aarch64.decode(bytes, length, address, &insn) ||
			insn.flow == ARCH_FLOW_CALL || insn.flow == ARCH_FLOW_INDIRECT_CALL)
			return "its first instruction may lead elsewhere";
		/* The kernel writes back the whole instruction when a uprobe is removed. */
		if (insn.flow == ARCH_FLOW_NONE &&
			can_be_second(bytes + 4, length - 4, address + 4)) {
			add_writes(aarch64_load(bytes), &writes);
			keep = 4;
		}
	}
	if (writes.pushed == UNKNOWN)
		return ARCH_ENTRY_NO_FRAME;
	ret->keep = ret->keep_short = (uint8_t)keep;
	ret->frame = 0;
	write_args(&writes, ret->args);
	snprintf(ret->slot, sizeof(ret->slot), "8@[sp, %d]", writes.pushed);
	return NULL;
}

/*
 * A switch statement adds a distance from a table to an address right before the jump; a tail call
 * loads the address of the function.
 */
static bool is_switch(const uint8_t *bytes, size_t length, uint64_t *table_ret)
{
	uint32_t jump, add;

	*table_ret = 0;
	if (length < 8)
		return false;
	jump = aarch64_load(bytes + length - 4);
	add = aarch64_load(bytes + length - 8);
	return (jump & 0xfffffc1f) == 0xd61f0000 && (add & 0xff000000) == 0x8b000000 &&
	       (add & 31) == (jump >> 5 & 31);
}

const struct arch_functions aarch64_functions = {
	.entry = find_entry,
	.is_switch = is_switch,
	.irelative = R_AARCH64_IRELATIVE,
	.jump_slot = R_AARCH64_JUMP_SLOT,
	.glob_dat = R_AARCH64_GLOB_DAT,
	.return_args = "-8@x0 8f@d0",
	.return_frame = "8@[sp]",
};
