/* SPDX-License-Identifier: MIT */
/* What the stub of a site is to do. */
#ifndef ARCH_STUB_H
#define ARCH_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arg.h"
#include "arch/expr.h"

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
	bool is_norm;			/* the key is the string's normal form: arch/norm.h */
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
enum { ARCH_KEPT_MAX = 16, ARCH_SAME_MAX = 4 };

/* Pairs of begin and end. */
struct arch_flights {
	uint64_t table;	  /* of struct probe_flight; 0: the stub has no part in a pair */
	uint32_t entries; /* a power of two */
	uint32_t depth;	  /* begins in an entry, a power of two: more replace the oldest */
	uint32_t pair;
	/* An end belongs to the begin with the same value, or the same text; else to its thread's.
	 */
	const struct arch_expr *match;
	/*
	 * How many bytes an entry has for a key that is a text; 0: keys are numbers. `string` is
	 * the index of the text's capture. A hit is lost if its text is longer, or unreadable.
	 */
	uint32_t text;
	uint8_t string;
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
	/*
	 * By thread: the pair does not nest. A begin takes the place of one that is open, and an
	 * end without an open begin is ignored once the thread has begun anything.
	 *
	 * With `takes`, what is kept is not the begin's but that of the thread's latest hit of
	 * another probe, whose stub is a begin with `gives`: it keeps, and begins nothing. A thread
	 * without such a hit keeps arguments that could not be read. In the other probe's record,
	 * the begin writes its own site in place of the thread's id, which is that of the end.
	 */
	bool single, takes, gives;
	/*
	 * By thread: `identities` says that entries have room for an identity of each begin. With
	 * `compares`, which excludes `single`, each begin and end has one: a hash of these
	 * captures, which are numbers and strings. An end takes the newest begin with its identity,
	 * and leaves newer begins as they are. If there are no captures, or one of them cannot be
	 * read, the identity is not known, and counts as equal to any.
	 */
	bool identities, compares;
	uint8_t same[ARCH_SAME_MAX], same_count;
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
	/* A hit that finds no room sets the u32 behind *on; hits are lost while that is not zero.
	 */
	bool on_until_full;
	uint64_t slots; /* counters of CPU 0: CPU c's are at slots + (c << slots_shift) */
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
	bool may_ask_stack;   /* a system call may tell which pages are in memory */
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
	bool asks_stack;  /* it asks which pages are in memory, or would with may_ask_stack */
};

/* Why a stub could not be generated. */
enum arch_stub_status {
	ARCH_STUB_OK,
	ARCH_STUB_NO_ROOM,	/* the buffer is too small */
	ARCH_STUB_OUT_OF_REACH, /* `next` is too far from `at` */
	ARCH_STUB_UNSUPPORTED	/* this ISA cannot do it */
};

#endif
