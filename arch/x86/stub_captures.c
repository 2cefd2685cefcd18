/* SPDX-License-Identifier: MIT */
/*
 * How a stub reads a probe's arguments.
 *
 * Pointers. A memory operand that is not on the stack or in static storage,
 * and every string, is reached through a pointer that the program may never
 * follow itself. Before following it, the stub asks the kernel whether its
 * page can be read: rt_sigprocmask(2) with an invalid `how` copies eight bytes
 * from the address it is given and then fails with EINVAL, or with EFAULT where
 * there is nothing to read (kernel/signal.c of Linux). It changes nothing in
 * either case. What another thread unmaps between the question and the read
 * still faults; the program would, too, if it looked there just then.
 *
 * The page of the site's stack pointer needs no question. Neither does what
 * lies within two pages above it where the base is %rbp: with a frame pointer,
 * that is the frame.
 *
 * Strings are searched for their end in aligned words, which never cross a
 * page: a byte of w is zero where (w - 0x01..01) & ~w & 0x80..80 has a bit, and
 * the lowest such bit is always right (Lamport, "Multiple byte processing with
 * full-word instructions", CACM 18:8, 1975).
 */
#include "arch/arch.h"
#include "arch/layout.h"
#include "arch/x86/emit.h"
#include "arch/x86/stub.h"
#include "arch/x86/stub_plan.h"

enum { STACK_NEAR = 2 * PAGE_BYTES, SYS_RT_SIGPROCMASK = 14, MINUS_EINVAL = -22 };

/* ---- What can be captured, and how -------------------------------------------- */

