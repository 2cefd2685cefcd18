/* SPDX-License-Identifier: MIT */
/* A stub: the code that runs when a thread hits a site. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arg.h"
#include "arch/expr.h"

/* `size` bytes from address `start` on. */
struct arch_extent {
	uint64_t start, size;
};

/*
 * How a stub identifies its thread without a system call, and what the processor has. Offsets are
 * from the thread pointer.
 */
struct arch_thread {
	bool has_tp;		 /* the thread pointer is valid wherever this stub runs */
	bool has_rseq;		 /* libc registers threads for restartable sequences (rseq(2)) */
	int32_t rseq_offset;	 /* offset of struct rseq from the thread pointer */
	uint32_t rseq_signature; /* the four bytes before an abort handler */
	bool has_tid;
	int32_t tid_offset; /* offset of the thread's u32 id from the thread pointer */
	/*
	 * Reading the time stamp counter faults: stubs ask for CLOCK_MONOTONIC, in ns. has_rseq is
	 * false then, because a sequence must not make system calls.
	 */
	bool no_counter;
	/* Atomic instructions for addition and compare-and-swap (aarch64: FEAT_LSE). */
	bool has_atomics;
	/*
	 * A system call clears parts of vector registers (aarch64: SVE's beyond 128 bits), which
	 * stubs save around it.
	 */
	bool loses_vectors;
	/*
	 * A memory access can fault for a wrong tag (aarch64: FEAT_MTE): stubs that read the
	 * program's memory turn the checks off.
	 */
	bool checks_tags;
	/*
	 * A system call can end a mode of the thread (aarch64: FEAT_SME's streaming mode): there
	 * stubs act as if it had failed.
	 */
	bool has_modes;
};

enum arch_capture_stack {
	ARCH_STACK_NOT,
	/* The bytes from the stack pointer up, to be unwound later, as far as readable. */
	ARCH_STACK_BYTES,
	/* The return addresses along the frame pointers (u64, innermost first). */
	ARCH_STACK_FRAMES
};

/*
 * A step from a pointer to a value: `size` bytes at the pointer + `offset` + `scale` * the
 * capture's index; if `size` is 0, that address.
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
 * An argument to record: a scalar (1, 2, 4 or 8 bytes) in its size; a MEMORY operand of another
 * size, and 16 bytes of a vector register, as bytes. Expressions see scalars extended to u64.
 */
struct arch_capture {
	/*
	 * Captures part of the stack, recorded like a string. Other members are unused but
	 * bytes_max and, for return addresses, `arg`: if it is MEMORY, the chain starts with the
	 * frame pointer stored there.
	 */
	enum arch_capture_stack stack;
	/* Captures the thread's name, as of the kernel. Other members are unused. */
	bool is_comm;
	/* A symbol must be resolved into `disp`: an argument with a symbol cannot be captured. */
	struct arch_arg arg;
	/*
	 * `arg` is MEMORY with base NONE or PC and index NONE, in a readable segment of a module
	 * that stays loaded: it is read without a check. Set by what resolves the symbol. A bare
	 * number is checked like any pointer.
	 */
	bool is_static;
	/*
	 * If any, these steps lead from the argument to the value; each but the last yields the
	 * next one's pointer. Other members are then about the result.
	 */
	struct arch_step steps[ARCH_STEPS_MAX];
	uint8_t step_count;
	/* The steps' index is another argument, like `length`. */
	bool has_index, index_is_static;
	struct arch_arg index;
	bool is_string; /* follow the pointer to a NUL-terminated string */
	/*
	 * The value points to as many bytes as the argument `length` says (none if negative),
	 * without a symbol; a string ends at its first NUL. length_is_static is its is_static.
	 */
	bool has_length, length_is_static;
	struct arch_arg length;
	uint16_t bytes_max; /* limit for a string or an aggregate in memory; the rest is cut off */
	/*
	 * If not 0, a number or string (at most bytes_max) that the pair's start event kept at this
	 * offset in its struct probe_begun, for expressions, not recorded. Else only is_string and
	 * bytes_max are set.
	 */
	uint16_t begun;
};

/* Returns the bytes of the value; 0 for a stack. */
static inline uint32_t arch_capture_size(const struct arch_capture *capture)
{
	uint32_t last = capture->step_count ? capture->steps[capture->step_count - 1].size
					    : capture->arg.size;

	if (capture->stack != ARCH_STACK_NOT)
		return 0;
	return capture->step_count && !last ? sizeof(uint64_t) : last; /* an address */
}

