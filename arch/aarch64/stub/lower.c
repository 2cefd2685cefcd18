/* SPDX-License-Identifier: MIT */
/*
 * The form as machine code. Six of its registers are those of a system call's arguments, in the
 * order that x86-64 has its own, so that nothing is moved for a call of the kernel; x8, that of its
 * number, x16 and x17 have what an instruction of the form needs in between. So a stub saves these
 * twelve at most before it runs.
 */
#include <assert.h>

#include "arch/aarch64/stub/lower.h"
#include "arch/arch.h"
#include "arch/stub/plan.h"

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

static int reg(int form_register)
{
	return a64_register(form_register);
}

/* ---- Memory ------------------------------------------------------------------------- */

static unsigned int log2_of(unsigned int scale)
{
	return (unsigned int)__builtin_ctz(scale);
}

/* rd = rn + disp; rn may be the stack pointer. Changes A64_STEP_2. */
static void add_disp(struct a64 *e, int rd, int rn, int64_t disp)
{
	if (a64_op_const(e, true, disp < 0 ? A64_SUB : A64_ADD, rd, rn,
		    (uint64_t)(disp < 0 ? -disp : disp)))
		return;
	a64_const(e, A64_STEP_2, (uint64_t)disp);
	if (rn == A64_SP) {
		a64_op_const(e, true, A64_ADD, A64_STEP, A64_SP, 0);
		rn = A64_STEP;
	}
	a64_op(e, true, A64_ADD, rd, rn, A64_STEP_2);
}

static int plain_base(struct form_mem m)
{
	switch (m.base) {
	case FORM_FRAME:
	case FORM_CALLER: /* return addresses are in registers */
		return A64_SP;
	case FORM_THREAD:
		return A64_STEP;
	case FORM_NONE:
		return A64_ZERO;
	default:
		return reg(m.base);
	}
}

/*
 * The register that has an address without its displacement: if there is no base, there is an
 * index. Changes A64_STEP.
 */
static int base_of(struct a64 *e, struct form_mem m)
{
	int base = plain_base(m);

	if (m.base == FORM_THREAD)
		a64_thread(e, A64_STEP);
	if (m.index == FORM_NONE)
		return base;
	if (base == A64_SP && m.base != FORM_NONE) {
		a64_op_const(e, true, A64_ADD, A64_STEP, A64_SP, 0);
		base = A64_STEP;
	}
	a64_add_shifted(e, A64_STEP, base, reg(m.index), log2_of(m.scale));
	return A64_STEP;
}

/* Whether one instruction can add the index itself. */
static bool is_indexed(struct form_mem m, unsigned int bytes)
{
	return m.base != FORM_NONE && m.index != FORM_NONE && !m.disp &&
	       (m.scale == 1 || m.scale == bytes);
}

static void load(struct a64 *e, int rt, struct form_mem m, unsigned int bytes, bool is_signed)
{
	bool indexed = is_indexed(m, bytes);
	int index = m.index, base;

	if (indexed)
		m.index = FORM_NONE;
	base = base_of(e, m);
	if (indexed) {
		a64_load_indexed(e, rt, base, reg(index), log2_of(m.scale), bytes, is_signed);
		return;
	}
	if (a64_load(e, rt, base, m.disp, bytes, is_signed))
		return;
	a64_const(e, A64_STEP_2, (uint64_t)(int64_t)m.disp);
	a64_load_indexed(e, rt, base, A64_STEP_2, 0, bytes, is_signed);
}

static void store(struct a64 *e, int rt, struct form_mem m, unsigned int bytes)
{
	bool indexed = is_indexed(m, bytes);
	int index = m.index, base;

	if (indexed)
		m.index = FORM_NONE;
	base = base_of(e, m);
	if (indexed) {
		a64_store_indexed(e, rt, base, reg(index), log2_of(m.scale), bytes);
		return;
	}
	if (a64_store(e, rt, base, m.disp, bytes))
		return;
	a64_const(e, A64_STEP_2, (uint64_t)(int64_t)m.disp);
	a64_store_indexed(e, rt, base, A64_STEP_2, 0, bytes);
}

