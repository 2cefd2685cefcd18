/* SPDX-License-Identifier: MIT */
/* The plan of a stub: stack frame, temporaries, labels; for any instruction set. */
#pragma once

#include "arch/arch.h"
#include "arch/stub/form.h"

enum {
	FRAME_REGISTERS = 32,
	PAGE_BYTES = 4096, /* the smallest page size */
	VECTOR_BYTES = 16,
	KEPT_PAGES = 2,
	GATE_TEMPS = 2
};

/*
 * The temporaries of a walk through stack frames: last frame pointer, last readable page, number of
 * addresses, then the addresses.
 */
enum { STACK_LAST, STACK_PAGE, STACK_COUNT, STACK_TEMPS };

/* for making a normal form */
enum { NORM_TEMPS = 3 };

/* For mincore(2): a byte for each page of a copied stack but the first. */
enum { RESIDENT_TEMPS = 3 };
_Static_assert(ARCH_STACK_MAX / PAGE_BYTES + 2 <= 8 * RESIDENT_TEMPS, "a byte for each page");

/*
 * A running stub's stack frame: 8-byte temporaries from the stack pointer up, then saved registers.
 */
struct frame {
	/* Where each register's value at the site is saved, from the stack pointer; -1: nowhere. */
	int saved[FRAME_REGISTERS];
	/* Registers saved after those of every stub, in order. */
	int order[12];
	int order_count;
	int temps;
	int size; /* bytes from the stack pointer of the stub to that of the site */
};

/* A restartable sequence's labels. */
struct sequence {
	int retry, start, end, abort, descriptor;
	int aborted; /* where the hit continues after an abort, outside the sequence */
	int scratch; /* a register that is free at `retry` */
	/*
	 * The temporary with the number of times that an abort still goes back to `retry`, if it
	 * may do so at all; else -1.
	 */
	int tries_temp;
};

/* One for sampling, and two for each action. */
enum { SEQUENCES_MAX = 1 + 2 * ARCH_ACTIONS_MAX };

/* In struct rseq (include/uapi/linux/rseq.h of Linux). */
enum { RSEQ_CPU_ID = 4, RSEQ_CS = 8 };

/* The plan of one action. Members named *_temp are numbers of temporaries. */
struct action_plan {
	const struct arch_action *action;
	int call_temp; /* the first temporary of the frame that a called function gets */
	int value_temp, time_temp; /* the gathered value; the time of the end event */
	/* the FORM_VECTOR_TEMPS of FORM_ADD_DOUBLE, then the old sum */
	int double_temp;
	int process_temp; /* the number of the process, if processes share the flights */
	/* If keys are texts: the key's hash, and the searches left. */
	int match_temp;
	/*
	 * The entry of a start event that keeps data. For an end event, 0 until the hit holds an
	 * entry.
	 */
	int entry_temp;
	/*
	 * For start events with data: pass_temp is 1 while the data is written a second time;
	 * last_temp is the time that the place had before.
	 */
	int pass_temp, last_temp;
	/*
	 * same_temp is the hit's identity. For an end event, place_temp is the place of the start
	 * event.
	 */
	int same_temp, place_temp;
	/* For end events: the start event's data, and for spans its time. */
	int kept_temp, begin_temp;
	bool has_duration; /* something needs the duration of the pair, in nanoseconds */
	int duration_temp;
	int tag_temp;	/* the tag of the key */
	int tries_temp; /* how many retries of aborted sequences are left */
	int norm_temp;	/* the first of NORM_TEMPS, for making a normal form */
	/* for each part of the key: the number, or the string's word */
	int key_temp[ARCH_KEYS_MAX];
	/* The first temporary of each key part's normal form. */
	int text_temp[ARCH_KEYS_MAX];

