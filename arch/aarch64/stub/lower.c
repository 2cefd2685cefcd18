/* SPDX-License-Identifier: MIT */
/*
 * Translates the form to machine code. Six of its registers are x0 to x5, a system call's arguments
 * in x86-64's order, so a system call needs no moves. x16, x17 and x8 (a system call's number) hold
 * intermediate values. A stub saves them first.
 */
#include <assert.h>

#include "arch/aarch64/stub/lower.h"
#include "arch/arch.h"
#include "arch/stub/plan.h"

/* ==== Operators =============================================================================== */

/* sdiv gives the form's result, even for the smallest number divided by -1. */
static void divide(struct a64 *e, const struct form_insn *i)
{
	int value = a64_register(FORM_VALUE), right = a64_register(FORM_RIGHT);
	int quotient = i->op == FORM_MOD ? A64_STEP : value;

	a64_op(e, i->wide, i->is_signed ? A64_SDIV : A64_UDIV, quotient, value, right);
	if (i->op == FORM_MOD)
		a64_op(e, i->wide, A64_MSUB | value << 10, value, quotient, right);
}

static void shift(struct a64 *e, const struct form_insn *i)
{
	int a = a64_register(i->a);
	unsigned int count = (unsigned int)i->value, last = i->wide ? 63 : 31;

	if (!i->is_constant)
		a64_op(e, i->wide,
			i->op == FORM_SHL ? A64_LSLV
			: i->is_signed	  ? A64_ASRV
					  : A64_LSRV,
			a, a, a64_register(FORM_RIGHT));
	else if (i->op == FORM_SHL)
		a64_bits(e, i->wide, false, a, a, -count & last, last - count);
	else
		a64_bits(e, i->wide, false, a, a, count, last);
}

static void operate_const(struct a64 *e, const struct form_insn *i, enum a64_op op)
{
	int a = a64_register(i->a);
	int64_t number = (int64_t)i->value;

	if (op == A64_ADD || op == A64_SUB) {
		enum a64_op other = op == A64_ADD ? A64_SUB : A64_ADD;

		if (a64_op_const(e, i->wide, number < 0 ? other : op, a, a,
			    (uint64_t)(number < 0 ? -number : number)))
			return;
	} else if (a64_op_mask(e, i->wide, op, a, a, i->value)) {
		return;
	}
	a64_const(e, A64_STEP_2, i->value);
	a64_op(e, i->wide, op, a, a, A64_STEP_2);
}

static void a64_lower_operator(struct a64_lowering *l, const struct form_insn *i)
{
	int value = a64_register(FORM_VALUE), right = a64_register(FORM_RIGHT);

	static const enum a64_op plain[] = {
		[FORM_ADD] = A64_ADD,
		[FORM_SUB] = A64_SUB,
		[FORM_AND] = A64_AND,
		[FORM_OR] = A64_ORR,
		[FORM_XOR] = A64_EOR,
		[FORM_MUL] = A64_MUL,
	};
	struct a64 *e = l->e;
	int a = a64_register(i->a);

	switch (i->op) {
	case FORM_NEGATE:
		a64_op(e, i->wide, A64_SUB, a, A64_ZERO, a);
		break;
	case FORM_COMPLEMENT:
		a64_op(e, i->wide, A64_ORN, a, A64_ZERO, a);
		break;
	case FORM_UNTAG: /* clears the top byte */
		a64_op_mask(e, true, A64_AND, a, a, UINT64_MAX >> 8);
		break;
	case FORM_UNSIGN:
		a64_move(e, A64_LINK, a);
		a64_one(e, A64_UNSIGN_LINK, 0);
		a64_move(e, a, A64_LINK);
		break;
	case FORM_FLIP:
		a64_op_mask(e, true, A64_EOR, a, a, UINT64_C(1) << i->shift);
		break;
	case FORM_HIGHEST:
		a64_op(e, true, A64_CLZ, a, a64_register(i->b), 0);
		a64_op_mask(e, true, A64_EOR, a, a, 63);
		break;
	case FORM_LOWEST:
		a64_op(e, true, A64_RBIT, a, a64_register(i->b), 0);
		a64_op(e, true, A64_CLZ, a, a, 0);
		break;
	case FORM_DIV:
	case FORM_MOD:
		divide(e, i);
		break;
	case FORM_SHL:
	case FORM_SHR:
		shift(e, i);
		break;
	case FORM_MULTIPLY:
		a64_const(e, A64_STEP_2, i->value);
		a64_op(e, true, A64_MUL, a, a64_register(i->b), A64_STEP_2);
		break;
	case FORM_MUL_HIGH:
		a64_op(e, true, A64_UMULH, A64_STEP, value, right);
		a64_op(e, true, A64_MUL, value, value, right);
		a64_op(e, true, A64_EXTR | i->shift << 10, value, A64_STEP, value);
		break;
	default:
		if (i->is_memory) {
			a64_lower_load(e, A64_STEP, i->mem, i->bytes, false);
			a64_op(e, i->wide, plain[i->op], a, a, A64_STEP);
		} else if (i->is_constant) {
			operate_const(e, i, plain[i->op]);
		} else {
			a64_op(e, i->wide, plain[i->op], a, a, a64_register(i->b));
		}
		break;
	}
}

