/* SPDX-License-Identifier: MIT */
/* Instructions: what they do, copies of them that run elsewhere, and searching code. */
#ifndef ARCH_INSN_H
#define ARCH_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/windows.h"

/* ---- Relocation of instructions --------------------------------------- */

enum {
	ARCH_INSN_MAX = 15,	   /* bytes of the longest instruction of any ISA */
	ARCH_JUMP_MAX = 24,	   /* bytes of the longest jump of any ISA */
	ARCH_MOVED_INSNS_MAX = 8,  /* instructions one patch can displace */
	ARCH_MOVED_BYTES_MAX = 160 /* bytes their copies may take */
};

enum arch_move_status {
	ARCH_MOVE_OK,
	ARCH_MOVE_UNDECODABLE, /* the bytes are not an instruction */
	ARCH_MOVE_TRUNCATED,   /* the bytes end before `need` is covered */
	ARCH_MOVE_CALL_INSIDE, /* a call would return into the moved bytes */
	ARCH_MOVE_FLOW_INSIDE, /* an unconditional jump or return ends the code before `need` */
	ARCH_MOVE_UNSUPPORTED, /* an instruction that cannot run elsewhere (loop, xbegin ...) */
	ARCH_MOVE_OUT_OF_REACH /* a target or operand is too far from the copy */
};

/* The instructions of [from, from + length) as copied to `to`. */
struct arch_moved {
	uint8_t length; /* original bytes displaced, >= need */
	/*
	 * Above 0 only with ARCH_MOVE_FLOW_INSIDE. Then everything is as with
	 * ARCH_MOVE_OK, except that the last `padding` displaced bytes are nops and int3
	 * after the end of the code. A caller that knows that no function and no branch
	 * target begins within them can use the copy.
	 */
	uint8_t padding;
	uint8_t count;				   /* instructions */
	uint8_t from_offset[ARCH_MOVED_INSNS_MAX]; /* of each, from `from` */
	uint8_t to_offset[ARCH_MOVED_INSNS_MAX];   /* of each copy, from `to` */
	bool falls_through; /* false: the last one never reaches from + length */
	uint16_t code_length;
	uint8_t code[ARCH_MOVED_BYTES_MAX]; /* copies; does not hold the jump back */
};

/* A control transfer found by the decoder. */
enum arch_flow {
	ARCH_FLOW_NONE,	  /* falls through */
	ARCH_FLOW_BRANCH, /* direct, conditional */
	ARCH_FLOW_JUMP,	  /* direct, unconditional */
	ARCH_FLOW_CALL,	  /* direct */
	ARCH_FLOW_INDIRECT_JUMP,
	ARCH_FLOW_INDIRECT_CALL,
	ARCH_FLOW_RETURN,
	ARCH_FLOW_STOP /* ud2, hlt, int3: never continues */
};

struct arch_insn {
	uint8_t length;
	enum arch_flow flow;
	uint64_t target; /* of a direct transfer */
};

/* ---- Searching code ---------------------------------------------------- */

/* What to search for in the code of a module, and which functions to call. */
struct arch_scan {
	const struct arch_windows *windows;
	bool position_dependent; /* addresses may also be plain 32-bit constants */
	void *data;
	/* Something may lead to an address in the window of windows->sites[site]. */
	void (*reference)(void *data, size_t site, uint64_t target);
	/* The code takes an address: perhaps that of a jump table. */
	void (*constant)(void *data, uint64_t address);
	/*
	 * The instruction at an address takes one near by, perhaps to add distances to it that a
	 * table holds in some form, and to jump there. Only instruction sets whose compilers do
	 * that call it.
	 */
	void (*label)(void *data, uint64_t at);
};

/* Reports the window of a site, which contains a target, and those that overlap it there. */
void arch_scan_report(const struct arch_scan *scan, size_t site, uint64_t target);

/* The same of any target; false: no window contains it. */
static inline bool arch_scan_target(const struct arch_scan *scan, uint64_t target)
{
	size_t found = arch_windows_find(scan->windows, target);

	if (found == SIZE_MAX)
		return false;
	arch_scan_report(scan, found, target);
	return true;
}

#endif