	/* Labels. Most begin the code for one case of a hit. */
	int done;	/* the end of the action */
	int slow, full; /* the hit's thread has no rseq; the ring has no room */
	/* slow_again writes again after a wait; wait_first and wait are for a ring without room. */
	int slow_again, wait_first, wait;
	/* Ends of a wait: the hit leaves nothing; it has left a record; it is lost. */
	int wait_over, wait_done, wait_lost;
	int lost, unmatched; /* count the hit as lost; as unmatched */
	int slow_update;
	int gone; /* the end event's start event was replaced by a newer one */
	/* code that stores a start event by thread without rseq; the code after that */
	int slow_flight, timed;
	int number, numbered;	 /* give the process a number; the process has a number */
	int entered, slow_leave; /* the call is counted; count the return without rseq */
};

/*
 * The plan of a stub. Code that may fault or enter the kernel runs before a restartable sequence
 * starts, and keeps its results in temporaries: for a checked scalar, its value; for bytes, a pair
 * of a pointer and the word for the record (length and flag bits). The pairs come first, in the
 * order of the captures.
 */
struct stub_plan {
	const struct arch_stub *stub;
	const struct stub_isa *isa;
	struct action_plan actions[ARCH_STUB_ACTIONS];
	/* The action that is planned or emitted now; the code before all actions uses the first. */
	struct action_plan *at;
	struct frame small; /* the stack frame until the whole frame is made */
	struct frame frame; /* the whole frame */
	bool is_early;	    /* the filter runs early, with the small frame */
	bool keeps_flags;   /* the stub saves the arithmetic flags */
	bool calls;	    /* the stub calls a function of the program */
	bool waits;	    /* hits wait for room in their rings */
	uint32_t checked;   /* bit mask of the captures whose pointers are checked */
	bool records;	    /* an action writes records */
	bool records_mask;  /* the record contains the mask of captures that could be read */
	bool strings, stacks, names; /* some captures are strings, stacks, thread names */
	bool extents;		     /* some captures are bytes whose length is an argument */
	bool keeps_pages;	     /* a hit remembers pages that it found readable (captures.c) */
	/* pages are asked for with the pointer's tag, too (captures.c) */
	bool asks_tagged;
	bool kernel_tid; /* the kernel is asked for the id of the thread or of the process */
	bool kernel_pid;
	bool kernel_cpu; /* the kernel is asked for the CPU's number, for expressions */
	int recorded_pairs;
	int temp[ARCH_ARGS_MAX]; /* for each capture: its pair, or its value */
	/* for each capture: a register's copy, or the return addresses */
	int spill[ARCH_ARGS_MAX];
	int tid_temp, pid_temp, cpu_temp, mask_temp;
	/* KEPT_PAGES temporaries for pages found readable */
	int pages_temp;
	int tag_of_temp; /* the pointer before its tag was removed, if asks_tagged */
	int expr_temp;	 /* the first temporary for operands that wait in an expression */
	int wait_temp;	 /* the first of WAIT_WORDS words, after the saved registers, for a wait */
	/* Offset of each recorded capture's fixed part in a record. */
	int32_t record_at[ARCH_ARGS_MAX];
	int32_t record_mask_at;
	uint32_t record_align; /* a record is padded to a multiple of this many bytes */
	uint32_t fixed_bytes;  /* the bytes of a record before strings and aggregates */
	uint32_t max_bytes;

	/* Labels. */
	int check, check_stack, measure, extent, hash, time; /* subroutines */
	int norm;		  /* the tables of normal forms, which are data */
	int out, small_out;	  /* the exits: with the whole frame, and with the small one */
	int slow_sample, sampled; /* sample without rseq; the hit is sampled, go on */
	int unanswered;		  /* the kernel cannot be asked, so all actions lose the hit */
	struct sequence sequences[SEQUENCES_MAX];
	int sequence_count;
};

/* ---- Instruction sets ------------------------------------------------------------------ */

