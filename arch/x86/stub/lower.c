/* SPDX-License-Identifier: MIT */
/*
 * Translates a stub from the form (arch/stub/form.h) into machine code. Each register of the form
 * is one of x86-64. Where x86-64 needs a certain one (%cl for a shift's count), so does the form.
 */
#include "arch/x86/stub/lower.h"

/* ==== Operands ================================================================================ */

static int lower_register(int form_register)
{
	static const int registers[FORM_REGISTERS] = {
		[FORM_VALUE] = RAX,
		[FORM_RIGHT] = RCX,
		[FORM_SCRATCH] = RDX,
		[FORM_POINTER] = R8,
		[FORM_NEXT] = R9,
		[FORM_SET] = RDI,
		[FORM_FROM] = RSI,
		[FORM_SPARE] = R10,
		[FORM_SPARE_2] = R11,
	};

	return registers[form_register];
}

static struct emit_mem lower_mem(struct form_mem m)
{
	struct emit_mem ret = {.index = m.index == FORM_NONE ? REG_NONE : lower_register(m.index),
		.scale = m.scale,
		.disp = m.disp};

	switch (m.base) {
	case FORM_THREAD:
		ret.fs = true;
		/* fall through */
	case FORM_NONE:
		ret.base = REG_NONE;
		break;
	case FORM_CALLER: /* the caller's frame begins above the return address */
		ret.disp += (int32_t)sizeof(uint64_t);
		/* fall through */
	case FORM_FRAME:
		ret.base = RSP;
		break;
	default:
		ret.base = lower_register(m.base);
	}
	return ret;
}

/* ==== Jumps =================================================================================== */

/* cmpb $imm, mem */
static void compare_byte(struct emit *e, struct emit_mem m, uint8_t imm)
{
	emit_group_mem(e, false, GROUP_BYTE, IMM_CMP, m);
	emit_u8(e, imm);
}

/* A comparison or, for FORM_SUB_JUMP_IF, a subtraction, with the same flags. */
static void compare(struct emit *e, const struct form_insn *i)
{
	int a = lower_register(i->a);

	if (i->op == FORM_SUB_JUMP_IF && i->is_constant)
		emit_imm(e, i->wide, IMM_SUB, a, (int32_t)i->value);
	else if (i->op == FORM_SUB_JUMP_IF)
		emit_reg(e, i->wide, OP_SUB, a, lower_register(i->b));
	else if (i->is_memory && i->is_constant && i->bytes == 1)
		compare_byte(e, lower_mem(i->mem), (uint8_t)i->value);
	else if (i->is_memory && i->is_constant)
		emit_imm_mem(e, i->wide, IMM_CMP, lower_mem(i->mem), (int32_t)i->value);
	else if (i->is_memory)
		emit_mem(e, i->wide, i->bytes == 1 ? OP_CMP8 : OP_CMP, a, lower_mem(i->mem));
	else if (!i->is_constant)
		emit_reg(e, i->wide, OP_CMP, a, lower_register(i->b));
	else if (i->value)
		emit_imm(e, i->wide, IMM_CMP, a, (int32_t)i->value);
	else
		emit_reg(e, i->wide, OP_TEST, a, a);
}

/* Does it compare a register with 0 while the flags already hold the result? */
static bool is_tested(const struct lowering *l, const struct form_insn *i)
{
	return i->op != FORM_SUB_JUMP_IF && !i->is_memory && i->is_constant && !i->value &&
	       (i->when == FORM_EQ || i->when == FORM_NE) && l->tested == i->a &&
	       l->tested_wide == i->wide;
}

static void jump_if(const struct lowering *l, const struct form_insn *i)
{
	static const int conditions[] = {
		[FORM_EQ] = CC_E,
		[FORM_NE] = CC_NE,
		[FORM_LT] = CC_L,
		[FORM_GE] = CC_GE,
		[FORM_GT] = CC_G,
		[FORM_LE] = CC_LE,
		[FORM_BELOW] = CC_B,
		[FORM_NOT_BELOW] = CC_AE,
		[FORM_ABOVE] = CC_A,
		[FORM_NOT_ABOVE] = CC_BE,
	};

	if (!is_tested(l, i))
		compare(l->e, i);
	emit_jump_label(l->e, conditions[i->when], i->label);
}