int a64_address_of(struct a64 *e, struct form_mem m)
{
	int base = base_of(e, m);

	if (base != A64_SP && !m.disp)
		return base;
	add_disp(e, A64_STEP, base, m.disp);
	return A64_STEP;
}

/* The register that has the number to store: zero, or A64_STATUS. */
static int number(struct a64 *e, uint64_t value)
{
	if (!value)
		return A64_ZERO;
	a64_const(e, A64_STATUS, value);
	return A64_STATUS;
}

int a64_operand(struct a64 *e, const struct form_insn *i)
{
	return i->is_constant ? number(e, i->value) : reg(i->a);
}

static void original(const struct a64_lowering *l, const struct form_insn *i)
{
	unsigned int bits = 8U * i->bytes;
	int saved = i->b == A64_SP ? -1 : l->frame->saved[i->b], from = i->b, to = reg(i->a);

	if (saved >= 0) {
		load(l->e, to, form_at(FORM_FRAME, saved + i->shift / 8), i->bytes, i->is_signed);
		return;
	}
	if (i->b == A64_SP) {
		add_disp(l->e, to, A64_SP, l->frame->size);
		from = to;
	}
	if (bits == 64 && from != to)
		a64_move(l->e, to, from);
	else if (bits < 64)
		a64_extract(l->e, to, from, i->shift, bits, i->is_signed);
}

/* A register that is as it was at the site is stored without a copy. */
static void store_original(const struct a64_lowering *l, const struct form_insn *i)
{
	int from = i->b;

	if (from == A64_SP || l->frame->saved[from] >= 0 || i->shift) {
		struct form_insn copy = *i;

		copy.a = FORM_VALUE;
		original(l, &copy);
		from = reg(FORM_VALUE);
	}
	store(l->e, from, i->mem, i->bytes);
}

/* The number of the CPU is in what the kernel keeps for restartable sequences. */
static void cpu(const struct a64_lowering *l, int rd)
{
	assert(l->thread->has_rseq);
	load(l->e, rd, form_at(FORM_THREAD, l->thread->rseq_offset + RSEQ_CPU_ID), sizeof(uint32_t),
		false);
}

static void use_memory(struct a64 *e, const struct form_insn *i)
{
	int at;

	switch (i->op) {
	case FORM_LOAD:
		load(e, reg(i->a), i->mem, i->bytes, i->is_signed);
		break;
	case FORM_STORE_VECTOR:
		a64_store_vector(e, i->b, a64_address_of(e, i->mem));
		break;
	case FORM_STORE:
	case FORM_STORE_CONST:
	case FORM_STORE_HALVES:
		store(e, a64_operand(e, i), i->mem, i->bytes);
		break;
	case FORM_ACQUIRE:
		a64_load_acquire(e, reg(i->a), a64_address_of(e, i->mem), i->bytes);
		break;
	case FORM_PUBLISH:
		at = a64_address_of(e, i->mem);
		a64_store_release(e, a64_operand(e, i), at, i->bytes);
		break;
	case FORM_STORE_TIME:
		a64_time(e, reg(FORM_VALUE));
		store(e, reg(FORM_VALUE), i->mem, sizeof(uint64_t));
		break;
	default: /* FORM_COMPUTE */
		add_disp(e, reg(i->a), base_of(e, i->mem), i->mem.disp);
		break;
	}
}

/* ---- Jumps ---------------------------------------------------------------------------- */

/*
 * rd = a - value, or only the flags of it: it is a + -value, with the same flags, unless that is 0.
 * Changes A64_STEP_2.
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

/* The register of the left operand of a comparison: of one with a constant, it may be in memory. */
static int left_of(struct a64 *e, const struct form_insn *i)
{
	if (!i->is_memory || !i->is_constant)
		return reg(i->a);
	load(e, A64_STEP, i->mem, i->bytes, false);
	return A64_STEP;
}