/*
 * The .eh_frame section of stubs that call functions (call_unwind in arch/arch.h): a CIE for each
 * instruction set; the rest is the same for all.
 *
 * The stub is a signal frame (augmentation `S`) that interrupted the function at the site, so rules
 * for exactly that address apply.
 *
 * Sources: DWARF 5, 6.4 (call frame information); Linux Standard Base 5, 10.6.1 (.eh_frame).
 */
/* DW_CFA_* and DW_OP_* of <dwarf.h>. */
enum {
	/* ORed with the register; the operand is the distance below the CFA / 8 */
	UNWIND_OFFSET = 0x80,
	UNWIND_DEF_CFA_EXPRESSION = 0x0f,
	UNWIND_EXPRESSION = 0x10,
	UNWIND_OP_BREG = 0x70, /* the register's number is added */
	UNWIND_OP_DEREF = 0x06
};

/*
 * A CIE without its length: the return address is in column `ra`, code addresses are 8-byte
 * numbers, the data alignment is -8; then the rules. Its size with the length is a multiple of 8
 * bytes.
 */
#define UNWIND_CIE(ra, ...)                                                                        \
	{                                                                                          \
		0, 0, 0, 0, 1, 'z', 'R', 'S', 0, 1, 0x78, ra, 1, 0, __VA_ARGS__                    \
	}

/*
 * Facts about an instruction set, and the code that is not written in the form. Registers have the
 * numbers of probes' arguments (struct arch_arg).
 */
struct stub_isa {
	int8_t stack_pointer, frame_pointer, first_argument;
	/* Arguments may name general and vector registers with numbers below these. */
	uint8_t registers, vectors;
	/* bytes below the stack pointer where the program may have data */
	uint16_t red_zone;
	bool has_cpu_hint; /* FORM_CPU works without restartable sequences */

	/*
	 * Lays out both frames, after all temporaries are allocated. The stub uses VALUE and the
	 * first `registers` of RIGHT, SCRATCH, SET, FROM, POINTER, NEXT, SPARE, SPARE_2. The small
	 * frame saves at most two of them, and has no temporaries.
	 */
	void (*lay_out)(struct stub_plan *p, int registers);
	/*
	 * Enter a stub with the small frame; change to the whole frame; change back; leave for the
	 * next stub. FORM_ORIGINAL then reads the site's registers from the new frame; after
	 * leave(), from the whole one, for out-of-line code.
	 */
	void (*enter)(struct form *f, const struct stub_plan *p);
	void (*grow)(struct form *f, const struct stub_plan *p);
	void (*shrink)(struct form *f, const struct stub_plan *p);
	void (*leave)(struct form *f, const struct stub_plan *p);
	/* Emit the out-of-line code of the functions above; may be NULL. */
	void (*late)(struct form *f, const struct stub_plan *p);

	/*
	 * Emitted by the back end, not in the form. If one is NULL, stubs that need it are refused.
	 * call() calls a function of the program (arch_stub.call), which may change all registers.
	 * time_subroutine() is plan->time: FORM_VALUE = CLOCK_MONOTONIC in ns, 0 if a filter
	 * forbids the call; keeps other registers.
	 */
	void (*call)(struct form *f, const struct stub_plan *p);
	void (*time_subroutine)(struct form *f, const struct stub_plan *p);
	/* The CIE of stubs that call functions: UNWIND_CIE(). */
	const uint8_t *cie;
	uint32_t cie_bytes;
	/* Writes the stub by form_stub(); sets length and next_jump of *ret. */
	enum arch_stub_status (*write)(struct stub_plan *p, uint64_t at, uint8_t *out, size_t room,
		struct arch_stub_code *ret);
};

/* ---- Planning (plan.c) ---------------------------------------------------------- */

/* Returns false if the stub is impossible. */
bool plan_stub(struct stub_plan *plan, const struct arch_stub *stub, const struct stub_isa *isa);
/*
 * action_has_spans() returns true if the action handles a start or end event of spans.
 * action_keeps_begins() returns true if start events keep data for their end events.
 */
