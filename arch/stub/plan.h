/* SPDX-License-Identifier: MIT */
/*
 * What a stub needs: its frame, its temporaries and its labels, for whatever instruction set.
 */
#ifndef ARCH_STUB_PLAN_H
#define ARCH_STUB_PLAN_H

#include "arch/arch.h"
#include "arch/stub/form.h"
#include "arch/stub/isa.h"

enum {
	FRAME_REGISTERS = 32,
	PAGE_BYTES = 4096, /* pages may be larger */
	VECTOR_BYTES = 16,
	KEPT_PAGES = 2,
	GATE_TEMPS = 2
};

/* For return addresses: the last frame pointer, the readable page, the count; then they come. */
enum { STACK_LAST, STACK_PAGE, STACK_COUNT, STACK_TEMPS };

/* While a normal form is made. */
enum { NORM_TEMPS = 3 };

/* One byte for each page of a copied stack except the first: the vector that mincore(2) fills. */
enum { RESIDENT_TEMPS = 3 };
_Static_assert(ARCH_STACK_MAX / PAGE_BYTES + 2 <= 8 * RESIDENT_TEMPS, "a byte for each page");

/*
 * The stack frame of a running stub: from the stack pointer on, temporaries of 8 bytes; then what
 * was saved.
 */
struct frame {
	/* of a register's value at the site: offset from the stack pointer, or -1 */
	int saved[FRAME_REGISTERS];
	int order[12]; /* the registers saved, after those that are always */
	int order_count;
	int temps;
	int size; /* the site's stack pointer is so much higher */
};

/* A restartable sequence, as labels. */
struct sequence {
	int retry, start, end, abort, descriptor;
	int aborted; /* where the hit continues after an abort, without a sequence */
	int scratch; /* a register that is free at `retry` */
};

enum { SEQUENCES_MAX = 8 };

/* Offsets in struct rseq (include/uapi/linux/rseq.h of Linux). */
enum { RSEQ_CPU_ID = 4, RSEQ_CS = 8 };

/*
 * What a stub does. Anything that may fault or enter the kernel happens before a sequence
 * starts; its results are kept in temporaries: the value of a checked scalar; for bytes, a pair
 * of their pointer and the word for the record (length and flag bits). The pairs come first, in
 * the order of the captures.
 */
struct stub_plan {
	const struct arch_stub *stub;
	const struct stub_isa *isa;
	struct frame small;	     /* while an early filter runs */
	struct frame frame;	     /* after that */
	bool is_early;		     /* the filter needs only the small frame */
	bool keeps_flags;	     /* the arithmetic ones */
	uint32_t checked;	     /* captures with a bit in the mask of readable ones */
	bool records_mask;	     /* and the record contains the mask */
	bool strings, stacks, names; /* there are captures of this kind */
	bool extents;		     /* or captures with a length */
	bool keeps_pages;	     /* that a hit has found readable (readable.c) */
	bool asks_tagged;	     /* for pages with the pointer's tag, too (readable.c) */
	bool kernel_tid;	     /* the thread's or the process's id comes from the kernel */
	bool kernel_pid;
	bool kernel_cpu; /* likewise the number of the CPU, for expressions */
	int recorded_pairs;
	int temp[ARCH_ARGS_MAX];  /* by capture */
	int spill[ARCH_ARGS_MAX]; /* copy of a register; return addresses */
	int tid_temp, pid_temp, cpu_temp, mask_temp;
	int pages_temp;		   /* the first of KEPT_PAGES */
	int tag_of_temp;	   /* the pointer that was untagged last, if that is asked with */
	int expr_temp;		   /* the first one for expressions */
	int call_temp;		   /* the first one of the called function's frame */
	int value_temp, time_temp; /* the gathered value, and when its pair ended */
	int double_temp;	   /* FORM_VECTOR_TEMPS, and one, of gather.c */
	int process_temp;	   /* the number of the process, if flights need one */
	int match_temp;		   /* two, where flights are found by text: its hash; a count */
	int entry_temp;		  /* where begins are kept: the entry; of an end, 0: none is held */
	int pass_temp, last_temp; /* of such a begin: once more? the time in its place before */
	int same_temp, place_temp; /* the identity; of an end that holds a begin: its place */
	int kept_temp, begin_temp; /* of an end: where its begin is kept; of a span: its time */
	bool has_duration;	   /* of a pair, in nanoseconds, if something asks for it: */
	int duration_temp;
	int tag_temp;		      /* of the key */
	int tries_temp;		      /* how often an aborted sequence is retried */
	int wait_temp;		      /* of a wait for room: WAIT_WORDS above the first register */
	int key_temp[ARCH_KEYS_MAX];  /* numbers, and strings' words */
	int norm_temp;		      /* the first of NORM_TEMPS */
	int text_temp[ARCH_KEYS_MAX]; /* of a normal form: the first one for its bytes */
	int32_t record_at[ARCH_ARGS_MAX]; /* by recorded capture: its fixed place in a record */
	int32_t record_mask_at;
	uint32_t record_align; /* records are padded to multiples of it */
	uint32_t fixed_bytes;  /* of a record, before strings and aggregates */
	uint32_t max_bytes;