static bool is_scalar_size(uint32_t size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

bool x86_64_capturable(const struct arch_arg *arg)
{
	switch (arg->kind) {
	case ARCH_ARG_IMMEDIATE:
		return !arg->symbol && is_scalar_size(arg->size);
	case ARCH_ARG_REGISTER:
		return arg->base >= 0 && arg->base < 16 && is_scalar_size(arg->size);
	case ARCH_ARG_FP_REGISTER: /* more than 16 of them need AVX-512 */
		return arg->base >= 0 && arg->base < 16 &&
		       (arg->size == 4 || arg->size == 8 || arg->size == XMM_BYTES);
	case ARCH_ARG_MEMORY:
		return !arg->symbol && arg->size > 0 && arg->size <= PAGE_BYTES && arg->base < 16 &&
		       arg->index < 16;
	case ARCH_ARG_UNKNOWN:
		break;
	}
	return false;
}

bool capture_is_variable(const struct arch_capture *c)
{
	if (c->is_string || c->stack)
		return true;
	return c->arg.kind == ARCH_ARG_MEMORY
		       ? !is_scalar_size(c->arg.size)
		       : c->arg.kind == ARCH_ARG_FP_REGISTER && c->arg.size == XMM_BYTES;
}

bool capture_is_possible(const struct arch_capture *c)
{
	if (c->stack == ARCH_STACK_BYTES)
		return c->bytes_max > 0 && c->bytes_max <= ARCH_STACK_MAX && c->bytes_max % 8 == 0;
	if (c->stack == ARCH_STACK_FRAMES)
		return c->bytes_max > 0 && c->bytes_max <= 8 * ARCH_FRAMES_MAX &&
		       c->bytes_max % 8 == 0;
	if (!x86_64_capturable(&c->arg))
		return false;
	if (c->is_string)
		return c->arg.kind != ARCH_ARG_FP_REGISTER && is_scalar_size(c->arg.size);
	return true;
}

uint32_t capture_bytes(const struct arch_capture *c)
{
	if (c->stack)
		return c->bytes_max;
	if (c->arg.kind == ARCH_ARG_FP_REGISTER)
		return XMM_BYTES;
	return !c->is_string && c->arg.size < c->bytes_max ? c->arg.size : c->bytes_max;
}

/* Static storage and the stack frame are mapped as long as the code there runs. */
static bool memory_is_safe(const struct arch_capture *c)
{
	const struct arch_arg *arg = &c->arg;

	if (arg->index != ARCH_REG_NONE)
		return false;
	if (arg->base == RSP)
		return arg->disp >= -128 && arg->disp <= PAGE_BYTES;
	return c->is_static && arg->base < 0;
}

bool x86_64_capture_checked(const struct arch_capture *c)
{
	return !c->stack && c->arg.kind == ARCH_ARG_MEMORY && !memory_is_safe(c);
}

/* ---- Values --------------------------------------------------------------------- */

void emit_original(struct emit *e, const struct frame *f, int reg, int dst)
{
	if (reg == RSP)
		emit_mem(e, true, OP_LEA, dst, mem_at(RSP, f->size));
	else if (f->saved[reg] >= 0)
		emit_mem(e, true, OP_MOV_LOAD, dst, mem_at(RSP, f->saved[reg]));
	else
		emit_reg(e, true, OP_MOV_LOAD, dst, reg);
}

/* REG_VALUE = the value at m, of 1 to 8 bytes, extended to 64 bits. */
static void emit_load(struct emit *e, struct emit_mem m, unsigned int bytes, bool is_signed)
{
	if (bytes == 1)
		emit_mem(e, is_signed, is_signed ? OP_MOVSX8 : OP_MOVZX8, REG_VALUE, m);
	else if (bytes == 2)
		emit_mem(e, is_signed, is_signed ? OP_MOVSX16 : OP_MOVZX16, REG_VALUE, m);
	else if (bytes == 4)
		emit_mem(e, is_signed, is_signed ? OP_MOVSX32 : OP_MOV_LOAD, REG_VALUE, m);
	else
		emit_mem(e, true, OP_MOV_LOAD, REG_VALUE, m);
}

/* REG_VALUE = the low `bytes` bytes of a register, extended to 64 bits. */
static void emit_extend(struct emit *e, int reg, unsigned int bytes, bool is_signed)
{
	if (bytes == 1)
		emit_reg(e, is_signed, is_signed ? OP_MOVSX8 : OP_MOVZX8, REG_VALUE, reg);
	else if (bytes == 2)
		emit_reg(e, is_signed, is_signed ? OP_MOVSX16 : OP_MOVZX16, REG_VALUE, reg);
	else if (bytes == 4)
		emit_reg(e, is_signed, is_signed ? OP_MOVSX32 : OP_MOV_LOAD, REG_VALUE, reg);
	else
		emit_reg(e, true, OP_MOV_LOAD, REG_VALUE, reg);
}

static bool is_sign_extended(const struct arch_arg *arg)
{
	return arg->is_signed && !arg->is_float;
}

/* REG_VALUE = a general register's value at the site. */
static void emit_register_value(struct emit *e, const struct frame *f, const struct arch_arg *arg)
{
	unsigned int bytes = arg->size < arg->width ? arg->size : arg->width;
	bool is_signed = is_sign_extended(arg);

	if (arg->base == RSP) {
		emit_original(e, f, RSP, REG_VALUE);
		emit_extend(e, REG_VALUE, bytes, is_signed);
	} else if (f->saved[arg->base] >= 0) {
		emit_load(e, mem_at(RSP, f->saved[arg->base] + arg->shift / 8), bytes, is_signed);
	} else if (arg->shift) {
		emit_reg(e, true, OP_MOV_LOAD, REG_VALUE, arg->base);
		emit_shift(e, true, false, REG_VALUE, arg->shift);
		emit_extend(e, REG_VALUE, bytes, is_signed);
	} else {
		emit_extend(e, arg->base, bytes, is_signed);
	}
}

/* The constant as the declared size and sign make it. */
static uint64_t immediate_value(const struct arch_arg *arg)
{
	unsigned int bits = arg->size * 8;
	uint64_t value = arg->disp;

	if (bits >= 64)
		return value;
	value &= (UINT64_C(1) << bits) - 1;
	if (is_sign_extended(arg) && value >> (bits - 1))
		value |= ~UINT64_C(0) << bits;
	return value;
}

/* dst = the address of a memory operand; changes REG_SCRATCH. */
static void emit_address(struct emit *e, const struct frame *f, const struct arch_arg *arg, int dst)
{
	bool far = arg->disp != (int32_t)arg->disp;
	bool based = arg->base >= 0;
	struct emit_mem m = {.base = dst,
		.index = REG_NONE,
		.scale = arg->scale ? arg->scale : 1,
		.disp = far || !based ? 0 : arg->disp};

	if (based)
		emit_original(e, f, arg->base, dst);
	else
		emit_lea_to(e, dst, arg->disp);
	if (arg->index >= 0) {
		emit_original(e, f, arg->index, REG_SCRATCH);
		m.index = REG_SCRATCH;
	}
	if (m.index != REG_NONE || m.disp)
		emit_mem(e, true, OP_LEA, dst, m);
	if (based && far) {
		emit_const(e, REG_SCRATCH, arg->disp);
		emit_reg(e, true, OP_ADD, dst, REG_SCRATCH);
	}
}

/* mov between a vector register and REG_VALUE (4 or 8 bytes). */
static void emit_vector_value(struct emit *e, const struct arch_arg *arg)
{
	uint8_t rex = (arg->size == 8 ? 8 : 0) | (arg->base & 8 ? 4 : 0);

	emit_u8(e, 0x66);
	if (rex)
		emit_u8(e, 0x40 | rex);
	emit_bytes(e, "\x0f\x7e", 2); /* movd or movq %xmmN, %rax */
	emit_u8(e, 0xc0 | (arg->base & 7) << 3 | REG_VALUE);
}

/* REG_VALUE = the value of a scalar that needs no check. */
static void emit_value(struct emit *e, const struct frame *f, const struct arch_arg *arg)
{
	switch (arg->kind) {
	case ARCH_ARG_IMMEDIATE:
		emit_const(e, REG_VALUE, immediate_value(arg));
		break;
	case ARCH_ARG_REGISTER:
		emit_register_value(e, f, arg);
		break;
	case ARCH_ARG_FP_REGISTER:
		emit_vector_value(e, arg);
		break;
	case ARCH_ARG_MEMORY:
		emit_address(e, f, arg, REG_VALUE);
		emit_load(e, mem_at(REG_VALUE, 0), arg->size, is_sign_extended(arg));
		break;
	case ARCH_ARG_UNKNOWN:
		break;
	}
}

/* ---- Checked pointers -------------------------------------------------------------- */

/*
 * The subroutine: can the aligned word that holds address %rsi be read? ZF if
 * so. Aligns %rsi; changes %rax, %rcx, %rdx, %rdi, %r10, %r11.
 */
static void emit_check_subroutine(struct emit *e, const struct plan *p)
{
	int out = emit_label(e);

	emit_place(e, p->check);
	emit_imm(e, true, IMM_AND, RSI, -8);
	/* The page of the site's stack pointer? The return addresses do not matter. */
	emit_mem(e, true, OP_LEA, RAX, mem_at(RSP, p->frame.size));
	emit_reg(e, true, OP_XOR, RAX, RSI);
	emit_shift(e, true, false, RAX, 12);
	if (p->stub->may_call_kernel) {
		emit_jump_label(e, CC_E, out);
		/* A null set would be no error; nothing is mapped in the first page. */
		emit_imm(e, true, IMM_CMP, RSI, PAGE_BYTES);
		emit_jump_label(e, CC_B, out); /* below: not equal */
		emit_const(e, RDI, UINT32_MAX);
		emit_const(e, RDX, 0);
		emit_const(e, R10, 8);
		emit_const(e, RAX, SYS_RT_SIGPROCMASK);
		emit_bytes(e, "\x0f\x05", 2); /* syscall */
		emit_imm(e, true, IMM_CMP, RAX, MINUS_EINVAL);
	}
	emit_place(e, out);
	emit_u8(e, 0xc3); /* ret */
}

/* %r8 = a memory operand's address; not readable: a jump to `bad`. */
static void emit_pointer(
	struct emit *e, const struct plan *p, const struct arch_capture *c, int bad)
{
	const struct arch_arg *arg = &c->arg;
	int good;

	emit_address(e, &p->frame, arg, R8);
	if (!x86_64_capture_checked(c))
		return;
	good = emit_label(e);
	if (arg->base == RBP) {
		emit_reg(e, true, OP_MOV_LOAD, RAX, R8);
		emit_reg(e, true, OP_SUB, RAX, RSP);
		emit_imm(e, true, IMM_CMP, RAX, STACK_NEAR - (int32_t)arg->size);
		emit_jump_label(e, CC_B, good);
	}
	emit_reg(e, true, OP_MOV_LOAD, RSI, R8);
	emit_call_label(e, p->check);
	emit_jump_label(e, CC_NE, bad);
	if (arg->size > 1) { /* does it end in another page? */
		emit_mem(e, true, OP_LEA, RSI, mem_at(R8, arg->size - 1));
		emit_reg(e, true, OP_MOV_LOAD, RAX, RSI);
		emit_reg(e, true, OP_XOR, RAX, R8);
		emit_shift(e, true, false, RAX, 12);
		emit_jump_label(e, CC_E, good);
		emit_call_label(e, p->check);
		emit_jump_label(e, CC_NE, bad);
	}
	emit_place(e, good);
}

/* ---- Strings ------------------------------------------------------------------------ */

/*
 * The subroutine that measures the string at %r8, of which fewer than %r9
 * bytes are wanted: %rax = its length and the flag bits, as in the record.
 *
 *	rsi	the word looked at, aligned
 *	rdx	words below it can be read
 *	r9	the first byte that is of no interest
 *	rdi r10	the constants of the search
 */
static void emit_measure_subroutine(struct emit *e, const struct plan *p)
{
	const struct arch_stub *s = p->stub;
	int page = emit_label(e), known = emit_label(e), word = emit_label(e);
	int test = emit_label(e), found = emit_label(e), cut = emit_label(e);
	int fault = emit_label(e), null = emit_label(e);

	emit_place(e, p->measure);
	emit_reg(e, true, OP_ADD, R9, R8);
	emit_reg(e, true, OP_MOV_LOAD, RSI, R8);
	emit_imm(e, true, IMM_AND, RSI, -8);
	if (s->safe_end > s->safe_start) {
		emit_lea_to(e, RAX, s->safe_start);
		emit_lea_to(e, RDX, s->safe_end);
		emit_reg(e, true, OP_CMP, R8, RAX);
		emit_jump_label(e, CC_B, page);
		emit_reg(e, true, OP_CMP, R8, RDX);
		emit_jump_label(e, CC_B, known);
	}
	emit_place(e, page);
	emit_call_label(e, p->check);
	emit_jump_label(e, CC_NE, fault);
	emit_mem(e, true, OP_LEA, RDX, mem_at(RSI, PAGE_BYTES));
	emit_imm(e, true, IMM_AND, RDX, -PAGE_BYTES);

	emit_place(e, known);
	emit_const(e, RDI, UINT64_C(0) - UINT64_C(0x0101010101010101));
	emit_const(e, R10, UINT64_C(0x8080808080808080));
	emit_place(e, word);
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_at(RSI, 0));
	emit_reg(e, true, OP_CMP, RSI, R8);
	emit_jump_label(e, CC_AE, test);
	/* the first word: the bytes before the string count as not zero */
	emit_mem(e, false, OP_LEA, RCX,
		(struct emit_mem){.base = REG_NONE, .index = R8, .scale = 8});
	emit_const(e, R11, UINT64_MAX);
	emit_bytes(e, "\x49\xd3\xe3\x49\xf7\xd3", 6); /* shl %cl,%r11; not %r11 */
	emit_reg(e, true, OP_OR, RAX, R11);
	emit_place(e, test);
	emit_mem(e, true, OP_LEA, R11, mem_indexed(RAX, RDI, 0));
	emit_bytes(e, "\x48\xf7\xd0", 3); /* not %rax */
	emit_reg(e, true, OP_AND, RAX, R11);
	emit_reg(e, true, OP_AND, RAX, R10);
	emit_jump_label(e, CC_NE, found);
	emit_imm(e, true, IMM_ADD, RSI, 8);
	emit_reg(e, true, OP_CMP, RSI, R9);
	emit_jump_label(e, CC_AE, cut);
	emit_reg(e, true, OP_CMP, RSI, RDX);
	emit_jump_label(e, CC_B, word);
	emit_jump_label(e, -1, page);

	emit_place(e, found); /* by its bit 7: shifted, the byte's number */
	emit_reg(e, true, OP_BSF, RAX, RAX);
	emit_shift(e, false, false, RAX, 3);
	emit_reg(e, true, OP_ADD, RAX, RSI);
	emit_reg(e, true, OP_CMP, RAX, R9);
	emit_jump_label(e, CC_AE, cut);
	emit_reg(e, true, OP_SUB, RAX, R8);
	emit_u8(e, 0xc3);

	emit_place(e, fault); /* what came before it, if anything, is shown */
	emit_reg(e, true, OP_CMP, RSI, R8);
	emit_jump_label(e, CC_BE, null);
	emit_mem(e, true, OP_LEA, R9, mem_at(RSI, 1));
	emit_place(e, cut);
	emit_const(e, RAX, (UINT64_C(1) << RING_STRING_TRUNCATED_BIT) - 1);
	emit_reg(e, true, OP_ADD, RAX, R9);
	emit_reg(e, true, OP_SUB, RAX, R8);
	emit_u8(e, 0xc3);
	emit_place(e, null);
	emit_const(e, RAX, UINT64_C(1) << RING_STRING_NULL_BIT);
	emit_u8(e, 0xc3);
}