bool action_has_spans(const struct arch_action *action);
bool action_keeps_begins(const struct arch_action *action);
bool action_is_tail(const struct arch_action *action); /* one of ARCH_ACTION_TAIL_* */
/* Is the identity of an action's events the address of a function's frame? */
bool flights_by_frame(const struct arch_flights *flights);

/* ---- What can be captured (plan.c) --------------------------------------------------- */

bool operand_is_possible(const struct stub_isa *isa, const struct arch_arg *arg);
/* Does the operand hold only the lower half of the value? */
bool operand_is_half(const struct arch_arg *arg);
/* Is the operand read through a pointer that must be checked? */
bool operand_is_checked(const struct stub_isa *isa, const struct arch_arg *arg, bool is_static);
bool capture_is_possible(const struct stub_isa *isa, const struct arch_capture *capture);
/* Does the capture have a bit in the mask of readable captures? */
bool capture_is_checked(const struct stub_isa *isa, const struct arch_capture *capture);
uint32_t capture_bytes(const struct arch_capture *capture);

/* ---- Whole stubs (stub.c) -------------------------------------------------------------- */

void form_stub(struct form *f, struct stub_plan *plan);

/* ---- Restartable sequences (sequence.c) ---------------------------------------- */

/* Begins a sequence; changes `scratch`. It must not change registers that `aborted` needs. */
const struct sequence *form_sequence_begin(
	struct form *f, struct stub_plan *plan, int scratch, int aborted);
/* Ends a sequence, after the instruction that publishes the result. */
void form_sequence_end(
	struct form *f, const struct stub_plan *plan, const struct sequence *sequence);
/* Ends a sequence that was left by a jump; emitted at the jump's target. */
void form_sequence_leave(struct form *f, const struct stub_plan *plan);
/*
 * FORM_VALUE = `sets`, CPU 0's set; a = the offset of this CPU's set from it, cpu << shift. Jumps
 * to `slow` if the CPU has no set of its own, or if the thread has no rseq: then its CPU's number
 * is negative.
 */
void form_cpu_set(struct form *f, const struct stub_plan *plan, int a, uint8_t shift, uint64_t sets,
	int slow);
/* a = the byte at `offset` in the set of slots that threads without rseq share. */
void form_shared_set(struct form *f, const struct stub_plan *plan, int a, uint32_t offset);
/*
 * Add 1 to a field of the action's struct probe_slot: in the set that threads without rseq share,
 * or of this CPU. They change FORM_VALUE; form_cpu_inc() also FORM_RIGHT. Without rseq or a set for
 * the CPU, it jumps to `slow`, which must leave the sequence.
 */
void form_shared_inc(struct form *f, const struct stub_plan *plan, size_t field);
void form_cpu_inc(struct form *f, struct stub_plan *plan, size_t field, int slow);
/* The abort handlers, each behind its signature in four bytes, as the kernel requires. */
void form_sequence_aborts(struct form *f, const struct stub_plan *plan);
/* A struct rseq_cs for each sequence. */
void form_sequence_descriptors(struct form *f, const struct stub_plan *plan);

/* ---- Doubles (expr.c) ---------------------------------------------------------- */

/* SCRATCH = an unsigned number that sorts like the double in RIGHT: see cell_order_of(). */
void form_order_of_double(struct form *f);
/* FORM_ADD_DOUBLE with integer instructions only. */
void form_add_double_plainly(struct form *f, struct form_mem mem);

/* ---- Values of operands (captures.c) ----------------------------------------- */

/* a = a register's value at the site. */
void form_original(struct form *f, int a, int reg);
/* a = a memory operand's address; changes FORM_SCRATCH. */
void form_operand_address(struct form *f, int a, const struct arch_arg *arg);
/* FORM_VALUE = the time; changes FORM_SCRATCH. */
void form_now(struct form *f, const struct stub_plan *plan);
/* Stores the time at `mem`, a multiple of 4; changes FORM_VALUE and FORM_SCRATCH. */
void form_store_now(struct form *f, const struct stub_plan *plan, struct form_mem mem);
/* a = a prepared scalar; changes FORM_SCRATCH. */
void form_captured(struct form *f, int a, const struct stub_plan *plan, int capture);