/* ---- Data ---------------------------------------------------------------------------- */

static void data(struct emit *e, const struct form_insn *i)
{
	uint64_t from;

	switch (i->op) {
	/* no short jump may cross the padding, whose length may change in the second pass */
	case FORM_ALIGN:
		while (e->length % i->value)
			emit_u8(e, 0xcc); /* never executed */
		break;
	case FORM_WORD:
		if (i->bytes == sizeof(uint32_t))
			emit_u32(e, (uint32_t)i->value);
		else
			emit_u64(e, i->value);
		break;
	default: /* FORM_LABEL_WORD */
		from = i->from == FORM_NONE ? -e->at : e->labels[i->from];
		emit_u64(e, e->labels[i->label] - from);
		break;
	}
}

/* ---- Subroutines --------------------------------------------------------------------- */

/*
 * Calls a subroutine that may make a system call. Call and return are jumps, because ret is
 * predicted from a stack of return addresses. Where Linux clears that against attacks
 * (Documentation/admin-guide/hw-vuln/srso.rst), the first two ret after a system call took 25 ns.
 * An indirect jump is predicted from its own address.
 */
static void emit_call_by_jump(struct emit *e, int label)
{
	int back = emit_label(e);

	emit_lea_label(e, R11, back);
	emit_push(e, R11);
	emit_jump_label(e, -1, label);
	emit_place(e, back);
}

/* Returns from such a subroutine. Keeps flags. */
static void emit_return_by_jump(struct emit *e)
{
	emit_pop(e, R11);
	emit_bytes(e, "\x41\xff\xe3", 3); /* jmp *%r11 */
}

/* Calls and returns. A subroutine answers yes by setting the zero flag. */
static void subroutine(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;
	int other;

	switch (i->op) {
	case FORM_CALL:
		emit_call_label(e, i->label);
		break;
	case FORM_CALL_NEST:
		emit_call_by_jump(e, i->label);
		break;
	case FORM_ASK:
		emit_call_by_jump(e, i->label);
		emit_jump_label(e, CC_NE, i->no);
		break;
	case FORM_YES:
		emit_reg(e, false, OP_CMP, RAX, RAX);
		emit_return_by_jump(e);
		break;
	case FORM_NO:
		emit_reg(e, true, OP_TEST, RSP, RSP); /* clears the zero flag */
		emit_return_by_jump(e);
		break;
	case FORM_YES_IF:
		other = emit_label(e);
		if (!is_tested(l, i))
			compare(e, i);
		emit_jump_label(e, CC_NE, other);
		emit_return_by_jump(e);
		emit_place(e, other);
		break;
	case FORM_PUSH:
		emit_push(e, lower_register(i->a));
		break;
	case FORM_POP:
		emit_pop(e, lower_register(i->a));
		break;
	case FORM_RETURN:
		emit_u8(e, 0xc3);
		break;
	case FORM_RETURN_NESTED:
		emit_return_by_jump(e);
		break;
	default: /* FORM_NEST: no code, because return addresses are already on the stack */
		break;
	}
}

/* ---- All of them ----------------------------------------------------------------------- */

static void lower_control(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;

	switch (i->op) {
	case FORM_PLACE:
	case FORM_MARK:
		emit_place(e, i->label);
		break;
	case FORM_JUMP:
		emit_jump_label(e, -1, i->label);
		break;
	case FORM_JUMP_IF:
	case FORM_SUB_JUMP_IF:
		jump_if(l, i);
		break;
	case FORM_JUMP_IF_BITS:
		emit_group_mem(e, false, GROUP_ONE, ONE_TEST, lower_mem(i->mem));
		emit_u32(e, (uint32_t)i->value);
		emit_jump_label(e, i->when == FORM_EQ ? CC_E : CC_NE, i->label);
		break;
	case FORM_JUMP_IF_WORD:
		emit_test_u32(e, i->value, lower_register(i->a));
		emit_jump_label(e, i->when == FORM_EQ ? CC_E : CC_NE, i->label);
		break;
	case FORM_JUMP_UNLESS_BYTES:
		if (i->bytes == 1) {
			compare_byte(e, lower_mem(i->mem), (uint8_t)i->value);
		} else {
			emit_const(e, RCX, i->value);
			emit_mem(e, true, OP_CMP, RCX, lower_mem(i->mem));
		}
		emit_jump_label(e, CC_NE, i->label);
		break;
	case FORM_ALIGN:
	case FORM_WORD:
	case FORM_LABEL_WORD:
		data(e, i);
		break;
	default:
		subroutine(l, i);
		break;
	}
}

