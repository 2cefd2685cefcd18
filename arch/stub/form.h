/* SPDX-License-Identifier: MIT */
/*
 * Stubs are written as instructions of a small abstract machine, the form.
 *
 * The generator writes each stub once, and a back end for each instruction set translates it
 * (lower.c in arch/x86/stub and arch/aarch64/stub), instruction by instruction, without storing
 * them. Tests (tests/unit/form) store and interpret them.
 *
 * The machine has a few 64-bit registers, assigned by hand, and no flags: a jump compares. An
 * operator's left operand is its result (`a += b`). An instruction that is not `wide` takes the low
 * 32 bits, and clears the result's upper half.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A stub may use the first three registers before it has saved the others. */
enum {
	FORM_VALUE,
	FORM_RIGHT,   /* often a right operand */
	FORM_SCRATCH, /* often an index */
	FORM_POINTER,
	FORM_NEXT, /* often the next pointer of a chain */
	FORM_SET,  /* often per-CPU data */
	FORM_FROM, /* often the source of a read or copy */
	FORM_SPARE,
	FORM_SPARE_2,
	FORM_REGISTERS,
	/*
	 * Only in addresses. FRAME is the stub's stack frame; CALLER is the same frame, as seen by
	 * a subroutine that begins with NEST; THREAD is the thread pointer.
	 */
	FORM_FRAME = FORM_REGISTERS,
	FORM_CALLER,
	FORM_THREAD,
	FORM_NONE = -1
};

/* Grouped by subject: see form_subject(). a, b, `mem`, ... are members of struct form_insn. */
enum form_op {
	/* ---- Control: jumps. An instruction changes a register only where its comment says so. */
	FORM_PLACE,   /* defines `label` here */
	FORM_MARK,    /* defines `label` here, for FORM_LABEL_WORD only: nothing jumps to it */
	FORM_JUMP,    /* jumps to `label` */
	FORM_JUMP_IF, /* jumps to `label` if `when` holds for a and the right operand */
	/* like JUMP_IF; also subtracts the right operand from a */
	FORM_SUB_JUMP_IF,
	/* Jumps if none (EQ), or some (NE), of the bits `value` are set in the 4 bytes at `mem`. */
	FORM_JUMP_IF_BITS,
	/* Jumps unless the 1 or 8 bytes at `mem` are `value`; may change RIGHT. */
	FORM_JUMP_UNLESS_BYTES,
	/* jumps if the u32 at address `value` is 0 (EQ) or not (NE); may change a */
	FORM_JUMP_IF_WORD,
	/*
	 * Subroutines. One that calls others is called with CALL_NEST, begins with NEST and ends
	 * with RETURN_NESTED. One that answers is called with ASK, and ends with YES, NO or YES_IF.
	 * One that may make a system call needs CALL_NEST or ASK, which may change SPARE_2.
	 */
	FORM_CALL, /* calls `label` */
	FORM_CALL_NEST,
	FORM_ASK, /* calls `label`; jumps to `no` if the answer is no */
	FORM_NEST,
	FORM_RETURN_NESTED,
	FORM_RETURN,
	FORM_YES, /* returns with the answer yes */
	FORM_NO,
	FORM_YES_IF, /* returns with the answer yes if a equals the right operand */
	/* Push and pop a. Code in between does not address the frame. */
	FORM_PUSH,
	FORM_POP,
	/* data, which control flow never reaches */
	FORM_ALIGN, /* aligns this position to a multiple of `value` bytes */
	FORM_WORD,  /* emits `bytes` bytes (4 or 8) of data: `value` */
	/* 8 bytes: the address of `label`, or its distance from `from`; both have a place */
	FORM_LABEL_WORD,

	/* ---- Values; shorter than 64 bits, they are extended, with their sign if `is_signed` */
	FORM_CONST,    /* a = `value` */
	FORM_ADDRESS,  /* a = `value`, an address in the target */
	FORM_LABEL,    /* a = the address of `label` */
	FORM_MOVE,     /* a = the low `bytes` bytes of b */
	FORM_ORIGINAL, /* a = the register b at the site: `bytes` bytes, starting at bit `shift` */
	FORM_VECTOR,   /* a = the low 4 or 8 bytes of the vector register b at the site */

