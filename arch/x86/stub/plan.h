/* SPDX-License-Identifier: MIT */
/*
 * Shared by the parts of the stub generator: how a stub uses its stack frame and registers.
 * stub.c has the overview.
 */
#ifndef ARCH_X86_STUB_PLAN_H
#define ARCH_X86_STUB_PLAN_H

#include "arch/arch.h"
#include "arch/stub/plan.h"
#include "arch/x86/emit.h"

enum { PAGE_BYTES = 4096, XMM_BYTES = 16 };

/*
 * Registers of a recording stub. All are saved; RSI and R8 to R11 only if it follows pointers
 * or calls the kernel.
 */
enum {
	REG_VALUE = RAX,   /* an argument's value */
	REG_SCRATCH = RDX, /* an index or a far displacement */
	REG_RECORD = RCX,  /* within the sequence: the record being written */
	REG_RING = RDI,	   /* within the sequence: its ring */
	REG_OUT = R8	   /* within the sequence: where bytes go; before: a pointer */
};

/*
 * The stack frame (struct frame) of a running stub:
 *
 *	rsp + size	the site's %rsp
 *			red zone, 128 bytes; a word, if hits wait for room (wait.c)
 *			%rax, flags if they are kept, all of %rflags if they may have to be
 *			cleared (alignment.c), the saved registers
 *	rsp		temporaries of 8 bytes
 */
static inline struct emit_mem temp_at(int temp)
{
	return mem_at(RSP, 8 * temp);
}

/* ---- Restartable sequences (sequence.c) ------------------------------------ */

/* At the end of the stub. */
void emit_sequence_aborts(struct emit *e, const struct stub_plan *plan);
void emit_sequence_descriptors(struct emit *e, const struct stub_plan *plan);

/* reg = the number of the CPU as a hint. */
void emit_cpu_hint(struct emit *e, int reg);
/* %rax = the time; changes %rdx. The subroutine gets it from the kernel. */
void emit_time(struct emit *e, const struct stub_plan *plan);
void emit_time_subroutine(struct emit *e, const struct stub_plan *plan);

/* ---- Flags to be cleared (alignment.c) --------------------------------------- */

/* Whether every word that the stub reads or writes is aligned, wherever pointers lead. */
bool stub_is_aligned(const struct stub_plan *plan);
/* Placed after the flags are saved, before they are restored, and at the end of the stub. */
void emit_alignment_enter(struct emit *e, const struct stub_plan *plan);
void emit_alignment_leave(struct emit *e, const struct stub_plan *plan);
void emit_alignment_slow(struct emit *e, const struct stub_plan *plan);

/* ---- Values (values.c) ---------------------------------------------------------- */

/* dst = the register's value at the site. */
void emit_original(struct emit *e, const struct frame *frame, int reg, int dst);
/* dst = `bytes` bytes of it from bit `shift` on, extended to 64 bits. */
void emit_original_part(struct emit *e, const struct frame *frame, int reg, unsigned int shift,
	unsigned int bytes, bool is_signed, int dst);
/* dst = the low 4 or 8 bytes of a vector register. */
void emit_vector(struct emit *e, int vector, unsigned int bytes, int dst);
/* 16 bytes at m = a vector register. */
void emit_store_vector(struct emit *e, int vector, struct emit_mem m);
/* dst = the low `bytes` bytes of a register, extended to 64 bits. */
void emit_extend(struct emit *e, int reg, unsigned int bytes, bool is_signed, int dst);
/* dst = the value at m, of 1 to 8 bytes, extended to 64 bits. */
void emit_load(struct emit *e, struct emit_mem m, unsigned int bytes, bool is_signed, int dst);
/* Stores the low `bytes` bytes of a register. */
void emit_store_part(struct emit *e, int reg, struct emit_mem m, unsigned int bytes);
/* Stores eight, and changes the register. The whole may be misaligned, and in two cache lines. */
void emit_store_halves(struct emit *e, int reg, struct emit_mem m);
/* Stores the low `bytes` bytes of REG_VALUE, and changes it. Eight need an alignment of four. */
void emit_store(struct emit *e, struct emit_mem m, unsigned int bytes);

/* ---- What is written in the form (bridge.c): see arch/stub/plan.h ------------------- */

/* Registers are those of x86-64 that are one of the form. */
const struct sequence *emit_sequence_begin(
	struct emit *e, struct stub_plan *plan, int scratch, int aborted);
void emit_sequence_end(
	struct emit *e, const struct stub_plan *plan, const struct sequence *sequence);
void emit_sequence_leave(struct emit *e, const struct stub_plan *plan);
/* Sets %rax, too. */
void emit_cpu_set(struct emit *e, const struct stub_plan *plan, int reg, uint8_t shift,
	uint64_t sets, int slow);
void emit_shared_set(struct emit *e, const struct stub_plan *plan, int reg, uint32_t offset);
/* Changes %rax; that of a CPU %rcx, too. */
void emit_shared_inc(struct emit *e, const struct stub_plan *plan, size_t field);
void emit_cpu_inc(struct emit *e, struct stub_plan *plan, size_t field, int slow);

/* dst = the address of a memory operand; changes REG_SCRATCH. */
void emit_address(struct emit *e, const struct frame *frame, const struct arch_arg *arg, int dst);
/* REG_VALUE = the value of a scalar that needs no check; changes REG_SCRATCH. */
void emit_value(struct emit *e, const struct frame *frame, const struct arch_arg *arg);
/* REG_VALUE = a prepared scalar capture; changes REG_SCRATCH. */
void emit_captured(
	struct emit *e, const struct stub_plan *plan, const struct frame *frame, int capture);