/* ==== Operators =============================================================================== */

/* Divides %rax by %rcx, or takes the remainder. Dividing the smallest number by -1 would trap. */
static void divide(struct emit *e, const struct form_insn *i)
{
	bool remainder = i->op == FORM_MOD;
	int done = emit_label(e), plain = emit_label(e);

	if (i->is_signed) {
		emit_imm(e, i->wide, IMM_CMP, RCX, -1);
		emit_jump_label(e, CC_NE, plain);
		if (remainder)
			emit_const(e, RAX, 0);
		else
			emit_group(e, i->wide, GROUP_ONE, ONE_NEG, RAX);
		emit_jump_label(e, -1, done);
		emit_place(e, plain);
		emit_bytes(e, i->wide ? "\x48\x99" : "\x99", i->wide ? 2 : 1); /* cqo, cdq */
		emit_group(e, i->wide, GROUP_ONE, ONE_IDIV, RCX);
	} else {
		emit_reg(e, false, OP_XOR, RDX, RDX);
		emit_group(e, i->wide, GROUP_ONE, ONE_DIV, RCX);
	}
	if (remainder)
		emit_reg(e, i->wide, OP_MOV_LOAD, RAX, RDX);
	emit_place(e, done);
}

/* shl or shr by a constant. */
static void emit_shift(struct emit *e, bool wide, bool left, int reg, uint8_t count)
{
	emit_group(e, wide, GROUP_SHIFT, left ? SHIFT_LEFT : SHIFT_RIGHT, reg);
	emit_u8(e, count);
}

static void shift(struct emit *e, const struct form_insn *i)
{
	if (i->is_constant)
		emit_shift(e, i->wide, i->op == FORM_SHL, lower_register(i->a), (uint8_t)i->value);
	else
		emit_group(e, i->wide, GROUP_SHIFT_CL,
			i->op == FORM_SHL ? SHIFT_LEFT
			: i->is_signed	  ? SHIFT_RIGHT_SIGNED
					  : SHIFT_RIGHT,
			lower_register(i->a));
}

static void lower_operator(const struct lowering *l, const struct form_insn *i)
{
	/* clang-format off */
	static const struct { enum emit_op op; int digit; } plain[] = {
		[FORM_ADD] = {OP_ADD, IMM_ADD},
		[FORM_SUB] = {OP_SUB, IMM_SUB},
		[FORM_AND] = {OP_AND, IMM_AND},
		[FORM_OR] = {OP_OR, IMM_OR},
		[FORM_XOR] = {OP_XOR, IMM_XOR},
		[FORM_MUL] = {OP_IMUL, -1},
	};
	/* clang-format on */
	struct emit *e = l->e;
	int a = lower_register(i->a);

	switch (i->op) {
	case FORM_NEGATE:
	case FORM_COMPLEMENT:
		emit_group(e, i->wide, GROUP_ONE, i->op == FORM_NEGATE ? ONE_NEG : ONE_NOT, a);
		break;
	case FORM_UNTAG: /* addresses on x86-64 have no tag bits and no signature */
	case FORM_UNSIGN:
		break;
	case FORM_FLIP:
		emit_flip(e, a, i->shift);
		break;
	case FORM_HIGHEST:
		emit_reg(e, true, OP_BSR, a, lower_register(i->b));
		break;
	case FORM_LOWEST:
		emit_reg(e, true, OP_BSF, a, lower_register(i->b));
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
		emit_multiply(e, a, lower_register(i->b), (int32_t)i->value);
		break;
	case FORM_MUL_HIGH:
		emit_group(e, true, GROUP_ONE, ONE_MUL, RCX); /* rdx:rax */
		emit_bytes(e, "\x48\x0f\xac\xd0", 4);	      /* shrd $shift, %rdx, %rax */
		emit_u8(e, i->shift);
		break;
	default:
		if (i->is_memory)
			emit_mem(e, i->wide, plain[i->op].op, a, lower_mem(i->mem));
		else if (i->is_constant)
			emit_imm(e, i->wide, plain[i->op].digit, a, (int32_t)i->value);
		else
			emit_reg(e, i->wide, plain[i->op].op, a, lower_register(i->b));
		break;
	}
}

