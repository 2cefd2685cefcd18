/* SPDX-License-Identifier: MIT */
/*
 * The form as machine code. Each of its registers is one of x86-64's: where an instruction here
 * wants a certain one (a shift's count in %cl, a division's operands), the form has the same rule.
 */
#include "arch/x86/stub/lower.h"
#include "arch/x86/stub/plan.h"

static const int registers[FORM_REGISTERS] = {
	[FORM_VALUE] = REG_VALUE,
	[FORM_RIGHT] = RCX,
	[FORM_SCRATCH] = REG_SCRATCH,
	[FORM_POINTER] = R8,
	[FORM_NEXT] = R9,
	[FORM_SET] = REG_RING,
	[FORM_FROM] = RSI,
	[FORM_SPARE] = R10,
	[FORM_SPARE_2] = R11,
};

static struct emit_mem memory(struct form_mem m)
{
	struct emit_mem ret = {.index = m.index == FORM_NONE ? REG_NONE : registers[m.index],
		.scale = m.scale,
		.disp = m.disp};

	switch (m.base) {
	case FORM_THREAD:
		ret.fs = true;
		/* fall through */
	case FORM_NONE:
		ret.base = REG_NONE;
		break;
	case FORM_CALLER: /* above the return address */
		ret.disp += (int32_t)sizeof(uint64_t);
		/* fall through */
	case FORM_FRAME:
		ret.base = RSP;
		break;
	default:
		ret.base = registers[m.base];
	}
	return ret;
}

/* ---- Jumps --------------------------------------------------------------------------- */

static void compare_memory(struct emit *e, const struct form_insn *i)
{
	struct emit_mem m = memory(i->mem);

	if (i->is_constant && i->bytes == 1)
		emit_cmp_byte(e, m, (uint8_t)i->value);
	else if (i->is_constant)
		emit_imm_mem(e, i->wide, IMM_CMP, m, (int32_t)i->value);
	else
		emit_mem(e, i->wide, i->bytes == 1 ? OP_CMP8 : OP_CMP, registers[i->a], m);
}

/* Sets the flags of a comparison, perhaps by a subtraction. */
static void compare(struct emit *e, const struct form_insn *i)
{
	int a = registers[i->a];

	if (i->op == FORM_SUB_JUMP_IF && i->is_constant)
		emit_imm(e, i->wide, IMM_SUB, a, (int32_t)i->value);
	else if (i->op == FORM_SUB_JUMP_IF)
		emit_reg(e, i->wide, OP_SUB, a, registers[i->b]);
	else if (i->is_memory)
		compare_memory(e, i);
	else if (!i->is_constant)
		emit_reg(e, i->wide, OP_CMP, a, registers[i->b]);
	else if (i->value)
		emit_imm(e, i->wide, IMM_CMP, a, (int32_t)i->value);
	else
		emit_reg(e, i->wide, OP_TEST, a, a);
}

/* Is a compared with 0, and have the flags been set so already? */
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

static void jump_unless_bytes(struct emit *e, const struct form_insn *i)
{
	struct emit_mem m = memory(i->mem);

	if (i->bytes == 1) {
		emit_cmp_byte(e, m, (uint8_t)i->value);
	} else {
		emit_const(e, RCX, i->value);
		emit_mem(e, true, OP_CMP, RCX, m);
	}
	emit_jump_label(e, CC_NE, i->label);
}

/* ---- Data -------------------------------------------------------------------------------- */

