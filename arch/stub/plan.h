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
 * Temporaries of a walk through stack frames: the last frame pointer, the page known to be
 * readable, the number of return addresses; then the return addresses.
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
	 * Where a register's value at the site is: offset from the stack pointer, or -1 if not
	 * saved.
	 */
	int saved[FRAME_REGISTERS];
	/* Registers that are saved behind the ones that every stub saves, in this order. */
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
};

enum { SEQUENCES_MAX = 8 };

/* Offsets in struct rseq (include/uapi/linux/rseq.h of Linux). */
enum { RSEQ_CPU_ID = 4, RSEQ_CS = 8 };

/*
 * The plan of a stub. Code that may fault or enter the kernel runs before a restartable sequence
 * starts; temporaries keep its results: the value of a checked scalar; for bytes, a pair of a
 * pointer and the word for the record (length and flag bits). The pairs come first, in the order of
 * the captures. Members named *_temp are numbers of temporaries.
 */
struct stub_plan {
	const struct arch_stub *stub;
	const struct stub_isa *isa;
	struct frame small; /* the stack frame while an early filter runs */
	struct frame frame; /* the stack frame after that */
	bool is_early;	    /* the filter runs with the small frame */
	bool keeps_flags;   /* the stub saves the arithmetic flags */
	uint32_t checked;   /* bit mask of the captures whose pointers are checked */
	bool records_mask;  /* the record contains the mask of captures that could be read */
	bool strings, stacks, names; /* captures contain strings, stacks, thread names */
	bool extents;		     /* captures contain bytes with a length argument */
	bool keeps_pages;	     /* a hit remembers pages that it found readable (captures.c) */
	bool asks_tagged; /* pages are also asked for with the pointer's tag (captures.c) */
	bool kernel_tid;  /* the kernel is asked for the thread's or the process's id */
	bool kernel_pid;
	bool kernel_cpu; /* the kernel is asked for the CPU's number, for expressions */
	int recorded_pairs;
	int temp[ARCH_ARGS_MAX];  /* by capture: its pair, or its value */
	int spill[ARCH_ARGS_MAX]; /* by capture: copy of a register, or return addresses */
	int tid_temp, pid_temp, cpu_temp, mask_temp;
	int pages_temp;	 /* the first of KEPT_PAGES, for pages that a hit found readable */
	int tag_of_temp; /* the pointer before its tag was removed, if asks_tagged */
	int expr_temp;	 /* the first one for operands that wait in an expression */
	int call_temp;	 /* the first one of the frame that a called function gets */
	int value_temp, time_temp; /* the gathered value; the time of the end event */
	int double_temp;	   /* FORM_VECTOR_TEMPS of FORM_ADD_DOUBLE, and the old sum */
	int process_temp;	   /* the number of the process, if processes share the flights */
	int match_temp; /* two, if keys are texts: the hash; the number of searches left */
	/*
	 * The entry of a start event that keeps data; in an end event's stub, 0 while none is held.
	 */
	int entry_temp;
	/*
	 * For start events that keep data: is this the second pass? the former time in the place.
	 */
	int pass_temp, last_temp;
	/* The hit's identity; in the stub of an end event, the place of its start event. */
	int same_temp, place_temp;
	/*
	 * For end events: the address of the start event's data; for spans, the time of the start
	 * event.
	 */
	int kept_temp, begin_temp;
	bool has_duration; /* something needs the duration of the pair, in nanoseconds */
	int duration_temp;
	int tag_temp;	/* the tag of the key */
	int tries_temp; /* how often an aborted sequence is retried */
	int wait_temp;	/* the first of WAIT_WORDS behind the saved registers, for waits */
	int key_temp[ARCH_KEYS_MAX]; /* by part of the key: the number, or the string's word */
	int norm_temp;		     /* the first of NORM_TEMPS, for making a normal form */
	/* By part of the key: the first one for the bytes of a normal form. */
	int text_temp[ARCH_KEYS_MAX];
	/* By recorded capture: the offset of its fixed part in a record. */
	int32_t record_at[ARCH_ARGS_MAX];
	int32_t record_mask_at;
	uint32_t record_align; /* a record is padded to a multiple of this many bytes */
	uint32_t fixed_bytes;  /* the bytes of a record before strings and aggregates */
	uint32_t max_bytes;