/* REG_VALUE = the expression; changes %rcx, %rdx. Jumps to `bad` if it cannot be computed. */
void emit_expr(struct emit *e, const struct stub_plan *plan, const struct frame *frame,
	const struct arch_expr *expr, int bad);
/* Jumps to `reject` unless it is true; changes the same registers. */
void emit_filter(struct emit *e, const struct stub_plan *plan, const struct frame *frame,
	const struct arch_expr *expr, int reject);

/* ---- Captures (captures.c) --------------------------------------------------- */

/* The largest number of bytes. */
uint32_t capture_bytes(const struct arch_capture *capture);
/* The temporaries that it needs besides its pair. */
int capture_spill_temps(const struct arch_capture *capture);
/* Whether it can be captured as requested. */
bool capture_is_possible(const struct arch_capture *capture);

/* Stores a pair: a pointer, and the word in %rax. */
void emit_store_pair(struct emit *e, int temp, int pointer);
/*
 * Before a sequence: prepares the captures of the stack (stack.c), once it is known that the hit
 * leaves something. Changes all registers.
 */
void emit_prepare_stacks(struct emit *e, const struct stub_plan *plan);
/* Before a sequence: prepares capture `i`, of the thread's name (comm.c). */
void emit_prepare_comm(struct emit *e, const struct stub_plan *plan, int i);
/* Before a sequence: prepares capture `i`, unless it is simply read later. */
void emit_prepare_capture(struct emit *e, const struct stub_plan *plan, int i);
/* REG_VALUE = a prepared scalar capture, or the word of its bytes; changes REG_SCRATCH. */
void emit_word(struct emit *e, const struct stub_plan *plan, int i);
/* Within the sequence: writes the fixed part of capture `i` into the record. */
void emit_capture(struct emit *e, const struct stub_plan *plan, int i);
/* Copies [%rsi, %rsi + %rdx) to REG_OUT; changes %rax, %r9, %r10. */
void emit_copy(struct emit *e);
/* Within the sequence: copies the bytes of all recorded pairs to REG_OUT, the record's end then. */
void emit_copy_pairs(struct emit *e, const struct stub_plan *plan);
/* Measures what a pointer points to (strings.c): up to a NUL, or a given number of bytes. */
void emit_measure_subroutine(struct emit *e, const struct stub_plan *plan);
void emit_extent_subroutine(struct emit *e, const struct stub_plan *plan);
/* The subroutines that those above call. */
void emit_capture_subroutines(struct emit *e, const struct stub_plan *plan);

/* ---- Readable pages (readable.c) ----------------------------------------------- */

/* Before the first check of a hit. */
void emit_checks_begin(struct emit *e, const struct stub_plan *plan);
/*
 * Checks whether the aligned word containing address %rsi is readable: ZF if so. Aligns %rsi;
 * changes %rax, %rcx, %rdx, %rdi, %r10, %r11. In a subroutine, `depth` is 1.
 */
void emit_check(struct emit *e, const struct stub_plan *plan, int depth);
void emit_check_subroutine(struct emit *e, const struct stub_plan *plan);

/* ---- Actions ---------------------------------------------------------------------- */

/*
 * Each action has a main part, which falls through to the exit, and a slow part further down,
 * which the main part jumps to.
 */
void emit_sample(struct emit *e, struct stub_plan *plan); /* sample.c */
void emit_sample_slow(struct emit *e, const struct stub_plan *plan);
/* Whether there is room for what it keeps of a begin, or needs of it (begins.c). */
bool stub_may_keep_begins(const struct arch_stub *stub);
/* Those of arch/stub: all but REG_RECORD and REG_RING is changed by emit_record_body(). */
void emit_record_body(struct emit *e, const struct stub_plan *plan);
void emit_record(struct emit *e, struct stub_plan *plan);
void emit_record_slow(struct emit *e, struct stub_plan *plan);
void emit_gate(struct emit *e, const struct stub_plan *plan);
/* Prepares all captures once more: those who shared what pointers lead to have gone on. */
void emit_prepare_again(struct emit *e, const struct stub_plan *plan); /* stub.c */
void emit_gather(struct emit *e, struct stub_plan *plan);
void emit_gather_slow(struct emit *e, const struct stub_plan *plan);
void emit_hash_subroutine(struct emit *e, const struct stub_plan *plan);
void emit_begin(struct emit *e, struct stub_plan *plan); /* flights.c */
void emit_flights_slow(struct emit *e, const struct stub_plan *plan);
/* An end holds the begin that it needs until the exit: no begin is held yet; and there. */
void emit_hold_none(struct emit *e, const struct stub_plan *plan);
void emit_release(struct emit *e, const struct stub_plan *plan);
/* Sets the value to the time since the begin, and jumps to the exit if the pair does not pass. */
void emit_end(struct emit *e, struct stub_plan *plan);
void emit_call(struct emit *e, struct stub_plan *plan); /* call.c */
void emit_call_slow(struct emit *e, const struct stub_plan *plan);
/* The temporaries it needs. */
int call_temps(const struct arch_stub *stub);
enum {
	GATE_REGISTERS = 8,
	/* Where %rdi, the third of them, is saved, from %rsp on. */
	GATE_ARGUMENT = 8 * (GATE_TEMPS + GATE_REGISTERS - 3)
};

#endif
