/* SPDX-License-Identifier: MIT */
/* The description of a stub: the code that runs when a thread hits a site. */
#ifndef ARCH_STUB_H
#define ARCH_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arg.h"
#include "arch/expr.h"

/* A range of memory: `size` bytes from address `start` on. */
struct arch_extent {
	uint64_t start, size;
};

/*
 * How a stub can identify the current thread without a system call, and what the processor offers.
 * Offsets are relative to the thread pointer (fs on x86-64).
 */
struct arch_thread {
	bool has_tp;		 /* the thread pointer is valid wherever this stub runs */
	bool has_rseq;		 /* libc registers threads for restartable sequences (rseq(2)) */
	int32_t rseq_offset;	 /* offset of struct rseq from the thread pointer */
	uint32_t rseq_signature; /* the four bytes before an abort handler */
	bool has_tid;
	int32_t tid_offset; /* offset of the thread's u32 id from the thread pointer */
	/*
	 * Reading the time stamp counter faults, so stubs ask the kernel for CLOCK_MONOTONIC, in
	 * nanoseconds. has_rseq is then false, because a sequence must not make system calls.
	 */
	bool no_counter;
	/*
	 * The processor has atomic instructions for addition and for compare-and-swap (aarch64:
	 * FEAT_LSE).
	 */
	bool has_atomics;
	/*
	 * A system call clears parts of vector registers (aarch64: of SVE, all but the lowest 128
	 * bits of each vector), so stubs save these around each call.
	 */
	bool loses_vectors;
	/*
	 * A memory access can fault because the address lacks the memory's tag (aarch64: FEAT_MTE).
	 * Stubs that read the program's memory turn tag checks off while they run.
	 */
	bool checks_tags;
	/*
	 * A system call can end a mode of the thread (aarch64: the streaming mode of FEAT_SME). In
	 * that mode stubs make no system call and act as if the call had failed.
	 */
	bool has_modes;
};

/* Which part of the stack a stub captures. */
enum arch_capture_stack {
	ARCH_STACK_NOT,
	/*
	 * The bytes from the stack pointer up, to be unwound later with debug information:
	 * bytes_max, or fewer if the readable memory ends before.
	 */
	ARCH_STACK_BYTES,
	/*
	 * The return addresses (u64, innermost first) found by following the chain of frame
	 * pointers, at most bytes_max / 8.
	 */
	ARCH_STACK_FRAMES
};

/*
 * One step from a pointer to a value: the step reads `size` bytes at the pointer + `offset` +
 * `scale` * the capture's index. If `size` is 0, the value is that address itself.
 */
struct arch_step {
	int32_t offset;
	uint8_t size; /* 1, 2, 4 or 8; 0 only in the last step, to a string or to bytes */
	bool is_signed;
	int32_t scale; /* bytes for each unit of the index; 0 if the step has no index */
};
enum { ARCH_STEPS_MAX = 4 };

static inline bool arch_step_is(const struct arch_step *a, const struct arch_step *b)
{
	return a->offset == b->offset && a->size == b->size && a->is_signed == b->is_signed &&
	       a->scale == b->scale;
}

/*
 * An argument to record. A scalar (1, 2, 4 or 8 bytes) is recorded in its own size. A MEMORY
 * operand of any other size, and 16 bytes of a vector register, are recorded as bytes. Expressions
 * see a scalar as a u64, sign- or zero-extended as its type says.
 */