static void data(struct emit *e, const struct form_insn *i)
{
	uint64_t from;

	switch (i->op) {
	case FORM_ALIGN: /* no short jump may cross the padding */
		emit_align(e, i->value);
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

static void emit_return(struct emit *e)
{
	emit_u8(e, 0xc3);
}

static void yes_if(const struct lowering *l, const struct form_insn *i)
{
	int other = emit_label(l->e);

	if (!is_tested(l, i))
		compare(l->e, i);
	emit_jump_label(l->e, CC_NE, other);
	emit_return(l->e);
	emit_place(l->e, other);
}

/* An answer is the zero flag: yes if it is set. */
static void subroutine(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;

	switch (i->op) {
	case FORM_CALL:
		emit_call_label(e, i->label);
		break;
	case FORM_ASK:
		emit_call_label(e, i->label);
		emit_jump_label(e, CC_NE, i->no);
		break;
	case FORM_YES:
		emit_reg(e, false, OP_CMP, RAX, RAX);
		emit_return(e);
		break;
	case FORM_NO:
		emit_reg(e, true, OP_TEST, RSP, RSP); /* not zero */
		emit_return(e);
		break;
	case FORM_YES_IF:
		yes_if(l, i);
		break;
	case FORM_PUSH:
		emit_push(e, registers[i->a]);
		break;
	case FORM_POP:
		emit_pop(e, registers[i->a]);
		break;
	case FORM_RETURN:
	case FORM_RETURN_NESTED:
		emit_return(e);
		break;
	default: /* FORM_NEST: the stack has all return addresses */
		break;
	}
}

/* ---- Operators ----------------------------------------------------------------------- */

/* %rax / %rcx or its remainder. The smallest number by -1 would trap. */
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
			emit_one(e, i->wide, ONE_NEG, RAX);
		emit_jump_label(e, -1, done);
		emit_place(e, plain);
		emit_bytes(e, i->wide ? "\x48\x99" : "\x99", i->wide ? 2 : 1); /* cqo, cdq */
		emit_one(e, i->wide, ONE_IDIV, RCX);
	} else {
		emit_reg(e, false, OP_XOR, RDX, RDX);
		emit_one(e, i->wide, ONE_DIV, RCX);
	}
	if (remainder)
		emit_reg(e, i->wide, OP_MOV_LOAD, RAX, RDX);
	emit_place(e, done);
}

static void shift(struct emit *e, const struct form_insn *i)
{
	if (i->is_constant)
		emit_shift(e, i->wide, i->op == FORM_SHL, registers[i->a], (uint8_t)i->value);
	else
		emit_shift_cl(e, i->wide,
			i->op == FORM_SHL ? SHIFT_LEFT
			: i->is_signed	  ? SHIFT_RIGHT_SIGNED
					  : SHIFT_RIGHT,
			registers[i->a]);
}

static void operate(struct emit *e, const struct form_insn *i)
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
	int a = registers[i->a];

	switch (i->op) {
	case FORM_NEGATE:
	case FORM_COMPLEMENT:
		emit_one(e, i->wide, i->op == FORM_NEGATE ? ONE_NEG : ONE_NOT, a);
		break;
	case FORM_UNTAG: /* all bits count; and return addresses are not signed */
	case FORM_UNSIGN:
		break;
	case FORM_FLIP:
		emit_flip(e, a, i->shift);
		break;
	case FORM_HIGHEST:
		emit_reg(e, true, OP_BSR, a, registers[i->b]);
		break;
	case FORM_LOWEST:
		emit_reg(e, true, OP_BSF, a, registers[i->b]);
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
		emit_multiply(e, a, registers[i->b], (int32_t)i->value);
		break;
	case FORM_MUL_HIGH:
		emit_one(e, true, ONE_MUL, RCX);      /* rdx:rax */
		emit_bytes(e, "\x48\x0f\xac\xd0", 4); /* shrd $shift, %rdx, %rax */
		emit_u8(e, i->shift);
		break;
	default:
		if (i->is_memory)
			emit_mem(e, i->wide, plain[i->op].op, a, memory(i->mem));
		else if (i->is_constant)
			emit_imm(e, i->wide, plain[i->op].digit, a, (int32_t)i->value);
		else
			emit_reg(e, i->wide, plain[i->op].op, a, registers[i->b]);
		break;
	}
}

/* ---- Memory -------------------------------------------------------------------------- */

static void add_to(struct emit *e, const struct form_insn *i)
{
	struct emit_mem m = memory(i->mem);
	bool wide = i->bytes == sizeof(uint64_t);

	if (!i->is_constant)
		emit_mem(e, wide, OP_ADD_TO, registers[i->a], m);
	else if (i->value == 1)
		emit_inc(e, wide, m);
	else if (i->value == UINT64_MAX)
		emit_dec(e, wide, m);
	else
		emit_imm_mem(e, wide, IMM_ADD, m, (int32_t)i->value);
}

