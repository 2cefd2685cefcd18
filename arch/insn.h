/* SPDX-License-Identifier: MIT */
/* Decoded instructions, relocated copies, and searches in code. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Relocation of instructions --------------------------------------- */

enum {
	ARCH_INSN_MAX = 15,	  /* bytes of the longest instruction of any ISA */
	ARCH_JUMP_MAX = 24,	  /* bytes of the longest jump of any ISA */
	ARCH_MOVED_INSNS_MAX = 8, /* instructions one patch can displace */
	/* maximum length of a copy */
	ARCH_MOVED_BYTES_MAX = 160
};

enum arch_move_status {
	ARCH_MOVE_OK,
	ARCH_MOVE_UNDECODABLE, /* the bytes are not an instruction */
	ARCH_MOVE_TRUNCATED,   /* the bytes end before `need` is covered */
	/* one is a call, which would return into the displaced bytes */
	ARCH_MOVE_CALL_INSIDE,
	ARCH_MOVE_FLOW_INSIDE, /* an unconditional jump or return ends the code before `need` */
	ARCH_MOVE_UNSUPPORTED, /* an instruction that cannot run elsewhere (loop, xbegin ...) */
	ARCH_MOVE_OUT_OF_REACH /* a target or operand is too far from the copy */
};

/* A copy, to run at `to`, of the instructions in [from, from + length). */
struct arch_moved {
	uint8_t length; /* original bytes displaced, at least `need` */
	/*
	 * Only with ARCH_MOVE_FLOW_INSIDE: the last `padding` bytes are nops and int3 behind the
	 * code, and the rest is valid as with ARCH_MOVE_OK. A caller may use it if no function or
	 * branch target begins in the padding.
	 */
	uint8_t padding;
	uint8_t count;				   /* number of instructions */
	uint8_t from_offset[ARCH_MOVED_INSNS_MAX]; /* offset of each original from `from` */
	uint8_t to_offset[ARCH_MOVED_INSNS_MAX];   /* offset of each copy from `to` */
	/* Can execution continue at from + length? */
	bool falls_through;
	uint16_t code_length;
	/* without the jump back */
	uint8_t code[ARCH_MOVED_BYTES_MAX];
};

/* Where a thread continues after an instruction. */
enum arch_flow {
	ARCH_FLOW_NONE,	  /* at the next instruction */
	ARCH_FLOW_BRANCH, /* direct conditional branch */
	ARCH_FLOW_JUMP,	  /* direct jump */
	ARCH_FLOW_CALL,	  /* direct call */
	ARCH_FLOW_INDIRECT_JUMP,
	ARCH_FLOW_INDIRECT_CALL,
	ARCH_FLOW_RETURN,
	ARCH_FLOW_STOP /* ud2, hlt, int3: nowhere */
};

struct arch_insn {
	uint8_t length;
	enum arch_flow flow;
	uint64_t target; /* target of a direct branch, jump or call */
};

/* ARCH_MOVE_OK if another moved instruction may follow this flow, or why not. */
enum arch_move_status arch_move_inside(enum arch_flow flow);

/* ---- Functions --------------------------------------------------------- */

enum {
	ARCH_FUNCTION_ARGS = 18, /* 10 integers, then 8 floating ones */
	ARCH_FUNCTION_TEXT = 256,
	ARCH_ENTRY_SLOT = 32,
	ARCH_NO_JUMP = 255 /* in arch_entry.keep: this jump is impossible */
};

/* Why an entry cannot be patched. */
#define ARCH_ENTRY_NO_FRAME "its first instruction sets the stack pointer"

/*
 * A function's entry. Debuggers put breakpoints on its first instruction, or behind what saves the
 * frame pointer. So these instructions stay, and a jump begins behind them.
 */
struct arch_entry {
	/*
	 * Set by the caller: where breakpoints may be put. Bit i is for the byte i: no jump may
	 * begin before it and end behind it.
	 */
	uint64_t breaks;
	/* Number of bytes that stay before a jump, and before a short jump; or ARCH_NO_JUMP. */
	uint8_t keep, keep_short;
	/* Where the frame is set up, a debugger finds the end of that; or 0. */
	uint8_t frame;
	/* The arguments there, as a note has them: see arch.parse_args. A lost one is "8@?". */
	char args[ARCH_FUNCTION_TEXT];
	/*
	 * The operand whose address is the frame's: the stack pointer when the function was called,
	 * which it is again when the function returns.
	 */
	char slot[ARCH_ENTRY_SLOT];
};

/* ---- Searching code ---------------------------------------------------- */

/*
 * Windows of sites: the addresses inside a site's coming jump, [site + 1, site + jump_length),
 * where no code may jump.
 */
enum { WINDOWS_FILTER_BITS = 20, WINDOWS_WITHOUT_FILTER = 8 };

struct arch_windows {
	const uint64_t *sites; /* sorted; borrowed */
	size_t count;
	uint8_t jump_length;
	/* A few windows are found as quickly without the filter, which takes long to clear. */
	bool has_filter;
	/*
	 * A bit for each 4 bytes of addresses, modulo 2^20: if clear, the address is in no window.
	 */
	uint64_t filter[(1 << WINDOWS_FILTER_BITS) / 64];
};

void arch_windows_init(
	struct arch_windows *windows, const uint64_t *sites, size_t count, uint8_t jump_length);

/*
 * Returns the highest site whose window contains an address, before which are others; or SIZE_MAX.
 */
size_t arch_windows_find(const struct arch_windows *windows, uint64_t address);

/*
 * The search of a module's code, and the functions that receive findings. All but reference() may
 * be NULL.
 */
struct arch_scan {
	const struct arch_windows *windows;
	/* addresses may also be plain 32-bit constants */
	bool position_dependent;
	void *data;
	/* Code may branch to `target`, in the window of windows->sites[site]. */
	void (*reference)(void *data, size_t site, uint64_t target);
	/* The instruction around `at` computes `address`, maybe of a jump table. */
	void (*constant)(void *data, uint64_t at, uint64_t address);
	/*
	 * The instruction at `at` computes an address nearby, to which code may add a distance from
	 * a table and jump. Only on ISAs whose compilers do this.
	 */
	void (*label)(void *data, uint64_t at);
};

/* Reports `target` for each window with it. */
void arch_scan_target(const struct arch_scan *scan, uint64_t target);
