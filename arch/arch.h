/* SPDX-License-Identifier: MIT */
/*
 * The operations that depend on the instruction set (ISA): one table, struct arch, for each.
 *
 * All are pure: they read bytes, and write code into the caller's buffer for an address. They make
 * no system call, so every ISA is built and tested on every host. To port probectl, write one
 * `struct arch` (docs/porting.md).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arg.h"
#include "arch/insn.h"
#include "arch/process.h"
#include "arch/stub.h"

struct stub_isa;

/* ---- Patches ------------------------------------------------------------ */

/*
 * A switch in each of OCaml's probes: behind the site's nop is an instruction without effect, whose
 * first byte turns it into a call of the handler.
 */
struct arch_toggle {
	uint8_t offset;	 /* offset of the instruction from the site, in bytes */
	uint8_t off, on; /* first byte of the instruction without effect, and of the call */
	uint8_t covers;	 /* length of the instruction, in bytes */
	/*
	 * The call can be redirected to code that starts with enter(), which pops the return
	 * address, and ends with leave(), to run at `at`: if the 16-bit word at `count` is not 0,
	 * it calls the handler at `to`, which returns to `back`; otherwise it jumps to `back`. The
	 * code changes flags but no register. Both return their length, at most ARCH_TOGGLE_BYTES;
	 * leave() 0 if an address is out of reach.
	 */
	size_t (*enter)(uint8_t *out);
	size_t (*leave)(uint64_t at, uint64_t count, uint64_t to, uint64_t back, uint8_t *out);
};
enum { ARCH_TOGGLE_BYTES = 64 };

/*
 * Where a jump can lead if some bytes are fixed: `first` and, if `step` is not 0, all addresses in
 * reach that are a multiple of it away.
 */
struct arch_pun {
	uint64_t first, step;
};

/* Two overlapping jumps: their bytes and targets. The second begins one byte after the first. */
enum { ARCH_TWIN_BYTES = 8 };
struct arch_twin {
	uint8_t bytes[ARCH_TWIN_BYTES];
	uint64_t first, second;
};

/* Entries and exits of functions. */
struct arch_functions {
	/*
	 * Finds out about a function's entry by its first bytes. Returns NULL, or a static text
	 * that says why the entry cannot be patched.
	 */
	const char *(*entry)(
		const uint8_t *bytes, size_t length, uint64_t address, struct arch_entry *ret);
	/*
	 * Is the indirect jump at the end of a function's first `length` bytes that of a switch
	 * statement, so that it stays in the function? A superset of such jumps is not safe here:
	 * returns false if this is unknown. If *table_ret is not 0, it is so only if the addresses
	 * in the table there are in the function: a call through a table of functions is the same.
	 */
	bool (*is_switch)(const uint8_t *bytes, size_t length, uint64_t *table_ret);
	/*
	 * Relocations (R_*) of the slots for functions: those that an IFUNC's resolver fills in,
	 * and those by which other files call them.
	 */
	uint32_t irelative, jump_slot, glob_dat;
	/* The value that a function returns, as an integer and as a floating number. */
	const char *return_args;
	/* The frame there: see struct arch_entry. */
	const char *return_frame;
	/* The address of a large result is the first argument, or has a register of its own. */
	bool result_is_argument;
};

struct arch {
	const char *name;     /* "x86-64" */
	uint16_t elf_machine; /* EM_* of <elf.h> */
	/* Another ELF machine whose arguments parse_args() understands, or EM_NONE. */
	uint16_t elf_machine_args;

	/* -- argument specifications: required of every ISA -- */

	/*
	 * Parses a note's arguments, at most ARCH_ARGS_MAX. An argument that is not understood is
	 * ARCH_ARG_UNKNOWN. Returns their number.
	 */
	size_t (*parse_args)(const char *args, struct arch_arg ret[ARCH_ARGS_MAX]);

	/* Functions, or NULL if only probes can be traced. */
	const struct arch_functions *functions;

	/* -- unwinding: NULL if stacks cannot be captured on this ISA -- */

	/* Tracked by unwinding: stack pointer, frame pointer, other callee-saved registers. */
	const struct arch_unwind_register *unwind_registers;
	uint8_t unwind_count;
	/*
	 * Index there of the register in which a call leaves the return address; 0: on the stack.
	 */
	uint8_t unwind_return;
	/* Bytes from the frame pointer to the caller's stack pointer; 0 if it varies. */
	uint8_t frame_record_end;

