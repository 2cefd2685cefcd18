/* SPDX-License-Identifier: MIT */
/*
 * Translates a stub from the form (arch/stub/form.h) into machine code. Each register of the form
 * is one of x86-64. Where x86-64 needs a certain one (%cl for a shift's count), so does the form.
 */
#include <assert.h>

#include "arch/layout.h"
#include "arch/stub/plan.h"
#include "arch/x86/stub/frame.h"
#include "arch/x86/stub/lower.h"

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

static struct emit *lowering_emit(struct form *f);

/*
 * lsl reads the CPU's number from a segment of Linux's vDSO (arch/x86/include/asm/segment.h).
 * Without it, the register does not change.
 */
static void emit_cpu_hint(struct emit *e, int reg)
{
	emit_const(e, reg, CPU_SEGMENT);
	emit_reg(e, false, OP_LSL, reg, reg);
	emit_imm(e, false, IMM_AND, reg, 0xfff);
}

/* %edx:%eax = the time stamp counter. */
static void emit_rdtsc(struct emit *e)
{
	emit_bytes(e, "\x0f\x31", 2);
}

static void emit_syscall(struct emit *e)
{
	emit_bytes(e, "\x0f\x05", 2);
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
	emit_syscall(e);
}

static void lower_system(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;
	struct emit_mem m;

	switch (i->op) {
	case FORM_CPU:
		emit_cpu_hint(e, lower_register(i->a));
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

/* Reads CLOCK_MONOTONIC: see struct stub_isa. */
static void x86_64_time_subroutine(struct form *f, const struct stub_plan *plan)
{
	static const int changed[] = {RCX, RSI, RDI, R11};
	enum { CHANGED = sizeof(changed) / sizeof(*changed), SECONDS = 0, NANOSECONDS = 8 };
	struct emit *e = lowering_emit(f);

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

/* dst = the low 4 or 8 bytes of a vector register. */
static void emit_vector(struct emit *e, int vector, unsigned int bytes, int dst)
{
	uint8_t rex = (bytes == 8 ? 8 : 0) | (vector & 8 ? 4 : 0) | (dst & 8 ? 1 : 0);

	emit_u8(e, 0x66);
	if (rex)
		emit_u8(e, 0x40 | rex);
	emit_bytes(e, "\x0f\x7e", 2); /* movd or movq %xmmN, reg */
	emit_u8(e, 0xc0 | (vector & 7) << 3 | (dst & 7));
}

static void lower_value(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;
	int a = lower_register(i->a);

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
		emit_vector(e, i->b, i->bytes, a);
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
	return temp_at((int)i->value + which);
}

static void emit_double(struct emit *e, uint8_t prefix, enum emit_op op, struct emit_mem mem)
{
	emit_u8(e, prefix);
	emit_mem(e, false, op, XMM0, mem);
}

static void keep_vector(struct emit *e, const struct form_insn *i)
{
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_STORE, kept(i, KEPT_XMM));
	emit_mem(e, false, OP_MXCSR, MXCSR_STORE, kept(i, KEPT_MXCSR));
	store_constant(e, false, kept(i, OUR_MXCSR), MXCSR_DEFAULT);
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
	emit_double(e, PREFIX_SCALAR, OP_ADDS, lower_mem(i->mem));
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_STORE, kept(i, OPERAND));
	restore_vector(e, i);
	emit_mem(e, true, OP_MOV_LOAD, RCX, kept(i, OPERAND));
}

static void lower_double(const struct lowering *l, const struct form_insn *i)
{
	switch (i->op) {
	case FORM_KEEP_VECTOR:
		keep_vector(l->e, i);
		break;
	case FORM_RESTORE_VECTOR:
		restore_vector(l->e, i);
		break;
	default: /* FORM_ADD_DOUBLE */
		add_double(l->e, i);
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

static void lower(const struct lowering *l, const struct form_insn *i)
{
	switch (form_subject(i->op)) {
	case FORM_CONTROL:
		lower_control(l, i);
		break;
	case FORM_VALUES:
		lower_value(l, i);
		break;
	case FORM_MEMORY:
		lower_memory(l, i);
		break;
	case FORM_CHANGES:
		lower_change(l, i);
		break;
	case FORM_SYSTEM:
		lower_system(l, i);
		break;
	case FORM_DOUBLES:
		lower_double(l, i);
		break;
	case FORM_OPERATORS:
		lower_operator(l, i);
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

/* Returns the emitter, for code that is not in the form. */
static struct emit *lowering_emit(struct form *f)
{
	return ((struct lowering *)f)->e;
}

static struct emit *lowering_set_frame(struct form *f, const struct frame *frame)
{
	((struct lowering *)f)->frame = frame;
	return lowering_emit(f);
}

/* ==== Alignment =============================================================================== */

/*
 * Flags that a stub cannot run with: the alignment check, and the direction of string instructions.
 *
 * A program that sets EFLAGS.AC gets a SIGBUS for each misaligned word that it reads or writes. A
 * stub reads strings, structures and numbers at any address, and so may a function of the program
 * that the stub calls (memcpy(3) does). The SIGBUS would stop the program. So the stub tests the
 * flag and, if it is set, clears it for as long as the stub runs:
 *
 *   pushf                  below the other flags (struct frame)
 *   testl $FLAGS,(%rsp)    set?
 *   jne clear              out of line: popf costs twenty times as much as the test
 *   ...
 *   testl $FLAGS,(%rsp)
 *   jne restore
 *
 * A stub that reads only registers, constants and aligned words omits this. It writes each word of
 * eight bytes in a record in two halves, because a record begins at a multiple of four. The stack
 * is aligned if the flag is set, because the program itself pushes onto it.
 *
 * Functions start with the direction flag clear, so a stub that calls a function clears this flag
 * in the same way. Other stubs have no string instructions.
 *
 * Sources: Intel SDM volume 1, 3.4.3; volume 3, 6.15 (interrupt 17); System V ABI, AMD64
 * supplement, 3.2.1.
 */

enum { FLAG_DF = 1 << 10, FLAG_AC = 1 << 18 };

static bool operand_is_aligned(const struct arch_arg *arg, bool is_static)
{
	if (arg->kind != ARCH_ARG_MEMORY || arg->size == 1)
		return true;
	if (arg->index != ARCH_REG_NONE || arg->disp % (int64_t)arg->size != 0)
		return false;
	return arg->base == RSP || (is_static && arg->base < 0);
}

/*
 * Are the stub's accesses to records aligned? A start event's captures are copied in words of eight
 * bytes, but records are aligned to four.
 */
static bool record_is_aligned(const struct stub_plan *p, const struct arch_action *action)
{
	const struct arch_stub *s = p->stub;

	if (action->kind != ARCH_ACTION_RECORD && !action_has_spans(action))
		return true;
	for (int i = 0; i < s->recorded; i++) {
		int32_t size = (int32_t)arch_capture_fixed(&s->captures[i]);

		if (p->record_at[i] & ((size < RING_ALIGN ? size : RING_ALIGN) - 1))
			return false;
	}
	if (p->records_mask && p->record_mask_at % (int32_t)ring_mask_bytes(s->recorded))
		return false;
	return action->kind == ARCH_ACTION_BEGIN || !action_has_spans(action);
}

/* Is every word that the stub accesses aligned, wherever pointers lead? */
static bool stub_is_aligned(const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	for (int i = 0; i < s->action_count; i++)
		if (!record_is_aligned(p, &s->actions[i]))
			return false;
	for (int i = 0; i < s->capture_count; i++)
		if (arch_capture_has_bytes(&s->captures[i]) || s->captures[i].step_count ||
			!operand_is_aligned(&s->captures[i].arg, s->captures[i].is_static))
			return false;
	return !p->calls;
}

/* Returns the flags that are clear while the stub runs. */
static int32_t cleared(const struct stub_plan *p)
{
	return FLAG_AC | (p->calls ? FLAG_DF : 0);
}

/* Jumps if a flag that the stub clears was set. */
static void emit_if_set(struct emit *e, const struct stub_plan *p, int label)
{
	emit_bytes(e, "\xf7\x04\x24", 3); /* testl $imm32,(%rsp) */
	emit_u32(e, (uint32_t)cleared(p));
	emit_jump_label(e, CC_NE, label);
}

/* Tests the saved flags on entry. Clearing them is out of line. */
static void lower_alignment_enter(struct lowering *l, const struct stub_plan *p)
{
	struct emit *e = l->e;

	if (stub_is_aligned(p))
		return;
	l->alignment =
		(struct alignment){emit_label(e), emit_label(e), emit_label(e), emit_label(e)};
	emit_u8(e, 0x9c); /* pushf */
	emit_if_set(e, p, l->alignment.clear);
	emit_place(e, l->alignment.cleared);
}

/* The test on leaving, before the arithmetic flags are restored; restoring is out of line. */
static void lower_alignment_leave(struct lowering *l, const struct stub_plan *p)
{
	struct emit *e = l->e;

	if (stub_is_aligned(p))
		return;
	emit_if_set(e, p, l->alignment.restore);
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, 8));
	emit_place(e, l->alignment.restored);
}

/* The out-of-line code that clears and restores flags. */
static void x86_64_late(struct form *f, const struct stub_plan *p)
{
	struct lowering *l = (struct lowering *)f;
	struct emit *e = l->e;

	if (stub_is_aligned(p))
		return;
	emit_place(e, l->alignment.clear);
	emit_u8(e, 0x9c);
	emit_imm_mem(e, false, IMM_AND, mem_at(RSP, 0), ~cleared(p));
	emit_u8(e, 0x9d); /* popf */
	emit_jump_label(e, -1, l->alignment.cleared);
	emit_place(e, l->alignment.restore);
	emit_u8(e, 0x9d);
	emit_jump_label(e, -1, l->alignment.restored);
}

/* ==== Frame =================================================================================== */

/*
 * How a stub is entered and left:
 *
 *  lea -128(%rsp),%rsp       step over the red zone (System V ABI, 3.2.2)
 *  push %rax
 *  [lahf; seto %al; push %rax    save the flags, unless the code after the site
 *                                overwrites them (decode/registers.c); pushf and
 *                                popf would cost 6 ns more]
 *  [clear other flags: "Alignment" above]
 *  push ...                  two more registers
 *  ...
 *  push ...                  the remaining registers
 *  ...
 *  pop ...
 *  ...
 *  pop ...; [pop %rax; add $0x7f,%al; sahf]; pop %rax; lea 128(%rsp),%rsp
 *  jmp next
 *
 * Sources: Intel SDM volume 2, LAHF, SETcc.
 */

/* A smaller frame (fewer registers, no temporaries) is a prefix of a larger one. */
static void frame_layout(struct frame *f, int skipped, int flags, int registers, int temps)
{
	static const int regs[] = {RCX, RDX, RDI, RSI, R8, R9, R10, R11};

	f->order_count = registers;
	f->temps = temps;
	for (int i = 0; i < FRAME_REGISTERS; i++)
		f->saved[i] = -1;
	for (int i = 0; i < f->order_count; i++)
		f->order[i] = regs[i];
	f->size = skipped + 8 * (1 + flags + f->order_count + f->temps);
	f->saved[RAX] = 8 * (flags + f->order_count + f->temps);
	for (int i = 0; i < f->order_count; i++)
		f->saved[f->order[i]] = 8 * (f->temps + f->order_count - 1 - i);
}

/* Returns the bytes skipped on entry: the red zone, and words for a wait for room. */
static int skipped_bytes(const struct stub_plan *p)
{
	return p->isa->red_zone + (p->waits ? 8 * WAIT_WORDS : 0);
}

/* See struct stub_isa. */
static void x86_64_lay_out(struct stub_plan *p, int registers)
{
	int flags = p->keeps_flags + !stub_is_aligned(p), skipped = skipped_bytes(p);

	frame_layout(&p->frame, skipped, flags, registers, p->frame.temps);
	frame_layout(&p->small, skipped, flags, registers < 2 ? registers : 2, 0);
	p->wait_temp = (p->frame.size - skipped) / 8;
	assert(p->stub->actions[0].kind != ARCH_ACTION_GATE ||
		p->frame.saved[RDI] == GATE_ARGUMENT);
}

static void x86_64_enter(struct form *f, const struct stub_plan *p)
{
	const struct frame *small = &p->small;
	struct emit *e = lowering_set_frame(f, small);

	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -skipped_bytes(p)));
	emit_push(e, RAX);
	if (p->keeps_flags) {
		emit_bytes(e, "\x9f\x0f\x90\xc0", 4); /* lahf; seto %al */
		emit_push(e, RAX);
	}
	lower_alignment_enter((struct lowering *)f, p);
	for (int i = 0; i < small->order_count; i++)
		emit_push(e, small->order[i]);
}

static void x86_64_grow(struct form *f, const struct stub_plan *p)
{
	const struct frame *frame = &p->frame;
	struct emit *e = lowering_set_frame(f, frame);

	for (int i = p->small.order_count; i < frame->order_count; i++)
		emit_push(e, frame->order[i]);
	if (frame->temps)
		emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -8 * frame->temps));
}

