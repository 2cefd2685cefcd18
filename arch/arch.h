/* SPDX-License-Identifier: MIT */
/*
 * What depends on the instruction set: one table of operations for each ISA.
 *
 * All functions are pure: they read bytes, and write into the caller's buffer code for an address
 * that the caller gives. They make no system call, so every ISA is built and tested on every host.
 *
 * To port probectl to another ISA, write one `struct arch` (docs/porting.md).
 */
#ifndef ARCH_ARCH_H
#define ARCH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arg.h"
#include "arch/insn.h"
#include "arch/process.h"
#include "arch/stub.h"

/* ---- Patches ------------------------------------------------------------ */

/*
 * OCaml's own switch for a probe: after the nop of a site there is an instruction without effect.
 * Changing its first byte turns it into a call of the probe's handler.
 */
struct arch_toggle {
	uint8_t offset;	 /* of the instruction, from the site */
	uint8_t off, on; /* the values of its first byte */
	uint8_t covers;	 /* the length of the instruction */
	/*
	 * Where the call is led elsewhere (`on`, then a jump's distance), code for that place:
	 * enter() takes the return address off the stack; leave() calls the handler at `to`, which
	 * returns to `back`, if the 16-bit word at `count` is not 0, and else goes there. Registers
	 * are kept, flags are not. Both return the length, at most ARCH_TOGGLE_BYTES; leave()
	 * returns 0 where something is out of reach.
	 */
	size_t (*enter)(uint8_t *out);
	size_t (*leave)(uint64_t at, uint64_t count, uint64_t to, uint64_t back, uint8_t *out);
};
enum { ARCH_TOGGLE_BYTES = 64 };

/*
 * Where a jump can lead if some of its bytes must stay as they are: to `first`, and, if `step` is
 * not 0, to every address that is a multiple of `step` away from it, as far as a jump reaches.
 */
struct arch_pun {
	uint64_t first, step;
};

/*
 * Two jumps, the second of which begins at the second byte of the first: its bytes are the distance
 * of the first. The bytes of both, and where each leads.
 */
enum { ARCH_TWIN_BYTES = 8 };
struct arch_twin {
	uint8_t bytes[ARCH_TWIN_BYTES];
	uint64_t first, second;
};

struct arch {
	const char *name;     /* "x86-64" */
	uint16_t elf_machine; /* EM_* of <elf.h> */
	/* Another machine whose arguments parse_args() understands; EM_NONE: there is none. */
	uint16_t elf_machine_args;

	/* -- argument specifications: every ISA has these -- */

	/*
	 * Parses a note's argument string into at most ARCH_ARGS_MAX arguments.
	 * Never fails: an argument that is not understood is ARCH_ARG_UNKNOWN.
	 * Returns the number of arguments.
	 */
	size_t (*parse_args)(const char *args, struct arch_arg ret[ARCH_ARGS_MAX]);

	/* -- unwinding: NULL where stacks cannot be captured -- */

	/* The stack pointer first, then the frame pointer, then the other callee-saved ones. */
	const struct arch_unwind_register *unwind_registers;
	uint8_t unwind_count;
	/* Which of them a call leaves the return address in; 0: it is on the stack. */
	uint8_t unwind_return;
	/* Bytes from where a frame pointer leads to the caller's stack pointer; 0: it varies. */
	uint8_t frame_record_end;

	/* -- patching: NULL if only arguments of the ISA are parsed -- */

	/* Its processes; NULL: not supported. */
	const struct arch_process *process;