/* ==== Values ================================================================================== */

/* to = the named bytes of a register at the site. */
static void a64_original(const struct a64_lowering *l, const struct form_insn *i, int to)
{
	unsigned int bits = 8U * i->bytes;
	int saved = i->b == A64_SP ? -1 : l->frame->saved[i->b], from = i->b;

	if (saved >= 0) {
		a64_lower_load(l->e, to, form_at(FORM_FRAME, saved + i->shift / 8), i->bytes,
			i->is_signed);
		return;
	}
	if (i->b == A64_SP) {
		a64_add_disp(l->e, to, A64_SP, l->frame->size);
		from = to;
	}
	if (bits == 64 && from != to)
		a64_move(l->e, to, from);
	else if (bits < 64)
		a64_bits(l->e, true, i->is_signed, to, from, i->shift, i->shift + bits - 1);
}

static void a64_lower_value(struct a64_lowering *l, const struct form_insn *i)
{
	struct a64 *e = l->e;
	int a = a64_register(i->a);

	switch (i->op) {
	case FORM_CONST:
		a64_const(e, a, i->value);
		break;
	case FORM_ADDRESS:
		a64_address(e, a, i->value);
		break;
	case FORM_LABEL:
		a64_branch(e, A64_ADR | a, i->label);
		break;
	case FORM_MOVE:
		if (i->bytes < sizeof(uint64_t))
			a64_bits(
				e, true, i->is_signed, a, a64_register(i->b), 0, 8U * i->bytes - 1);
		else
			a64_move(e, a, a64_register(i->b));
		break;
	case FORM_ORIGINAL:
		a64_original(l, i, a);
		break;
	default: /* FORM_VECTOR */
		a64_op(e, false, i->bytes == 8 ? A64_FMOV : A64_FMOV_HALF, a, i->b, 0);
		break;
	}
}

/* ==== Memory ================================================================================== */

/* ---- Addresses -------------------------------------------------------------------------- */

static unsigned int log2_of(unsigned int scale)
{
	return (unsigned int)__builtin_ctz(scale);
}

/* Call this before rd is changed. If rd is A64_STEP, it loses the thread pointer. */
static void changes(struct a64 *e, int rd)
{
	if (rd == A64_STEP)
		e->has_thread = false;
}

void a64_add_disp(struct a64 *e, int rd, int rn, int64_t disp)
{
	changes(e, rd);
	if (a64_op_const(e, true, disp < 0 ? A64_SUB : A64_ADD, rd, rn,
		    (uint64_t)(disp < 0 ? -disp : disp)))
		return;
	a64_const(e, A64_STEP_2, (uint64_t)disp);
	if (rn == A64_SP) {
		changes(e, A64_STEP);
		a64_op_const(e, true, A64_ADD, A64_STEP, A64_SP, 0);
		rn = A64_STEP;
	}
	a64_op(e, true, A64_ADD, rd, rn, A64_STEP_2);
}

static int plain_base(struct form_mem m)
{
	switch (m.base) {
	case FORM_FRAME:
	case FORM_CALLER: /* a call puts no return address on the stack, so both are sp */
		return A64_SP;
	case FORM_THREAD:
		return A64_STEP;
	case FORM_NONE:
		return A64_ZERO;
	default:
		return a64_register(m.base);
	}
}

/*
 * Returns a register with the address without displacement: the base or, if there is an index, rd.
 * May change rd and A64_STEP.
 */
static int base_of(struct a64 *e, struct form_mem m, int rd)
{
	int base = plain_base(m);

	if (m.base == FORM_THREAD) {
		if (!e->has_thread)
			a64_one(e, A64_GET_THREAD, A64_STEP);
		e->has_thread = true;
	}
	if (m.index == FORM_NONE)
		return base;
	changes(e, rd);
	if (base == A64_SP && m.base != FORM_NONE) {
		changes(e, A64_STEP);
		a64_op_const(e, true, A64_ADD, A64_STEP, A64_SP, 0);
		base = A64_STEP;
	}
	a64_op(e, true, A64_ADD | log2_of(m.scale) << 10, rd, base, a64_register(m.index));
	return rd;
}