void emit_capture_subroutines(struct emit *e, const struct plan *p)
{
	if (p->strings)
		emit_measure_subroutine(e, p);
	if (p->strings || p->checked || p->stacks)
		emit_check_subroutine(e, p);
}

/* ---- Before the sequence -------------------------------------------------------------- */

void emit_store_pair(struct emit *e, int temp, int pointer)
{
	emit_mem(e, true, OP_MOV_STORE, pointer, temp_at(temp));
	emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(temp + 1));
}

static void emit_prepare_vector(struct emit *e, const struct plan *p, int i)
{
	const struct arch_arg *arg = &p->stub->captures[i].arg;

	emit_mem(e, true, OP_LEA, R8, temp_at(p->spill[i]));
	emit_u8(e, arg->base & 8 ? 0x45 : 0x41);
	emit_bytes(e, "\x0f\x11", 2); /* movups %xmmN,(%r8) */
	emit_u8(e, (arg->base & 7) << 3);
	emit_const(e, RAX, XMM_BYTES);
	emit_store_pair(e, p->temp[i], R8);
}

/* What was read stands in %rax (a scalar or a string's pointer) or is at %r8. */
static void emit_keep(struct emit *e, const struct plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	uint64_t cut = c->arg.size > c->bytes_max;

	if (c->is_string) {
		emit_reg(e, true, OP_MOV_LOAD, R8, RAX);
		emit_const(e, R9, c->bytes_max + 1);
		emit_call_label(e, p->measure);
		emit_store_pair(e, p->temp[i], R8);
	} else if (capture_is_variable(c)) {
		emit_const(e, RAX, capture_bytes(c) | cut << RING_STRING_TRUNCATED_BIT);
		emit_store_pair(e, p->temp[i], R8);
	} else {
		emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->temp[i]));
	}
}

