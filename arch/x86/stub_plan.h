/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the stub generator share: how a stub's stack frame and
 * registers are used. See stub.c for the whole.
 */
#ifndef ARCH_X86_STUB_PLAN_H
#define ARCH_X86_STUB_PLAN_H

#include "arch/arch.h"
#include "arch/x86/emit.h"

enum { PAGE_BYTES = 4096, XMM_BYTES = 16 };

/*
 * Registers of a stub that records. All are saved; RSI and R8 to R11 only where
 * pointers are followed or the kernel is called.
 */
enum {
	REG_VALUE = RAX,   /* an argument's value */
	REG_SCRATCH = RDX, /* an index or a far displacement */
	REG_RECORD = RCX,  /* within the sequence: the record being written */
	REG_RING = RDI,	   /* within the sequence: its ring */
	REG_OUT = R8	   /* within the sequence: where bytes go; before: a pointer */
};

/*
 * The stack frame of a stub, while it runs:
 *
 *	rsp + size	the site's %rsp
 *			red zone, 128 bytes
 *			%rax, flags, all of %rflags (stub_alignment.c), the saved registers
 *	rsp		temporaries of 8 bytes
 */
struct frame {
	int saved[16]; /* offset from %rsp of a register's value at the site, or -1 */
	int order[8];  /* the registers pushed behind the flags */
	int order_count;
	int temps;
	int size;
};

/* A restartable sequence of the stub. Labels. */
struct sequence {
	int retry, start, end, abort, descriptor;
	int aborted; /* where the hit goes on after an abort: a way without a sequence */
};

enum { SEQUENCES_MAX = 8 };

/*
 * What a stub does. What may fault or enter the kernel happens before a
 * sequence starts, and its results are kept in temporaries: for a checked
 * scalar its value; for everything that is bytes, a pair of its pointer and the
 * word for the record (its length and the flag bits). The pairs come first, in
 * the order of the captures.
 */
struct stub_plan {
	const struct arch_stub *stub;
	struct frame small;   /* while a filter is asked that needs little */
	struct frame frame;   /* from then on */
	bool is_early;	      /* the filter is such a one */
	bool is_aligned;      /* the alignment check may stay on (stub_alignment.c) */
	bool checked;	      /* a capture has a bit in the mask of readable ones */
	bool records_mask;    /* and the record has the mask */
	bool strings, stacks; /* some capture is one */
	bool extents;	      /* or has a length */
	bool kernel_tid;      /* the thread's or the process's id comes from the kernel */
	bool kernel_pid;
	int pairs, recorded_pairs;
	int temp[ARCH_ARGS_MAX];  /* of each capture */
	int spill[ARCH_ARGS_MAX]; /* copy of a vector register; return addresses */
	int tid_temp, pid_temp, mask_temp;
	int expr_temp;		     /* the first of those that expressions need */
	int call_temp;		     /* the first of the frame of a function that is called */
	int value_temp, time_temp;   /* of what is gathered, and when its end was */
	int tag_temp;		     /* of the key */
	int tries_temp;		     /* how often an aborted sequence is tried again */
	int key_temp[ARCH_KEYS_MAX]; /* numbers, and strings' words */
	uint32_t fixed_bytes;	     /* of a record, before strings and aggregates */
	uint32_t max_bytes;

	/* Labels. */
	int check, measure, extent, hash, time; /* subroutines */
	int out, small_out;			/* the way back, from either frame */
	int slow, full;				/* a thread without rseq; no room */
	int lost, unmatched;			/* count the hit so */
	int slow_sample, sampled; /* the same while sampling; go on with a hit that is taken */
	int slow_update;
	int slow_flight, timed;	 /* the same of a pair by thread; its begin or end is noted */
	int entered, slow_leave; /* counted as called; the same as slow, behind the call */
	int clear_check, check_cleared, restore_check, check_restored; /* stub_alignment.c */
	struct sequence sequences[SEQUENCES_MAX];
	int sequence_count;
};

