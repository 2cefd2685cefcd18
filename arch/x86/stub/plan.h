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

/* ---- The frame (frame.c): see struct stub_isa ------------------------------------------ */

void x86_64_lay_out(struct stub_plan *plan, int registers);
void x86_64_enter(struct form *f, const struct stub_plan *plan);
void x86_64_grow(struct form *f, const struct stub_plan *plan);
void x86_64_shrink(struct form *f, const struct stub_plan *plan);
void x86_64_leave(struct form *f, const struct stub_plan *plan);
void x86_64_late(struct form *f, const struct stub_plan *plan);

/* ---- The CPU and the time (time.c) ----------------------------------------------------- */

/* reg = the number of the CPU as a hint. */
void emit_cpu_hint(struct emit *e, int reg);
/* See struct stub_isa. */
void x86_64_time_subroutine(struct form *f, const struct stub_plan *plan);

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

/* ---- Actions ---------------------------------------------------------------------- */

void x86_64_call(struct form *f, const struct stub_plan *plan); /* call.c: see struct stub_isa */
enum {
	GATE_REGISTERS = 8,
	/* Where %rdi, the third of them, is saved, from %rsp on. */
	GATE_ARGUMENT = 8 * (GATE_TEMPS + GATE_REGISTERS - 3)
};

#endif