/* Is a capture recorded as bytes, rather than as a number? */
static inline bool arch_capture_has_bytes(const struct arch_capture *capture)
{
	uint32_t size = arch_capture_size(capture);

	if (capture->is_string || capture->begun)
		return capture->is_string;
	return capture->has_length || capture->is_comm ||
	       !(size == 1 || size == 2 || size == 4 || size == 8);
}

/* Returns the size of the capture's fixed part in a record. */
static inline uint32_t arch_capture_fixed(const struct arch_capture *capture)
{
	return arch_capture_has_bytes(capture) ? sizeof(uint32_t) : arch_capture_size(capture);
}

/* Members of a cell (struct probe_cell) that a hit changes beside the count. */
enum arch_gather_parts {
	ARCH_GATHER_SUM = 1,
	ARCH_GATHER_EXTREMES = 2,
	ARCH_GATHER_LAST = 4,
	ARCH_GATHER_BUCKETS = 8 /* changed instead of the count */
};

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
	/* If NULL, the value is the time since the pair's start event, or 0. */
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

/* A capture that a start event keeps for its end event (struct probe_begun). */
struct arch_kept {
	uint8_t capture;
	uint16_t offset;
	uint16_t bytes; /* greatest length of a string in bytes; 0 for a number, of 64 bits */
};
enum { ARCH_KEPT_MAX = 16, ARCH_SAME_MAX = 4 };

/* Pairs of start and end events. */
struct arch_flights {
	/* Table of struct probe_flight; 0 if the stub is in no pair. */
	uint64_t table;
	uint32_t entries; /* number of entries, a power of two */
	/* Start events in an entry, a power of two; more replace the oldest. */
	uint32_t depth;
	uint32_t pair;
	/* Start and end events with the same value or text form a pair. NULL: by thread. */
	const struct arch_expr *match;
	/*
	 * Bytes in an entry for a key that is a text, of the capture `string`; 0 for numbers.
	 * Longer or unreadable texts are lost.
	 */
	uint32_t text;
	uint8_t string;
	/*
	 * For a table that forked children use, too: a u32 in private memory with the process's
	 * number, zero in a child without one, and the shared u32 with the last number. Otherwise
	 * both are 0.
	 */
	uint64_t process, processes;
	/*
	 * Bytes that each start event keeps (struct probe_begun), a multiple of 8, or 0; `kept` are
	 * its captures. For spans, the start event's record is at offset `record`, and becomes a
	 * part of the end event's if the span takes min_ns.
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
	 * Pairs by thread only. `identities`: an entry has an identity for each start event.
	 * `compares` (not with `single`): an event's identity is a hash of the captures `same`. An
	 * end event ends the newest start event with its identity, and leaves newer ones open.
	 * Without `same`, or if one is unreadable, the identity is unknown, and equals any other.
	 */
	bool identities, compares;
	uint8_t same[ARCH_SAME_MAX], same_count;
	/*
	 * With `compares` and without `same`: the address of this operand, of kind MEMORY, is the
	 * identity. It is the frame's of a function, so a start event replaces an open one with its
	 * identity, which the program has left without an end event. Else of kind UNKNOWN.
	 */
	struct arch_arg frame;
	/*
	 * If start events are marks of frames (ARCH_ACTION_TAIL_*): the address of a u32, 0 at
	 * first, which is not 0 while the function has marks. Else 0.
	 */
	uint64_t marks;
	uint64_t min_ns;
	/* ns per tick, times 2^32, for spans and expressions on the duration. */
	uint64_t scale;
	/* At the end event: if 0, the pair leaves nothing. May be NULL. */
	const struct arch_expr *filter;
};

/* A RECORD: the rings, and what a hit does that finds no room. */
struct arch_record {
	uint64_t rings;	     /* ring of CPU 0 */
	uint8_t rings_shift; /* log2 of the distance between the rings of two CPUs */
	bool overwrite;	     /* the ring is a flight recorder: new records replace the oldest */
	uint32_t ring_bytes; /* size of a ring's data, a power of two */
	/*
	 * A hit without room waits up to wait_ticks of the record's clock, of wait_scale / 2^32 ns,
	 * at the struct probe_room `room`; 0: it is lost, as for spans and overwritten rings.
	 */
	uint64_t room, wait_ticks, wait_scale;
};

