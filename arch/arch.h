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

#include "arch/expr.h"
#include "arch/process.h"
#include "arch/windows.h"

/* ---- Argument specifications ------------------------------------------ */

/*
 * One argument of a probe, as the assembler printed it in the note:
 * `N@OP` (SystemTap's "User Space Probe Implementation"; <sys/sdt.h>).
 */
enum arch_arg_kind {
	ARCH_ARG_UNKNOWN,     /* not understood; shown with its spec, read as null */
	ARCH_ARG_IMMEDIATE,   /* the value is `disp` (+ the symbol's address) */
	ARCH_ARG_REGISTER,    /* `base`, from bit `shift`, `width` bytes wide */
	ARCH_ARG_FP_REGISTER, /* `base` counts the vector registers; low `width` bytes */
	ARCH_ARG_MEMORY	      /* [base + index * scale + disp (+ symbol)] */
};

#define ARCH_REG_NONE (-1)
/* The program counter as a base (`sym(%rip)`): only the symbol or `disp` counts then. */
#define ARCH_REG_PC (-2)

struct arch_arg {
	enum arch_arg_kind kind;
	uint32_t size;	    /* bytes of the value: 1, 2, 4, 8; any other number: an aggregate */
	bool is_signed;	    /* a negative size in the note */
	bool is_float;	    /* an `f` after the size */
	bool has_size;	    /* false if the note has none: `size` is then the operand's */
	int8_t base;	    /* a register number of this ISA, or ARCH_REG_NONE, ARCH_REG_PC */
	int8_t index;	    /* likewise, or ARCH_REG_NONE */
	uint8_t scale;	    /* 1, 2, 4 or 8 */
	uint8_t width;	    /* of the named register, in bytes: 1, 2, 4, 8, 16, 32, 64 */
	uint8_t shift;	    /* 8 for %ah, %bh, %ch, %dh; else 0 */
	int64_t disp;	    /* displacement, absolute address or immediate */
	const char *symbol; /* into the note's string, not terminated; NULL if none */
	size_t symbol_length;
	uint8_t symbol_bits; /* not 0: only the low bits of their sum count */
	const char *spec;    /* this argument's own text, into the note's string */
	size_t spec_length;
};

/* Probes have at most 12 arguments in <sys/sdt.h>; libstapsdt and usdt.h allow more. */
enum { ARCH_ARGS_MAX = 32 };

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

/* ---- Stubs -------------------------------------------------------------- */

/* A piece of code, or of other memory. */
struct arch_extent {
	uint64_t start, size;
};

/*
 * How a stub can identify the current thread without a system call.
 * Everything is relative to the thread pointer (fs on x86-64).
 */
struct arch_thread {
	bool has_tp;		 /* the thread pointer is set wherever this stub runs */
	bool has_rseq;		 /* restartable sequences are registered by libc */
	int32_t rseq_offset;	 /* of struct rseq, from the thread pointer */
	uint32_t rseq_signature; /* the four bytes before an abort handler */
	bool has_tid;
	int32_t tid_offset; /* of the thread's u32 id, from the thread pointer */
	/*
	 * Reading the processor's time stamp counter faults: stubs ask the kernel for
	 * CLOCK_MONOTONIC, in nanoseconds. Excludes has_rseq: a sequence makes no system call.
	 */
	bool no_counter;
	/* Single instructions add to memory, and compare and exchange it (aarch64: FEAT_LSE). */
	bool has_atomics;
	/*
	 * A system call clears parts of vector registers (aarch64: all of SVE but the lowest 128
	 * bits of each vector), so they are kept around each.
	 */
	bool loses_vectors;
	/*
	 * An access may fail because the address has not the tag that memory has (aarch64:
	 * FEAT_MTE): stubs that read the program's memory turn that off while they run.
	 */
	bool checks_tags;
	/*
	 * A system call may end a mode of the thread (aarch64: the streaming mode of FEAT_SME).
	 * In that mode stubs make none, and take it as one that has failed.
	 */
	bool has_modes;
};

enum arch_stub_kind {
	ARCH_STUB_COUNT,  /* adds one to the probe's per-CPU counter */
	ARCH_STUB_GATE,	  /* waits for the controller: needs only guard, gate and next */
	ARCH_STUB_RECORD, /* writes a record into the per-CPU ring, or counts it as lost */
	ARCH_STUB_GATHER, /* adds to a cell: the probe's, or that of a key */
	ARCH_STUB_BEGIN,  /* stores the time, for the GATHER or RECORD stub of the end */
	ARCH_STUB_CALL	  /* calls a function of the target itself: see arch_stub.call */
};