/* See struct stub_isa. */
static void x86_64_shrink(struct form *f, const struct stub_plan *p)
{
	const struct frame *frame = &p->frame;
	struct emit *e = lowering_set_frame(f, &p->small);

	if (frame->temps)
		emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, 8 * frame->temps));
	for (int i = frame->order_count - 1; i >= p->small.order_count; i--)
		emit_pop(e, frame->order[i]);
}

static void x86_64_leave(struct form *f, const struct stub_plan *p)
{
	struct lowering *l = (struct lowering *)f;
	struct emit *e = l->e;

	for (int i = p->small.order_count - 1; i >= 0; i--)
		emit_pop(e, p->small.order[i]);
	lower_alignment_leave(l, p);
	if (p->keeps_flags) {
		emit_pop(e, RAX);
		emit_bytes(e, "\x04\x7f\x9e", 3); /* add $0x7f,%al (sets OF as it was); sahf */
	}
	emit_pop(e, RAX);
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, skipped_bytes(p)));
	l->next_jump = e->length;
	l->reaches = emit_jump(e, p->stub->next);
	l->frame = &p->frame;
}

/* ==== Call ==================================================================================== */

/*
 * How a stub calls a function of the program from the middle of another function.
 *
 * The stub has already saved the registers it uses. These are the registers that a function may
 * change, except the vector and floating-point registers, which the called function saves
 * (arch/x86/enter.c). It remains to align the stack as functions expect, in a way that unwinders
 * can still follow:
 *
 *	site's %rsp ------>	+----------------------------+
 *				| red zone, 128 bytes        |
 *				| %rax, flags, %rflags,      |  always at the same distance
 *				| %rcx ... %r11              |
 *				| temporaries                |
 *	stub's %rsp ------>	+----------------------------+
 *				| (to be a multiple of 16)   |
 *				| site's address             |
 *				| site's %rsp                |  CFA: *(%rsp + 8)
 *	%rsp at the call ->	| stub's %rsp                |
 *				+----------------------------+
 *				| return address: the stub   |
 *
 * Source: figure 3.36 of the System V ABI, AMD64 supplement (register numbers).
 */