	/* The longest patch, a direct jump, in bytes; it reaches less than jump_reach either way.
	 */
	uint8_t jump_length;
	uint64_t jump_reach;
	uint8_t far_jump_length; /* of a jump to anywhere, at most; ARCH_JUMP_MAX or less */
	/* Of a jump to short_reach at most, shorter than the other one; 0: there is none. */
	uint8_t short_jump_length;
	uint8_t site_nop; /* bytes of the nop that <sys/sdt.h> leaves at a site */
	/* A breakpoint, as debuggers and the kernel write it over an instruction. */
	uint8_t breakpoint[4], breakpoint_length;
	bool (*is_breakpoint)(const uint8_t *bytes);
	const struct arch_toggle *toggle; /* NULL: there is none */
	/*
	 * Puns: only the first pun_length bytes of a jump are written; the rest, which holds the
	 * distance, is what the code has there. 0: there are no puns. `fixed` is the number of
	 * bytes of the distance that must stay.
	 */
	uint8_t pun_length;
	struct arch_pun (*pun)(const uint8_t *bytes, uint64_t at, unsigned int fixed);
	/*
	 * Where a jump can lead if only its first `length` bytes can be chosen; the others are what
	 * the code has there.
	 */
	struct arch_extent (*part)(const uint8_t *bytes, uint64_t at, unsigned int length);
	/*
	 * The bytes of twins (struct arch_twin; 0: there are none), and one of `twin_choices` ways
	 * to choose them at an address, the nearest first. Both jumps then lead to about the same
	 * place.
	 */
	uint8_t twin_length;
	uint16_t twin_choices;
	struct arch_twin (*twin)(uint64_t at, unsigned int choice);
	/*
	 * A jump is written over a long nop: how many bytes of its distance must keep the value
	 * that the nop has there, because other tools may write over the nop, too? `is_site`: a
	 * note names the nop. NULL: none.
	 */
	uint8_t (*nop_fixed)(const uint8_t *nop, size_t length, bool is_site);
	uint8_t insn_align; /* instructions begin at multiples of this */
	/*
	 * Do decode() and move() work here? They need a library that may be missing; without
	 * it they cannot decode any byte. NULL: they always work.
	 */
	bool (*can_decode)(void);
	/*
	 * Decodes one instruction at `address`. Returns false if the bytes are not one. `bytes`
	 * may hold less than a whole instruction.
	 */
	bool (*decode)(
		const uint8_t *bytes, size_t length, uint64_t address, struct arch_insn *ret);
	/*
	 * Whether an instruction, given by all of its bytes, provably changes only general
	 * registers, arithmetic flags and memory, and goes where decode() says. NULL: it cannot be
	 * told of any.
	 */
	bool (*is_general)(const uint8_t *bytes, size_t length);
	/*
	 * Whether the instructions in these bytes provably overwrite all arithmetic flags before
	 * one of them reads a flag or leads elsewhere. NULL: it cannot be told of any.
	 */
	bool (*overwrites_flags)(const uint8_t *bytes, size_t length);
	/*
	 * Reports everything in `bytes`, decoded at any offset, that could be a branch into a
	 * window: a superset of what exists. It leaves out short branches, which
	 * short_branch() finds around a site.
	 */
	void (*scan)(const uint8_t *bytes, size_t length, uint64_t address,
		const struct arch_scan *scan);
	/*
	 * Reports which addresses of its own a function that has a site may take besides, where
	 * several instructions do that: windows and labels. NULL: scan() finds them all.
	 */
	void (*scan_function)(const uint8_t *bytes, size_t length, uint64_t address,
		const struct arch_scan *scan);
	/*
	 * Are these two bytes a short branch, and where does it lead? Less than short_reach
	 * away. NULL: there are no short branches.
	 */
	uint8_t short_reach;
	bool (*short_branch)(const uint8_t *bytes, uint64_t address, uint64_t *target_ret);
	/* How many bytes of an instruction are prefixes, which a branch may leave out; NULL: none.
	 */
	size_t (*prefix_length)(const uint8_t *bytes, size_t length);
	/* The length of the nop at `bytes` (after a `90`: of the one that follows); 0: none. */
	size_t (*nop_length)(const uint8_t *bytes, size_t length);
	/*
	 * Does code, from the start of a function up to a site, move the stack pointer to a
	 * place that is not known to be a stack? NULL: it never does.
	 */
	bool (*loses_stack)(const uint8_t *bytes, size_t length);