/* Which part of the stack to capture. */
enum arch_capture_stack {
	ARCH_STACK_NOT,
	/*
	 * The bytes from the stack pointer up, to be unwound with the rules for debuggers:
	 * bytes_max, or fewer where the readable memory ends.
	 */
	ARCH_STACK_BYTES,
	/*
	 * The return addresses (u64, innermost first) that the chain of frame pointers
	 * leads to, at most bytes_max / 8.
	 */
	ARCH_STACK_FRAMES
};

/*
 * Follows a pointer: a number of this size, `offset` bytes behind where it leads, and `scale` bytes
 * for each of the capture's index. Without a size, it is that address.
 */
struct arch_step {
	int32_t offset;
	uint8_t size; /* 1, 2, 4 or 8; 0 only of a last step to a string or to bytes */
	bool is_signed;
	int32_t scale; /* 0: there is no index in it */
};
enum { ARCH_STEPS_MAX = 4 };

static inline bool arch_step_is(const struct arch_step *a, const struct arch_step *b)
{
	return a->offset == b->offset && a->size == b->size && a->is_signed == b->is_signed &&
	       a->scale == b->scale;
}

/*
 * An argument to record. A scalar (1, 2, 4 or 8 bytes) is recorded in its own size; a MEMORY
 * operand of any other size, and 16 bytes of a vector register, as bytes. Expressions have a scalar
 * as a u64, sign- or zero-extended by its size's sign.
 */
struct arch_capture {
	/*
	 * If set, only bytes_max is used besides it, and for return addresses `arg`, if it is
	 * MEMORY: the first frame pointer is there, on the stack, and not in its register. Recorded
	 * as a string is.
	 */
	enum arch_capture_stack stack;
	/* If set, it is the thread's name as the kernel has it, and nothing else is used. */
	bool is_comm;
	/*
	 * Symbols must be resolved: `symbol` NULL, its run-time address added to `disp`.
	 * An argument that still has a symbol cannot be captured.
	 */
	struct arch_arg arg;
	/*
	 * For MEMORY: base is NONE or PC, index NONE, and [disp, disp + size) lies in a
	 * readable segment of a module that stays loaded while its probes can be hit. Such an
	 * operand is read without a check. The code that resolves the symbol sets this; a bare
	 * number has false, and is checked like any pointer.
	 */
	bool is_static;
	/*
	 * The value is not the argument, but what is found by these steps from it, of which each
	 * but the last finds the next pointer. It takes the place of the argument in all else.
	 */
	struct arch_step steps[ARCH_STEPS_MAX];
	uint8_t step_count;
	/* The index of steps is another argument; it is like `length`. */
	bool has_index, index_is_static;
	struct arch_arg index;
	bool is_string; /* follow the pointer to a NUL-terminated string */
	/*
	 * Follow the pointer to as many bytes as another argument says (none if that is
	 * negative); a string ends at a NUL among them. `length` is like `arg`: without a symbol,
	 * and static or not.
	 */
	bool has_length, length_is_static;
	struct arch_arg length;
	uint16_t bytes_max; /* of a string or an aggregate in memory; the rest is cut off */
	/*
	 * If set, it is what the begin of the pair that has ended has kept, at this offset in its
	 * struct probe_begun: a number, or a string of at most bytes_max bytes. Nothing else is set
	 * but is_string. It is not recorded.
	 */
	uint16_t begun;
};

/* The size of the value; 0 of a stack, whose argument is only where a chain begins. */
static inline uint32_t arch_capture_size(const struct arch_capture *capture)
{
	uint32_t last = capture->step_count ? capture->steps[capture->step_count - 1].size
					    : capture->arg.size;

	if (capture->stack != ARCH_STACK_NOT)
		return 0;
	return capture->step_count && !last ? sizeof(uint64_t) : last; /* an address */
}

/* Whether it is recorded as bytes, of a length that varies, and not as a number. */
static inline bool arch_capture_has_bytes(const struct arch_capture *capture)
{
	uint32_t size = arch_capture_size(capture);

	if (capture->is_string || capture->begun)
		return capture->is_string;
	return capture->has_length || capture->is_comm ||
	       !(size == 1 || size == 2 || size == 4 || size == 8);
}

