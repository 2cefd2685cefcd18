/* SPDX-License-Identifier: MIT */
/*
 * The operations that depend on the instruction set (ISA): one table, struct arch, per ISA.
 *
 * All functions are pure. They read bytes and write code into the caller's buffer, for an address
 * that the caller chooses. They make no system call, so every ISA is built and tested on every
 * host.
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
 * A switch that OCaml compiles into each of its probes: after the nop of the site comes an
 * instruction without effect. Changing the first byte of that instruction turns it into a call of
 * the probe's handler.
 */
struct arch_toggle {
	uint8_t offset;	 /* offset of the instruction from the site, in bytes */
	uint8_t off, on; /* first byte of the instruction without effect, and of the call */
	uint8_t covers;	 /* length of the instruction, in bytes */
	/*
	 * The call of the handler can be redirected to other code, which these functions emit.
	 * enter() emits the start of that code: it pops the return address off the stack. leave()
	 * emits the end, to run at `at`: if the 16-bit word at `count` is not 0, it calls the
	 * handler at `to`, which returns to `back`; if the word is 0, it jumps to `back`. The
	 * emitted code changes flags but no register. Both functions return the length of what they
	 * emit, at most ARCH_TOGGLE_BYTES. leave() returns 0 if an address is out of reach.
	 */
	size_t (*enter)(uint8_t *out);
	size_t (*leave)(uint64_t at, uint64_t count, uint64_t to, uint64_t back, uint8_t *out);
};
enum { ARCH_TOGGLE_BYTES = 64 };

/*
 * The addresses that a jump can reach if some of its bytes must keep their values: `first` and, if
 * `step` is not 0, every address within reach that is a multiple of `step` away from `first`.
 */
struct arch_pun {
	uint64_t first, step;
};

/*
 * Two overlapping jumps. The second jump begins at the second byte of the first. So the distance of
 * the first jump consists of bytes of the second. The struct holds the bytes and the targets of
 * both jumps.
 */
enum { ARCH_TWIN_BYTES = 8 };
struct arch_twin {
	uint8_t bytes[ARCH_TWIN_BYTES];
	uint64_t first, second;
};

struct arch {
	const char *name;     /* "x86-64" */
	uint16_t elf_machine; /* EM_* of <elf.h> */
	/* Another ELF machine whose argument strings parse_args() also understands, or EM_NONE. */
	uint16_t elf_machine_args;

	/* -- argument specifications: required of every ISA -- */

	/*
	 * Parses a note's argument string into at most ARCH_ARGS_MAX arguments.
	 * Never fails: an argument that is not understood is ARCH_ARG_UNKNOWN.
	 * Returns the number of arguments.
	 */
	size_t (*parse_args)(const char *args, struct arch_arg ret[ARCH_ARGS_MAX]);

	/* -- unwinding: NULL if stacks cannot be captured on this ISA -- */

	/*
	 * Registers that unwinding tracks: the stack pointer, the frame pointer and the other
	 * callee-saved registers.
	 */
	const struct arch_unwind_register *unwind_registers;
	uint8_t unwind_count;
	/*
	 * Index in unwind_registers of the register in which a call leaves the return address; 0 if
	 * the return address is on the stack.
	 */
	uint8_t unwind_return;
	/* Bytes from the frame pointer to the caller's stack pointer; 0 if the distance varies. */
	uint8_t frame_record_end;

	/* -- patching: NULL if probectl only parses this ISA's arguments -- */

	/* Operations on processes of this ISA, or NULL if such processes are not supported. */
	const struct arch_process *process;