/* ==== Kernel ================================================================================== */

/*
 * System calls, the CPU's number, and the time, also without the time stamp counter.
 *
 * Sources: Intel SDM volume 2, LSL, RDTSC; clock_gettime(2).
 */

enum {
	MONOTONIC = 1, /* CLOCK_MONOTONIC */
	TIMESPEC_BYTES = 16,
	/* GDT_ENTRY_CPUNODE * 8 + 3: a segment whose limit is node << 12 | cpu */
	CPU_SEGMENT = 0x7b
};

/* %edx:%eax = the time stamp counter. */
static void emit_rdtsc(struct emit *e)
{
	emit_bytes(e, "\x0f\x31", 2);
}

static void ask_kernel(struct emit *e, uint64_t call)
{
	static const uint16_t calls[FORM_CALLS] = {
		[FORM_CALL_CLOCK_GETTIME] = 228,
		[FORM_CALL_FUTEX] = 202,
		[FORM_CALL_GETCPU] = 309,
		[FORM_CALL_GETPID] = 39,
		[FORM_CALL_GETTID] = 186,
		[FORM_CALL_MINCORE] = 27,
		[FORM_CALL_PRCTL] = 157,
		[FORM_CALL_SIGPROCMASK] = 14,
	};

	/* The form's argument registers are those of Linux system calls. */
	emit_const(e, RAX, calls[call]);
	emit_bytes(e, "\x0f\x05", 2);
}

static void lower_system(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;
	struct emit_mem m;
	int a = lower_register(i->a);

	switch (i->op) {
	case FORM_CPU:
		/*
		 * lsl reads the number from a segment of Linux's vDSO (asm/segment.h). Without it,
		 * the register does not change.
		 */
		emit_const(e, a, CPU_SEGMENT);
		emit_reg(e, false, OP_LSL, a, a);
		emit_imm(e, false, IMM_AND, a, 0xfff);
		break;
	case FORM_TIME:
		emit_rdtsc(e);
		emit_shift(e, true, true, RDX, 32);
		emit_reg(e, true, OP_OR, RAX, RDX);
		break;
	case FORM_STORE_TIME: /* stores in two halves, as FORM_STORE_HALVES does */
		m = lower_mem(i->mem);
		emit_rdtsc(e);
		emit_mem(e, false, OP_MOV_STORE, RAX, m);
		m.disp += 4;
		emit_mem(e, false, OP_MOV_STORE, RDX, m);
		break;
	case FORM_KERNEL:
		ask_kernel(e, i->value);
		break;
	case FORM_FENCE:
		emit_bytes(e, "\x0f\xae\xe8", 3); /* lfence */
		break;
	default:			      /* FORM_YIELD */
		emit_bytes(e, "\xf3\x90", 2); /* pause */
		break;
	}
}

void x86_64_time_subroutine(struct form *f, const struct stub_plan *plan)
{
	static const int changed[] = {RCX, RSI, RDI, R11};
	enum { CHANGED = sizeof(changed) / sizeof(*changed), SECONDS = 0, NANOSECONDS = 8 };
	struct emit *e = ((struct lowering *)f)->e;

	emit_place(e, plan->time);
	for (int i = 0; i < CHANGED; i++)
		emit_push(e, changed[i]);
	emit_bytes(e, "\x6a\x00\x6a\x00", 4); /* push $0; push $0: struct timespec */
	emit_const(e, RDI, MONOTONIC);
	emit_reg(e, true, OP_MOV_LOAD, RSI, RSP);
	ask_kernel(e, FORM_CALL_CLOCK_GETTIME);
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_at(RSP, SECONDS));
	emit_multiply(e, RAX, RAX, 1000000000);
	emit_mem(e, true, OP_ADD, RAX, mem_at(RSP, NANOSECONDS));
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, TIMESPEC_BYTES));
	for (int i = CHANGED; i-- > 0;)
		emit_pop(e, changed[i]);
	emit_u8(e, 0xc3); /* ret */
}