struct arch_capture {
	/*
	 * If set, part of the stack is captured, and recorded like a string. Of the other members,
	 * only bytes_max is used, and `arg` if return addresses are captured and `arg` is MEMORY:
	 * the chain then starts with the frame pointer that is stored there, not with the frame
	 * pointer register.
	 */
	enum arch_capture_stack stack;
	/*
	 * If set, the thread's name, as the kernel knows it, is captured. No other member is then
	 * used.
	 */
	bool is_comm;
	/*
	 * The argument. If it had a symbol, the symbol's run-time address has been added to `disp`,
	 * and `symbol` is NULL. An argument that still has a symbol cannot be captured.
	 */
	struct arch_arg arg;
	/*
	 * True if `arg` is MEMORY with the base NONE or PC and the index NONE, and [disp, disp +
	 * size) lies in a readable segment of a module that stays loaded while its probes can be
	 * hit. Such an operand is read without a check. The code that resolves the symbol sets
	 * is_static. For a bare number it is false, so that address is checked like any pointer.
	 */
	bool is_static;
	/*
	 * If step_count is not 0, these steps lead from the argument to the value. Each step but
	 * the last yields the pointer for the next step. What other members say of the argument
	 * then holds for the result of the steps.
	 */
	struct arch_step steps[ARCH_STEPS_MAX];
	uint8_t step_count;
	/* The index that the steps use is another argument, with the same rules as `length`. */
	bool has_index, index_is_static;
	struct arch_arg index;
	bool is_string; /* follow the pointer to a NUL-terminated string */
	/*
	 * The value points to as many bytes as the argument `length` says (none if negative); a
	 * string ends at the first NUL in them. Like `arg`, `length` has no symbol.
	 * length_is_static says of `length` what is_static says of `arg`.
	 */
	bool has_length, length_is_static;
	struct arch_arg length;
	uint16_t bytes_max; /* limit for a string or an aggregate in memory; the rest is cut off */
	/*
	 * If not 0, the capture is what the start event of the pair kept at this offset in its
	 * struct probe_begun: a number, or a string of at most bytes_max bytes. Besides, only
	 * is_string and bytes_max are set. Such a capture is for expressions and is not recorded.
	 */
	uint16_t begun;
};

/* Returns the size of the value in bytes; 0 for a stack, whose `arg` is only a frame pointer. */
static inline uint32_t arch_capture_size(const struct arch_capture *capture)
{
	uint32_t last = capture->step_count ? capture->steps[capture->step_count - 1].size
					    : capture->arg.size;

	if (capture->stack != ARCH_STACK_NOT)
		return 0;
	return capture->step_count && !last ? sizeof(uint64_t) : last; /* an address */
}

/* Whether a capture is recorded as bytes of varying length rather than as a number. */
static inline bool arch_capture_has_bytes(const struct arch_capture *capture)
{
	uint32_t size = arch_capture_size(capture);

	if (capture->is_string || capture->begun)
		return capture->is_string;
	return capture->has_length || capture->is_comm ||
	       !(size == 1 || size == 2 || size == 4 || size == 8);
}

/* Returns the size of the capture's fixed part in a record: a number, or the word of its bytes. */
static inline uint32_t arch_capture_fixed(const struct arch_capture *capture)
{
	return arch_capture_has_bytes(capture) ? sizeof(uint32_t) : arch_capture_size(capture);
}

/* The members of a cell (struct probe_cell) that a hit changes, apart from the count. */
enum arch_gather_parts {
	ARCH_GATHER_SUM = 1,
	ARCH_GATHER_EXTREMES = 2,
	ARCH_GATHER_LAST = 4,
	ARCH_GATHER_BUCKETS = 8 /* changed instead of the count */
};

/* A part of a key: a number, or a string. */
struct arch_key {
	const struct arch_expr *number; /* NULL if the part is a string or a stack */
	uint8_t string;			/* index of the string's capture */
	bool is_norm;			/* the key is the string's normal form: arch/norm.h */
};
enum { ARCH_KEYS_MAX = 6, ARCH_FRAMES_MAX = 64, ARCH_STACK_MAX = 32768, ARCH_COMM_MAX = 16 };

/* ---- Actions --------------------------------------------------------------------------------- */