/*
 * Returns a register with the whole address: the base, if the address has no other part, else rd.
 * May change A64_STEP and A64_STEP_2.
 */
static int a64_address_of(struct a64 *e, struct form_mem m, int rd)
{
	int base = base_of(e, m, rd);

	if (base != A64_SP && !m.disp)
		return base;
	a64_add_disp(e, rd, base, m.disp);
	return rd;
}

/* Returns true if one load or store can add the index to the base. */
static bool is_indexed(struct form_mem m, unsigned int bytes)
{
	return m.base != FORM_NONE && m.index != FORM_NONE && !m.disp &&
	       (m.scale == 1 || m.scale == bytes);
}

/* Returns true if one load or store can access this address without changing another register. */
static bool a64_is_direct(struct form_mem m, unsigned int bytes)
{
	if (m.base == FORM_THREAD || m.base == FORM_NONE)
		return false;
	return m.index == FORM_NONE ? a64_disp_fits(m.disp, bytes) : is_indexed(m, bytes);
}

/* ---- Loads and stores ------------------------------------------------------------------- */

static void load_or_store(
	struct a64 *e, enum a64_access access, int rt, struct form_mem m, unsigned int bytes)
{
	bool indexed = is_indexed(m, bytes);
	int index = m.index, base;

	if (indexed)
		m.index = FORM_NONE;
	base = base_of(e, m, A64_STEP);
	if (indexed) {
		a64_indexed(e, access, rt, base, a64_register(index), log2_of(m.scale), bytes);
	} else if (!a64_memory(e, access, rt, base, m.disp, bytes)) {
		a64_const(e, A64_STEP_2, (uint64_t)(int64_t)m.disp);
		a64_indexed(e, access, rt, base, A64_STEP_2, 0, bytes);
	}
}

void a64_lower_load(struct a64 *e, int rt, struct form_mem m, unsigned int bytes, bool is_signed)
{
	load_or_store(e, is_signed && bytes < 8 ? A64_LOAD_SIGNED : A64_LOAD, rt, m, bytes);
}

/* Returns the register of the operand. A constant is loaded into rd, unless it is zero. */
static int a64_operand(struct a64 *e, const struct form_insn *i, int rd)
{
	if (!i->is_constant)
		return a64_register(i->a);
	if (!i->value)
		return A64_ZERO;
	a64_const(e, rd, i->value);
	return rd;
}

/* Stores a register's value at the site, directly if the stub has not saved it. */
static void store_original(const struct a64_lowering *l, const struct form_insn *i)
{
	int from = i->b;

	if (from == A64_SP || l->frame->saved[from] >= 0 || i->shift) {
		from = a64_register(FORM_VALUE);
		a64_original(l, i, from);
	}
	load_or_store(l->e, A64_STORE, from, i->mem, i->bytes);
}

static void a64_lower_memory(struct a64_lowering *l, const struct form_insn *i)
{
	struct a64 *e = l->e;
	int at;
	struct form_mem mem = i->mem;

	switch (i->op) {
	case FORM_COMPUTE:
		at = a64_register(i->a);
		a64_add_disp(e, at, base_of(e, i->mem, at), i->mem.disp);
		break;
	case FORM_LOAD:
		a64_lower_load(e, a64_register(i->a), i->mem, i->bytes, i->is_signed);
		break;
	case FORM_STORE:
	case FORM_STORE_HALVES:
		/* A constant is put into A64_STEP_2, after the address is computed. */
		if (i->is_constant && i->value && !a64_is_direct(mem, i->bytes)) {
			int at = a64_address_of(e, mem, A64_STEP);

			a64_memory(e, A64_STORE, a64_operand(e, i, A64_STEP_2), at, 0, i->bytes);
		} else {
			load_or_store(e, A64_STORE, a64_operand(e, i, A64_STEP_2), mem, i->bytes);
		}
		break;
	case FORM_STORE_ORIGINAL:
		store_original(l, i);
		break;
	case FORM_STORE_VECTOR:
		a64_op(e, false, A64_STORE_VECTOR, i->b, a64_address_of(e, i->mem, A64_STEP), 0);
		break;
	case FORM_ACQUIRE:
		at = a64_register(i->a);
		a64_atomic(e, A64_LOAD_ACQUIRE, 0, at, a64_address_of(e, i->mem, at), i->bytes);
		break;
	default: /* FORM_PUBLISH */
		at = a64_address_of(e, i->mem, A64_STEP);
		a64_atomic(e, A64_STORE_RELEASE, 0, a64_operand(e, i, A64_STEP_2), at, i->bytes);
		break;
	}
}

/* ==== Changes ================================================================================= */