	/* -- patching: NULL if probectl only parses this ISA's arguments -- */

	/* Operations on processes of this ISA, or NULL. */
	const struct arch_process *process;

	/* Length of a direct jump, the longest patch; it reaches less than jump_reach bytes. */
	uint8_t jump_length;
	uint64_t jump_reach;
	/* The maximum length of a jump to any address, at most ARCH_JUMP_MAX. */
	uint8_t far_jump_length;
	/* Length of a jump within short_reach bytes, or 0. */
	uint8_t short_jump_length;
	uint8_t site_nop; /* length of the nop that <sys/sdt.h> puts at a site */
	/* The breakpoint of debuggers and the kernel. */
	uint8_t breakpoint[4], breakpoint_length;
	bool (*is_breakpoint)(const uint8_t *bytes);
	const struct arch_toggle *toggle; /* OCaml's switch; NULL if OCaml has none on this ISA */
	/*
	 * A guard (struct sdt_guard) that is on is a direct jump. If it is off, its first
	 * insn_align bytes are these, and it does nothing but change flags.
	 */
	uint8_t guard_off[4];
	/*
	 * A pun writes only the first pun_length bytes of a jump (0: no puns); the bytes behind
	 * stay, and hold its distance. pun() returns where a jump at `at` can lead if `fixed` bytes
	 * of the distance stay.
	 */
	uint8_t pun_length;
	struct arch_pun (*pun)(const uint8_t *bytes, uint64_t at, unsigned int fixed);
	/*
	 * Returns where a jump can lead if its first `length` bytes can be chosen, and the rest
	 * stays.
	 */
	struct arch_extent (*part)(const uint8_t *bytes, uint64_t at, unsigned int length);
	/*
	 * Bytes of a twin (struct arch_twin), or 0. twin() returns one of `twin_choices` at an
	 * address; choice 0 has the nearest targets. Both jumps lead to about the same place.
	 */
	uint8_t twin_length;
	uint16_t twin_choices;
	struct arch_twin (*twin)(uint64_t at, unsigned int choice);
	/*
	 * Returns how many bytes of a jump's distance must stay those of the nop, because other
	 * tools may write over the same long nop. `is_site`: a note names it. NULL: none.
	 */
	uint8_t (*nop_fixed)(const uint8_t *nop, size_t length, bool is_site);
	uint8_t insn_align; /* alignment of instructions, in bytes */
	/* Do decode() and move() work? They may need a library. NULL: always. */
	bool (*can_decode)(void);
	/* Decodes an instruction. Returns false if it is none. `bytes` may end before it does. */
	bool (*decode)(
		const uint8_t *bytes, size_t length, uint64_t address, struct arch_insn *ret);
	/*
	 * Does an instruction provably change only general registers, arithmetic flags and memory,
	 * and continue as decode() says? NULL: never provable.
	 */
	bool (*is_general)(const uint8_t *bytes, size_t length);
	/*
	 * Does code provably overwrite all arithmetic flags before it reads one or branches? NULL:
	 * never provable.
	 */
	bool (*overwrites_flags)(const uint8_t *bytes, size_t length);
	/*
	 * Decodes at every offset, and reports a superset of the branches into a window
	 * (struct arch_windows), except short ones: short_branch() finds these around a site.
	 */
	void (*scan)(const uint8_t *bytes, size_t length, uint64_t address,
		const struct arch_scan *scan);
	/*
	 * Searches a site's function for addresses that several instructions compute, which scan()
	 * does not find: reports those in a window by scan->reference, others in the function by
	 * scan->label. NULL if there are none.
	 */
	void (*scan_function)(const uint8_t *bytes, size_t length, uint64_t address,
		const struct arch_scan *scan);
	/* Are two bytes a short branch, to a target within short_reach bytes? NULL: never. */
	uint8_t short_reach;
	bool (*short_branch)(const uint8_t *bytes, uint64_t address, uint64_t *target_ret);
	/* Returns an instruction's prefix bytes, which a branch may skip. NULL: no prefixes. */
	size_t (*prefix_length)(const uint8_t *bytes, size_t length);
	/* Returns the length of the nop at `bytes`, or 0. */
	size_t (*nop_length)(const uint8_t *bytes, size_t length);
	/*
	 * Does code, from a function's start to a site, move the stack pointer to where no stack is
	 * known? NULL: never.
	 */
	bool (*loses_stack)(const uint8_t *bytes, size_t length);