	/* ---- Memory */
	/*
	 * a = the address `mem`. With the thread pointer as base, without index and displacement.
	 */
	FORM_COMPUTE,
	FORM_LOAD, /* a = `bytes` bytes at `mem`, extended like all values */
	/* Stores the low `bytes` of a at `mem`; or `value`, sign-extended, in 4 or 8 bytes. */
	FORM_STORE,
	/* Stores a at `mem`, a multiple of 4; may change a. */
	FORM_STORE_HALVES,
	/*
	 * Stores `bytes` of register b at the site, from bit `shift` on, at `mem`, a multiple of 4
	 * if they are 8. May change VALUE.
	 */
	FORM_STORE_ORIGINAL,
	FORM_STORE_VECTOR, /* stores the vector register b at the site, 16 bytes, at `mem` */
	/*
	 * Ordered accesses to 4 or 8 aligned bytes of shared data. An ACQUIRE that reads a value
	 * stored by a PUBLISH also sees all stores before that PUBLISH. The store of a PUBLISH is
	 * its last instruction, so it may end a restartable sequence.
	 */
	FORM_ACQUIRE, /* a = `mem` */
	FORM_PUBLISH, /* stores a, or `value`, at `mem` */

	/* ---- Changes: read and write 4 or 8 bytes at `mem` */
	/*
	 * Add a, or `value`, to a word that only this thread writes; the store is the last
	 * instruction. PUBLISH_ADD is ordered like PUBLISH.
	 */
	FORM_COUNT,
	FORM_PUBLISH_ADD,
	/*
	 * Like PUBLISH_ADD, but loses no change by this thread's signal handler. Not in a sequence.
	 */
	FORM_PUBLISH_ADD_WHOLE,
	/*
	 * Atomic changes of a shared word, aligned to `bytes`. COUNT_SHARED adds like COUNT, after
	 * earlier accesses. FETCH_ADD adds a, EXCHANGE swaps; a = the old value. Both have C11's
	 * memory_order_acq_rel.
	 */
	FORM_COUNT_SHARED,
	FORM_FETCH_ADD,
	FORM_EXCHANGE,
	/*
	 * Stores a if the word equals VALUE; VALUE = the old word. Jumps to `label` if a was stored
	 * (EQ), or was not (NE). memory_order_acq_rel.
	 */
	FORM_CAS,

	/* ---- System: the processor and the kernel */
	FORM_CPU,  /* a = the number of the CPU, a hint: the thread may migrate */
	FORM_TIME, /* VALUE = the processor's clock, in ticks; may change SCRATCH */
	/* stores the clock, 8 bytes, at `mem`, a multiple of 4; may change VALUE, SCRATCH */
	FORM_STORE_TIME,
	/*
	 * System call `value` (enum form_call); VALUE = the result. Arguments are in SET, FROM,
	 * SCRATCH, SPARE, POINTER, NEXT. May change RIGHT and SPARE_2.
	 */
	FORM_KERNEL,
	/* no later instruction, such as reading the clock, starts before earlier ones are done */
	FORM_FENCE,
	FORM_YIELD, /* spin-wait hint to the processor */

	/* ---- Doubles */
	/*
	 * RIGHT += the double at `mem`, rounded to nearest, without exceptions, where any NaN
	 * stands for NaN. May change SCRATCH, POINTER, NEXT, FROM, SPARE and SPARE_2. KEEP_VECTOR
	 * comes before, RESTORE_VECTOR after, even if the addition was not completed;
	 * RESTORE_VECTOR may run twice. All use the FORM_VECTOR_TEMPS temporaries from `value` on.
	 */
	FORM_ADD_DOUBLE,
	FORM_KEEP_VECTOR,
	FORM_RESTORE_VECTOR,