/* ==== Values ================================================================================== */

/* Constants, addresses, and registers at the site. */

/* Returns the instruction that extends to 64 bits. *wide_ret: its operand must have 64 bits. */
static enum emit_op extension(unsigned int bytes, bool is_signed, bool *wide_ret)
{
	*wide_ret = is_signed || (bytes != 1 && bytes != 2 && bytes != 4);
	switch (bytes) {
	case 1:
		return is_signed ? OP_MOVSX8 : OP_MOVZX8;
	case 2:
		return is_signed ? OP_MOVSX16 : OP_MOVZX16;
	case 4:
		return is_signed ? OP_MOVSX32 : OP_MOV_LOAD;
	default:
		return OP_MOV_LOAD;
	}
}

/* dst = the low bytes of a register, extended to 64 bits. */
static void emit_extend(struct emit *e, int reg, unsigned int bytes, bool is_signed, int dst)
{
	bool wide;
	enum emit_op op = extension(bytes, is_signed, &wide);

	emit_reg(e, wide, op, dst, reg);
}

/* dst = the value at m, extended to 64 bits. */
static void emit_load(
	struct emit *e, struct emit_mem m, unsigned int bytes, bool is_signed, int dst)
{
	bool wide;
	enum emit_op op = extension(bytes, is_signed, &wide);

	emit_mem(e, wide, op, dst, m);
}

/* dst = a part of a register's value at the site. */
static void lower_original(const struct lowering *l, const struct form_insn *i, int dst)
{
	struct emit *e = l->e;
	int reg = i->b, saved = l->frame->saved[reg];

	if (reg == RSP) {
		emit_mem(e, true, OP_LEA, dst, mem_at(RSP, l->frame->size));
		if (i->bytes < sizeof(uint64_t))
			emit_extend(e, dst, i->bytes, i->is_signed, dst);
	} else if (saved >= 0) {
		emit_load(e, mem_at(RSP, saved + i->shift / 8), i->bytes, i->is_signed, dst);
	} else if (i->shift) {
		emit_reg(e, true, OP_MOV_LOAD, dst, reg);
		emit_shift(e, true, false, dst, i->shift);
		emit_extend(e, dst, i->bytes, i->is_signed, dst);
	} else {
		emit_extend(e, reg, i->bytes, i->is_signed, dst);
	}
}

static void lower_value(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;
	int a = lower_register(i->a);
	uint8_t rex = (i->bytes == 8 ? 8 : 0) | (i->b & 8 ? 4 : 0) | (a & 8 ? 1 : 0);

	switch (i->op) {
	case FORM_CONST:
		emit_const(e, a, i->value);
		break;
	case FORM_ADDRESS:
		emit_lea_to(e, a, i->value);
		break;
	case FORM_LABEL:
		emit_lea_label(e, a, i->label);
		break;
	case FORM_MOVE:
		emit_extend(e, lower_register(i->b), i->bytes, i->is_signed, a);
		break;
	case FORM_ORIGINAL:
		lower_original(l, i, a);
		break;
	default: /* FORM_VECTOR */
		emit_u8(e, 0x66);
		if (rex)
			emit_u8(e, 0x40 | rex);
		emit_bytes(e, "\x0f\x7e", 2); /* movd or movq %xmmN, reg */
		emit_u8(e, 0xc0 | (i->b & 7) << 3 | (a & 7));
		break;
	}
}

/* ==== Memory ================================================================================== */

/* Plain loads acquire and plain stores release on this processor. */

/* movq or movl $imm, mem */
static void store_constant(struct emit *e, bool wide, struct emit_mem m, int32_t imm)
{
	emit_group_mem(e, wide, GROUP_STORE, 0, m);
	emit_u32(e, imm);
}