	/* Labels, most of them for one case of a hit. */
	int check, check_stack, measure, extent, hash, time; /* subroutines */
	int norm;	    /* the tables of normal forms, which are data */
	int out, small_out; /* the exits: with the whole frame, and with the small one */
	int slow, full;	    /* the thread has no rseq; the ring has no room */
	/* Write the record again after a wait; no room, for the first time, and once more. */
	int slow_again, wait_first, wait;
	/* Ends of a wait: the hit leaves nothing, has left a record, is lost. */
	int wait_over, wait_done, wait_lost;
	int lost, unmatched;	  /* count the hit as lost, as unmatched */
	int slow_sample, sampled; /* sampling without rseq; continue with a sampled hit */
	int slow_update;
	int gone; /* an end event whose start event was replaced by a newer one */
	/* a start event by thread without rseq; the start event is stored */
	int slow_flight, timed;
	int number, numbered;	 /* give the process a number; the process has a number */
	int entered, slow_leave; /* the call is counted; count the return without rseq */
	struct sequence sequences[SEQUENCES_MAX];
	int sequence_count;
};

/* ---- Planning (plan.c) ---------------------------------------------------------- */

/* Returns false if such a stub is impossible. */
bool plan_stub(struct stub_plan *plan, const struct arch_stub *stub, const struct stub_isa *isa);
/* Stores in `ret` which system calls the stub makes. */
void plan_answer(const struct stub_plan *plan, struct arch_stub_code *ret);
/*
 * Does the stub handle a start or end event of spans? Do start events keep data for their end
 * events?
 */
bool stub_has_spans(const struct arch_stub *stub);
bool stub_keeps_begins(const struct arch_stub *stub);

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
 * Begins a sequence; changes `scratch`. Registers and temporaries that are live here must also be
 * live at `aborted`.
 */
const struct sequence *form_sequence_begin(
	struct form *f, struct stub_plan *plan, int scratch, int aborted);
/* Called after the instruction that publishes. */
void form_sequence_end(
	struct form *f, const struct stub_plan *plan, const struct sequence *sequence);
/* Called after a jump out of a sequence. */
void form_sequence_leave(struct form *f, const struct stub_plan *plan);
/*
 * FORM_VALUE = `sets`, the address of CPU 0's set; a = cpu << shift, to be added for the current
 * CPU's set. Jumps to `slow` if the CPU has no set of its own, or the thread is not registered for
 * rseq (its CPU number is negative then).
 */
void form_cpu_set(struct form *f, const struct stub_plan *plan, int a, uint8_t shift, uint64_t sets,
	int slow);

/* ---- Doubles (expr.c) ---------------------------------------------------------- */

/* SCRATCH = an unsigned number that sorts like the double in RIGHT: cell_order_of(). */
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

/* Runs before the first page check of a hit. */
void form_checks_begin(struct form *f, const struct stub_plan *plan);
/*
 * Jumps to `no` unless the aligned word that contains address FROM is readable. May align FROM down
 * to that word; changes all registers except POINTER and NEXT. `frame` is FORM_FRAME, or
 * FORM_CALLER in a subroutine.
 */
void form_check(struct form *f, const struct stub_plan *plan, int frame, int no);
/*
 * Like form_check(), for a page above the stack pointer, which must also be in memory. `temp` is a
 * temporary for mincore(2).
 */
void form_check_stack(struct form *f, const struct stub_plan *plan, int temp, int no);
/* a = the start of the page of address a. */
void form_page_of(struct form *f, const struct stub_plan *plan, int a);

/* ---- Captures (captures.c) ----------------------------------------------------------- */

/* Stores a pair in temporaries: a pointer, and the word in VALUE. */
void form_store_pair(struct form *f, int temp, int pointer);
/*
 * Before a sequence: prepares capture `i`, unless the capture is a scalar that needs no check.
 * Changes all registers.
 */
void form_prepare_capture(struct form *f, const struct stub_plan *plan, int i);
/* VALUE = a prepared scalar capture, or the word of a capture of bytes; changes SCRATCH. */
void form_captured_word(struct form *f, const struct stub_plan *plan, int i);
/* Within the sequence: writes the fixed part of capture `i` into the record at RIGHT. */
void form_capture(struct form *f, const struct stub_plan *plan, int i);
/*
 * Copies SCRATCH bytes from FROM to POINTER; changes VALUE, NEXT and SPARE. Never reads past the
 * end: copies eight bytes at a time and then the last eight again, overlapping. Four to seven
 * bytes: copies the first four and the last four. Fewer: copies one by one.
 */
void form_copy(struct form *f);
/*
 * Within the sequence: copies the bytes of all recorded pairs to POINTER, which ends as the end of
 * the record.
 */