enum { CALL_FRAME = 32, CALL_STUB_SP = 0, CALL_SITE_SP = 8, CALL_SITE_PC = 16 };

/* ---- The call ----------------------------------------------------------------------- */

static void x86_64_call(struct form *f, const struct stub_plan *p)
{
	const struct arch_call *call = &p->at->action->call;
	struct emit *e = lowering_emit(f);

	emit_mem(e, true, OP_LEA, RDI, temp_at(p->at->call_temp));
	emit_const(e, RSI, call->data);
	emit_mem(e, true, OP_LEA, RDX, mem_at(RSP, p->frame.size));
	emit_const(e, RCX, call->pc);
	emit_const(e, R11, call->function);
	emit_reg(e, true, OP_MOV_LOAD, RAX, RSP);
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -CALL_FRAME));
	emit_imm(e, true, IMM_AND, RSP, -16);
	emit_mem(e, true, OP_MOV_STORE, RAX, mem_at(RSP, CALL_STUB_SP));
	emit_mem(e, true, OP_MOV_STORE, RDX, mem_at(RSP, CALL_SITE_SP));
	emit_mem(e, true, OP_MOV_STORE, RCX, mem_at(RSP, CALL_SITE_PC));
	emit_bytes(e, "\x41\xff\xd3", 3); /* call *%r11 */
	emit_mem(e, true, OP_MOV_LOAD, RSP, mem_at(RSP, CALL_STUB_SP));
}