/*
 * Read and change memory. With FEAT_LSE, one instruction changes a shared word; without it, a loop
 * of a load and a store does, which ends when no other thread has changed the word in between.
 *
 * The load acquires and the store releases, but a later access may become visible between them,
 * unlike with FEAT_LSE. So after a thread has claimed something by changing a word, other threads
 * may see its next writes before the claim. So these writes must be harmless until the thread
 * publishes something.
 *
 * Source: DDI 0487, B2.3 (the order of memory) and C6.2.
 */

/* A64_STEP_2 += the operand; a large constant by A64_STATUS. */
static void add_operand(struct a64 *e, const struct form_insn *i)
{
	int64_t number = (int64_t)i->value;

	if (i->is_constant && a64_op_const(e, true, number < 0 ? A64_SUB : A64_ADD, A64_STEP_2,
				      A64_STEP_2, (uint64_t)(number < 0 ? -number : number)))
		return;
	a64_op(e, true, A64_ADD, A64_STEP_2, A64_STEP_2, a64_operand(e, i, A64_STATUS));
}

static void add_to(struct a64 *e, const struct form_insn *i)
{
	int at;

	if (i->op == FORM_COUNT && a64_is_direct(i->mem, i->bytes)) {
		a64_lower_load(e, A64_STEP_2, i->mem, i->bytes, false);
		add_operand(e, i);
		load_or_store(e, A64_STORE, A64_STEP_2, i->mem, i->bytes);
		return;
	}
	at = a64_address_of(e, i->mem, A64_STEP);
	a64_memory(e, A64_LOAD, A64_STEP_2, at, 0, i->bytes);
	add_operand(e, i);
	if (i->op == FORM_PUBLISH_ADD)
		a64_atomic(e, A64_STORE_RELEASE, 0, A64_STEP_2, at, i->bytes);
	else
		a64_memory(e, A64_STORE, A64_STEP_2, at, 0, i->bytes);
}

static void add_to_shared(struct a64 *e, const struct form_insn *i, bool lse)
{
	int at = a64_address_of(e, i->mem, A64_STEP), again;

	if (lse) {
		a64_atomic(e, A64_ADD_TO, a64_operand(e, i, A64_STEP_2), A64_ZERO, at, i->bytes);
		return;
	}
	again = a64_label(e);
	a64_place(e, again);
	a64_atomic(e, A64_LOAD_EXCLUSIVE, 0, A64_STEP_2, at, i->bytes);
	add_operand(e, i);
	a64_atomic(e, A64_STORE_EXCLUSIVE, A64_STATUS, A64_STEP_2, at, i->bytes);
	a64_jump_zero(e, false, false, A64_STATUS, again);
}

static void fetch_add(struct a64 *e, const struct form_insn *i, bool lse)
{
	bool wide = i->bytes == sizeof(uint64_t);
	int at = a64_address_of(e, i->mem, A64_STEP), a = a64_register(i->a), again;

	if (lse) {
		a64_atomic(e, A64_FETCH_ADD, a, a, at, i->bytes);
		return;
	}
	again = a64_label(e);
	a64_place(e, again);
	a64_atomic(e, A64_LOAD_EXCLUSIVE, 0, A64_STEP_2, at, i->bytes);
	a64_op(e, wide, A64_ADD, A64_STEP_2, A64_STEP_2, a);
	a64_atomic(e, A64_STORE_EXCLUSIVE, A64_STATUS, A64_STEP_2, at, i->bytes);
	a64_jump_zero(e, false, false, A64_STATUS, again);
	a64_op(e, wide, A64_SUB, a, A64_STEP_2, a);
}

static void exchange(struct a64 *e, const struct form_insn *i, bool lse)
{
	int at = a64_address_of(e, i->mem, A64_STEP), a = a64_register(i->a), again;

	if (lse) {
		a64_atomic(e, A64_SWAP, a, a, at, i->bytes);
		return;
	}
	again = a64_label(e);
	a64_place(e, again);
	a64_atomic(e, A64_LOAD_EXCLUSIVE, 0, A64_STATUS, at, i->bytes);
	a64_atomic(e, A64_STORE_EXCLUSIVE, A64_STEP_2, a, at, i->bytes);
	a64_jump_zero(e, false, false, A64_STEP_2, again);
	a64_move(e, a, A64_STATUS);
}

