/* SPDX-License-Identifier: MIT */
/* The plan of a stub: its stack frame, temporaries and labels, for any instruction set. */
#ifndef ARCH_STUB_PLAN_H
#define ARCH_STUB_PLAN_H

#include "arch/arch.h"
#include "arch/stub/form.h"
#include "arch/stub/isa.h"

enum {
	FRAME_REGISTERS = 32,
	PAGE_BYTES = 4096, /* the smallest page size */
	VECTOR_BYTES = 16,
	KEPT_PAGES = 2,
	GATE_TEMPS = 2
};

/*
 * Temporaries of a walk through stack frames. After the last frame pointer, the page known to be
 * readable and the number of return addresses come the return addresses.
 */
enum { STACK_LAST, STACK_PAGE, STACK_COUNT, STACK_TEMPS };

/* temporaries for making a normal form */
enum { NORM_TEMPS = 3 };

/*
 * Temporaries for the vector that mincore(2) fills: one byte for each page of a copied stack except
 * the first.
 */
enum { RESIDENT_TEMPS = 3 };
_Static_assert(ARCH_STACK_MAX / PAGE_BYTES + 2 <= 8 * RESIDENT_TEMPS, "a byte for each page");

/*
 * The stack frame of a running stub: 8-byte temporaries, from the stack pointer upwards, then the
 * saved registers.
 */
struct frame {
	/*
	 * For each register: the offset from the stack pointer at which the register's value at the
	 * site is saved, or -1 if the register is not saved.
	 */
	int saved[FRAME_REGISTERS];
	/*
	 * The registers that are saved after those that every stub saves, in the order of saving.
	 */
	int order[12];
	int order_count;
	int temps;
	int size; /* bytes from the stub's stack pointer to the site's */
};

/* The labels of a restartable sequence. */
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

/* Offsets in struct rseq (include/uapi/linux/rseq.h of Linux). */
enum { RSEQ_CPU_ID = 4, RSEQ_CS = 8 };

/* The plan of one action. Members named *_temp are numbers of temporaries. */
struct action_plan {
	const struct arch_action *action;
	int call_temp; /* the first temporary of the frame that a called function gets */
	int value_temp, time_temp; /* the gathered value; the time of the end event */
	/* the FORM_VECTOR_TEMPS temporaries of FORM_ADD_DOUBLE, then the old sum */
	int double_temp;
	int process_temp; /* the number of the process, if processes share the flights */
	/*
	 * Two temporaries, if keys are texts: the hash of the key, and the number of searches left.
	 */
	int match_temp;
	/*
	 * The entry of a start event that keeps data. For an end event, 0 until the hit holds an
	 * entry.
	 */
	int entry_temp;
	/*
	 * For start events that keep data: pass_temp is 1 while the data is written for the second
	 * time, last_temp is the time that was in the place before.
	 */
	int pass_temp, last_temp;
	/*
	 * same_temp is the hit's identity. For an end event, place_temp is the place of the start
	 * event.
	 */
	int same_temp, place_temp;
	/*
	 * For end events: kept_temp is the address of the start event's data; for spans, begin_temp
	 * is the time of the start event.
	 */
	int kept_temp, begin_temp;
	bool has_duration; /* something needs the duration of the pair, in nanoseconds */
	int duration_temp;
	int tag_temp;	/* the tag of the key */
	int tries_temp; /* how many retries of aborted sequences are left */
	int norm_temp;	/* the first of NORM_TEMPS, for making a normal form */
	/* for each part of the key: the number, or the string's word */
	int key_temp[ARCH_KEYS_MAX];
	/* For each part of the key: the first temporary with the bytes of its normal form. */
	int text_temp[ARCH_KEYS_MAX];