static inline struct emit_mem temp_at(int temp)
{
	return mem_at(RSP, 8 * temp);
}

/* ---- Restartable sequences (stub_sequence.c) ------------------------------------ */

/* Begins one, changing `scratch`; what is live then must also be so at `aborted`. */
const struct sequence *emit_sequence_begin(
	struct emit *e, struct stub_plan *plan, int scratch, int aborted);
/* Behind the instruction that has published what was done. */
void emit_sequence_end(
	struct emit *e, const struct stub_plan *plan, const struct sequence *sequence);
/* Outside a sequence, which was left by a jump. */
void emit_sequence_leave(struct emit *e, const struct stub_plan *plan);
/* At the end of the stub. */
void emit_sequence_aborts(struct emit *e, const struct stub_plan *plan);
void emit_sequence_descriptors(struct emit *e, const struct stub_plan *plan);

/*
 * reg = sets_of_cpu_0 + (cpu << shift), if the CPU has sets of its own; else a
 * jump to `slow`: threads that are not registered have a negative number.
 * Changes %rax, which is sets_of_cpu_0 afterwards: reg lacks it.
 */
void emit_cpu_set(struct emit *e, const struct stub_plan *plan, int reg, uint8_t shift,
	uint64_t sets, int slow);
/* reg = the address of a byte of the set that all CPUs share. */
void emit_shared_set(struct emit *e, const struct stub_plan *plan, int reg, uint32_t offset);
/* A locked increment of a field of struct probe_slot there; changes %rax. */
void emit_shared_inc(struct emit *e, const struct stub_plan *plan, size_t field);
/*
 * An increment of a field of struct probe_slot of this CPU; changes %rax and %rcx. A
 * thread without a CPU goes to `slow`, which has to leave the sequence.
 */
void emit_cpu_inc(struct emit *e, struct stub_plan *plan, size_t field, int slow);
/* %rax = the number of the CPU, a hint; changes %rdx. */
void emit_cpu_hint(struct emit *e);
/* %rax = the time; changes %rdx. The subroutine asks the kernel for it. */
void emit_time(struct emit *e, const struct stub_plan *plan);
void emit_time_subroutine(struct emit *e, const struct stub_plan *plan);

/* ---- The alignment check (stub_alignment.c) --------------------------------------- */

/* Is every word that the stub reads or writes aligned, wherever pointers lead? */
bool stub_is_aligned(const struct arch_stub *stub);
/* Behind the flags; on the way out, before they are restored; at the end of the stub. */
void emit_alignment_enter(struct emit *e, const struct stub_plan *plan);
void emit_alignment_leave(struct emit *e, const struct stub_plan *plan);
void emit_alignment_slow(struct emit *e, const struct stub_plan *plan);

/* ---- Captures (stub_captures.c) --------------------------------------------------- */

/* Is the capture recorded as bytes behind the record's words? */
bool capture_is_variable(const struct arch_capture *capture);
/* How many bytes, at most, before padding. */
uint32_t capture_bytes(const struct arch_capture *capture);
/* Can it be captured as is asked for? */
bool capture_is_possible(const struct arch_capture *capture);

/* dst = the register's value at the site. */
void emit_original(struct emit *e, const struct frame *frame, int reg, int dst);
/* Keeps a pointer and the word in %rax. */
void emit_store_pair(struct emit *e, int temp, int pointer);
/* Before a sequence: finds out capture `i`, of the stack (stub_stack.c). */
void emit_prepare_stack(struct emit *e, const struct stub_plan *plan, int i);
/* The temporaries, beside its pair, that it needs. */
int stack_temps(const struct arch_capture *capture);
/* Before a sequence: finds out capture `i`, where it is not simply read later. */
void emit_prepare_capture(struct emit *e, const struct stub_plan *plan, int i);
/* REG_VALUE = a scalar capture that has been prepared; changes REG_SCRATCH. */
void emit_captured(
	struct emit *e, const struct stub_plan *plan, const struct frame *frame, int capture);
