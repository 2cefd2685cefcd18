/* SPDX-License-Identifier: MIT */
/*
 * Stubs as instructions of a small machine that no processor is.
 *
 * What a stub does is written once, in this form, and a back end for each instruction set makes
 * machine code of it (lower.c in arch/x86/stub and arch/aarch64/stub). Instructions go to the
 * back end one by one, in order, so nothing is stored and there is no limit to their number.
 * tests/unit/form keeps them, and runs them itself: a third opinion beside two back ends.
 *
 * The machine has a few registers of 64 bits, which whoever writes a stub assigns, and no flags:
 * a jump compares. Of its operators, the left operand is also the result (`a += b`). `wide` means
 * 64 bits; a narrow instruction takes the low 32 bits of its operands, and clears the upper half
 * of its result.
 */
#ifndef ARCH_STUB_FORM_H
#define ARCH_STUB_FORM_H

#include <stdbool.h>
#include <stdint.h>

/* Registers. The first three may be used before a stub has saved the others. */
enum {
	FORM_VALUE,
	FORM_RIGHT,   /* often a right operand */
	FORM_SCRATCH, /* often an index */
	FORM_POINTER,
	FORM_NEXT, /* often the next pointer of a chain */
	FORM_SET,  /* often what belongs to a CPU */
	FORM_FROM, /* often what is looked at, or copied from */
	FORM_SPARE,
	FORM_SPARE_2,
	FORM_REGISTERS,
	/*
	 * Only in addresses: the stub's frame on the stack, from the stub itself and, as CALLER,
	 * from a subroutine that begins with NEST; and the thread pointer.
	 */
	FORM_FRAME = FORM_REGISTERS,
	FORM_CALLER,
	FORM_THREAD,
	FORM_NONE = -1
};

/* Operations, by subject: see form_subject(). `mem` is an address. */
enum form_op {
	/* ---- Control: jumps. An instruction changes a register only where this says so. */
	FORM_PLACE,   /* `label` is here */
	FORM_MARK,    /* the same, for words alone: no instruction leads there */
	FORM_JUMP,    /* to `label` */
	FORM_JUMP_IF, /* to `label`, if `when` is true of a and the right operand */
	/* the same; and the right operand is subtracted from a, whether it jumps or not */
	FORM_SUB_JUMP_IF,
	/* to `label`, if none (EQ) or any (NE) of the bits `value` are set in the 4 bytes at `mem`
	 */
	FORM_JUMP_IF_BITS,
	/* to `label`, unless the `bytes` bytes (1 or 8) at `mem` are `value`; may change RIGHT */
	FORM_JUMP_UNLESS_BYTES,
	/* to `label`, if the u32 at the address `value` is (EQ) or is not (NE) 0; may change a */
	FORM_JUMP_IF_WORD,
	/*
	 * Subroutines. One that calls others is called by CALL_NEST, begins with NEST and ends with
	 * RETURN_NESTED; the others call none. The end of one that ASK calls is an answer.
	 * CALL_NEST and ASK are for what may ask the kernel, and may change SPARE_2 before and
	 * after.
	 */
	FORM_CALL, /* calls `label` */
	FORM_CALL_NEST,
	FORM_ASK, /* calls `label`; goes to `no` if it answers no */
	FORM_NEST,
	FORM_RETURN_NESTED,
	FORM_RETURN,
	FORM_YES, /* returns with this answer */
	FORM_NO,
	FORM_YES_IF, /* returns with the answer yes, if a and the right operand are equal */
	/* Keeps a on the stack, and takes it back: no address of the frame is used in between. */
	FORM_PUSH,
	FORM_POP,
	/* data, which nothing reaches as code */
	FORM_ALIGN, /* here is a multiple of `value` */
	FORM_WORD,  /* `bytes` bytes (4 or 8): `value` */
	/* 8 bytes: the address of `label`, or its distance from `from`; both are placed before */
	FORM_LABEL_WORD,