	/*
	 * Length of a direct jump, the longest patch, in bytes; its targets are less than
	 * jump_reach bytes away in either direction.
	 */
	uint8_t jump_length;
	uint64_t jump_reach;
	/* Greatest length of a jump to any address, at most ARCH_JUMP_MAX. */
	uint8_t far_jump_length;
	/* Length of a jump that reaches only short_reach bytes; 0 if the ISA has no such jump. */
	uint8_t short_jump_length;
	uint8_t site_nop; /* length of the nop that <sys/sdt.h> puts at a site */
	/* The breakpoint that debuggers and the kernel write over an instruction. */
	uint8_t breakpoint[4], breakpoint_length;
	bool (*is_breakpoint)(const uint8_t *bytes);
	const struct arch_toggle *toggle; /* OCaml's switch; NULL if OCaml has none on this ISA */
	/*
	 * A pun writes only the first pun_length bytes of a jump. The bytes that follow, which hold
	 * the jump's distance, stay as they are in the code. pun_length is 0 if the ISA has no
	 * puns. pun() returns the addresses that a jump at `at` can reach if `fixed` bytes of its
	 * distance must stay.
	 */
	uint8_t pun_length;
	struct arch_pun (*pun)(const uint8_t *bytes, uint64_t at, unsigned int fixed);
	/*
	 * The addresses that a jump can reach if only its first `length` bytes can be chosen and
	 * the bytes that follow stay as they are in the code.
	 */
	struct arch_extent (*part)(const uint8_t *bytes, uint64_t at, unsigned int length);
	/*
	 * twin_length is the length of a twin (struct arch_twin) in bytes, or 0 if the ISA has
	 * none. twin() returns one of the `twin_choices` twins that can stand at an address. Choice
	 * 0 has the nearest targets. Both jumps of a twin lead to about the same place.
	 */
	uint8_t twin_length;
	uint16_t twin_choices;
	struct arch_twin (*twin)(uint64_t at, unsigned int choice);
	/*
	 * Returns how many bytes of a jump's distance must keep the nop's values if the jump is
	 * written over a long nop. They must because other tools may write over the same nop.
	 * `is_site` is true if a note names the nop. If nop_fixed is NULL, no byte must keep its
	 * value.
	 */
	uint8_t (*nop_fixed)(const uint8_t *nop, size_t length, bool is_site);
	uint8_t insn_align; /* alignment of instructions, in bytes */
	/*
	 * Whether decode() and move() work. Both need a library that may be missing; without the
	 * library they decode nothing. NULL if they always work.
	 */
	bool (*can_decode)(void);
	/*
	 * Decodes the instruction at `address`. Returns false if the bytes are not an instruction.
	 * `bytes` may end before the instruction does.
	 */
	bool (*decode)(
		const uint8_t *bytes, size_t length, uint64_t address, struct arch_insn *ret);
	/*
	 * Whether a complete instruction provably changes only general registers, arithmetic flags
	 * and memory, and continues where decode() says. NULL if this cannot be proved of any
	 * instruction.
	 */
	bool (*is_general)(const uint8_t *bytes, size_t length);
	/*
	 * Whether the instructions in these bytes provably overwrite all arithmetic flags before an
	 * instruction reads a flag or branches. NULL if this cannot be proved of any code.
	 */
	bool (*overwrites_flags)(const uint8_t *bytes, size_t length);
	/*
	 * Decodes `bytes` at every offset and reports everything that could be a branch into a
	 * window (arch/windows.h): a superset of the real branches. Short branches are not
	 * reported; short_branch() finds those around a site.
	 */
	void (*scan)(const uint8_t *bytes, size_t length, uint64_t address,
		const struct arch_scan *scan);
	/*
	 * Searches a function that has a site for addresses that scan() does not find, because
	 * several instructions compute each of them. Reports an address in a window by
	 * scan->reference. For any other address within the function, calls scan->label. NULL if
	 * scan() finds all addresses.
	 */
	void (*scan_function)(const uint8_t *bytes, size_t length, uint64_t address,
		const struct arch_scan *scan);
	/*
	 * short_branch() says whether two bytes are a short branch, and returns its target, which
	 * is less than short_reach bytes away. NULL if the ISA has no short branches.
	 */
	uint8_t short_reach;
	bool (*short_branch)(const uint8_t *bytes, uint64_t address, uint64_t *target_ret);
	/*
	 * Returns the number of prefix bytes of an instruction. A branch may skip these bytes. NULL
	 * if instructions have no prefixes.
	 */
	size_t (*prefix_length)(const uint8_t *bytes, size_t length);
	/* Returns the length of the nop at `bytes`, or 0 if no nop is there. */
	size_t (*nop_length)(const uint8_t *bytes, size_t length);
	/*
	 * Whether code, from the start of a function up to a site, moves the stack pointer to an
	 * address that is not known to be in a stack. NULL if no code does.
	 */
	bool (*loses_stack)(const uint8_t *bytes, size_t length);