	/* Labels. */
	int check, check_stack, measure, extent, hash, time; /* subroutines */
	int norm;					     /* the tables of normal forms */
	int out, small_out;				     /* the exits, from either frame */
	int slow, full;					     /* a thread without rseq; no room */
	int slow_again, wait_first, wait; /* after a wait; no room, if hits wait for it (wait.c) */
	int wait_over, wait_done, wait_lost; /* leave nothing; left a record; lost, after a wait */
	int lost, unmatched;		     /* count the hit as such */
	int slow_sample, sampled; /* without rseq, while sampling; continue with a sampled hit */
	int slow_update;
	int gone;		 /* an end whose begin was given up for a newer one */
	int slow_flight, timed;	 /* without rseq, for a begin by thread; it is noted */
	int number, numbered;	 /* take a number for the process; it has one */
	int entered, slow_leave; /* counted as called; without rseq, after the call */
	struct sequence sequences[SEQUENCES_MAX];
	int sequence_count;
};

/* ---- Planning (plan.c, plan_action.c) ------------------------------------------- */

/* False if there can be no such stub. */
bool plan_stub(struct stub_plan *plan, const struct arch_stub *stub, const struct stub_isa *isa);
/* Tells whoever wants the stub what it asks the kernel. */
void plan_answer(const struct stub_plan *plan, struct arch_stub_code *ret);
/* Whether it is a begin or an end of spans; and whether an end needs anything of its begin. */
bool stub_has_spans(const struct arch_stub *stub);
bool stub_keeps_begins(const struct arch_stub *stub);

/* ---- What can be captured (capturable.c) --------------------------------------------- */

bool operand_is_possible(const struct stub_isa *isa, const struct arch_arg *arg);
/* Whether the operand has only the lower half of the value. */
bool operand_is_half(const struct arch_arg *arg);
/* Whether it is read through a pointer that must be checked. */
bool operand_is_checked(const struct stub_isa *isa, const struct arch_arg *arg, bool is_static);
/* Whether it can be captured as requested. */
bool capture_is_possible(const struct stub_isa *isa, const struct arch_capture *capture);
/* Whether it has a bit in the mask of readable captures. */
bool capture_is_checked(const struct stub_isa *isa, const struct arch_capture *capture);
/* The largest number of bytes. */
uint32_t capture_bytes(const struct arch_capture *capture);

/* ---- Whole stubs (stub.c) -------------------------------------------------------------- */

void form_stub(struct form *f, struct stub_plan *plan);
/* Prepares all captures once more: those who shared what pointers lead to have gone on. */
void form_prepare_again(struct form *f, const struct stub_plan *plan);

/* ---- Sampling (sample.c) ---------------------------------------------------------------- */

/* ---- Restartable sequences (sequence.c) ------------------------------------ */

/* Begins a sequence; changes `scratch`. Whatever is live then must also be live at `aborted`. */
const struct sequence *form_sequence_begin(
	struct form *f, struct stub_plan *plan, int scratch, int aborted);
/* After the instruction that publishes. */
void form_sequence_end(
	struct form *f, const struct stub_plan *plan, const struct sequence *sequence);
/* After a jump out of a sequence. */
void form_sequence_leave(struct form *f, const struct stub_plan *plan);
/*
 * a = sets_of_cpu_0 + (cpu << shift), if the CPU has sets of its own; otherwise jumps to `slow` (an
 * unregistered thread has a negative number). Sets FORM_VALUE to sets_of_cpu_0, which a does not
 * include.
 */