/* What a record has of it at a fixed place: a number of so many bytes, or the word of its bytes. */
static inline uint32_t arch_capture_fixed(const struct arch_capture *capture)
{
	return arch_capture_has_bytes(capture) ? sizeof(uint32_t) : arch_capture_size(capture);
}

/* The parts of a cell (struct probe_cell) that a hit changes, besides its count. */
enum arch_gather_parts {
	ARCH_GATHER_SUM = 1,
	ARCH_GATHER_EXTREMES = 2,
	ARCH_GATHER_LAST = 4,
	ARCH_GATHER_BUCKETS = 8 /* instead of the count */
};

/* A part of a key: a number, or a string. */
struct arch_key {
	const struct arch_expr *number; /* NULL: it is a string, or a stack */
	uint8_t string;			/* its capture */
};
enum { ARCH_KEYS_MAX = 6, ARCH_FRAMES_MAX = 64, ARCH_STACK_MAX = 32768, ARCH_COMM_MAX = 16 };

/* What an ARCH_STUB_GATHER does. */
struct arch_gather {
	unsigned int parts;
	const struct arch_expr *value; /* NULL: the time since the begin, else 0 */
	bool is_signed;		       /* the value is */
	bool is_double;		       /* the value is the bits of one */
	uint32_t cell;		       /* offset, in each set, of the cell or of the table */
	/* A table (arch/layout.h): */
	struct arch_key keys[ARCH_KEYS_MAX];
	uint8_t key_count;    /* 0: no table */
	uint32_t owner;	      /* in its entries */
	uint32_t entries;     /* a power of two */
	uint32_t entry_bytes; /* a multiple of 8 */
	uint32_t entry_cell;  /* offset of the cell in an entry */
};

/* What a begin keeps of a capture for expressions of its end (struct probe_begun). */
struct arch_kept {
	uint8_t capture;
	uint16_t offset;
	uint16_t bytes; /* of a string, at most; 0: a number, of 64 bits */
};
enum { ARCH_KEPT_MAX = 16 };

/* Pairs of begin and end. */
struct arch_flights {
	uint64_t table;	  /* of struct probe_flight; 0: the stub has no part in a pair */
	uint32_t entries; /* a power of two */
	uint32_t depth;	  /* begins in an entry, a power of two: more replace the oldest */
	uint32_t pair;
	const struct arch_expr
		*match; /* an end belongs to the begin with the same value; NULL: the same thread */
	/*
	 * If forked children use the table as well: `process` is a u32 in private memory, the
	 * number of the process (zero in a child that has none yet); `processes` is a u32 that
	 * all users of the table share, the last number given out. Both 0: only one process uses
	 * the table.
	 */
	uint64_t process, processes;
	/*
	 * The bytes of what is kept of a begin (struct probe_begun); a multiple of 8; 0: nothing
	 * is. A begin keeps `kept` of its captures. Spans: at the offset `record`, also a record,
	 * which that of the end has in it if the span takes at least min_ns; 0: not.
	 */
	uint32_t keep, record;
	struct arch_kept kept[ARCH_KEPT_MAX];
	uint8_t kept_count;
	uint64_t min_ns;
	/*
	 * The length of a tick in nanoseconds, times 2^32, for spans and for expressions of an end
	 * that ask for the duration.
	 */
	uint64_t scale;
	/*
	 * Evaluated for the pair, at its end: if it is 0, the end leaves nothing. NULL: there is
	 * none.
	 */
	const struct arch_expr *filter;
};

/* Memory that can be read whenever the stub runs, without a check. All are whole pages. */
enum { ARCH_SAFE_MAX = 4 };
struct arch_safe {
	struct arch_extent pages[ARCH_SAFE_MAX];
	size_t count;
	/* The main thread's, from the site's stack pointer on, if that is in there; or size 0 */
	struct arch_extent stack;
};

/*
 * A stub acts on a hit and continues at `next`: another session's stub for the
 * same site, or the site's tail (moved instructions and the jump back).
 * docs/ring.md gives the layout of what it writes.
 */