void emit_prepare_capture(struct emit *e, const struct plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	bool checked = x86_64_capture_checked(c), variable = capture_is_variable(c);
	int bad, done;

	if (!checked && !variable)
		return;
	if (c->stack) {
		emit_prepare_stack(e, p, i);
		return;
	}
	if (c->arg.kind == ARCH_ARG_FP_REGISTER) {
		emit_prepare_vector(e, p, i);
		return;
	}
	if (c->arg.kind != ARCH_ARG_MEMORY) {
		emit_value(e, &p->frame, &c->arg);
		emit_keep(e, p, i);
		return;
	}
	bad = emit_label(e);
	done = emit_label(e);
	emit_pointer(e, p, c, bad);
	if (c->is_string || !variable)
		emit_load(e, mem_at(R8, 0), c->arg.size, is_sign_extended(&c->arg));
	emit_keep(e, p, i);
	if (checked)
		emit_jump_label(e, -1, done);
	emit_place(e, bad);
	if (checked) {
		emit_imm_mem(
			e, false, IMM_AND, temp_at(p->mask_temp), (int32_t) ~(UINT32_C(1) << i));
		emit_store_imm(e, true, temp_at(p->temp[i]), 0);
		if (variable) {
			emit_const(e, RAX, UINT64_C(1) << RING_STRING_NULL_BIT);
			emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->temp[i] + 1));
		}
	}
	emit_place(e, done);
}