/* The processor keeps the order of loads, and that of stores: plain ones acquire and publish. */
static void use_memory(struct emit *e, const struct form_insn *i)
{
	struct emit_mem m = memory(i->mem);
	bool wide = i->bytes == sizeof(uint64_t);

	switch (i->op) {
	case FORM_LOAD:
	case FORM_ACQUIRE:
		emit_load(e, m, i->bytes, i->is_signed, registers[i->a]);
		break;
	case FORM_STORE_VECTOR:
		emit_store_vector(e, i->b, m);
		break;
	case FORM_STORE_HALVES:
		emit_store_halves(e, registers[i->a], m);
		break;
	case FORM_STORE:
	case FORM_STORE_CONST:
	case FORM_PUBLISH:
		if (i->is_constant)
			emit_store_imm(e, wide, m, (int32_t)i->value);
		else
			emit_store_part(e, registers[i->a], m, i->bytes);
		break;
	case FORM_PUBLISH_ADD:
		add_to(e, i);
		break;
	case FORM_COUNT_SHARED:
		emit_lock(e);
		add_to(e, i);
		break;
	case FORM_COUNT:
		add_to(e, i);
		break;
	case FORM_EXCHANGE: /* locked without a prefix */
		emit_mem(e, wide, OP_XCHG, registers[i->a], m);
		break;
	case FORM_FETCH_ADD:
		emit_lock(e);
		emit_mem(e, wide, OP_XADD, registers[i->a], m);
		break;
	case FORM_STORE_TIME:
		emit_bytes(e, "\x0f\x31", 2); /* rdtsc: edx:eax */
		emit_mem(e, false, OP_MOV_STORE, RAX, m);
		m.disp += 4; /* in halves, as emit_store() does */
		emit_mem(e, false, OP_MOV_STORE, RDX, m);
		break;
	default: /* FORM_COMPUTE */
		/* The thread pointer points to itself (System V ABI, TLS). */
		emit_mem(e, true, m.fs ? OP_MOV_LOAD : OP_LEA, registers[i->a], m);
		break;
	}
}

/* The number of the CPU, as a hint; the time; and the kernel. */
static void ask(struct emit *e, const struct form_insn *i)
{
	static const uint16_t calls[FORM_CALLS] = {
		[FORM_CALL_FUTEX] = 202,
		[FORM_CALL_GETPID] = 39,
		[FORM_CALL_GETTID] = 186,
		[FORM_CALL_PRCTL] = 157,
		[FORM_CALL_SIGPROCMASK] = 14,
	};

	switch (i->op) {
	case FORM_CPU:
		emit_cpu_hint(e, registers[i->a]);
		break;
	case FORM_TIME:
		emit_bytes(e, "\x0f\x31", 2); /* rdtsc: edx:eax */
		emit_shift(e, true, true, RDX, 32);
		emit_reg(e, true, OP_OR, RAX, RDX);
		break;
	default: /* FORM_KERNEL: its registers are those that Linux wants */
		emit_const(e, RAX, calls[i->value]);
		emit_bytes(e, "\x0f\x05", 2); /* syscall */
		break;
	}
}

/* ---- Doubles ------------------------------------------------------------------------- */

/*
 * The processor's rules for rounding and exceptions are the program's: they are in %mxcsr, which is
 * kept, as is half of %xmm0. Exceptions are masked meanwhile, and rounding is to the nearest.
 */
enum { MXCSR_DEFAULT = 0x1f80, PREFIX_DOUBLE = 0x66, PREFIX_SCALAR = 0xf2, XMM0 = 0 };

enum { KEPT_XMM, KEPT_MXCSR, OUR_MXCSR, OPERAND };
_Static_assert((int)OPERAND < FORM_VECTOR_TEMPS, "temporaries of the form");

static struct emit_mem kept(const struct form_insn *i, int which)
{
	return temp_at((int)i->value + which);
}

/* An instruction of the low half of %xmm0. */
static void emit_double(struct emit *e, uint8_t prefix, enum emit_op op, struct emit_mem mem)
{
	emit_u8(e, prefix);
	emit_mem(e, false, op, XMM0, mem);
}

static void keep_vector(struct emit *e, const struct form_insn *i)
{
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_STORE, kept(i, KEPT_XMM));
	emit_mem(e, false, OP_MXCSR, MXCSR_STORE, kept(i, KEPT_MXCSR));
	emit_store_imm(e, false, kept(i, OUR_MXCSR), MXCSR_DEFAULT);
}

static void restore_vector(struct emit *e, const struct form_insn *i)
{
	emit_mem(e, false, OP_MXCSR, MXCSR_LOAD, kept(i, KEPT_MXCSR));
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_LOAD, kept(i, KEPT_XMM));
}

static void add_double(struct emit *e, const struct form_insn *i)
{
	emit_mem(e, true, OP_MOV_STORE, RCX, kept(i, OPERAND));
	emit_mem(e, false, OP_MXCSR, MXCSR_LOAD, kept(i, OUR_MXCSR));
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_LOAD, kept(i, OPERAND));
	emit_double(e, PREFIX_SCALAR, OP_ADDS, memory(i->mem));
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_STORE, kept(i, OPERAND));
	restore_vector(e, i);
	emit_mem(e, true, OP_MOV_LOAD, RCX, kept(i, OPERAND));
}