struct arch_stub {
	enum arch_stub_kind kind;
	struct arch_thread thread;
	uint64_t next;	/* where to continue afterwards */
	uint64_t guard; /* u32, zero in a forked child that must not count */
	uint64_t own;	/* u32, zero in a forked child: its records are marked; 0: none are */
	/*
	 * Switches: u32 that a controller may change at any time; 0: there is none. A hit
	 * leaves nothing while *on is zero or *off is not.
	 */
	uint64_t on, off;
	bool on_until_full; /* a hit that finds no room sets *on to zero */
	uint64_t slots;	    /* counters of CPU 0: CPU c's are at slots + (c << slots_shift) */
	uint8_t slots_shift;
	uint32_t cpus;	      /* CPUs with slots and rings; all others share one more set */
	uint32_t slot_offset; /* of this probe's struct probe_slot, within a CPU's slots */
	uint64_t rings;	      /* ring of CPU 0 */
	uint8_t rings_shift;  /* log2 of the distance between rings */
	uint32_t ring_bytes;  /* of a ring's data, a power of two */
	uint32_t site;	      /* written into the record */
	/*
	 * A hit that finds no room waits for it, up to wait_ticks of the record's clock; a tick is
	 * so many nanoseconds, times 2^32. `room` is the address of a struct probe_room; 0: such a
	 * hit is lost at once. Not for spans, nor for rings that are overwritten.
	 */
	uint64_t room, wait_ticks, wait_scale;
	uint64_t gate; /* of a struct probe_gate */
	/*
	 * Address of a u32: no thread is held while it is not 0, unless its first argument is
	 * ARCH_GATE_CALLER; or 0.
	 */
	uint64_t gate_unless;
	const struct arch_capture *captures; /* borrowed */
	uint8_t capture_count;
	uint8_t recorded; /* how many of them are recorded; the others are for expressions */
	bool overwrite;	  /* the ring is a flight recorder: new records replace the oldest */
	struct arch_gather gather;
	struct arch_flights flights;
	const struct arch_expr *filter; /* hits for which it is 0 are ignored; NULL: none are */
	uint32_t every;			/* take every Nth hit on each CPU; 0 or 1: all */
	uint32_t rate;			/* take at most this many hits in each rate_ticks; 0: all */
	uint64_t rate_ticks;		/* of the time stamp counter */
	uint64_t rate_word;		/* address of a u64 of the session: window << 32 | hits */
	uint32_t pid;			/* of the target, in its namespace; 0: ask the kernel */
	/*
	 * Of an ARCH_STUB_CALL: `call` is a function (const uint64_t *frame, uint64_t
	 * call_data) that may change whatever a function may change, except vector and
	 * floating-point state; `pc` is the address of the site, for unwinders. The frame is
	 *
	 *	u64 word	for each capture: its number, extended, or that of its bytes
	 *	u64 readable	a bit for each capture that could be read
	 *	u64 pointer	for each capture: to its bytes, if it has any
	 *
	 * The slot counts calls in `hits`, and returns in `seen`.
	 */
	uint64_t call, call_data, pc;
	struct arch_safe safe;
	uint32_t page_bytes;  /* of a page of memory, a power of two, 4096 or more */
	bool frees_flags;     /* the arithmetic flags need not be kept: see overwrites_flags() */
	bool may_ask_time;    /* if the counter cannot be read, a system call may give the time */
	bool may_ask_name;    /* a system call may give the thread's name */
	bool may_ask_cpu;     /* likewise the number of its CPU, where nothing else does */
	bool may_call_kernel; /* a system call may check pointers; otherwise they are not followed
			       */
};

enum { ARCH_STUB_ALIGN = 32, ARCH_STUB_MAX = 8192 };

/* A register that unwinding starts from: its number here, and its number in DWARF. */
struct arch_unwind_register {
	int8_t reg;
	uint8_t dwarf;
};

/* An emitted stub. */
struct arch_stub_code {
	size_t length;
	size_t next_jump; /* offset of the jump() to `next`, which may be redirected later */
	bool asks;	  /* it makes system calls, or would if may_call_kernel were set */
	bool asks_name;	  /* it asks for the thread's name */
	bool asks_cpu;	  /* ... and for the number of the CPU */
};

/* Why a stub could not be generated. */
enum arch_stub_status {
	ARCH_STUB_OK,
	ARCH_STUB_NO_ROOM,	/* the buffer is too small */
	ARCH_STUB_OUT_OF_REACH, /* `next` is too far from `at` */
	ARCH_STUB_UNSUPPORTED	/* this ISA cannot do it */
};

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