/* A GATE. */
struct arch_gate {
	uint64_t address; /* of a struct probe_gate */
	/* A u32, or 0. While it is not 0, only calls with ARCH_GATE_CALLER are held. */
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
	/*
	 * A function f may end with a jump to another one, g, whose `ret` then returns from f. A
	 * BEGIN with `marks` marks the frame at the jump. The others find that mark by the frame
	 * (arch_flights.frame), and do nothing without it:
	 *
	 *   TAIL_ENTRY   at the entry of g, notes the entry. If an entry is noted, the program has
	 *                left the marked frame, and calls g again: forgets its marks.
	 *   TAIL_JUMP    where g jumps to another such function: takes back the note
	 *   TAIL_RETURN  at a return of g, forgets the mark; the other actions follow. Without a
	 *                mark, nothing follows, and filter and sampling do not see the hit.
	 *
	 * TAIL_RETURN is the first action of its stub, the others are the only one.
	 */
	ARCH_ACTION_TAIL_ENTRY,
	ARCH_ACTION_TAIL_JUMP,
	ARCH_ACTION_TAIL_RETURN,
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
	uint64_t slots;	      /* slots of CPU 0; those of CPU c are at slots + (c << slots_shift) */
	uint32_t slot_offset; /* offset of the slot in a CPU's slots */
	/* the members of the action's kind; flights: of a BEGIN, GATHER or RECORD */
	struct arch_record record;
	struct arch_gather gather;
	struct arch_flights flights;
	struct arch_gate gate;
	struct arch_call call;
};
/* The actions of sessions, and a TAIL_RETURN. */
enum { ARCH_ACTIONS_MAX = 8, ARCH_STUB_ACTIONS = ARCH_ACTIONS_MAX + 1 };

/* ---- Stubs ----------------------------------------------------------------------------------- */

/* Whole pages that are always readable, and so not checked. */
enum { ARCH_SAFE_MAX = 4 };
struct arch_safe {
	struct arch_extent pages[ARCH_SAFE_MAX];
	size_t count;
	/*
	 * The main thread's stack, or size 0. If the site's stack pointer is in it, the stub reads
	 * from there up without a check.
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
	/* A u32, zero in a forked child whose records are marked; or 0. */
	uint64_t own;
	/*
	 * Switches, u32 that a controller changes at any time, or 0. A hit leaves nothing while *on
	 * is zero or *off is not.
	 */
	uint64_t on, off;
	/* A hit without room sets the u32 behind *on. While it is not 0, hits are lost. */
	bool on_until_full;
	/* CPUs with their own slots and rings; others share a set. */
	uint32_t cpus;
	uint32_t site;			     /* number of the site, for records */
	const struct arch_capture *captures; /* borrowed */
	uint8_t capture_count;
	/* Captures that are recorded, from the first on; others are for expressions. */
	uint8_t recorded;
	/* hits for which it yields 0 are ignored; may be NULL */
	const struct arch_expr *filter;
	/* take every Nth hit on each CPU, counted in the first action's slot; 0 or 1: all */
	uint32_t every;
	uint32_t rate;	     /* take at most this many hits in each rate_ticks; 0: all */
	uint64_t rate_ticks; /* a time, in ticks of the time stamp counter */
	/* a u64 of the session: number of the window << 32 | its hits */
	uint64_t rate_word;
	/* The target's pid in its own namespace; 0: ask the kernel. */
	uint32_t pid;
	struct arch_safe safe;
	uint32_t page_bytes; /* size of a page of memory, a power of two, at least 4096 */
	/* the arithmetic flags need not be kept: see overwrites_flags() */
	bool frees_flags;
	/* may ask the kernel for the time, without a counter */
	bool may_ask_time;
	bool may_ask_name; /* the stub may make a system call for the thread's name */
	/* May ask the kernel for the CPU's number, without another source. */
	bool may_ask_cpu;
	bool may_ask_stack; /* the stub may make a system call to learn which pages are in memory */
	/* May check pointers by system calls. Otherwise it does not follow pointers. */
	bool may_call_kernel;
	uint8_t action_count;
	struct arch_action actions[ARCH_STUB_ACTIONS];
};

enum { ARCH_STUB_ALIGN = 32, ARCH_STUB_MAX = 8192 };

/* A register for unwinding: its number on this ISA, and in DWARF. */
struct arch_unwind_register {
	int8_t reg;
	uint8_t dwarf;
};

struct arch_stub_code {
	size_t length;
	size_t next_jump; /* offset of the jump() to `next`, which may be redirected later */
	bool asks;	  /* the stub makes system calls, or would if may_call_kernel were set */
	bool asks_name;	  /* the stub asks the kernel for the thread's name */
	bool asks_cpu;	  /* the stub asks the kernel for the number of the CPU */
	/* Asks which pages are in memory, or would with may_ask_stack. */
	bool asks_stack;
};

/* Why a stub could not be generated. */
enum arch_stub_status {
	ARCH_STUB_OK,
	ARCH_STUB_NO_ROOM,	/* the buffer is too small */
	ARCH_STUB_OUT_OF_REACH, /* `next` is too far from `at` */
	ARCH_STUB_UNSUPPORTED	/* this ISA cannot do it */
};