static void compare_and_swap(struct a64 *e, const struct form_insn *i, bool lse)
{
	bool wide = i->bytes == sizeof(uint64_t);
	int at = a64_address_of(e, i->mem, A64_STEP), value = a64_register(FORM_VALUE);
	int found = lse ? A64_STEP_2 : A64_STATUS;

	if (lse) {
		a64_move(e, found, value);
		a64_atomic(e, A64_CAS, found, a64_register(i->a), at, i->bytes);
		a64_op(e, wide, A64_SUBS, A64_ZERO, found, value);
	} else {
		int again = a64_label(e), differs = a64_label(e);

		a64_place(e, again);
		a64_atomic(e, A64_LOAD_EXCLUSIVE, 0, found, at, i->bytes);
		a64_op(e, wide, A64_SUBS, A64_ZERO, found, value);
		a64_branch(e, A64_B_IF | A64_NE, differs);
		a64_atomic(e, A64_STORE_EXCLUSIVE, A64_STEP_2, a64_register(i->a), at, i->bytes);
		a64_jump_zero(e, false, false, A64_STEP_2, again);
		a64_place(e, differs);
	}
	a64_move(e, value, found);
	a64_branch(e, A64_B_IF | (i->when == FORM_EQ ? A64_EQ : A64_NE), i->label);
}

static void a64_lower_change(struct a64_lowering *l, const struct form_insn *i)
{
	bool lse = l->thread->has_atomics;

	switch (i->op) {
	case FORM_COUNT:
	case FORM_PUBLISH_ADD:
		add_to(l->e, i);
		break;
	case FORM_PUBLISH_ADD_WHOLE:
	case FORM_COUNT_SHARED:
		add_to_shared(l->e, i, lse);
		break;
	case FORM_FETCH_ADD:
		fetch_add(l->e, i, lse);
		break;
	case FORM_EXCHANGE:
		exchange(l->e, i, lse);
		break;
	default: /* FORM_CAS */
		compare_and_swap(l->e, i, lse);
		break;
	}
}

/* ==== System ================================================================================== */

/*
 * System calls, the CPU's number, and the time. Source: Linux, include/uapi/asm-generic/unistd.h.
 */

enum { MINUS_EFAULT = -14, MONOTONIC = 1, PAIR_BYTES = 16 };

/* ---- SVE ------------------------------------------------------------------------------- */

/*
 * Push and pop a thread's SVE state, at most 8960 bytes. The stack holds predicates and FFR, in the
 * space of three vectors; then the vectors.
 */

enum { PREDICATES = 16, VECTORS = 32, PREDICATE_VECTORS = 3, VECTORS_MOST = 31 };

/* Loads or stores a predicate (pN) or vector (zN) in slot `slot` above sp. */
static void a64_sve(struct a64 *e, bool is_load, bool is_vector, int number, uint32_t slot)
{
	a64_put(e, (is_load ? 0x85800000 : 0xe5800000) | (uint32_t)is_vector << 14 |
			   slot >> 3 << 16 | (slot & 7) << 10 | (uint32_t)A64_SP << 5 |
			   (uint32_t)number);
}

static void a64_sve_all(struct a64 *e, bool is_load)
{
	for (int i = 0; i < PREDICATES; i++)
		a64_sve(e, is_load, false, i, (uint32_t)i);
	for (int i = 0; i < VECTORS; i++)
		a64_sve(e, is_load, true, i, (uint32_t)(PREDICATE_VECTORS + i));
}

/* sp += the size of `vectors` vector registers. */
static void a64_sve_stack(struct a64 *e, int vectors)
{
	a64_put(e, 0x04205000 | ((uint32_t)vectors & 0x3f) << 5 | (uint32_t)A64_SP << 16 |
			   (uint32_t)A64_SP);
}

static void keep_vectors(struct a64 *e)
{
	a64_sve_stack(e, -VECTORS_MOST);
	a64_sve_stack(e, VECTORS_MOST - VECTORS - PREDICATE_VECTORS);
	a64_sve_all(e, false);
	a64_put(e, 0x2519f000); /* rdffr p0.b */
	a64_sve(e, false, false, 0, PREDICATES);
}

static void restore_vectors(struct a64 *e)
{
	a64_sve(e, true, false, 0, PREDICATES);
	a64_put(e, 0x25289000); /* wrffr p0.b */
	a64_sve_all(e, true);
	a64_sve_stack(e, VECTORS_MOST);
	a64_sve_stack(e, VECTORS + PREDICATE_VECTORS - VECTORS_MOST);
}

/* ---- Kernel and clock ------------------------------------------------------------------- */