/* ---- Unwinding ------------------------------------------------------------------------ */

enum { DWARF_RA = 16, SP_BASE = UNWIND_OP_BREG + 7 };

/* UNWIND_OFFSET: a saved register's DWARF number, and its distance below the CFA in 8 bytes. */
static const uint8_t cie[] = UNWIND_CIE(DWARF_RA, /* clang-format off */
	UNWIND_DEF_CFA_EXPRESSION, 3, SP_BASE, CALL_SITE_SP, UNWIND_OP_DEREF,
	UNWIND_EXPRESSION, DWARF_RA, 2, SP_BASE, CALL_SITE_PC,
	UNWIND_OFFSET | 0, 17,  /* rax */
	UNWIND_OFFSET | 2, 20,  /* rcx, below two words of flags */
	UNWIND_OFFSET | 1, 21,  /* rdx */
	UNWIND_OFFSET | 5, 22,  /* rdi */
	UNWIND_OFFSET | 4, 23,  /* rsi */
	UNWIND_OFFSET | 8, 24, UNWIND_OFFSET | 9, 25, UNWIND_OFFSET | 10, 26, UNWIND_OFFSET | 11, 27,
	0, 0 /* pads to a multiple of 8, including the length */
	/* clang-format on */);
_Static_assert((sizeof(cie) + 4) % 8 == 0, "entries are aligned");