static void emit_store_part(struct emit *e, int reg, struct emit_mem m, unsigned int bytes)
{
	if (bytes == 2)
		emit_u8(e, 0x66);
	emit_mem(e, bytes == 8, bytes == 1 ? OP_MOV_STORE8 : OP_MOV_STORE, reg, m);
}

/*
 * Stores a register, which changes, at a multiple of four: in halves, since eight bytes there may
 * be misaligned and in two cache lines.
 */
static void emit_store_halves(struct emit *e, int reg, struct emit_mem m)
{
	emit_store_part(e, reg, m, 4);
	m.disp += 4;
	emit_shift(e, true, false, reg, 32);
	emit_store_part(e, reg, m, 4);
}

/* Stores a register's value at the site, directly if the register still holds it. */
static void store_original(const struct lowering *l, const struct form_insn *i)
{
	struct emit_mem m = lower_mem(i->mem);
	bool is_live = i->b != RSP && l->frame->saved[i->b] < 0 && !i->shift;

	if (is_live && i->bytes < sizeof(uint64_t)) {
		emit_store_part(l->e, i->b, m, i->bytes);
		return;
	}
	lower_original(l, i, RAX);
	if (i->bytes == sizeof(uint64_t))
		emit_store_halves(l->e, RAX, m);
	else
		emit_store_part(l->e, RAX, m, i->bytes);
}

static void lower_memory(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;
	struct emit_mem m = lower_mem(i->mem);

	switch (i->op) {
	case FORM_LOAD:
	case FORM_ACQUIRE:
		emit_load(e, m, i->bytes, i->is_signed, lower_register(i->a));
		break;
	case FORM_STORE:
	case FORM_PUBLISH:
		if (i->is_constant)
			store_constant(e, i->bytes == sizeof(uint64_t), m, (int32_t)i->value);
		else
			emit_store_part(e, lower_register(i->a), m, i->bytes);
		break;
	case FORM_STORE_HALVES:
		emit_store_halves(e, lower_register(i->a), m);
		break;
	case FORM_STORE_ORIGINAL:
		store_original(l, i);
		break;
	case FORM_STORE_VECTOR: /* 16 bytes, aligned or not */
		emit_mem(e, false, OP_MOVU_STORE, i->b, m);
		break;
	default: /* FORM_COMPUTE */
		/* The thread pointer points to itself (System V ABI, TLS). */
		emit_mem(e, true, m.fs ? OP_MOV_LOAD : OP_LEA, lower_register(i->a), m);
		break;
	}
}

/* ==== Double ================================================================================== */

/*
 * Sums of doubles. The program's rules for rounding and exceptions (%mxcsr) and the low half of
 * %xmm0 are saved and restored. In between, exceptions are masked and rounding is to nearest.
 */

enum { MXCSR_DEFAULT = 0x1f80, PREFIX_DOUBLE = 0x66, PREFIX_SCALAR = 0xf2, XMM0 = 0 };

enum { KEPT_XMM, KEPT_MXCSR, OUR_MXCSR, OPERAND };
_Static_assert((int)OPERAND < FORM_VECTOR_TEMPS, "temporaries of the form");

static struct emit_mem kept(const struct form_insn *i, int which)
{
	return mem_at(RSP, 8 * ((int)i->value + which));
}

static void emit_double(struct emit *e, uint8_t prefix, enum emit_op op, struct emit_mem mem)
{
	emit_u8(e, prefix);
	emit_mem(e, false, op, XMM0, mem);
}

static void restore_vector(struct emit *e, const struct form_insn *i)
{
	emit_mem(e, false, OP_MXCSR, MXCSR_LOAD, kept(i, KEPT_MXCSR));
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_LOAD, kept(i, KEPT_XMM));
}