/* ---- Readable pages (captures.c) -------------------------------------------------- */

/*
 * Jumps to `no` unless the aligned word with address FROM is readable; may align FROM. Keeps
 * POINTER and NEXT. `frame` is FORM_FRAME, or FORM_CALLER in a subroutine.
 */
void form_check(struct form *f, const struct stub_plan *plan, int frame, int no);
/*
 * Like form_check(), for words above the stack pointer's page; the word's page must be resident
 * (mincore(2)).
 */
void form_check_stack(struct form *f, const struct stub_plan *plan, int temp, int no);
/* a = the page of address a. */
void form_page_of(struct form *f, const struct stub_plan *plan, int a);

/* ---- Captures (captures.c) ----------------------------------------------------------- */

/* Stores a pair: a pointer, and the word in VALUE. */
void form_store_pair(struct form *f, int temp, int pointer);
/* No capture is unreadable yet (all bits of the mask are set), and no page known to be readable. */
void form_prepare_none(struct form *f, const struct stub_plan *plan);
/*
 * Called before a sequence. Prepares those captures, a bit for each, that need preparation. Changes
 * all registers.
 */
void form_prepare(struct form *f, const struct stub_plan *plan, uint32_t captures);
/* VALUE = a prepared scalar, or a capture's word; changes SCRATCH. */
void form_captured_word(struct form *f, const struct stub_plan *plan, int i);
/* In the sequence: writes capture `i`'s fixed part into the record at RIGHT. */
void form_capture(struct form *f, const struct stub_plan *plan, int i);
/*
 * Copies SCRATCH bytes from FROM to POINTER; changes VALUE, NEXT, SPARE. Never reads past the end:
 * from eight bytes on, by eights and the last eight again; four to seven, the first and last four;
 * fewer, one by one.
 */
void form_copy(struct form *f);
/* Emits the subroutines that the functions above call. */
void form_capture_subroutines(struct form *f, const struct stub_plan *plan);
/*
 * Called before a sequence, after all checks that may reject the hit. Prepares the captures of the
 * stack that the action uses (stack.c). Changes all registers.
 */
void form_prepare_stacks(struct form *f, const struct stub_plan *plan);

/* ---- Expressions (plan.c, expr.c) ------------------------------------------------------------ */

/* Returns a bit for each capture in an expression; 0 for NULL. */
uint32_t expr_captures(const struct arch_expr *expr);
int expr_temps(const struct arch_expr *expr);
bool expr_is_possible(const struct arch_stub *stub, const struct arch_expr *expr);
/* VALUE = the expression; changes RIGHT and SCRATCH. Jumps to `bad` if it has no value. */
void form_expr(struct form *f, const struct stub_plan *plan, const struct arch_expr *expr, int bad);
/*
 * Jumps to `reject` unless the expression is true; changes FORM_VALUE, FORM_RIGHT and FORM_SCRATCH.
 */
void form_filter(
	struct form *f, const struct stub_plan *plan, const struct arch_expr *expr, int reject);
/* ---- Records (record.c) --------------------------------------------------------- */

/*
 * While a record is written: RECORD is its start; OUT is where the next bytes go and, at last, the
 * record's end.
 */
enum { FORM_RECORD = FORM_RIGHT, FORM_OUT = FORM_POINTER };

/*
 * Writes a record at RECORD but its time and span parts. OUT = its end, if the length varies. Keeps
 * RECORD and SET.
 */
void form_record_body(struct form *f, const struct stub_plan *plan);
/*
 * The code of an action has two parts. The main part falls through to `done`, the end of the
 * action. The slow part is further down, and the main part jumps to it.
 */