	/* ---- Values; what has less than 64 bits is extended, with its sign if `is_signed` */
	FORM_CONST,    /* a = `value` */
	FORM_ADDRESS,  /* a = `value`, an address in the target */
	FORM_LABEL,    /* a = the address of `label` */
	FORM_MOVE,     /* a = b, its low `bytes` bytes */
	FORM_ORIGINAL, /* a = the register b at the site: `bytes` bytes from bit `shift` on */
	FORM_VECTOR,   /* a = the vector register b at the site, its low 4 or 8 bytes */

	/* ---- Memory */
	FORM_COMPUTE, /* a = the address `mem`; of the thread pointer, no more than that */
	FORM_LOAD,    /* a = `bytes` bytes at `mem`, extended as values are */
	FORM_STORE,   /* `bytes` bytes at `mem` = a; or 4 or 8 = `value`, 32 bits with their sign */
	FORM_STORE_HALVES, /* 8 bytes at `mem`, a multiple of four, = a; may change a */
	/*
	 * `bytes` bytes at `mem`, of 8 at a multiple of four, = those of the register b at the
	 * site, from bit `shift` on; may change VALUE
	 */
	FORM_STORE_ORIGINAL,
	FORM_STORE_VECTOR, /* 16 bytes at `mem` = the vector register b at the site */
	/*
	 * Order, for what others read and write: `mem` is 4 or 8 bytes, a multiple of their number.
	 * What comes after ACQUIRE in the stub is read and written after its load, which is after
	 * an earlier PUBLISH; and what comes before PUBLISH is before its store. The store is the
	 * last instruction of PUBLISH, so it may end a restartable sequence.
	 */
	FORM_ACQUIRE, /* a = `mem` */
	FORM_PUBLISH, /* `mem` = a, or `value` */

	/* ---- Changes: of 4 or 8 bytes at `mem`, which are read and written */
	/*
	 * Adds a, or `value`; only this thread writes there. The last instruction is the store.
	 * PUBLISH_ADD: the store is that of PUBLISH.
	 */
	FORM_COUNT,
	FORM_PUBLISH_ADD,
	/*
	 * The same as PUBLISH_ADD where a signal handler of this thread may write there in between,
	 * and adds to what that has left. Not for a restartable sequence.
	 */
	FORM_PUBLISH_ADD_WHOLE,
	/*
	 * Where other threads change the word, too, at a multiple of `bytes`: nothing that anybody
	 * does is lost. COUNT_SHARED adds as COUNT does, and comes after what is before it in the
	 * stub. FETCH_ADD adds a, and a = what was there; EXCHANGE: a and the word change places;
	 * both in the order of C11's memory_order_acq_rel.
	 */
	FORM_COUNT_SHARED,
	FORM_FETCH_ADD,
	FORM_EXCHANGE,
	/*
	 * If the word is VALUE, a is stored there; VALUE = what was there. To `label` if a was
	 * stored (`when` is EQ) or was not (NE). In the same order.
	 */
	FORM_CAS,

	/* ---- System: the processor and the kernel */
	FORM_CPU,	 /* a = the number of the CPU, as a hint */
	FORM_TIME,	 /* VALUE = the processor's clock; may change SCRATCH */
	FORM_STORE_TIME, /* 8 bytes at `mem`, a multiple of four, = the clock; may change VALUE,
			    SCRATCH */
	/*
	 * VALUE = what the kernel answers to the call `value`, of enum form_call, whose arguments
	 * are in SET, FROM, SCRATCH, SPARE, POINTER and NEXT; may change RIGHT and SPARE_2.
	 */
	FORM_KERNEL,
	/* no later instruction, reading the clock is one, begins before all earlier are done */
	FORM_FENCE,
	FORM_YIELD, /* tells the processor that the thread waits */

	/* ---- Doubles */
	/*
	 * RIGHT += the double at `mem`, to the nearest, without exceptions; which NaN it gives is
	 * not said. May change SCRATCH, POINTER, NEXT, FROM and the spare ones. KEEP_VECTOR comes
	 * before; RESTORE_VECTOR after all that was not run to its end, and may be done again.
	 * FORM_VECTOR_TEMPS temporaries from number `value` on are theirs.
	 */
	FORM_ADD_DOUBLE,
	FORM_KEEP_VECTOR,
	FORM_RESTORE_VECTOR,