	/* ---- Operators. First, a = op a */
	FORM_NEGATE,
	FORM_COMPLEMENT,
	FORM_FLIP, /* inverts bit `shift` */
	/* clears bits of an address that the processor, but not Linux, ignores */
	FORM_UNTAG,
	FORM_UNSIGN, /* removes the signature of a return address; not in a subroutine */
	/* a = op b */
	FORM_HIGHEST,  /* a = the number of the highest bit in b, which is not 0 */
	FORM_LOWEST,   /* a = the number of the lowest bit in b, which is not 0 */
	FORM_MULTIPLY, /* a = b * `value`, a sign-extended 32-bit number */
	/* a = a op the right operand */
	FORM_ADD,
	FORM_SUB,
	FORM_AND,
	FORM_OR,
	FORM_XOR,
	FORM_MUL,
	/* by RIGHT, modulo the width; or by a constant below the width */
	FORM_SHL,
	FORM_SHR,
	/*
	 * VALUE = VALUE op RIGHT, which is not 0. May change RIGHT and SCRATCH. The smallest signed
	 * number divided by -1 is itself, with the remainder 0.
	 */
	FORM_DIV,
	FORM_MOD,
	/* VALUE = 64 bits of VALUE * RIGHT, from bit `shift` (1 to 63) on. May change SCRATCH. */
	FORM_MUL_HIGH
};

/* The groups of operations, in the order of enum form_op. */
enum form_subject {
	FORM_CONTROL,
	FORM_VALUES,
	FORM_MEMORY,
	FORM_CHANGES,
	FORM_SYSTEM,
	FORM_DOUBLES,
	FORM_OPERATORS
};

static inline enum form_subject form_subject(enum form_op op)
{
	return op < FORM_CONST	      ? FORM_CONTROL
	       : op < FORM_COMPUTE    ? FORM_VALUES
	       : op < FORM_COUNT      ? FORM_MEMORY
	       : op < FORM_CPU	      ? FORM_CHANGES
	       : op < FORM_ADD_DOUBLE ? FORM_SYSTEM
	       : op < FORM_NEGATE     ? FORM_DOUBLES
				      : FORM_OPERATORS;
}

enum { FORM_VECTOR_TEMPS = 4 };

/* Flipping the lowest bit of a condition negates it. */
enum form_when {
	FORM_EQ,
	FORM_NE,
	FORM_LT, /* LT to LE are signed */
	FORM_GE,
	FORM_GT,
	FORM_LE,
	FORM_BELOW, /* BELOW to NOT_ABOVE are unsigned */
	FORM_NOT_BELOW,
	FORM_ABOVE,
	FORM_NOT_ABOVE
};

enum form_call {
	FORM_CALL_CLOCK_GETTIME,
	FORM_CALL_FUTEX,
	FORM_CALL_GETCPU,
	FORM_CALL_GETPID,
	FORM_CALL_GETTID,
	FORM_CALL_MINCORE,
	FORM_CALL_PRCTL,
	FORM_CALL_SIGPROCMASK, /* rt_sigprocmask */
	FORM_CALLS
};

/* base + index * scale + disp. */
struct form_mem {
	int8_t base, index; /* registers, or FORM_NONE */
	uint8_t scale;	    /* 1, 2, 4 or 8 */
	int32_t disp;
};

struct form_insn {
	enum form_op op;
	enum form_when when;
	bool wide, is_signed;
	uint8_t bytes, shift;
	int8_t a, b; /* registers */
	/* the right operand is `value`, sign-extended, not b */
	bool is_constant;
	/*
	 * The right operand is `bytes` bytes at `mem`; in a comparison with a constant, the left
	 * operand is. `bytes` is 4 or 8, the width of the instruction, or 1 for equality.
	 */
	bool is_memory;
	int label, from, no;
	struct form_mem mem;
	uint64_t value;
};

/* Receives instructions. A back end embeds this in its own struct. */
struct form {
	void (*put)(struct form *f, const struct form_insn *insn);
	int (*label)(struct form *f); /* makes a new label */
};

/* Puts an instruction. The arguments after `f` initialise members of struct form_insn. */
#define FORM(f, ...) (f)->put(f, &(struct form_insn){__VA_ARGS__})

/* ---- Control (form.c) ------------------------------------------------------------------ */

int form_label(struct form *f);
void form_place(struct form *f, int label);
void form_jump(struct form *f, int label);
void form_jump_if(struct form *f, bool wide, int a, enum form_when when, int b, int label);
void form_jump_if_const(
	struct form *f, bool wide, int a, enum form_when when, int32_t value, int label);