void form_cpu_set(struct form *f, const struct stub_plan *plan, int a, uint8_t shift, uint64_t sets,
	int slow);

/* ---- Doubles (double.c) -------------------------------------------------------- */

/* SCRATCH = a number with the order of the double in RIGHT: cell_order_of(). */
void form_order_of_double(struct form *f);
/* What FORM_ADD_DOUBLE does, with instructions of whole numbers. */
void form_add_double_plainly(struct form *f, struct form_mem mem);

/* ---- Values of operands (values.c) ------------------------------------------- */

/* a = all of a register at the site. */
void form_original(struct form *f, int a, int reg);
/* a = the address of a memory operand; changes FORM_SCRATCH. */
void form_operand_address(struct form *f, int a, const struct arch_arg *arg);
/* FORM_VALUE = the time; changes FORM_SCRATCH. */
void form_now(struct form *f, const struct stub_plan *plan);
/* Stores it, at a multiple of 4; changes both. */
void form_store_now(struct form *f, const struct stub_plan *plan, struct form_mem mem);
/* a = a prepared scalar capture; changes FORM_SCRATCH. */
void form_captured(struct form *f, int a, const struct stub_plan *plan, int capture);

/* ---- Readable pages (readable.c) -------------------------------------------------- */

/* Before the first check of a hit. */
void form_checks_begin(struct form *f, const struct stub_plan *plan);
/*
 * Jumps to `no` unless the aligned word containing address FROM is readable. May align FROM down to
 * that; changes all registers but POINTER and NEXT. `frame`: FORM_FRAME, or FORM_CALLER in a
 * subroutine.
 */
void form_check(struct form *f, const struct stub_plan *plan, int frame, int no);
/*
 * The same, for a page above the stack pointer. The page must also be in memory. `temp` is a
 * temporary for mincore(2).
 */
void form_check_stack(struct form *f, const struct stub_plan *plan, int temp, int no);
/* a = where its page begins. */
void form_page_of(struct form *f, const struct stub_plan *plan, int a);

/* ---- Measuring (strings.c) ---------------------------------------------------------- */

/* ---- Captures ------------------------------------------------------------------------ */

/* Stores a pair: a pointer, and the word in VALUE. */
void form_store_pair(struct form *f, int temp, int pointer);
/* Before a sequence: prepares capture `i`, unless it is simply read later. Changes all registers.
 */
void form_prepare_capture(struct form *f, const struct stub_plan *plan, int i);
/* VALUE = a prepared scalar capture, or the word of its bytes; changes SCRATCH. */
void form_captured_word(struct form *f, const struct stub_plan *plan, int i);
/* Within the sequence: writes the fixed part of capture `i` into the record at RIGHT. */
void form_capture(struct form *f, const struct stub_plan *plan, int i);
/*
 * Copies SCRATCH bytes at FROM to POINTER; changes VALUE, NEXT and SPARE. Never reads past the end:
 * copies eight bytes at a time and then the last eight again, overlapping; of fewer than eight the
 * first and last four; of fewer than four one by one.
 */
void form_copy(struct form *f);
/* Within the sequence: copies the bytes of all recorded pairs to POINTER, the record's end then. */
void form_copy_pairs(struct form *f, const struct stub_plan *plan);
/* The subroutines that these call. */
void form_capture_subroutines(struct form *f, const struct stub_plan *plan);
/*
 * Before a sequence: prepares captures of the stack (stack.c), once it is known that the hit leaves
 * something. Changes all registers.
 */
void form_prepare_stacks(struct form *f, const struct stub_plan *plan);

/* ---- Expressions (expr_needs.c, expr.c) ------------------------------------------------------ */

/* One bit for each capture that an expression uses; NULL uses none. */
uint32_t expr_captures(const struct arch_expr *expr);
/* The number of temporaries it needs. */
int expr_temps(const struct arch_expr *expr);
/* Whether it can be evaluated. */
bool expr_is_possible(const struct arch_stub *stub, const struct arch_expr *expr);
/*
 * FORM_VALUE = the expression; changes FORM_RIGHT and FORM_SCRATCH. Jumps to `bad` if it cannot be
 * computed.
 */