	/* ---- Operators: a = that of a */
	FORM_NEGATE,
	FORM_COMPLEMENT,
	FORM_FLIP,   /* with the other bit `shift` */
	FORM_UNTAG,  /* without those bits of an address that the processor ignores and Linux does
		      * not
		      */
	FORM_UNSIGN, /* a return address without its signature; not in a subroutine */
	/* a = that of b */
	FORM_HIGHEST,  /* a = the number of the highest bit in b, which is not 0 */
	FORM_LOWEST,   /* the same of the lowest bit */
	FORM_MULTIPLY, /* a = b * `value`, 32 bits with their sign */
	/* a = that of a and the right operand */
	FORM_ADD,
	FORM_SUB,
	FORM_AND,
	FORM_OR,
	FORM_XOR,
	FORM_MUL,
	/* any a, by RIGHT modulo the width, or by a constant below it */
	FORM_SHL,
	FORM_SHR,
	/*
	 * VALUE = that of VALUE by RIGHT, which is not 0; may change RIGHT and SCRATCH. If
	 * `is_signed`, the smallest number by -1 is itself, and leaves no remainder.
	 */
	FORM_DIV,
	FORM_MOD,
	/*
	 * VALUE = 64 bits of the product of VALUE and RIGHT, from bit `shift`, 1 to 63, on;
	 * may change SCRATCH
	 */
	FORM_MUL_HIGH
};

/* Back ends have a file for each of these, beside lower.c. */
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

/* Comparisons; flipping the last bit negates one. */
enum form_when {
	FORM_EQ,
	FORM_NE,
	FORM_LT, /* of signed numbers */
	FORM_GE,
	FORM_GT,
	FORM_LE,
	FORM_BELOW, /* of unsigned numbers */
	FORM_NOT_BELOW,
	FORM_ABOVE,
	FORM_NOT_ABOVE
};

/* System calls. */
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

/* An address: base + index * scale + disp. */
struct form_mem {
	int8_t base, index; /* or FORM_NONE */
	uint8_t scale;	    /* 1, 2, 4 or 8 */
	int32_t disp;
};

struct form_insn {
	enum form_op op;
	enum form_when when;
	bool wide, is_signed;
	uint8_t bytes, shift;
	int8_t a, b;	  /* registers */
	bool is_constant; /* the right operand is `value`, 32 bits with their sign; not b */
	/*
	 * The right operand (or, of a comparison with a constant, the left one) is the `bytes`
	 * bytes at `mem`: 4 or 8, as wide as the instruction; or 1, to find out if it is equal.
	 */
	bool is_memory;
	int label, from, no;
	struct form_mem mem;
	uint64_t value;
};

/* Where instructions go: a member of what a back end needs. */
struct form {
	void (*put)(struct form *f, const struct form_insn *insn);
	int (*label)(struct form *f); /* a new one */
};

/* ---- Control (form/control.c) ---------------------------------------------------------- */

int form_label(struct form *f);
void form_place(struct form *f, int label);
void form_mark(struct form *f, int label);
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
void form_jump_unless_bytes(
	struct form *f, struct form_mem mem, uint8_t bytes, uint64_t value, int label);
/* If the u32 at `address` is 0, or is not. */
void form_jump_if_word(
	struct form *f, int scratch, uint64_t address, enum form_when when, int label);
void form_call(struct form *f, int label);
void form_call_nest(struct form *f, int label);
void form_ask(struct form *f, int label, int no);
void form_yes_if_const(struct form *f, int a, int32_t value);
void form_yes_if_at(struct form *f, int a, struct form_mem mem);
/* PUSH or POP. */
void form_stack(struct form *f, enum form_op op, int a);
void form_align(struct form *f, uint32_t alignment);
void form_word(struct form *f, uint8_t bytes, uint64_t value);
/* from: a label, or FORM_NONE. */
void form_label_word(struct form *f, int label, int from);
/* What has no operands, of any subject. */
void form_alone(struct form *f, enum form_op op);

/* ---- Values, and memory (form/memory.c) ------------------------------------------------- */