	/* Labels. Most of them begin the code for one case of a hit. */
	int done;	/* the end of the action */
	int slow, full; /* the hit's thread has no rseq; the ring has no room */
	/*
	 * slow_again writes the record again after a wait. wait_first and wait are for a ring
	 * without room, the first time and every later time.
	 */
	int slow_again, wait_first, wait;
	/*
	 * The ends of a wait: the hit leaves nothing; the hit has left a record; the hit is lost.
	 */
	int wait_over, wait_done, wait_lost;
	int lost, unmatched; /* count the hit as lost; as unmatched */
	int slow_update;
	int gone; /* the end event's start event was replaced by a newer one */
	/* store a start event by thread without rseq; the start event is stored */
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
	struct action_plan actions[ARCH_ACTIONS_MAX];
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
	/* the kernel is asked about pages with the pointer's tag, too (captures.c) */
	bool asks_tagged;
	bool kernel_tid; /* the kernel is asked for the thread's or the process's id */
	bool kernel_pid;
	bool kernel_cpu; /* the kernel is asked for the CPU's number, for expressions */
	int recorded_pairs;
	int temp[ARCH_ARGS_MAX]; /* for each capture: its pair, or its value */
	/* for each capture: the copy of a register, or the return addresses */
	int spill[ARCH_ARGS_MAX];
	int tid_temp, pid_temp, cpu_temp, mask_temp;
	/* the first of KEPT_PAGES temporaries for pages that a hit found readable */
	int pages_temp;
	int tag_of_temp; /* the pointer before its tag was removed, if asks_tagged */
	int expr_temp;	 /* the first temporary for operands that wait in an expression */
	int wait_temp;	 /* the first of WAIT_WORDS words, after the saved registers, for a wait */
	/* For each recorded capture: the offset of its fixed part in a record. */
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

/* ---- Planning (plan.c) ---------------------------------------------------------- */

/* Returns false if the stub is impossible. */
bool plan_stub(struct stub_plan *plan, const struct arch_stub *stub, const struct stub_isa *isa);
/* Stores in `ret` which system calls the stub makes. */
void plan_answer(const struct stub_plan *plan, struct arch_stub_code *ret);
/*
 * action_has_spans() returns true if the action handles a start or end event of spans.
 * action_keeps_begins() returns true if start events keep data for their end events.
 */
bool action_has_spans(const struct arch_action *action);
bool action_keeps_begins(const struct arch_action *action);
/* Returns one bit for each capture of the stack that the action uses. */
uint32_t action_stacks(const struct arch_stub *stub, const struct arch_action *action);

/* ---- What can be captured (plan.c) --------------------------------------------------- */

bool operand_is_possible(const struct stub_isa *isa, const struct arch_arg *arg);
/* Does the operand hold only the lower half of the value? */
bool operand_is_half(const struct arch_arg *arg);
/* Is the operand read through a pointer that must be checked? */
bool operand_is_checked(const struct stub_isa *isa, const struct arch_arg *arg, bool is_static);
/* Can the capture be made as requested? */
bool capture_is_possible(const struct stub_isa *isa, const struct arch_capture *capture);
/* Does the capture have a bit in the mask of readable captures? */
bool capture_is_checked(const struct stub_isa *isa, const struct arch_capture *capture);
/* The largest number of bytes in a capture. */
uint32_t capture_bytes(const struct arch_capture *capture);

/* ---- Whole stubs (stub.c) -------------------------------------------------------------- */

void form_stub(struct form *f, struct stub_plan *plan);
/*
 * Prepares all captures once more, after a wait in which memory behind pointers may have changed.
 */
void form_prepare_again(struct form *f, const struct stub_plan *plan);

/* ---- Restartable sequences (stub.c) ---------------------------------------- */

/*
 * Begins a sequence; changes `scratch`. Values that the code at `aborted` needs must be in
 * registers or temporaries before the sequence, and the sequence must not change them.
 */
const struct sequence *form_sequence_begin(
	struct form *f, struct stub_plan *plan, int scratch, int aborted);
/* Ends a sequence. Called after the instruction that publishes the result. */
void form_sequence_end(
	struct form *f, const struct stub_plan *plan, const struct sequence *sequence);
/* Ends a sequence that was left by a jump. Called at the jump's target. */
void form_sequence_leave(struct form *f, const struct stub_plan *plan);
/*
 * FORM_VALUE = `sets`, the address of CPU 0's set; a = the offset of the current CPU's set from
 * there, cpu << shift. Jumps to `slow` if the CPU has no set of its own, or if the thread is not
 * registered for rseq: then its CPU number is negative.
 */
void form_cpu_set(struct form *f, const struct stub_plan *plan, int a, uint8_t shift, uint64_t sets,
	int slow);

/* ---- Doubles (expr.c) ---------------------------------------------------------- */

/*
 * SCRATCH = an unsigned number that sorts like the double in RIGHT, as cell_order_of() computes it.
 */
void form_order_of_double(struct form *f);
/* Does what FORM_ADD_DOUBLE does, with integer instructions only. */
void form_add_double_plainly(struct form *f, struct form_mem mem);

/* ---- Values of operands (captures.c) ----------------------------------------- */

/* a = all 8 bytes of a register's value at the site. */
void form_original(struct form *f, int a, int reg);
/* a = the address of a memory operand; changes FORM_SCRATCH. */
void form_operand_address(struct form *f, int a, const struct arch_arg *arg);
/* FORM_VALUE = the current time; changes FORM_SCRATCH. */
void form_now(struct form *f, const struct stub_plan *plan);
/* Stores the time at `mem`, a multiple of 4; changes FORM_VALUE and FORM_SCRATCH. */
void form_store_now(struct form *f, const struct stub_plan *plan, struct form_mem mem);
/* a = the value of a prepared scalar capture; changes FORM_SCRATCH. */
void form_captured(struct form *f, int a, const struct stub_plan *plan, int capture);

/* ---- Readable pages (captures.c) -------------------------------------------------- */

/* Called before the first page check of a hit. */
void form_checks_begin(struct form *f, const struct stub_plan *plan);
/*
 * Jumps to `no` unless the aligned word that contains address FROM is readable. May align FROM down
 * to that word; changes all registers except POINTER and NEXT. `frame` is FORM_FRAME, or
 * FORM_CALLER in a subroutine.
 */
void form_check(struct form *f, const struct stub_plan *plan, int frame, int no);
/*
 * Like form_check(), for an address above the page of the stack pointer. Its page must also be in
 * memory. `temp` is a temporary for mincore(2).
 */
void form_check_stack(struct form *f, const struct stub_plan *plan, int temp, int no);
/* a = the start of the page of address a. */
void form_page_of(struct form *f, const struct stub_plan *plan, int a);

/* ---- Captures (captures.c) ----------------------------------------------------------- */

/* Stores a pair in two temporaries: a pointer, and the word in VALUE. */
void form_store_pair(struct form *f, int temp, int pointer);
/*
 * Called before a sequence. Prepares capture `i`, unless the capture is a scalar that needs no
 * check. Changes all registers.
 */
void form_prepare_capture(struct form *f, const struct stub_plan *plan, int i);
/*
 * VALUE = the value of a prepared scalar capture, or the word of a capture of bytes; changes
 * SCRATCH.
 */
void form_captured_word(struct form *f, const struct stub_plan *plan, int i);
/* Called within the sequence. Writes the fixed part of capture `i` into the record at RIGHT. */
void form_capture(struct form *f, const struct stub_plan *plan, int i);
/*
 * Copies SCRATCH bytes from FROM to POINTER; changes VALUE, NEXT and SPARE. Never reads past the
 * end: eight or more bytes are copied eight at a time, and then the last eight once more,
 * overlapping. Of four to seven bytes, the first four and the last four are copied. Fewer bytes are
 * copied one by one.
 */
void form_copy(struct form *f);
/*
 * Called within the sequence. Copies the bytes of all recorded pairs to POINTER. Afterwards POINTER
 * is the end of the record.
 */
void form_copy_pairs(struct form *f, const struct stub_plan *plan);
/* Emits the subroutines that the functions above call. */
void form_capture_subroutines(struct form *f, const struct stub_plan *plan);
/*
 * Called before a sequence, after all checks that may reject the hit. Prepares the captures of the
 * stack that the action uses (stack.c). Changes all registers.
 */
void form_prepare_stacks(struct form *f, const struct stub_plan *plan);

/* ---- Expressions (plan.c, expr.c) ------------------------------------------------------------ */

/* Returns one bit for each capture that an expression uses; 0 if `expr` is NULL. */
uint32_t expr_captures(const struct arch_expr *expr);
/* The number of temporaries that the expression needs. */
int expr_temps(const struct arch_expr *expr);
/* Can the stub evaluate the expression? */
bool expr_is_possible(const struct arch_stub *stub, const struct arch_expr *expr);
/*
 * FORM_VALUE = the value of the expression; changes FORM_RIGHT and FORM_SCRATCH. Jumps to `bad` if
 * the expression cannot be computed.
 */
void form_expr(struct form *f, const struct stub_plan *plan, const struct arch_expr *expr, int bad);
/* Jumps to `reject` unless the expression is true; changes the same registers as form_expr(). */
void form_filter(
	struct form *f, const struct stub_plan *plan, const struct arch_expr *expr, int reject);
/* ---- Records (record.c) --------------------------------------------------------- */

/*
 * Registers while a record is written: the record's start; the place of the next bytes, which at
 * last is the record's end.
 */
enum { FORM_RECORD = FORM_RIGHT, FORM_OUT = FORM_POINTER };

/*
 * Writes a record at RECORD, except its time and the parts of a span. OUT = the record's end, if
 * its length varies. Changes all registers except RECORD and SET.
 */
void form_record_body(struct form *f, const struct stub_plan *plan);
/*
 * The code of an action has two parts. The main part falls through to `done`, the end of the
 * action. The slow part is further down, and the main part jumps to it.
 */
void form_record(struct form *f, struct stub_plan *plan);
void form_record_slow(struct form *f, struct stub_plan *plan);

/* ---- Waiting for room (record.c) -------------------------------------------------- */

/*
 * The number of words from wait_temp on, after the saved registers, in a stub whose hits wait for
 * room.
 */
enum { WAIT_WORDS = 10 };

/* ---- Gates (gate.c) ---------------------------------------------------------------- */

/* Waits at the gate. */
void form_gate(struct form *f, const struct stub_plan *plan);
/*
 * futex(2) on the word at SET: VALUE = the result. form_futex_wait() sleeps while the word equals
 * SCRATCH, at most for the time in the two temporaries from `timespec` on; it changes FROM, RIGHT,
 * SPARE and SPARE_2. form_futex_wake() wakes all threads that sleep on the word; it changes FROM,
 * RIGHT, SPARE_2 and SCRATCH.
 */
void form_futex_wait(struct form *f, int timespec);
void form_futex_wake(struct form *f);

/* ---- Pairs (flights.c) -------------------------------------------------------------- */

void form_begin(struct form *f, struct stub_plan *plan);
void form_flights_slow(struct form *f, const struct stub_plan *plan);
/*
 * The stub of an end event holds the start event until the hit is done. form_hold_none() notes that
 * the hit holds no start event yet. form_release(), at the exit, gives back the start event that
 * the hit holds, if any.
 */
void form_hold_none(struct form *f, const struct stub_plan *plan);
void form_release(struct form *f, const struct stub_plan *plan);
/*
 * Stores the time since the start event. Jumps to the exit if the pair is too short or fails the
 * filter.
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
 * SET = the key's cell in the table at SET. Creates an entry if the key has none; if the table is
 * full, SET = the probe's cell after the entries. Changes all registers. `again` is where the
 * sequence restarts after an entry was created; negative if many threads share the table.
 */
void form_lookup(struct form *f, const struct stub_plan *plan, int again);
void form_hash_subroutine(struct form *f, const struct stub_plan *plan);
/*
 * VALUE = the hash of `seed` and of the text of a prepared capture; changes all registers except
 * SET.
 */
void form_hash_text(struct form *f, const struct stub_plan *plan, uint32_t seed, int capture);
/*
 * Jumps to `differ` unless the word and the text of a capture equal those stored at RIGHT + offset;
 * keeps RIGHT, SET, SPARE and SPARE_2.
 */
void form_compare_text(
	struct form *f, const struct stub_plan *plan, int capture, int32_t offset, int differ);
/* Stores the word and the text of a capture at RIGHT + offset; keeps only RIGHT and SET. */
void form_write_text(struct form *f, const struct stub_plan *plan, int capture, int32_t offset);
/*
 * Stores the identity of a start or end event (arch_flights.compares) in temporary same_temp, or 0
 * if the identity is unknown. Changes all registers.
 */
void form_identity(struct form *f, const struct stub_plan *plan);

/* ---- Normal forms (table.c) ---------------------------------------------------------- */

/*
 * Called before a sequence. Makes the normal form of the string of key part `k`, and the word of
 * the normal form. Changes all registers.
 */
void form_norm_key(struct form *f, const struct stub_plan *plan, int k);
/* Emits the tables for normal forms, as data after the code. */
void form_norm_tables(struct form *f, const struct stub_plan *plan);
/* Does the key have a part that is a normal form? */
bool action_has_norm(const struct arch_action *action);

#endif
