/* SPDX-License-Identifier: MIT */
/*
 * What a stub needs: its frame, its temporaries and its labels, for whatever instruction set.
 */
#ifndef ARCH_STUB_PLAN_H
#define ARCH_STUB_PLAN_H

#include "arch/arch.h"
#include "arch/stub/form.h"
#include "arch/stub/isa.h"

enum { FRAME_REGISTERS = 32 };

/*
 * The stack frame of a running stub: from the stack pointer on, temporaries of 8 bytes; then what
 * was saved.
 */
struct frame {
	/* of a register's value at the site: offset from the stack pointer, or -1 */
	int saved[FRAME_REGISTERS];
	int order[8]; /* the registers pushed after the flags */
	int order_count;
	int temps;
	int size; /* the site's stack pointer is so much higher */
};

/* A restartable sequence, as labels. */
struct sequence {
	int retry, start, end, abort, descriptor;
	int aborted; /* where the hit continues after an abort, without a sequence */
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
	bool is_aligned;	     /* the alignment check may stay on (alignment.c) */
	bool keeps_flags;	     /* the arithmetic ones */
	uint32_t checked;	     /* captures with a bit in the mask of readable ones */
	bool records_mask;	     /* and the record contains the mask */
	bool strings, stacks, names; /* there are captures of this kind */
	bool extents;		     /* or captures with a length */
	bool keeps_pages;	     /* that a hit has found readable (readable.c) */
	bool kernel_tid;	     /* the thread's or the process's id comes from the kernel */
	bool kernel_pid;
	int pairs, recorded_pairs;
	int temp[ARCH_ARGS_MAX];  /* by capture */
	int spill[ARCH_ARGS_MAX]; /* copy of a register; return addresses */
	int tid_temp, pid_temp, mask_temp;
	int pages_temp;		   /* the first of KEPT_PAGES */
	int expr_temp;		   /* the first one for expressions */
	int call_temp;		   /* the first one of the called function's frame */
	int value_temp, time_temp; /* the gathered value, and when its pair ended */
	int double_temp;	   /* five, of gather.c */
	int process_temp;	   /* the number of the process, if flights need one */
	int entry_temp;		  /* where begins are kept: the entry; of an end, 0: none is held */
	int pass_temp, last_temp; /* of such a begin: once more? the time in its place before */
	int kept_temp, begin_temp; /* of an end: where its begin is kept; of a span: its time */
	bool has_duration;	   /* of a pair, in nanoseconds, if something asks for it: */
	int duration_temp;
	int tag_temp;			  /* of the key */
	int tries_temp;			  /* how often an aborted sequence is retried */
	int wait_temp;			  /* when a wait for room began; above the first register */
	int key_temp[ARCH_KEYS_MAX];	  /* numbers, and strings' words */
	int32_t record_at[ARCH_ARGS_MAX]; /* by recorded capture: its fixed place in a record */
	int32_t record_mask_at;
	uint32_t record_align; /* records are padded to multiples of it */
	uint32_t fixed_bytes;  /* of a record, before strings and aggregates */
	uint32_t max_bytes;

	/* Labels. */
	int check, measure, extent, hash, time; /* subroutines */
	int out, small_out;			/* the exits, from either frame */
	int slow, full;				/* a thread without rseq; no room */
	int slow_again, wait_first, wait; /* after a wait; no room, if hits wait for it (wait.c) */
	int wait_over, wait_done, wait_lost; /* leave nothing; left a record; lost, after a wait */
	int lost, unmatched;		     /* count the hit as such */
	int slow_sample, sampled; /* without rseq, while sampling; continue with a sampled hit */
	int slow_update;
	int gone;		 /* an end whose begin was given up for a newer one */
	int slow_flight, timed;	 /* without rseq, for a begin by thread; it is noted */
	int number, numbered;	 /* take a number for the process; it has one */
	int entered, slow_leave; /* counted as called; without rseq, after the call */
	int clear_check, check_cleared, restore_check, check_restored; /* alignment.c */
	struct sequence sequences[SEQUENCES_MAX];
	int sequence_count;
};

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
/* a = the address of a byte of the set that all CPUs share. */
void form_shared_set(struct form *f, const struct stub_plan *plan, int a, uint32_t offset);
/* Counts in a field of struct probe_slot there; changes FORM_VALUE. */
void form_shared_inc(struct form *f, const struct stub_plan *plan, size_t field);
/*
 * Counts in a field of this CPU's struct probe_slot; changes FORM_VALUE and FORM_RIGHT. A thread
 * without a CPU jumps to `slow`, which must leave the sequence.
 */
void form_cpu_inc(struct form *f, struct stub_plan *plan, size_t field, int slow);

/* ---- Doubles (double.c) -------------------------------------------------------- */

/* What FORM_ADD_DOUBLE does, with instructions of whole numbers. */
void form_add_double_plainly(struct form *f, struct form_mem mem);

/* ---- Values of operands (values.c) ------------------------------------------- */

/* Whether the value of a scalar is extended with its sign. */
bool value_is_signed(const struct arch_arg *arg);
/* a = the address of a memory operand; changes FORM_SCRATCH. */
void form_operand_address(struct form *f, int a, const struct arch_arg *arg);
/* a = the value of a scalar that needs no check; changes FORM_SCRATCH. */
void form_operand(struct form *f, int a, const struct arch_arg *arg);
/* a = a prepared scalar capture; changes FORM_SCRATCH. */
void form_captured(struct form *f, int a, const struct stub_plan *plan, int capture);

/* ---- Expressions (expr.c) ------------------------------------------------------ */

/* One bit for each capture that an expression uses; NULL uses none. */
uint32_t expr_captures(const struct arch_expr *expr);
/* The number of temporaries it needs. */
int expr_temps(const struct arch_expr *expr);
bool expr_has(const struct arch_expr *expr, enum arch_expr_kind kind);
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
/* FORM_SCRATCH = a number with the order of the double in FORM_RIGHT: cell_order_of(). */
void form_order_of_double(struct form *f);

#endif