void form_const(struct form *f, int a, uint64_t value);
void form_address(struct form *f, int a, uint64_t address);
void form_label_address(struct form *f, int a, int label);
void form_move(struct form *f, int a, int b);
void form_extend(struct form *f, int a, int b, uint8_t bytes, bool is_signed);
void form_compute(struct form *f, int a, struct form_mem mem);
void form_load(struct form *f, int a, struct form_mem mem, uint8_t bytes, bool is_signed);
/* All 8 bytes of a; and its low `bytes` bytes. */
void form_store(struct form *f, int a, struct form_mem mem);
void form_store_part(struct form *f, int a, struct form_mem mem, uint8_t bytes);
void form_store_const(struct form *f, struct form_mem mem, uint8_t bytes, int32_t value);
/* The same into what is packed: of 8 bytes, the address is a multiple of 4. May change a. */
void form_store_packed(struct form *f, int a, struct form_mem mem, uint8_t bytes);
/* Part of a register at the site, into what is packed; may change VALUE. */
void form_store_original(
	struct form *f, int reg, uint8_t shift, struct form_mem mem, uint8_t bytes);
void form_store_vector(struct form *f, int vector, struct form_mem mem);
void form_acquire(struct form *f, int a, struct form_mem mem, uint8_t bytes);
void form_publish(struct form *f, int a, struct form_mem mem, uint8_t bytes);
void form_publish_const(struct form *f, struct form_mem mem, uint8_t bytes, int32_t value);

/* ---- Changes (form/change.c) ------------------------------------------------------------ */

/*
 * COUNT, PUBLISH_ADD, PUBLISH_ADD_WHOLE or COUNT_SHARED: adds 1 to 8 bytes; or a, or a number, to
 * so many.
 */
void form_change(struct form *f, enum form_op op, struct form_mem mem);
void form_add_to(struct form *f, enum form_op op, struct form_mem mem, uint8_t bytes, int a);
void form_add_const_to(
	struct form *f, enum form_op op, struct form_mem mem, uint8_t bytes, int32_t value);
void form_fetch_add(struct form *f, int a, struct form_mem mem, uint8_t bytes);
void form_exchange(struct form *f, int a, struct form_mem mem, uint8_t bytes);
void form_cas(
	struct form *f, struct form_mem mem, uint8_t bytes, int a, enum form_when when, int label);

/* ---- System, doubles, operators (form/operators.c) ---------------------------------------- */

void form_cpu(struct form *f, int a);
void form_time(struct form *f);
void form_store_time(struct form *f, struct form_mem mem);
void form_kernel(struct form *f, enum form_call call);
void form_add_double(struct form *f, struct form_mem mem, int temp);
/* KEEP_VECTOR or RESTORE_VECTOR. */
void form_vector(struct form *f, enum form_op op, int temp);
/* NEGATE, COMPLEMENT, UNTAG or UNSIGN. */
void form_one(struct form *f, enum form_op op, bool wide, int a);
void form_flip(struct form *f, int a, uint8_t bit);
void form_highest(struct form *f, int a, int b);
void form_lowest(struct form *f, int a, int b);
void form_multiply(struct form *f, int a, int b, int32_t factor);
/* ADD to MUL. */
void form_two(struct form *f, enum form_op op, bool wide, int a, int b);
/* ADD to XOR, of 8 bytes. */
void form_two_at(struct form *f, enum form_op op, int a, struct form_mem mem);
/* ADD to XOR, SHL and SHR (without sign). */
void form_two_const(struct form *f, enum form_op op, bool wide, int a, int32_t value);
/* SHL or SHR (without sign) of all of a by RIGHT. */
void form_shift_by_right(struct form *f, enum form_op op, int a);
/* SHL, SHR, DIV or MOD of VALUE by RIGHT. */
void form_by_right(struct form *f, enum form_op op, bool wide, bool is_signed);
void form_mul_high(struct form *f, uint8_t shift);

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

/* A temporary of the stub: a word of its frame. */
static inline struct form_mem form_temp(int number)
{
	return form_at(FORM_FRAME, 8 * number);
}

#endif