/* A register that is as it was at the site is stored without a copy. */
static void store_original(const struct lowering *l, const struct form_insn *i)
{
	struct emit_mem m = memory(i->mem);
	bool is_live = i->b != RSP && l->frame->saved[i->b] < 0 && !i->shift;

	if (is_live && i->bytes < sizeof(uint64_t)) {
		emit_store_part(l->e, i->b, m, i->bytes);
		return;
	}
	emit_original_part(l->e, l->frame, i->b, i->shift, i->bytes, false, REG_VALUE);
	emit_store(l->e, m, i->bytes);
}

/* ---- All instructions ------------------------------------------------------------------ */

/* Do the flags tell whether the result is 0? */
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

static void lower(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;

	switch (i->op) {
	case FORM_PLACE:
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
		emit_test_mem(e, memory(i->mem), (uint32_t)i->value);
		emit_jump_label(e, i->when == FORM_EQ ? CC_E : CC_NE, i->label);
		break;
	case FORM_JUMP_UNLESS_BYTES:
		jump_unless_bytes(e, i);
		break;
	case FORM_CAS:
		emit_lock(e);
		emit_mem(e, i->bytes == sizeof(uint64_t), OP_CMPXCHG, registers[i->a],
			memory(i->mem));
		emit_jump_label(e, i->when == FORM_EQ ? CC_E : CC_NE, i->label);
		break;
	case FORM_JUMP_IF_WORD:
		emit_test_u32(e, i->value, registers[i->a]);
		emit_jump_label(e, i->when == FORM_EQ ? CC_E : CC_NE, i->label);
		break;
	case FORM_ALIGN:
	case FORM_WORD:
	case FORM_LABEL_WORD:
		data(e, i);
		break;
	case FORM_ADD_DOUBLE:
		add_double(e, i);
		break;
	case FORM_KEEP_VECTOR:
		keep_vector(e, i);
		break;
	case FORM_RESTORE_VECTOR:
		restore_vector(e, i);
		break;
	case FORM_CONST:
		emit_const(e, registers[i->a], i->value);
		break;
	case FORM_ADDRESS:
		emit_lea_to(e, registers[i->a], i->value);
		break;
	case FORM_LABEL:
		emit_lea_label(e, registers[i->a], i->label);
		break;
	case FORM_MOVE:
		emit_extend(e, registers[i->b], i->bytes, i->is_signed, registers[i->a]);
		break;
	case FORM_ORIGINAL:
		emit_original_part(
			e, l->frame, i->b, i->shift, i->bytes, i->is_signed, registers[i->a]);
		break;
	case FORM_STORE_ORIGINAL:
		store_original(l, i);
		break;
	case FORM_VECTOR:
		emit_vector(e, i->b, i->bytes, registers[i->a]);
		break;
	case FORM_CPU:
	case FORM_TIME:
	case FORM_KERNEL:
		ask(e, i);
		break;
	case FORM_LOAD:
	case FORM_STORE:
	case FORM_STORE_CONST:
	case FORM_STORE_HALVES:
	case FORM_STORE_VECTOR:
	case FORM_ACQUIRE:
	case FORM_PUBLISH:
	case FORM_PUBLISH_ADD:
	case FORM_COUNT:
	case FORM_COUNT_SHARED:
	case FORM_EXCHANGE:
	case FORM_FETCH_ADD:
	case FORM_STORE_TIME:
	case FORM_COMPUTE:
		use_memory(e, i);
		break;
	case FORM_FENCE:
		emit_bytes(e, "\x0f\xae\xe8", 3); /* lfence */
		break;
	case FORM_YIELD:
		emit_bytes(e, "\xf3\x90", 2); /* pause */
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
		subroutine(l, i);
		break;
	default:
		operate(e, i);
		break;
	}
}

static void put(struct form *form, const struct form_insn *i)
{
	struct lowering *l = (struct lowering *)form;

	lower(l, i);
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

struct emit *lowering_emit(struct form *f)
{
	return ((struct lowering *)f)->e;
}

struct emit *lowering_set_frame(struct form *f, const struct frame *frame)
{
	((struct lowering *)f)->frame = frame;
	return lowering_emit(f);
}
