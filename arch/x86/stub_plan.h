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

/* /digits of opcode group 1. */
enum { IMM_ADD = 0, IMM_AND = 4, IMM_SUB = 5, IMM_CMP = 7 };

/*
 * Registers of a record stub. All are saved; RSI and R8 to R11 only where
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
 *			%rax, flags, the saved registers
 *	rsp		temporaries of 8 bytes
 */
struct frame {
	int saved[16]; /* offset from %rsp of a register's value at the site, or -1 */
	int order[16]; /* the registers pushed behind the flags */
	int order_count;
	int temps;
	int size;
};

/*
 * What a record stub does. What may fault or enter the kernel happens before
 * the sequence starts, and its results are kept in temporaries: for a checked
 * scalar its value; for everything that is recorded as bytes, a pair of its
 * pointer and the word for the record (its length and the flag bits). The pairs
 * come first, in the order of the captures.
 */
struct plan {
	const struct arch_stub *stub;
	struct frame frame;
	bool checked;	 /* a capture has a bit in the mask of readable ones */
	bool strings;	 /* some capture is one */
	bool kernel_tid; /* the thread id comes from gettid(2) */
	int pairs;
	int temp[ARCH_ARGS_MAX];  /* of each capture */
	int spill[ARCH_ARGS_MAX]; /* copy of a vector register */
	int tid_temp, mask_temp;
	uint32_t fixed_bytes; /* of a record, before strings and aggregates */
	uint32_t max_bytes;
	int check, measure; /* labels of subroutines */
};

static inline struct emit_mem temp_at(int temp)
{
	return mem_at(RSP, 8 * temp);
}

/* Is the capture recorded as bytes behind the record's words? */
bool capture_is_variable(const struct arch_capture *capture);
/* How many bytes, at most, before padding. */
uint32_t capture_bytes(const struct arch_capture *capture);
/* Can it be captured as is asked for? */
bool capture_is_possible(const struct arch_capture *capture);

/* Before the sequence: finds out capture `i`, where it is not simply read later. */
void emit_prepare_capture(struct emit *e, const struct plan *plan, int i);
/* Within the sequence: writes the word of capture `i` into the record. */
void emit_capture(struct emit *e, const struct plan *plan, int i);
/* Within the sequence: copies the bytes of all pairs to REG_OUT, which moves on. */
void emit_copy_pairs(struct emit *e, const struct plan *plan);
/* The subroutines that the above call. */
void emit_capture_subroutines(struct emit *e, const struct plan *plan);

#endif