/* A GATHER: the values that it gathers, and where. */
struct arch_gather {
	unsigned int parts;
	/* If NULL, the value is the time since the start event in a pair, otherwise 0. */
	const struct arch_expr *value;
	bool is_signed; /* the value is signed */
	bool is_double; /* the value is the bits of a double */
	uint32_t cell;	/* offset of the cell or of the table in each set */
	/* The table (arch/layout.h): */
	struct arch_key keys[ARCH_KEYS_MAX];
	uint8_t key_count;    /* 0 if there is no table */
	uint32_t owner;	      /* number of the owner in the table's entries */
	uint32_t entries;     /* number of entries, a power of two */
	uint32_t entry_bytes; /* size of an entry in bytes, a multiple of 8 */
	uint32_t entry_cell;  /* offset of the cell in an entry */
};

/* A capture that a start event keeps for expressions of its end event (struct probe_begun). */
struct arch_kept {
	uint8_t capture;
	uint16_t offset;
	uint16_t bytes; /* greatest length of a string in bytes; 0 for a number, of 64 bits */
};
enum { ARCH_KEPT_MAX = 16, ARCH_SAME_MAX = 4 };

/* Pairs of start and end events. */
struct arch_flights {
	/* Address of the table of struct probe_flight; 0 if the stub has no part in a pair. */
	uint64_t table;
	uint32_t entries; /* number of entries, a power of two */
	/* Start events in an entry, a power of two; further start events replace the oldest. */
	uint32_t depth;
	uint32_t pair;
	/*
	 * An end event belongs to the start event with the same value or text. NULL for pairs by
	 * thread.
	 */
	const struct arch_expr *match;
	/*
	 * Bytes in an entry for a key that is a text; 0 if keys are numbers. `string` is the index
	 * of the text's capture. A hit is lost if its text is longer than `text` bytes, or
	 * unreadable.
	 */
	uint32_t text;
	uint8_t string;
	/*
	 * For a table that forked children also use. `process` is the address of a u32 in private
	 * memory. The u32 is the number of the process, or zero in a child that has no number yet.
	 * `processes` is the address of a u32 that all users of the table share. The u32 is the
	 * last number that was given out. Both are 0 if only one process uses the table.
	 */
	uint64_t process, processes;
	/*
	 * Size in bytes of what each start event keeps (struct probe_begun), a multiple of 8; 0 if
	 * it keeps nothing. `kept` are the captures that it keeps. If `record` is not 0 (spans), a
	 * record is kept at that offset, and the record of the end event includes it if the span
	 * takes at least min_ns.
	 */
	uint32_t keep, record;
	struct arch_kept kept[ARCH_KEPT_MAX];
	uint8_t kept_count;
	/*
	 * Pairs by thread only. `single`: the pair does not nest. A start event replaces one that
	 * is open, and an end event without an open start event is ignored once the thread has had
	 * any start event.
	 *
	 * `gives`: a hit of this BEGIN keeps captures but starts no pair. `takes`: the start
	 * event itself keeps nothing. Its pair uses the captures that the thread's latest hit of a
	 * `gives` action, at another probe, kept. If the thread has had no such hit, the captures
	 * count as unreadable. In the record that such a hit kept, the start event replaces the
	 * thread id by its own site. The thread id is also in the record of the end event.
	 */
	bool single, takes, gives;
	/*
	 * Pairs by thread only. `identities`: entries have room for an identity of each start
	 * event. `compares` (never with `single`): each event has an identity, a hash of the
	 * captures `same`, which are numbers and strings. An end event ends the newest start event
	 * with the same identity, and leaves newer start events open. If `same` is empty, or a
	 * capture in it cannot be read, the identity is unknown and equals any other.
	 */
	bool identities, compares;
	uint8_t same[ARCH_SAME_MAX], same_count;
	uint64_t min_ns;
	/* Nanoseconds per tick, times 2^32, for spans and for expressions that use the duration. */
	uint64_t scale;
	/* Evaluated at the end event: if the result is 0, the pair leaves nothing. May be NULL. */
	const struct arch_expr *filter;
};