/* Within the sequence: writes the word of capture `i` into the record. */
void emit_capture(struct emit *e, const struct stub_plan *plan, int i);
/* Copies [%rsi, %rsi + %rdx) to REG_OUT; changes %rax, %r9, %r10. */
void emit_copy(struct emit *e);
/* Within the sequence: copies the bytes of all recorded pairs to REG_OUT, which moves on. */
void emit_copy_pairs(struct emit *e, const struct stub_plan *plan);
/* What is behind a pointer (stub_strings.c): up to a NUL, or so many bytes. */
void emit_measure_subroutine(struct emit *e, const struct stub_plan *plan);
void emit_extent_subroutine(struct emit *e, const struct stub_plan *plan);
/* The subroutines that the above call. */
void emit_capture_subroutines(struct emit *e, const struct stub_plan *plan);

/* ---- Expressions (stub_expr.c) ------------------------------------------------------ */

/* A bit for each capture that an expression uses; NULL uses none. */
uint32_t expr_captures(const struct arch_expr *expr);
/* How many temporaries it needs. */
int expr_temps(const struct arch_expr *expr);
bool expr_has(const struct arch_expr *expr, enum arch_expr_kind kind);
/* Can it be evaluated at all? */
bool expr_is_possible(const struct stub_plan *plan, const struct arch_expr *expr);
/*
 * REG_VALUE = the expression; changes %rcx, %rdx. Where it cannot be computed,
 * a jump to `bad`.
 */
void emit_expr(struct emit *e, const struct stub_plan *plan, const struct frame *frame,
	const struct arch_expr *expr, int bad);
/* A jump to `reject` unless it is true; the same registers. */
void emit_filter(struct emit *e, const struct stub_plan *plan, const struct frame *frame,
	const struct arch_expr *expr, int reject);

/* ---- Actions ---------------------------------------------------------------------- */

/*
 * Each has a part that falls through to the way out, and one, behind it, that
 * the first jumps to.
 */
void emit_sample(struct emit *e, struct stub_plan *plan); /* stub_sample.c */
void emit_sample_slow(struct emit *e, const struct stub_plan *plan);
void emit_record(struct emit *e, struct stub_plan *plan); /* stub_record.c */
void emit_record_slow(struct emit *e, const struct stub_plan *plan);
void emit_gather(struct emit *e, struct stub_plan *plan); /* stub_gather.c */
void emit_gather_slow(struct emit *e, const struct stub_plan *plan);
void emit_begin(struct emit *e, struct stub_plan *plan); /* stub_flights.c */
void emit_flights_slow(struct emit *e, const struct stub_plan *plan);
/* The value becomes the time since the begin. */
void emit_end(struct emit *e, struct stub_plan *plan);
void emit_call(struct emit *e, struct stub_plan *plan); /* stub_call.c */
void emit_call_slow(struct emit *e, const struct stub_plan *plan);
/* The temporaries that it needs. */
int call_temps(const struct arch_stub *stub);
/* Waits at the gate; the whole action. */
void emit_gate(struct emit *e, const struct stub_plan *plan); /* stub_gate.c */
enum { GATE_TEMPS = 3 };

/* ---- Tables of keys (stub_table.c) --------------------------------------------------- */

/* Before a sequence: the words of the key and its tag, in temporaries. Bad ones: to p->lost. */
void emit_key(struct emit *e, const struct stub_plan *plan);
void emit_hash_subroutine(struct emit *e, const struct stub_plan *plan);
/*
 * %rdi = the cell of the key in the table at %rdi, where one is made if need be.
 * Changes all but %rbx, %rbp and %r12 to %r15. No room: a jump to `full`.
 * `again` is where the sequence restarts once an entry has been made; negative:
 * many threads share the table.
 */
void emit_lookup(struct emit *e, const struct stub_plan *plan, int again, int full);

#endif