void form_record(struct form *f, struct stub_plan *plan);
void form_record_slow(struct form *f, struct stub_plan *plan);

/* ---- Waiting for room (record.c) -------------------------------------------------- */

/* Words from wait_temp on, after the saved registers, for hits that wait for room. */
enum { WAIT_WORDS = 10 };

/* ---- Gates (gate.c) ---------------------------------------------------------------- */

/* Waits at the gate. */
void form_gate(struct form *f, const struct stub_plan *plan);
/*
 * futex(2) on the word at SET: VALUE = the result. form_futex_wait() sleeps while the word equals
 * SCRATCH, at most for the timespec; changes FROM, RIGHT, SPARE(_2). form_futex_wake() wakes all;
 * changes FROM, RIGHT, SPARE_2, SCRATCH.
 */
void form_futex_wait(struct form *f, int timespec);
void form_futex_wake(struct form *f);

/* ---- Pairs (flights.c) -------------------------------------------------------------- */

void form_begin(struct form *f, struct stub_plan *plan);
void form_flights_slow(struct form *f, const struct stub_plan *plan);
/*
 * An end event holds its start event until the hit is done. form_hold_none(): it holds none yet.
 * form_release(), at the exit, gives it back.
 */
void form_hold_none(struct form *f, const struct stub_plan *plan);
void form_release(struct form *f, const struct stub_plan *plan);
/*
 * Stores the time since the start event. Jumps to the exit if this time is too short, or the hit is
 * filtered out.
 */
void form_end(struct form *f, struct stub_plan *plan);

/* ---- Gathering (stub.c) ---------------------------------------------------------- */

void form_gather(struct form *f, struct stub_plan *plan);
void form_gather_slow(struct form *f, const struct stub_plan *plan);

/* ---- Tables of keys (table.c) ------------------------------------------------------ */

/*
 * Called before a sequence. Stores the words of the key and its tag in temporaries. Jumps to
 * the action's `lost` if the key cannot be computed.
 */
void form_key(struct form *f, const struct stub_plan *plan);
/*
 * SET = the key's cell in the table at SET, maybe in a new entry; in a full table, the probe's
 * cell. Changes all registers. `again` restarts the sequence after a new entry; negative if threads
 * share the table.
 */
void form_lookup(struct form *f, const struct stub_plan *plan, int again);
void form_hash_subroutine(struct form *f, const struct stub_plan *plan);
/* VALUE = the hash of `seed` and a prepared capture's text; keeps SET. */
void form_hash_text(struct form *f, const struct stub_plan *plan, uint32_t seed, int capture);
/*
 * Jumps to `differ` unless a capture's word and text equal those at RIGHT + offset; keeps RIGHT,
 * SET, SPARE, SPARE_2.
 */
void form_compare_text(
	struct form *f, const struct stub_plan *plan, int capture, int32_t offset, int differ);
/* Stores a capture's word and text at RIGHT + offset; keeps RIGHT and SET. */
void form_write_text(struct form *f, const struct stub_plan *plan, int capture, int32_t offset);
/*
 * Stores the event's identity (arch_flights.compares), or 0, in same_temp. Changes all registers.
 */
void form_identity(struct form *f, const struct stub_plan *plan);
/* Finds the mark of the hit's frame, and changes it (ARCH_ACTION_TAIL_*); jumps out without it. */
void form_tail(struct form *f, const struct stub_plan *plan);

/* ---- Normal forms (table.c) ---------------------------------------------------------- */

/* Before a sequence: makes key part `k`'s normal form and its word. Changes all registers. */
void form_norm_key(struct form *f, const struct stub_plan *plan, int k);
/* Tables for normal forms: data behind the code. */
void form_norm_tables(struct form *f, const struct stub_plan *plan);
/* Returns true if a part of the key is a normal form. */
bool action_has_norm(const struct arch_action *action);