static void ask_kernel(const struct a64_lowering *l, enum form_call call)
{
	static const uint16_t calls[FORM_CALLS] = {
		[FORM_CALL_CLOCK_GETTIME] = 113,
		[FORM_CALL_FUTEX] = 98,
		[FORM_CALL_GETCPU] = 168,
		[FORM_CALL_GETPID] = 172,
		[FORM_CALL_GETTID] = 178,
		[FORM_CALL_MINCORE] = 232,
		[FORM_CALL_PRCTL] = 167,
		[FORM_CALL_SIGPROCMASK] = 135,
	};
	struct a64 *e = l->e;
	int set = a64_register(FORM_SET); /* x0, which is also the result */
	int streaming = a64_label(e);

	if (l->thread->has_modes) {
		/*
		 * In streaming mode, a system call would end the mode and clear its vectors, so
		 * this jumps with an error in VALUE, like that of a failed call. Reading the mode
		 * first gives a thread Linux's state for FEAT_SME.
		 */
		a64_const(e, a64_register(FORM_VALUE), (uint64_t)MINUS_EFAULT);
		a64_one(e, A64_GET_STREAMING, A64_STEP);
		a64_op_mask(e, true, A64_AND, A64_STEP, A64_STEP, 1);
		a64_jump_zero(e, true, false, A64_STEP, streaming);
	}
	if (l->thread->loses_vectors)
		keep_vectors(e);
	a64_move(e, A64_STEP, set);
	a64_const(e, A64_STATUS, calls[call]); /* x8 */
	a64_one(e, A64_CALL_KERNEL, 0);
	a64_move(e, a64_register(FORM_VALUE), set);
	a64_move(e, set, A64_STEP);
	if (l->thread->loses_vectors)
		restore_vectors(e);
	a64_place(e, streaming);
}

/*
 * The stack holds two saved registers and a struct timespec, which stays 0 if the system call is
 * refused.
 */
void a64_time_subroutine(struct form *f, const struct stub_plan *plan)
{
	const struct a64_lowering *l = (const struct a64_lowering *)f;
	int clock = a64_register(FORM_SET), where = a64_register(FORM_FROM); /* x0, x1 */
	int value = a64_register(FORM_VALUE);
	struct a64 *e = l->e;

	a64_place(e, plan->time);
	a64_pair(e, A64_PUSH_PAIR, clock, where, -2 * PAIR_BYTES);
	a64_pair(e, A64_STORE_PAIR, A64_ZERO, A64_ZERO, PAIR_BYTES);
	a64_const(e, clock, MONOTONIC);
	a64_op_const(e, true, A64_ADD, where, A64_SP, PAIR_BYTES);
	ask_kernel(l, FORM_CALL_CLOCK_GETTIME);
	a64_pair(e, A64_LOAD_PAIR, A64_STEP, value, PAIR_BYTES);
	a64_const(e, A64_STEP_2, (uint64_t)-1000000000);
	a64_op(e, true, A64_MSUB | value << 10, value, A64_STEP, A64_STEP_2);
	a64_pair(e, A64_POP_PAIR, clock, where, 2 * PAIR_BYTES);
	a64_op(e, false, A64_RET, 0, A64_LINK, 0);
}

static void a64_lower_system(struct a64_lowering *l, const struct form_insn *i)
{
	struct a64 *e = l->e;
	int value = a64_register(FORM_VALUE);

	switch (i->op) {
	case FORM_CPU:
		assert(l->thread->has_rseq);
		a64_lower_load(l->e, a64_register(i->a),
			form_at(FORM_THREAD, l->thread->rseq_offset + RSEQ_CPU_ID),
			sizeof(uint32_t), false);
		break;
	case FORM_TIME:
		a64_one(e, A64_GET_TIME, value);
		break;
	case FORM_STORE_TIME:
		a64_one(e, A64_GET_TIME, value);
		load_or_store(e, A64_STORE, value, i->mem, sizeof(uint64_t));
		break;
	case FORM_KERNEL:
		ask_kernel(l, (enum form_call)i->value);
		break;
	case FORM_FENCE:
		/* isb, because memory barriers do not order reads of the counter */
		a64_put(e, 0xd5033fdf);
		break;
	default:			/* FORM_YIELD */
		a64_put(e, 0xd503203f); /* yield */
		break;
	}
}

/* ==== Control ================================================================================= */

/* Labels, jumps, subroutines, and the data in the code of a stub. */

/* ---- Jumps ---------------------------------------------------------------------------- */

/*
 * rd = a - value, with flags; rd may be the zero register. If value is negative, adds -value
 * instead, with the same flags (not so for 0). Changes A64_STEP_2.
 */
static void subtract_const(struct a64 *e, bool wide, int rd, int a, int32_t value)
{
	int64_t number = value;

	if (a64_op_const(e, wide, number < 0 ? A64_ADDS : A64_SUBS, rd, a,
		    (uint64_t)(number < 0 ? -number : number)))
		return;
	a64_const(e, A64_STEP_2, (uint64_t)number);
	a64_op(e, wide, A64_SUBS, rd, a, A64_STEP_2);
}

/*
 * Returns the register of a comparison's left operand. If the right operand is a constant, the left
 * one may be in memory: then it is loaded into A64_STEP.
 */
static int left_of(struct a64 *e, const struct form_insn *i)
{
	if (!i->is_memory || !i->is_constant)
		return a64_register(i->a);
	a64_lower_load(e, A64_STEP, i->mem, i->bytes, false);
	return A64_STEP;
}