/* ---- Within the sequence ----------------------------------------------------------------- */

void emit_captured(struct emit *e, const struct plan *p, const struct frame *frame, int i)
{
	if (x86_64_capture_checked(&p->stub->captures[i]))
		emit_mem(e, true, OP_MOV_LOAD, REG_VALUE, temp_at(p->temp[i]));
	else
		emit_value(e, frame, &p->stub->captures[i].arg);
}

void emit_capture(struct emit *e, const struct plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	struct emit_mem word = mem_at(REG_RECORD, sizeof(struct ring_record) + 8 * i);
	int64_t value;

	if (capture_is_variable(c)) {
		emit_mem(e, true, OP_MOV_LOAD, REG_VALUE, temp_at(p->temp[i] + 1));
	} else if (c->arg.kind == ARCH_ARG_IMMEDIATE) {
		value = (int64_t)immediate_value(&c->arg);
		if (value == (int32_t)value) {
			emit_store_imm(e, true, word, value);
			return;
		}
		emit_const(e, REG_VALUE, value);
	} else {
		emit_captured(e, p, &p->frame, i);
	}
	emit_mem(e, true, OP_MOV_STORE, REG_VALUE, word);
}

/*
 * Never reads a byte beyond: eight at a time and the last eight again,
 * overlapping; of fewer than eight the first and last four; of fewer than four
 * one by one.
 */