	/*
	 * A quick test for loses_stack(): false if the code certainly does not set the stack
	 * pointer to an unknown address. The test only searches bytes, which is a thousand times
	 * faster than decoding. If it returns false for some code, it does so for every beginning
	 * of that code. NULL if loses_stack is NULL.
	 */
	bool (*may_lose_stack)(const uint8_t *bytes, size_t length);
	/*
	 * Whether the code after a system call instruction ignores the register of the call's
	 * fourth argument, so that the register may hold anything. NULL if this is unknown.
	 */
	bool (*argument_dies)(const uint8_t *bytes, size_t length);
	/* Copies the instructions that cover at least `need` bytes from `from` to address `to`. */
	enum arch_move_status (*move)(const uint8_t *bytes, size_t length, uint64_t from,
		uint64_t to, size_t need, struct arch_moved *ret);
	/* Emits a direct jump at `at`. Returns its length, or 0 if `to` is out of reach. */
	size_t (*jump)(uint64_t at, uint64_t to, uint8_t *out);
	/* Emits a short jump, like jump(). */
	size_t (*short_jump)(uint64_t at, uint64_t to, uint8_t *out);
	/*
	 * Emits a jump that reaches any address, and returns its length. NULL if the ISA has no
	 * such jump: then every nop holds a direct jump, without puns, parts, twins or a toggle.
	 */
	size_t (*far_jump)(uint64_t at, uint64_t to, uint8_t *out);
	/*
	 * Returns the target of the jump() or far_jump() at `at`, or 0 if there is neither. `bytes`
	 * are the ARCH_JUMP_MAX bytes that were read from `at`.
	 */
	uint64_t (*jump_target)(uint64_t at, const uint8_t *bytes);
	/*
	 * Whether an instruction of a stub, insn_align bytes long, calls a function of the program.
	 * Needed on ISAs where the saved registers of a thread carry no mark
	 * (arch_frame_layout.flag_bits): there the stack frame of the called function can look like
	 * a copy of saved registers. NULL on other ISAs.
	 */
	bool (*is_function_call)(const uint8_t *bytes);
	/* Whether the argument can be captured at all. */
	bool (*capturable)(const struct arch_arg *arg);
	/*
	 * Whether a capture's pointer must be checked at each hit. If so, the record has a word
	 * that says which captures were readable.
	 */
	bool (*capture_checked)(const struct arch_capture *capture);
	/*
	 * Emits a stub to run at address `at`, a multiple of ARCH_STUB_ALIGN. Threads enter the
	 * stub at its first byte.
	 */
	enum arch_stub_status (*stub)(const struct arch_stub *stub, uint64_t at, uint8_t *out,
		size_t room, struct arch_stub_code *ret);
	/*
	 * Writes an .eh_frame section, with its terminator, that unwinds from the functions that
	 * stubs call (ARCH_ACTION_CALL) to the sites of the stubs. `stubs` are the addresses of the
	 * stubs. Returns the length of the whole section, even if `room` is too small for it.
	 */
	size_t (*call_unwind)(
		const struct arch_extent *stubs, size_t count, uint8_t *out, size_t room);
};

extern const struct arch arch_x86_64;
extern const struct arch arch_aarch64;

/* Returns the table for an ELF machine number, or NULL. */
const struct arch *arch_of_machine(uint16_t elf_machine);

/* Returns the table that parses the arguments of an ELF machine number, or NULL. */
const struct arch *arch_of_args(uint16_t elf_machine);

/*
 * Returns the table of this machine, or NULL if the machine is not supported. Every target uses the
 * same table, because processes of other instruction sets are refused.
 */
const struct arch *arch_host(void);

/* Returns the bits of a return address that may hold a signature in processes of this machine. */
uint64_t arch_signature(const struct arch *arch);

/*
 * Returns true if `found` equals `bytes` except that a breakpoint replaces the first bytes. Both
 * have `length` bytes, at most one instruction.
 */
bool arch_has_breakpoint(
	const struct arch *arch, const uint8_t *found, const uint8_t *bytes, size_t length);

/* Fills `out` with breakpoints. It is for code memory that no thread should reach. */
void arch_fill(const struct arch *arch, uint8_t *out, size_t length);

#endif