/*
 * Compares, setting flags. FORM_SUB_JUMP_IF also stores the difference in `a`. Changes A64_STEP_2.
 */
static void compare(struct a64 *e, const struct form_insn *i, int a)
{
	int result = i->op == FORM_SUB_JUMP_IF ? a : A64_ZERO, b = a64_register(i->b);

	if (i->is_constant) {
		subtract_const(e, i->wide, result, a, (int32_t)i->value);
		return;
	}
	if (i->is_memory) {
		b = A64_STEP_2;
		a64_lower_load(e, b, i->mem, i->bytes, false);
	}
	a64_op(e, i->wide, A64_SUBS, result, a, b);
}

static void jump_if(struct a64 *e, const struct form_insn *i)
{
	static const enum a64_condition conditions[] = {
		[FORM_EQ] = A64_EQ,
		[FORM_NE] = A64_NE,
		[FORM_LT] = A64_LT,
		[FORM_GE] = A64_GE,
		[FORM_GT] = A64_GT,
		[FORM_LE] = A64_LE,
		[FORM_BELOW] = A64_LO,
		[FORM_NOT_BELOW] = A64_HS,
		[FORM_ABOVE] = A64_HI,
		[FORM_NOT_ABOVE] = A64_LS,
	};
	bool subtracts = i->op == FORM_SUB_JUMP_IF;
	int a = left_of(e, i);

	if (i->is_constant && !i->value && !subtracts &&
		(i->when == FORM_EQ || i->when == FORM_NE)) {
		a64_jump_zero(e, i->wide, i->when == FORM_EQ, a, i->label);
		return;
	}
	compare(e, i, a);
	a64_branch(e, A64_B_IF | conditions[i->when], i->label);
}

/* ---- Data ------------------------------------------------------------------------------ */

static void data(struct a64 *e, const struct form_insn *i)
{
	uint64_t value;

	switch (i->op) {
	case FORM_ALIGN:
		while (e->length % i->value)
			a64_put(e, 0); /* udf: never executed */
		break;
	case FORM_WORD:
		a64_put(e, (uint32_t)i->value);
		if (i->bytes == sizeof(uint64_t))
			a64_put(e, (uint32_t)(i->value >> 32));
		break;
	default: /* FORM_LABEL_WORD */
		if (e->labels[i->label] == SIZE_MAX ||
			(i->from != FORM_NONE && e->labels[i->from] == SIZE_MAX))
			e->overflow = true;
		value = e->labels[i->label] - (i->from == FORM_NONE ? -e->at : e->labels[i->from]);
		a64_put(e, (uint32_t)value);
		a64_put(e, (uint32_t)(value >> 32));
		break;
	}
}

/* ---- Subroutines ------------------------------------------------------------------------ */

/* A subroutine answers yes by setting the zero flag. */
static void subroutine(struct a64 *e, const struct form_insn *i)
{
	int other;

	switch (i->op) {
	case FORM_CALL:
	case FORM_CALL_NEST:
		a64_branch(e, A64_BL, i->label);
		break;
	case FORM_ASK:
		a64_branch(e, A64_BL, i->label);
		a64_branch(e, A64_B_IF | A64_NE, i->no);
		break;
	case FORM_NEST:
		a64_move(e, A64_NESTED, A64_LINK);
		break;
	case FORM_RETURN_NESTED:
		a64_op(e, false, A64_RET, 0, A64_NESTED, 0);
		break;
	case FORM_YES:
		a64_op(e, true, A64_SUBS, A64_ZERO, A64_ZERO, A64_ZERO);
		a64_op(e, false, A64_RET, 0, A64_LINK, 0);
		break;
	case FORM_NO:
		/* clears the zero flag, because sp is not 0 */
		a64_op_const(e, true, A64_SUBS, A64_ZERO, A64_SP, 0);
		a64_op(e, false, A64_RET, 0, A64_LINK, 0);
		break;
	case FORM_YES_IF:
		other = a64_label(e);
		compare(e, i, left_of(e, i));
		a64_branch(e, A64_B_IF | A64_NE, other);
		a64_op(e, false, A64_RET, 0, A64_LINK, 0);
		a64_place(e, other);
		break;
	case FORM_PUSH:
		a64_one(e, A64_PUSH, a64_register(i->a));
		break;
	case FORM_POP:
		a64_one(e, A64_POP, a64_register(i->a));
		break;
	default: /* FORM_RETURN */
		a64_op(e, false, A64_RET, 0, A64_LINK, 0);
		break;
	}
}

/* ---- All operations --------------------------------------------------------------------- */