void form_expr(struct form *f, const struct stub_plan *plan, const struct arch_expr *expr, int bad);
/* Jumps to `reject` unless it is true; changes the same registers. */
void form_filter(
	struct form *f, const struct stub_plan *plan, const struct arch_expr *expr, int reject);
/* ---- Records (record.c) --------------------------------------------------------- */

/* While a record is written: where it is; and where bytes go, which is its end then. */
enum { FORM_RECORD = FORM_RIGHT, FORM_OUT = FORM_POINTER };

/*
 * All of a record at RECORD, except its time and a span's; OUT = its end, if its length varies.
 * Changes all registers but RECORD and SET.
 */
void form_record_body(struct form *f, const struct stub_plan *plan);
/*
 * Each action has a main part, which falls through to the exit, and a slow part further down,
 * which the main part jumps to.
 */
void form_record(struct form *f, struct stub_plan *plan);
void form_record_slow(struct form *f, struct stub_plan *plan);

/* ---- Waiting for room (wait.c) ---------------------------------------------------- */

/* Behind the saved registers of a stub whose hits wait, from wait_temp on. */
enum { WAIT_WORDS = 10 };

/* ---- Calls of functions of the program (call.c) ------------------------------------- */

/* ---- Gates (gate.c) ---------------------------------------------------------------- */

/* Waits at the gate; this is the whole action. */
void form_gate(struct form *f, const struct stub_plan *plan);
/*
 * futex(2) of the word at SET: VALUE = the answer. Sleeps while it is what SCRATCH is, up to the
 * time in two temporaries; wakes all. Change FROM, RIGHT and SPARE_2, and SPARE or SCRATCH.
 */
void form_futex_wait(struct form *f, int timespec);
void form_futex_wake(struct form *f);

/* ---- Pairs (flights.c) -------------------------------------------------------------- */

void form_begin(struct form *f, struct stub_plan *plan);
void form_flights_slow(struct form *f, const struct stub_plan *plan);
/* An end holds the begin that it needs until the exit: no begin is held yet; and there. */
void form_hold_none(struct form *f, const struct stub_plan *plan);
void form_release(struct form *f, const struct stub_plan *plan);
/* Sets the value to the time since the begin, and jumps to the exit if the pair does not pass. */
void form_end(struct form *f, struct stub_plan *plan);

/* ---- Gathering (gather.c) -------------------------------------------------------- */

void form_gather(struct form *f, struct stub_plan *plan);
void form_gather_slow(struct form *f, const struct stub_plan *plan);

/* ---- Tables of keys (table.c) ------------------------------------------------------ */

/*
 * Before a sequence: puts the words of the key and its tag into temporaries. Invalid keys jump
 * to plan->lost.
 */
void form_key(struct form *f, const struct stub_plan *plan);
/*
 * SET = the cell of the key in the table at SET, created if missing; without room for it, the
 * probe's cell behind the entries. Changes all registers. `again` is where the sequence restarts
 * after creating an entry; negative: many threads share the table.
 */
void form_lookup(struct form *f, const struct stub_plan *plan, int again);
void form_hash_subroutine(struct form *f, const struct stub_plan *plan);
/* VALUE = the hash of the text that a capture has, and of `seed`; changes all others but SET. */
void form_hash_text(struct form *f, const struct stub_plan *plan, uint32_t seed, int capture);
/* Jumps to `differ` unless the word and the text of a capture are at RIGHT + offset; keeps RIGHT,
 * SET and the spare ones. */
void form_compare_text(
	struct form *f, const struct stub_plan *plan, int capture, int32_t offset, int differ);
/* Writes them there; changes all registers but RIGHT and SET. */
void form_write_text(struct form *f, const struct stub_plan *plan, int capture, int32_t offset);
/*
 * Puts the identity of a begin or an end (arch_flights.compares) into its temporary: 0 if it is not
 * known. Changes all registers.
 */
void form_identity(struct form *f, const struct stub_plan *plan);

/* ---- Normal forms (norm.c) ----------------------------------------------------------- */

/*
 * Before a sequence: makes the normal form of the string of key `k`, and its word. Changes all
 * registers.
 */
void form_norm_key(struct form *f, const struct stub_plan *plan, int k);
/* Emits the tables that normal forms are made by: data behind the code. */
void form_norm_tables(struct form *f, const struct stub_plan *plan);
/* Whether the stub has such a key. */
bool stub_has_norm(const struct arch_stub *stub);

#endif