/* A RECORD: the rings, and what a hit does that finds no room. */
struct arch_record {
	uint64_t rings;	     /* ring of CPU 0 */
	uint8_t rings_shift; /* log2 of the distance between the rings of two CPUs */
	bool overwrite;	     /* the ring is a flight recorder: new records replace the oldest */
	uint32_t ring_bytes; /* size of a ring's data, a power of two */
	/*
	 * A hit that finds no room waits up to wait_ticks of the record's clock; a tick is
	 * wait_scale / 2^32 nanoseconds. `room` is the address of a struct probe_room; 0 if such a
	 * hit is lost at once. `room` is 0 for spans and for rings that are overwritten.
	 */
	uint64_t room, wait_ticks, wait_scale;
};

/* A GATE. */
struct arch_gate {
	uint64_t address; /* of a struct probe_gate */
	/*
	 * Address of a u32, or 0. While the u32 is not 0, only calls with ARCH_GATE_CALLER are
	 * held.
	 */
	uint64_t unless;
};

/*
 * A CALL. `function` is the address of a function with the parameters (const uint64_t *frame,
 * uint64_t data). It must not change vector and floating-point state, but may change other
 * registers as any function may. `pc` is the address of the site, for unwinders. The frame is
 *
 *	u64 word	for each recorded capture: its number, extended, or the word of its bytes
 *	u64 readable	a bit for each capture that was readable
 *	u64 pointer	for each recorded capture: address of its bytes, if it has any
 *
 * The slot counts calls in `hits`, and returns in `seen`.
 */
struct arch_call {
	uint64_t function, data, pc;
};

enum arch_action_kind {
	ARCH_ACTION_COUNT,  /* adds one to the slot's per-CPU counter */
	ARCH_ACTION_RECORD, /* writes a record into the per-CPU ring, or counts it as lost */
	ARCH_ACTION_GATHER, /* adds to a cell, of the probe or of a key */
	/* Stores the time of a start event, for the GATHER or RECORD of the end event. */
	ARCH_ACTION_BEGIN,
	/* Only as the single action of a stub: */
	ARCH_ACTION_GATE, /* waits for the controller; needs no slot */
	ARCH_ACTION_CALL  /* calls a function of the target itself */
};

/*
 * One of the things that a stub does at a hit. The slot (struct probe_slot) counts the hits of a
 * COUNT, and the lost and unmatched hits of the other kinds.
 */
struct arch_action {
	enum arch_action_kind kind;
	uint8_t slots_shift;
	uint64_t slots;	      /* slots of CPU 0: CPU c's are at slots + (c << slots_shift) */
	uint32_t slot_offset; /* offset of the slot in a CPU's slots */
	/* the members of the action's kind; flights: of a BEGIN, GATHER or RECORD */
	struct arch_record record;
	struct arch_gather gather;
	struct arch_flights flights;
	struct arch_gate gate;
	struct arch_call call;
};
enum { ARCH_ACTIONS_MAX = 8 };

/* ---- Stubs ----------------------------------------------------------------------------------- */

/* Whole pages that are readable whenever the stub runs, and so are read without a check. */
enum { ARCH_SAFE_MAX = 4 };
struct arch_safe {
	struct arch_extent pages[ARCH_SAFE_MAX];
	size_t count;
	/*
	 * The main thread's stack; size 0 if unknown. If the site's stack pointer is in it, the
	 * stub reads from there up without a check.
	 */
	struct arch_extent stack;
};

/*
 * A stub executes the actions of a hit, one after the other, and then continues at `next`: another
 * session's stub for the same site, or the site's tail (moved instructions and the jump back).
 * docs/ring.md gives the layout of what a stub writes. Members of type uint64_t are addresses
 * unless stated otherwise.
 *
 * The stub saves registers, looks at the switches, prepares captures, applies the filter and
 * samples once for all actions. An action that loses the hit, or finds no start event for it, has
 * no effect on the other actions. Each action publishes its result in restartable sequences of its
 * own, so a thread may be preempted, or die, between two actions of a hit.
 *
 * plan_stub() refuses these lists: more than one action that writes records (RECORD, or BEGIN of
 * spans); captures of a start event (arch_capture.begun) beside more than one action with
 * arch_flights.keep.
 */