static void lower_double(const struct lowering *l, const struct form_insn *i)
{
	switch (i->op) {
	case FORM_KEEP_VECTOR:
		emit_double(l->e, PREFIX_DOUBLE, OP_MOVLP_STORE, kept(i, KEPT_XMM));
		emit_mem(l->e, false, OP_MXCSR, MXCSR_STORE, kept(i, KEPT_MXCSR));
		store_constant(l->e, false, kept(i, OUR_MXCSR), MXCSR_DEFAULT);
		break;
	case FORM_RESTORE_VECTOR:
		restore_vector(l->e, i);
		break;
	default: /* FORM_ADD_DOUBLE */
		emit_mem(l->e, true, OP_MOV_STORE, RCX, kept(i, OPERAND));
		emit_mem(l->e, false, OP_MXCSR, MXCSR_LOAD, kept(i, OUR_MXCSR));
		emit_double(l->e, PREFIX_DOUBLE, OP_MOVLP_LOAD, kept(i, OPERAND));
		emit_double(l->e, PREFIX_SCALAR, OP_ADDS, lower_mem(i->mem));
		emit_double(l->e, PREFIX_DOUBLE, OP_MOVLP_STORE, kept(i, OPERAND));
		restore_vector(l->e, i);
		emit_mem(l->e, true, OP_MOV_LOAD, RCX, kept(i, OPERAND));
		break;
	}
}

/* ==== Change ================================================================================== */

/* Read and change a word of memory, locked if threads share it. */

static void add_to(struct emit *e, const struct form_insn *i)
{
	struct emit_mem m = lower_mem(i->mem);
	bool wide = i->bytes == sizeof(uint64_t);

	if (!i->is_constant)
		emit_mem(e, wide, OP_ADD_TO, lower_register(i->a), m);
	else if (i->value == 1)
		emit_group_mem(e, wide, GROUP_STEP, STEP_INC, m);
	else if (i->value == UINT64_MAX)
		emit_group_mem(e, wide, GROUP_STEP, STEP_DEC, m);
	else
		emit_imm_mem(e, wide, IMM_ADD, m, (int32_t)i->value);
}

static void lower_change(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;
	struct emit_mem m = lower_mem(i->mem);
	bool wide = i->bytes == sizeof(uint64_t);

	switch (i->op) {
	case FORM_COUNT:
	case FORM_PUBLISH_ADD:
	case FORM_PUBLISH_ADD_WHOLE: /* no signal arrives within one instruction */
		add_to(e, i);
		break;
	case FORM_COUNT_SHARED:
		emit_u8(e, PREFIX_LOCK);
		add_to(e, i);
		break;
	case FORM_FETCH_ADD:
		emit_u8(e, PREFIX_LOCK);
		emit_mem(e, wide, OP_XADD, lower_register(i->a), m);
		break;
	case FORM_EXCHANGE: /* locked without a prefix */
		emit_mem(e, wide, OP_XCHG, lower_register(i->a), m);
		break;
	default: /* FORM_CAS */
		emit_u8(e, PREFIX_LOCK);
		emit_mem(e, wide, OP_CMPXCHG, lower_register(i->a), m);
		emit_jump_label(e, i->when == FORM_EQ ? CC_E : CC_NE, i->label);
		break;
	}
}

/* ==== Lower =================================================================================== */

/* Do the flags tell whether the instruction's result is 0? */
static bool is_test(const struct form_insn *i)
{
	switch (i->op) {
	case FORM_NEGATE:
	case FORM_ADD:
	case FORM_SUB:
	case FORM_AND:
	case FORM_OR:
	case FORM_XOR:
		return true;
	case FORM_SHL:
	case FORM_SHR:
		return i->is_constant && i->value;
	default:
		return false;
	}
}

static void put(struct form *form, const struct form_insn *i)
{
	static void (*const lower[])(const struct lowering *l, const struct form_insn *i) = {
		[FORM_CONTROL] = lower_control,
		[FORM_VALUES] = lower_value,
		[FORM_MEMORY] = lower_memory,
		[FORM_CHANGES] = lower_change,
		[FORM_SYSTEM] = lower_system,
		[FORM_DOUBLES] = lower_double,
		[FORM_OPERATORS] = lower_operator,
	};
	struct lowering *l = (struct lowering *)form;

	lower[form_subject(i->op)](l, i);
	l->tested = is_test(i) ? i->a : FORM_NONE;
	l->tested_wide = i->wide;
}

static int new_label(struct form *form)
{
	return emit_label(((struct lowering *)form)->e);
}

void lowering_init(struct lowering *l, struct emit *e, const struct frame *frame)
{
	*l = (struct lowering){
		.form = {put, new_label}, .e = e, .frame = frame, .tested = FORM_NONE};
}