void emit_copy(struct emit *e)
{
	int words = emit_label(e), few = emit_label(e), bytes = emit_label(e);
	int done = emit_label(e);

	emit_mem(e, true, OP_LEA, R10, mem_at(RDX, -8));
	emit_reg(e, false, OP_XOR, R9, R9);
	emit_imm(e, false, IMM_CMP, RDX, 8);
	emit_jump_label(e, CC_B, few);
	emit_place(e, words);
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_indexed(RSI, R9, 0));
	emit_mem(e, true, OP_MOV_STORE, RAX, mem_indexed(REG_OUT, R9, 0));
	emit_imm(e, true, IMM_ADD, R9, 8);
	emit_reg(e, true, OP_CMP, R9, R10);
	emit_jump_label(e, CC_B, words);
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_indexed(RSI, R10, 0));
	emit_mem(e, true, OP_MOV_STORE, RAX, mem_indexed(REG_OUT, R10, 0));
	emit_jump_label(e, -1, done);

	emit_place(e, few);
	emit_imm(e, false, IMM_CMP, RDX, 4);
	emit_jump_label(e, CC_B, bytes);
	emit_mem(e, false, OP_MOV_LOAD, RAX, mem_at(RSI, 0));
	emit_mem(e, false, OP_MOV_STORE, RAX, mem_at(REG_OUT, 0));
	emit_mem(e, false, OP_MOV_LOAD, RAX, mem_indexed(RSI, RDX, -4));
	emit_mem(e, false, OP_MOV_STORE, RAX, mem_indexed(REG_OUT, RDX, -4));
	emit_jump_label(e, -1, done);

	emit_place(e, bytes);
	emit_reg(e, false, OP_CMP, R9, RDX);
	emit_jump_label(e, CC_AE, done);
	emit_mem(e, false, OP_MOVZX8, RAX, mem_indexed(RSI, R9, 0));
	emit_mem(e, false, OP_MOV_STORE8, RAX, mem_indexed(REG_OUT, R9, 0));
	emit_imm(e, false, IMM_ADD, R9, 1);
	emit_jump_label(e, -1, bytes);
	emit_place(e, done);
}

void emit_copy_pairs(struct emit *e, const struct plan *p)
{
	int next = emit_label(e);

	if (p->recorded_pairs > 1)
		emit_mem(e, true, OP_LEA, R11, temp_at(0));
	emit_place(e, next);
	emit_mem(e, true, OP_MOV_LOAD, RSI, p->recorded_pairs > 1 ? mem_at(R11, 0) : temp_at(0));
	/* without the flag bits */
	emit_mem(e, false, OP_MOV_LOAD, RDX, p->recorded_pairs > 1 ? mem_at(R11, 8) : temp_at(1));
	emit_copy(e);
	emit_imm(e, true, IMM_ADD, RDX, 7);
	emit_imm(e, true, IMM_AND, RDX, -8);
	emit_reg(e, true, OP_ADD, REG_OUT, RDX);
	if (p->recorded_pairs > 1) {
		emit_imm(e, true, IMM_ADD, R11, 16);
		emit_mem(e, true, OP_LEA, RAX, temp_at(2 * p->recorded_pairs));
		emit_reg(e, true, OP_CMP, R11, RAX);
		emit_jump_label(e, CC_B, next);
	}
}