static void a64_lower_control(struct a64_lowering *l, const struct form_insn *i)
{
	struct a64 *e = l->e;

	switch (i->op) {
	case FORM_PLACE:
	case FORM_MARK:
		a64_place(e, i->label);
		break;
	case FORM_JUMP:
		a64_branch(e, A64_B, i->label);
		break;
	case FORM_JUMP_IF:
	case FORM_SUB_JUMP_IF:
		jump_if(e, i);
		break;
	case FORM_JUMP_IF_BITS:
		a64_lower_load(e, A64_STEP, i->mem, i->bytes, false);
		if (!a64_op_mask(e, false, A64_AND, A64_STEP, A64_STEP, i->value)) {
			a64_const(e, A64_STEP_2, i->value);
			a64_op(e, false, A64_AND, A64_STEP, A64_STEP, A64_STEP_2);
		}
		a64_jump_zero(e, false, i->when == FORM_EQ, A64_STEP, i->label);
		break;
	case FORM_JUMP_IF_WORD:
		a64_load_word(e, A64_STEP, i->value);
		a64_jump_zero(e, false, i->when == FORM_EQ, A64_STEP, i->label);
		break;
	case FORM_JUMP_UNLESS_BYTES:
		a64_lower_load(e, A64_STEP, i->mem, i->bytes, false);
		if (i->bytes == 1) {
			subtract_const(e, false, A64_ZERO, A64_STEP, (int32_t)i->value);
		} else {
			a64_const(e, A64_STEP_2, i->value);
			a64_op(e, true, A64_SUBS, A64_ZERO, A64_STEP, A64_STEP_2);
		}
		a64_branch(e, A64_B_IF | A64_NE, i->label);
		break;
	case FORM_ALIGN:
	case FORM_WORD:
	case FORM_LABEL_WORD:
		data(e, i);
		break;
	default:
		subroutine(e, i);
		break;
	}
}

/* ==== The back end ============================================================================ */

int a64_register(int form_register)
{
	static const uint8_t registers[FORM_REGISTERS] = {
		[FORM_VALUE] = 9,
		[FORM_RIGHT] = 10,
		[FORM_SCRATCH] = 2,
		[FORM_POINTER] = 4,
		[FORM_NEXT] = 5,
		[FORM_SET] = 0,
		[FORM_FROM] = 1,
		[FORM_SPARE] = 3,
		[FORM_SPARE_2] = 11,
	};

	return registers[form_register];
}

/*
 * Returns true if the instruction's code itself calls changes() before it changes A64_STEP. This is
 * so for all of FORM_MEMORY and for these instructions, through functions that do it.
 */
static bool tells_of_step(const struct form_insn *i)
{
	switch (i->op) {
	case FORM_MARK:
	case FORM_LABEL:
	case FORM_CONST:
	case FORM_ADDRESS:
	case FORM_MOVE:
	case FORM_ORIGINAL:
	case FORM_TIME:
	case FORM_STORE_TIME:
	case FORM_COUNT:
	case FORM_PUBLISH_ADD:
		return true;
	case FORM_JUMP_IF:
	case FORM_SUB_JUMP_IF:
		return !i->is_memory || !i->is_constant;
	default:
		return form_subject(i->op) == FORM_MEMORY ||
		       (form_subject(i->op) == FORM_OPERATORS && i->op <= FORM_SHR &&
			       !i->is_memory);
	}
}

/* Vector registers are not used, so KEEP_VECTOR and RESTORE_VECTOR do nothing. */
static void a64_lower_double(struct a64_lowering *l, const struct form_insn *i)
{
	if (i->op == FORM_ADD_DOUBLE)
		form_add_double_plainly(&l->form, i->mem);
}

static void put(struct form *form, const struct form_insn *i)
{
	static void (*const lower[])(struct a64_lowering * l, const struct form_insn *i) = {
		[FORM_CONTROL] = a64_lower_control,
		[FORM_VALUES] = a64_lower_value,
		[FORM_MEMORY] = a64_lower_memory,
		[FORM_CHANGES] = a64_lower_change,
		[FORM_SYSTEM] = a64_lower_system,
		[FORM_DOUBLES] = a64_lower_double,
		[FORM_OPERATORS] = a64_lower_operator,
	};
	struct a64_lowering *l = (struct a64_lowering *)form;

	lower[form_subject(i->op)](l, i);
	if (!tells_of_step(i))
		l->e->has_thread = false;
}

static int new_label(struct form *form)
{
	return a64_label(((struct a64_lowering *)form)->e);
}

void a64_lowering_init(struct a64_lowering *l, struct a64 *e, const struct frame *frame,
	const struct arch_thread *thread)
{
	*l = (struct a64_lowering){
		.form = {put, new_label}, .e = e, .frame = frame, .thread = thread};
}