	/*
	 * Whether code may set the stack pointer as loses_stack() looks for it; false: it does not.
	 * A search of bytes, a thousand times faster than decoding. What is true of code is true of
	 * all that begins with it. NULL where loses_stack is.
	 */
	bool (*may_lose_stack)(const uint8_t *bytes, size_t length);
	/*
	 * In the code after a system call instruction: is the register of the call's fourth
	 * argument dead, so that it may hold anything? NULL: not known.
	 */
	bool (*argument_dies)(const uint8_t *bytes, size_t length);
	/*
	 * Moves the instructions from address `from` that cover at least `need`
	 * bytes to address `to`.
	 */
	enum arch_move_status (*move)(const uint8_t *bytes, size_t length, uint64_t from,
		uint64_t to, size_t need, struct arch_moved *ret);
	/* Emits a direct jump at `at`; returns its length, or 0 if `to` is out of reach. */
	size_t (*jump)(uint64_t at, uint64_t to, uint8_t *out);
	/* The same for a short jump. */
	size_t (*short_jump)(uint64_t at, uint64_t to, uint8_t *out);
	/*
	 * Emits a jump that reaches any address; returns its length. NULL: there is none. Then
	 * every nop holds a jump, and there are neither puns, parts and twins nor a toggle.
	 */
	size_t (*far_jump)(uint64_t at, uint64_t to, uint8_t *out);
	/* Where such a jump, read back from `at` (ARCH_JUMP_MAX bytes), leads; 0: it is neither. */
	uint64_t (*jump_target)(uint64_t at, const uint8_t *bytes);
	/*
	 * Is an instruction of a stub, of insn_align bytes, a call of a function of the program?
	 * The frame of such a function looks like copied registers if these have no mark
	 * (arch_frame_layout.flag_bits). NULL: frames do not.
	 */
	bool (*is_function_call)(const uint8_t *bytes);
	/* Can this argument be captured at all? */
	bool (*capturable)(const struct arch_arg *arg);
	/*
	 * Must the pointer of a capture be checked at each hit? Then the record has a word that
	 * says which captures could be read.
	 */
	bool (*capture_checked)(const struct arch_capture *capture);
	/*
	 * Emits a stub for address `at`, a multiple of ARCH_STUB_ALIGN. It is entered there.
	 */
	enum arch_stub_status (*stub)(const struct arch_stub *stub, uint64_t at, uint8_t *out,
		size_t room, struct arch_stub_code *ret);
	/*
	 * Writes how to unwind from the functions that stubs call (ARCH_STUB_CALL) to their
	 * sites: an .eh_frame section for stubs at these places, with its terminator. Returns
	 * the length of the whole section, even if there is no room for all of it.
	 */
	size_t (*call_unwind)(
		const struct arch_extent *stubs, size_t count, uint8_t *out, size_t room);
};

extern const struct arch arch_x86_64;
extern const struct arch arch_aarch64;

/* The table for an ELF machine number, or NULL. */
const struct arch *arch_of_machine(uint16_t elf_machine);

/* The table that parses the arguments of an ELF machine number, or NULL. */
const struct arch *arch_of_args(uint16_t elf_machine);

/*
 * The table of this machine, and so of every target: processes of other instruction sets are
 * refused. NULL: there is none.
 */
const struct arch *arch_host(void);

/* The bits of a return address of this machine's processes that may hold a signature. */
uint64_t arch_signature(const struct arch *arch);

/*
 * Does `found` hold a breakpoint in place of the first bytes, and after it the others unchanged?
 * Only the first instruction is compared.
 */
bool arch_has_breakpoint(
	const struct arch *arch, const uint8_t *found, const uint8_t *bytes, size_t length);

/* Fills code memory that nothing should reach with breakpoints. */
void arch_fill(const struct arch *arch, uint8_t *out, size_t length);

#endif