/* Sets the flags of a comparison, perhaps by a subtraction. Changes A64_STEP and A64_STEP_2. */
static void compare(struct a64 *e, const struct form_insn *i, int a)
{
	int result = i->op == FORM_SUB_JUMP_IF ? a : A64_ZERO, b = reg(i->b);

	if (i->is_constant) {
		subtract_const(e, i->wide, result, a, (int32_t)i->value);
		return;
	}
	if (i->is_memory) {
		b = A64_STEP;
		load(e, b, i->mem, i->bytes, false);
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
	a64_jump_if(e, conditions[i->when], i->label);
}

static void jump_if_bits(struct a64 *e, const struct form_insn *i)
{
	load(e, A64_STEP, i->mem, i->bytes, false);
	if (!a64_op_mask(e, false, A64_AND, A64_STEP, A64_STEP, i->value)) {
		a64_const(e, A64_STEP_2, i->value);
		a64_op(e, false, A64_AND, A64_STEP, A64_STEP, A64_STEP_2);
	}
	a64_jump_zero(e, false, i->when == FORM_EQ, A64_STEP, i->label);
}

static void jump_unless_bytes(struct a64 *e, const struct form_insn *i)
{
	load(e, A64_STEP, i->mem, i->bytes, false);
	if (i->bytes == 1) {
		subtract_const(e, false, A64_ZERO, A64_STEP, (int32_t)i->value);
	} else {
		a64_const(e, A64_STEP_2, i->value);
		a64_op(e, true, A64_SUBS, A64_ZERO, A64_STEP, A64_STEP_2);
	}
	a64_jump_if(e, A64_NE, i->label);
}

/* ---- Subroutines ------------------------------------------------------------------------ */

/* An answer is the zero flag: yes if it is set. */
static void subroutine(struct a64 *e, const struct form_insn *i)
{
	int other;

	switch (i->op) {
	case FORM_CALL:
		a64_call(e, i->label);
		break;
	case FORM_ASK:
		a64_call(e, i->label);
		a64_jump_if(e, A64_NE, i->no);
		break;
	case FORM_NEST:
		a64_move(e, A64_NESTED, A64_LINK);
		break;
	case FORM_RETURN_NESTED:
		a64_return(e, A64_NESTED);
		break;
	case FORM_YES:
		a64_op(e, true, A64_SUBS, A64_ZERO, A64_ZERO, A64_ZERO);
		a64_return(e, A64_LINK);
		break;
	case FORM_NO:
		a64_op_const(e, true, A64_SUBS, A64_ZERO, A64_SP, 0); /* not zero */
		a64_return(e, A64_LINK);
		break;
	case FORM_YES_IF:
		other = a64_label(e);
		compare(e, i, left_of(e, i));
		a64_jump_if(e, A64_NE, other);
		a64_return(e, A64_LINK);
		a64_place(e, other);
		break;
	case FORM_PUSH:
		a64_push(e, reg(i->a));
		break;
	case FORM_POP:
		a64_pop(e, reg(i->a));
		break;
	default: /* FORM_RETURN */
		a64_return(e, A64_LINK);
		break;
	}
}

/* ---- Operators -------------------------------------------------------------------------- */

/* The processor's division of the smallest number by -1 is that of the form. */
static void divide(struct a64 *e, const struct form_insn *i)
{
	int value = reg(FORM_VALUE), right = reg(FORM_RIGHT);
	int quotient = i->op == FORM_MOD ? A64_STEP : value;

	a64_op(e, i->wide, i->is_signed ? A64_SDIV : A64_UDIV, quotient, value, right);
	if (i->op == FORM_MOD)
		a64_msub(e, i->wide, value, quotient, right, value);
}

static void shift(struct a64 *e, const struct form_insn *i)
{
	int a = reg(i->a);

	if (!i->is_constant)
		a64_op(e, i->wide,
			i->op == FORM_SHL ? A64_LSLV
			: i->is_signed	  ? A64_ASRV
					  : A64_LSRV,
			a, a, reg(FORM_RIGHT));
	else if (i->op == FORM_SHL)
		a64_shift_left(e, i->wide, a, a, (unsigned int)i->value);
	else
		a64_shift_right(e, i->wide, a, a, (unsigned int)i->value);
}

static void operate_const(struct a64 *e, const struct form_insn *i, enum a64_op op)
{
	int a = reg(i->a);
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

static void mul_high(struct a64 *e, unsigned int shift)
{
	int value = reg(FORM_VALUE), right = reg(FORM_RIGHT);

	a64_op(e, true, A64_UMULH, A64_STEP, value, right);
	a64_op(e, true, A64_MUL, value, value, right);
	a64_extract_pair(e, value, A64_STEP, value, shift);
}

static void operate(struct a64 *e, const struct form_insn *i)
{
	static const enum a64_op plain[] = {
		[FORM_ADD] = A64_ADD,
		[FORM_SUB] = A64_SUB,
		[FORM_AND] = A64_AND,
		[FORM_OR] = A64_ORR,
		[FORM_XOR] = A64_EOR,
		[FORM_MUL] = A64_MUL,
	};
	int a = reg(i->a);

	switch (i->op) {
	case FORM_NEGATE:
		a64_op(e, i->wide, A64_SUB, a, A64_ZERO, a);
		break;
	case FORM_COMPLEMENT:
		a64_op(e, i->wide, A64_ORN, a, A64_ZERO, a);
		break;
	case FORM_UNTAG: /* its first byte */
		a64_op_mask(e, true, A64_AND, a, a, UINT64_MAX >> 8);
		break;
	case FORM_UNSIGN:
		a64_move(e, A64_LINK, a);
		a64_unsign_link(e);
		a64_move(e, a, A64_LINK);
		break;
	case FORM_FLIP:
		a64_op_mask(e, true, A64_EOR, a, a, UINT64_C(1) << i->shift);
		break;
	case FORM_HIGHEST:
		a64_clz(e, true, a, reg(i->b));
		a64_op_mask(e, true, A64_EOR, a, a, 63);
		break;
	case FORM_LOWEST:
		a64_rbit(e, true, a, reg(i->b));
		a64_clz(e, true, a, a);
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
		a64_op(e, true, A64_MUL, a, reg(i->b), A64_STEP_2);
		break;
	case FORM_MUL_HIGH:
		mul_high(e, i->shift);
		break;
	default:
		if (i->is_memory) {
			load(e, A64_STEP, i->mem, i->bytes, false);
			a64_op(e, i->wide, plain[i->op], a, a, A64_STEP);
		} else if (i->is_constant) {
			operate_const(e, i, plain[i->op]);
		} else {
			a64_op(e, i->wide, plain[i->op], a, a, reg(i->b));
		}
		break;
	}
}

/* ---- The kernel -------------------------------------------------------------------------- */

static void ask_kernel(const struct a64_lowering *l, enum form_call call)
{
	static const uint16_t calls[FORM_CALLS] = {
		[FORM_CALL_FUTEX] = 98,
		[FORM_CALL_GETPID] = 172,
		[FORM_CALL_GETTID] = 178,
		[FORM_CALL_PRCTL] = 167,
		[FORM_CALL_SIGPROCMASK] = 135,
	};
	struct a64 *e = l->e;
	int set = reg(FORM_SET); /* the answer is there, too */

	if (l->thread->loses_vectors)
		a64_keep_vectors(e);
	a64_move(e, A64_STEP, set);
	a64_const(e, A64_STATUS, calls[call]); /* x8 */
	a64_call_kernel(e);
	a64_move(e, reg(FORM_VALUE), set);
	a64_move(e, set, A64_STEP);
	if (l->thread->loses_vectors)
		a64_restore_vectors(e);
}

/* ---- All instructions --------------------------------------------------------------------- */

static void put(struct form *form, const struct form_insn *i)
{
	const struct a64_lowering *l = (const struct a64_lowering *)form;
	struct a64 *e = l->e;

	switch (i->op) {
	case FORM_PLACE:
		a64_place(e, i->label);
		break;
	case FORM_JUMP:
		a64_jump(e, i->label);
		break;
	case FORM_JUMP_IF:
	case FORM_SUB_JUMP_IF:
		jump_if(e, i);
		break;
	case FORM_JUMP_IF_BITS:
		jump_if_bits(e, i);
		break;
	case FORM_JUMP_UNLESS_BYTES:
		jump_unless_bytes(e, i);
		break;
	case FORM_JUMP_IF_WORD:
		a64_address(e, A64_STEP, i->value);
		a64_load(e, A64_STEP, A64_STEP, 0, sizeof(uint32_t), false);
		a64_jump_zero(e, false, i->when == FORM_EQ, A64_STEP, i->label);
		break;
	case FORM_ALIGN:
		while (e->length % i->value)
			a64_put(e, 0); /* udf: never executed */
		break;
	case FORM_WORD:
		a64_put(e, (uint32_t)i->value);
		if (i->bytes == sizeof(uint64_t))
			a64_put(e, (uint32_t)(i->value >> 32));
		break;
	case FORM_LABEL_WORD:
		a64_label_word(e, i->label, i->from);
		break;
	case FORM_ADD_DOUBLE:
		form_add_double_plainly(form, i->mem);
		break;
	case FORM_KEEP_VECTOR:
	case FORM_RESTORE_VECTOR:
		break; /* none is used */
	case FORM_CONST:
		a64_const(e, reg(i->a), i->value);
		break;
	case FORM_ADDRESS:
		a64_address(e, reg(i->a), i->value);
		break;
	case FORM_LABEL:
		a64_label_address(e, reg(i->a), i->label);
		break;
	case FORM_MOVE:
		if (i->bytes < sizeof(uint64_t))
			a64_extract(e, reg(i->a), reg(i->b), 0, 8U * i->bytes, i->is_signed);
		else
			a64_move(e, reg(i->a), reg(i->b));
		break;
	case FORM_ORIGINAL:
		original(l, i);
		break;
	case FORM_STORE_ORIGINAL:
		store_original(l, i);
		break;
	case FORM_VECTOR:
		a64_vector(e, reg(i->a), i->b, i->bytes);
		break;
	case FORM_CPU:
		cpu(l, reg(i->a));
		break;
	case FORM_TIME:
		a64_time(e, reg(FORM_VALUE));
		break;
	case FORM_KERNEL:
		ask_kernel(l, (enum form_call)i->value);
		break;
	case FORM_LOAD:
	case FORM_STORE:
	case FORM_STORE_CONST:
	case FORM_STORE_HALVES:
	case FORM_STORE_VECTOR:
	case FORM_ACQUIRE:
	case FORM_PUBLISH:
	case FORM_STORE_TIME:
	case FORM_COMPUTE:
		use_memory(e, i);
		break;
	case FORM_COUNT:
	case FORM_PUBLISH_ADD:
	case FORM_COUNT_SHARED:
	case FORM_FETCH_ADD:
	case FORM_EXCHANGE:
	case FORM_CAS:
		a64_lower_change(l, i);
		break;
	case FORM_FENCE:
		a64_put(e, 0xd5033fdf); /* isb: barriers of memory do not order the counter */
		break;
	case FORM_YIELD:
		a64_put(e, 0xd503203f); /* yield */
		break;
	case FORM_CALL:
	case FORM_ASK:
	case FORM_NEST:
	case FORM_RETURN_NESTED:
	case FORM_RETURN:
	case FORM_YES:
	case FORM_NO:
	case FORM_YES_IF:
	case FORM_PUSH:
	case FORM_POP:
		subroutine(e, i);
		break;
	default:
		operate(e, i);
		break;
	}
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