struct arch_stub {
	struct arch_thread thread;
	uint64_t next;	/* where to continue afterwards */
	uint64_t guard; /* address of a u32, zero in a forked child that must not count */
	/*
	 * Address of a u32, zero in a forked child whose records are marked; 0 if no records are
	 * marked.
	 */
	uint64_t own;
	/*
	 * Switches: addresses of u32 that a controller may change at any time, or 0. A hit leaves
	 * nothing while *on is zero or *off is not.
	 */
	uint64_t on, off;
	/*
	 * A hit that finds no room sets the u32 behind *on. While that u32 is not 0, hits are lost.
	 */
	bool on_until_full;
	/* Number of CPUs with their own slots and rings; all other CPUs share one more set. */
	uint32_t cpus;
	uint32_t site;			     /* number of the site, for records */
	const struct arch_capture *captures; /* borrowed */
	uint8_t capture_count;
	/*
	 * Number of captures that are recorded, from the first on. The other captures are for
	 * expressions.
	 */
	uint8_t recorded;
	/* hits for which the filter yields 0 are ignored; may be NULL */
	const struct arch_expr *filter;
	/* take every Nth hit on each CPU, counted in the first action's slot; 0 or 1: all */
	uint32_t every;
	uint32_t rate;	     /* take at most this many hits in each rate_ticks; 0: all */
	uint64_t rate_ticks; /* a time, in ticks of the time stamp counter */
	/* address of a u64 of the session: number of the window << 32 | hits in the window */
	uint64_t rate_word;
	/* Process id of the target in its own namespace; 0: ask the kernel. */
	uint32_t pid;
	struct arch_safe safe;
	uint32_t page_bytes; /* size of a page of memory, a power of two, at least 4096 */
	/* the stub need not keep the arithmetic flags: see overwrites_flags() */
	bool frees_flags;
	/* the stub may make a system call for the time if it cannot read the counter */
	bool may_ask_time;
	bool may_ask_name; /* the stub may make a system call for the thread's name */
	/* The stub may make a system call for the number of the CPU if it has no other source. */
	bool may_ask_cpu;
	bool may_ask_stack; /* the stub may make a system call to learn which pages are in memory */
	/*
	 * The stub may make system calls to check pointers. If false, it does not follow pointers.
	 */
	bool may_call_kernel;
	uint8_t action_count;
	struct arch_action actions[ARCH_ACTIONS_MAX];
};

enum { ARCH_STUB_ALIGN = 32, ARCH_STUB_MAX = 8192 };

/* A register whose value unwinding needs: its number on this ISA, and its DWARF number. */
struct arch_unwind_register {
	int8_t reg;
	uint8_t dwarf;
};

/* An emitted stub. */
struct arch_stub_code {
	size_t length;
	size_t next_jump; /* offset of the jump() to `next`, which may be redirected later */
	bool asks;	  /* the stub makes system calls, or would if may_call_kernel were set */
	bool asks_name;	  /* the stub asks the kernel for the thread's name */
	bool asks_cpu;	  /* the stub asks the kernel for the number of the CPU */
	/* The stub asks which pages are in memory, or would if may_ask_stack were set. */
	bool asks_stack;
};

/* Why a stub could not be generated. */
enum arch_stub_status {
	ARCH_STUB_OK,
	ARCH_STUB_NO_ROOM,	/* the buffer is too small */
	ARCH_STUB_OUT_OF_REACH, /* `next` is too far from `at` */
	ARCH_STUB_UNSUPPORTED	/* this ISA cannot do it */
};

#endif