void form_jump_if_at(
	struct form *f, uint8_t bytes, int a, enum form_when when, struct form_mem mem, int label);
void form_jump_if_at_const(struct form *f, uint8_t bytes, struct form_mem mem, enum form_when when,
	int32_t value, int label);
void form_sub_jump_if(struct form *f, bool wide, int a, enum form_when when, int b, int label);
void form_sub_jump_if_const(
	struct form *f, bool wide, int a, enum form_when when, int32_t value, int label);
void form_jump_if_bits(
	struct form *f, struct form_mem mem, uint32_t bits, enum form_when when, int label);
/* Jumps if the u32 at `address` is 0 (EQ), or not (NE); may change `scratch`. */
void form_jump_if_word(
	struct form *f, int scratch, uint64_t address, enum form_when when, int label);
void form_call(struct form *f, int label);
void form_word(struct form *f, uint8_t bytes, uint64_t value);

/* ---- Values, and memory (form.c) -------------------------------------------------------- */

void form_const(struct form *f, int a, uint64_t value);
void form_address(struct form *f, int a, uint64_t address);
void form_move(struct form *f, int a, int b);
void form_extend(struct form *f, int a, int b, uint8_t bytes, bool is_signed);
void form_compute(struct form *f, int a, struct form_mem mem);
void form_load(struct form *f, int a, struct form_mem mem, uint8_t bytes, bool is_signed);
/* An operation on `bytes` bytes at `mem`, and on a or a constant: FORM_STORE to FORM_EXCHANGE. */
void form_memory(struct form *f, enum form_op op, int a, struct form_mem mem, uint8_t bytes);
void form_memory_const(
	struct form *f, enum form_op op, struct form_mem mem, uint8_t bytes, int32_t value);
/* Stores all 8 bytes of a. */
void form_store(struct form *f, int a, struct form_mem mem);
void form_store_const(struct form *f, struct form_mem mem, uint8_t bytes, int32_t value);
/* Stores the low `bytes` of a into packed data: 8 at a multiple of 4. May change a. */
void form_store_packed(struct form *f, int a, struct form_mem mem, uint8_t bytes);
void form_acquire(struct form *f, int a, struct form_mem mem, uint8_t bytes);
/* Adds 1 to 8 bytes at `mem`; op: FORM_COUNT to FORM_COUNT_SHARED. */
void form_change(struct form *f, enum form_op op, struct form_mem mem);
void form_cas(
	struct form *f, struct form_mem mem, uint8_t bytes, int a, enum form_when when, int label);

/* ---- Operators (form.c) ------------------------------------------------------------------- */

/* a = op a; or pushes or pops a. */
void form_one(struct form *f, enum form_op op, bool wide, int a);
void form_multiply(struct form *f, int a, int b, int32_t factor);
/* a = op b, or a = a op b. */
void form_two(struct form *f, enum form_op op, bool wide, int a, int b);
/* op: FORM_ADD to FORM_XOR, with 8 bytes at `mem`. */
void form_two_at(struct form *f, enum form_op op, int a, struct form_mem mem);
/* op: FORM_ADD to FORM_XOR, or FORM_SHL or FORM_SHR (logical). */
void form_two_const(struct form *f, enum form_op op, bool wide, int a, int32_t value);
/* VALUE = VALUE op RIGHT. op: FORM_SHL, FORM_SHR, FORM_DIV or FORM_MOD. */
void form_by_right(struct form *f, enum form_op op, bool wide, bool is_signed);

/* ---- Addresses --------------------------------------------------------------------------- */

static inline struct form_mem form_at(int base, int32_t disp)
{
	return (struct form_mem){
		.base = (int8_t)base, .index = FORM_NONE, .scale = 1, .disp = disp};
}

static inline struct form_mem form_indexed(int base, int index, int32_t disp)
{
	return (struct form_mem){
		.base = (int8_t)base, .index = (int8_t)index, .scale = 1, .disp = disp};
}

/* A temporary: an 8-byte word of the stub's frame. */
static inline struct form_mem form_temp(int number)
{
	return form_at(FORM_FRAME, 8 * number);
}