void form_copy_pairs(struct form *f, const struct stub_plan *plan);
/* Emits the subroutines that the functions above call. */
void form_capture_subroutines(struct form *f, const struct stub_plan *plan);
/*
 * Before a sequence: prepares captures of the stack (stack.c), after all checks whether the hit
 * leaves data. Changes all registers.
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
 * While a record is written: its start, and the place of the next bytes, at last the record's end.
 */
enum { FORM_RECORD = FORM_RIGHT, FORM_OUT = FORM_POINTER };

/*
 * Writes a record at RECORD, except its time and the parts of a span. OUT = its end, if its length
 * varies. Changes all registers except RECORD and SET.
 */
void form_record_body(struct form *f, const struct stub_plan *plan);
/*
 * The code of an action has two parts. The main part falls through to the exit. The slow part is
 * further down, and the main part jumps there.
 */
void form_record(struct form *f, struct stub_plan *plan);
void form_record_slow(struct form *f, struct stub_plan *plan);

/* ---- Waiting for room (record.c) -------------------------------------------------- */

/* Words behind the saved registers, from wait_temp on, in a stub whose hits wait for room. */
enum { WAIT_WORDS = 10 };

/* ---- Gates (gate.c) ---------------------------------------------------------------- */

/* Waits at the gate; this is the whole action of a gate's stub. */
void form_gate(struct form *f, const struct stub_plan *plan);
/*
 * futex(2) on the word at SET: VALUE = the result. Wait sleeps while the word is SCRATCH, up to the
 * time in two temporaries; wake wakes all. Both change FROM, RIGHT and SPARE_2, and SPARE or
 * SCRATCH.
 */
void form_futex_wait(struct form *f, int timespec);
void form_futex_wake(struct form *f);

/* ---- Pairs (flights.c) -------------------------------------------------------------- */

void form_begin(struct form *f, struct stub_plan *plan);
void form_flights_slow(struct form *f, const struct stub_plan *plan);
/*
 * An end event's stub holds its start event until the hit is done. hold_none: no start event is
 * held yet; release: gives it back, at the exit.
 */
void form_hold_none(struct form *f, const struct stub_plan *plan);
void form_release(struct form *f, const struct stub_plan *plan);
/* Stores the time since the start event; jumps to the exit if the pair does not pass. */
void form_end(struct form *f, struct stub_plan *plan);

/* ---- Gathering (stub.c) ---------------------------------------------------------- */

void form_gather(struct form *f, struct stub_plan *plan);
void form_gather_slow(struct form *f, const struct stub_plan *plan);

/* ---- Tables of keys (table.c) ------------------------------------------------------ */

/*
 * Before a sequence: stores the words of the key and its tag in temporaries. Jumps to plan->lost if
 * the key cannot be computed.
 */
void form_key(struct form *f, const struct stub_plan *plan);
/*
 * SET = the key's cell in the table at SET; creates its entry if missing. Without room, SET = the
 * probe's cell behind the entries. Changes all registers. `again` is where the sequence restarts
 * after an entry was created; negative if many threads share the table.
 */
void form_lookup(struct form *f, const struct stub_plan *plan, int again);
void form_hash_subroutine(struct form *f, const struct stub_plan *plan);
/*
 * VALUE = the hash of `seed` and of the text that a capture found; changes all registers except
 * SET.
 */
void form_hash_text(struct form *f, const struct stub_plan *plan, uint32_t seed, int capture);
/*
 * Jumps to `differ` unless the word and the text of a capture are stored at RIGHT + offset; keeps
 * RIGHT, SET, SPARE and SPARE_2.
 */
void form_compare_text(
	struct form *f, const struct stub_plan *plan, int capture, int32_t offset, int differ);
/* Stores the word and the text of a capture at RIGHT + offset; keeps only RIGHT and SET. */
void form_write_text(struct form *f, const struct stub_plan *plan, int capture, int32_t offset);
/*
 * Stores the identity of a start or end event (arch_flights.compares) in its temporary, 0 if the
 * identity is unknown. Changes all registers.
 */
void form_identity(struct form *f, const struct stub_plan *plan);

/* ---- Normal forms (table.c) ---------------------------------------------------------- */

/*
 * Before a sequence: makes the normal form of the string of key part `k`, and its word. Changes all
 * registers.
 */
void form_norm_key(struct form *f, const struct stub_plan *plan, int k);
/* Emits the tables for normal forms, as data behind the code. */
void form_norm_tables(struct form *f, const struct stub_plan *plan);
/* Does the key have a part that is a normal form? */
bool stub_has_norm(const struct arch_stub *stub);

#endif