/* ==== The table =============================================================================== */

static enum arch_stub_status x86_64_write(
	struct stub_plan *p, uint64_t at, uint8_t *out, size_t room, struct arch_stub_code *ret)
{
	struct emit e = {.out = out, .room = room, .at = at};
	struct lowering l;

	lowering_init(&l, &e, NULL);
	form_stub(&l.form, p);
	emit_again(&e);
	form_stub(&l.form, p);
	if (!emit_finish(&e))
		return ARCH_STUB_NO_ROOM;
	ret->next_jump = l.next_jump;
	ret->length = e.length;
	return l.reaches ? ARCH_STUB_OK : ARCH_STUB_OUT_OF_REACH;
}

const struct stub_isa x86_64_stubs = {
	.stack_pointer = RSP,
	.frame_pointer = RBP,
	.first_argument = RDI,
	.registers = 16,
	.vectors = 16, /* the vector registers from 16 on need AVX-512 */
	.red_zone = 128,
	.has_cpu_hint = true,
	.lay_out = x86_64_lay_out,
	.enter = x86_64_enter,
	.grow = x86_64_grow,
	.shrink = x86_64_shrink,
	.leave = x86_64_leave,
	.late = x86_64_late,
	.call = x86_64_call,
	.time_subroutine = x86_64_time_subroutine,
	.cie = cie,
	.cie_bytes = sizeof(cie),
	.write = x86_64_write,
};