	/*
	 * A quick test for loses_stack(): false if the code certainly does not. It searches bytes,
	 * a thousand times faster than decoding, and is false for all beginnings of such code. NULL
	 * with loses_stack.
	 */
	bool (*may_lose_stack)(const uint8_t *bytes, size_t length);
	/*
	 * Does the code after a system call ignore its fourth argument's register, which may then
	 * hold anything? NULL: unknown.
	 */
	bool (*argument_dies)(const uint8_t *bytes, size_t length);
	/* Copies the instructions that cover `need` bytes from `from` to `to`. */
	enum arch_move_status (*move)(const uint8_t *bytes, size_t length, uint64_t from,
		uint64_t to, size_t need, struct arch_moved *ret);
	/* Emits a direct jump. Returns its length, or 0 if `to` is out of reach. */
	size_t (*jump)(uint64_t at, uint64_t to, uint8_t *out);
	/* Emits a short jump, like jump(). */
	size_t (*short_jump)(uint64_t at, uint64_t to, uint8_t *out);
	/*
	 * Emits a jump to any address, and returns its length. NULL: none, and every nop holds a
	 * direct jump, without puns, parts, twins or a toggle.
	 */
	size_t (*far_jump)(uint64_t at, uint64_t to, uint8_t *out);
	/*
	 * Returns the target of the jump() or far_jump() in the ARCH_JUMP_MAX bytes at `at`, or 0.
	 */
	uint64_t (*jump_target)(uint64_t at, const uint8_t *bytes);
	/*
	 * Does a stub's instruction, insn_align bytes long, call a function of the program? For
	 * ISAs whose saved registers have no mark (arch_frame_layout.flag_bits), where the called
	 * function's frame can look like a copy of them; NULL on others.
	 */
	bool (*is_function_call)(const uint8_t *bytes);
	const struct stub_isa *stubs; /* what arch/stub knows of this ISA */
};

extern const struct arch arch_x86_64, arch_aarch64;
extern const struct arch_functions x86_64_functions, aarch64_functions;
extern const struct stub_isa x86_64_stubs, aarch64_stubs;

/* Returns the table for an ELF machine, or NULL. */
const struct arch *arch_of_machine(uint16_t elf_machine);

/* Returns the table that parses an ELF machine's arguments, or NULL. */
const struct arch *arch_of_args(uint16_t elf_machine);

/* Returns this machine's table, also for all targets, or NULL if it is not supported. */
const struct arch *arch_host(void);

/* Can the argument be captured at all? */
bool arch_capturable(const struct arch *arch, const struct arch_arg *arg);

/* Must a capture's pointer be checked at each hit? Then the record tells the readable ones. */
bool arch_capture_checked(const struct arch *arch, const struct arch_capture *capture);

/* Emits a stub for address `at`, a multiple of ARCH_STUB_ALIGN, where threads enter it. */
enum arch_stub_status arch_make_stub(const struct arch *arch, const struct arch_stub *stub,
	uint64_t at, uint8_t *out, size_t room, struct arch_stub_code *ret);

/*
 * Writes an .eh_frame section, with its terminator, that unwinds from the functions that stubs call
 * (ARCH_ACTION_CALL) to the sites of the stubs. `stubs` are the addresses of the stubs. Returns the
 * length of the whole section, even if `room` is too small for it.
 */
size_t arch_call_unwind(const struct arch *arch, const struct arch_extent *stubs, size_t count,
	uint8_t *out, size_t room);

/* Returns the bits of a return address that may hold a signature. */
uint64_t arch_signature(const struct arch *arch);

/* Does `found` equal `bytes`, at most one instruction, but for a breakpoint at the start? */
bool arch_has_breakpoint(
	const struct arch *arch, const uint8_t *found, const uint8_t *bytes, size_t length);

enum arch_guard {
	ARCH_GUARD_NONE, /* something else, or `label` is out of reach */
	ARCH_GUARD_OFF,
	ARCH_GUARD_ON,
	ARCH_GUARD_COVERED /* by a breakpoint */
};

/*
 * Tells what the jump_length bytes `found` at `at` are of the guard that leads to `label`. `out`
 * receives the insn_align bytes that switch it on.
 */
enum arch_guard arch_guard(const struct arch *arch, uint64_t at, uint64_t label,
	const uint8_t *found, uint8_t out[ARCH_JUMP_MAX]);

/* Fills code memory that no thread should reach with breakpoints. */
void arch_fill(const struct arch *arch, uint8_t *out, size_t length);
