/* SPDX-License-Identifier: MIT */
/*
 * How a stub reads a probe's arguments.
 *
 * A memory operand that is not on the stack or in static storage, and every string, is reached
 * through a pointer that the program itself may never follow. So it is checked first (readable.c),
 * except addresses within two pages above the stack pointer whose base is %rbp: with a frame
 * pointer, that is the frame.
 */
#include "arch/arch.h"
#include "arch/layout.h"
#include "arch/x86/emit.h"
#include "arch/x86/stub/stub.h"
#include "arch/x86/stub/plan.h"

enum { STACK_NEAR = 2 * PAGE_BYTES };

/* ---- Checked pointers -------------------------------------------------------------- */

/* Jumps to `bad` unless the `size` bytes at %r8 are readable, or to `good` if they are. */
static void emit_check_bytes(
	struct emit *e, const struct stub_plan *p, uint32_t size, int good, int bad)
{
	emit_reg(e, true, OP_MOV_LOAD, RSI, R8);
	emit_check(e, p, 0);
	emit_jump_label(e, CC_NE, bad);
	if (size == 1)
		return;
	/* does it end in another page? */
	emit_mem(e, true, OP_LEA, RSI, mem_at(R8, (int32_t)size - 1));
	emit_reg(e, true, OP_MOV_LOAD, RAX, RSI);
	emit_reg(e, true, OP_XOR, RAX, R8);
	emit_shift(e, true, false, RAX, 12);
	emit_jump_label(e, CC_E, good);
	emit_check(e, p, 0);
	emit_jump_label(e, CC_NE, bad);
}

/* %r8 = a memory operand's address; jumps to `bad` if it is not readable. */
static void emit_pointer(struct emit *e, const struct stub_plan *p, const struct arch_arg *arg,
	bool is_static, int bad)
{
	int good;

	emit_address(e, &p->frame, arg, R8);
	if (!operand_is_checked(p->isa, arg, is_static))
		return;
	good = emit_label(e);
	if (arg->base == RBP) {
		emit_reg(e, true, OP_MOV_LOAD, RAX, R8);
		emit_reg(e, true, OP_SUB, RAX, RSP);
		emit_imm(e, true, IMM_CMP, RAX, STACK_NEAR - (int32_t)arg->size);
		emit_jump_label(e, CC_B, good);
	}
	emit_check_bytes(e, p, arg->size, good, bad);
	emit_place(e, good);
}

/* ---- Steps, and bytes of a stated length --------------------------------------------- */

/* REG_VALUE = a scalar, even one in memory that must be checked; changes %r8. */
static void emit_checked_value(struct emit *e, const struct stub_plan *p,
	const struct arch_arg *arg, bool is_static, int bad)
{
	if (!operand_is_checked(p->isa, arg, is_static)) {
		emit_value(e, &p->frame, arg);
		return;
	}
	emit_pointer(e, p, arg, is_static, bad);
	emit_load(e, mem_at(R8, 0), arg->size, value_is_signed(arg), REG_VALUE);
}

/* %rax += the index, times the scale of a step; changes %rcx, %r8 and a temporary. */
static void emit_add_index(struct emit *e, const struct stub_plan *p, const struct arch_capture *c,
	int32_t scale, int temp, int bad)
{
	emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(temp));
	emit_checked_value(e, p, &c->index, c->index_is_static, bad);
	emit_const(e, RCX, (uint64_t)(int64_t)scale);
	emit_reg(e, true, OP_IMUL, RAX, RCX);
	emit_mem(e, true, OP_ADD, RAX, temp_at(temp));
}

/* REG_VALUE = the argument, or what the steps lead to from it; may change a temporary. */
static void emit_found_value(
	struct emit *e, const struct stub_plan *p, const struct arch_capture *c, int temp, int bad)
{
	emit_checked_value(e, p, &c->arg, c->is_static, bad);
	for (int i = 0; i < c->step_count; i++) {
		const struct arch_step *step = &c->steps[i];
		int good;

		if (step->scale)
			emit_add_index(e, p, c, step->scale, temp, bad);
		if (!step->size) {
			emit_mem(e, true, OP_LEA, RAX, mem_at(RAX, step->offset));
			continue;
		}
		good = emit_label(e);
		emit_mem(e, true, OP_LEA, R8, mem_at(RAX, step->offset));
		emit_check_bytes(e, p, step->size, good, bad);
		emit_place(e, good);
		emit_load(e, mem_at(R8, 0), step->size, step->is_signed, REG_VALUE);
	}
}

/*
 * %rax = the word of the string at %r8 of %r9 bytes at most, as in the record. The first temporary
 * has its stated length, which may be more than %r9.
 */
static void emit_sized_string(struct emit *e, const struct stub_plan *p, int temp)
{
	int done = emit_label(e);

	emit_const(e, RAX, 0);
	emit_reg(e, true, OP_TEST, R9, R9);
	emit_jump_label(e, CC_E, done);
	emit_mem(e, true, OP_MOV_STORE, R9, temp_at(temp + 1));
	emit_imm(e, true, IMM_ADD, R9, 1);
	emit_call_label(e, p->measure);
	emit_const(e, RCX, UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	emit_mem(e, true, OP_ADD, RCX, temp_at(temp + 1));
	emit_reg(e, true, OP_CMP, RAX, RCX);
	emit_jump_label(e, CC_NE, done);
	emit_mem(e, true, OP_MOV_LOAD, RCX, temp_at(temp + 1));
	emit_mem(e, true, OP_CMP, RCX, temp_at(temp));
	emit_jump_label(e, CC_NE, done);
	emit_reg(e, true, OP_MOV_LOAD, RAX, RCX); /* no NUL among all of its bytes */
	emit_place(e, done);
}

/* Stores the pair of the bytes; jumps to `bad` if an operand cannot be read. */
static void emit_prepare_bytes(
	struct emit *e, const struct stub_plan *p, const struct arch_capture *c, int temp, int bad)
{
	int positive = emit_label(e), all = emit_label(e), kept = emit_label(e);

	emit_checked_value(e, p, &c->length, c->length_is_static, bad);
	if (value_is_signed(&c->length)) {
		emit_imm(e, true, IMM_CMP, RAX, 0);
		emit_jump_label(e, CC_GE, positive);
		emit_const(e, RAX, 0);
	}
	emit_place(e, positive);
	emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(temp));
	emit_found_value(e, p, c, temp + 1, bad);
	emit_reg(e, true, OP_MOV_LOAD, R8, RAX);
	/* at most bytes_max */
	emit_const(e, R9, c->bytes_max);
	emit_mem(e, true, OP_CMP, R9, temp_at(temp));
	emit_jump_label(e, CC_BE, all);
	emit_mem(e, true, OP_MOV_LOAD, R9, temp_at(temp));
	emit_place(e, all);
	if (c->is_string) {
		emit_sized_string(e, p, temp);
		emit_store_pair(e, temp, R8);
		return;
	}
	emit_reg(e, true, OP_ADD, R9, R8);
	emit_call_label(e, p->extent);
	emit_const(e, R9, c->bytes_max);
	emit_mem(e, true, OP_CMP, R9, temp_at(temp));
	emit_jump_label(e, CC_AE, kept);
	emit_const(e, R9, UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	emit_reg(e, true, OP_OR, RAX, R9);
	emit_place(e, kept);
	emit_store_pair(e, temp, R8);
}

void emit_capture_subroutines(struct emit *e, const struct stub_plan *p)
{
	if (p->strings)
		emit_measure_subroutine(e, p);
	if (p->extents)
		emit_extent_subroutine(e, p);
	if (p->strings || p->extents || p->checked || p->stacks)
		emit_check_subroutine(e, p);
}

/* ---- Before the sequence -------------------------------------------------------------- */

void emit_store_pair(struct emit *e, int temp, int pointer)
{
	emit_mem(e, true, OP_MOV_STORE, pointer, temp_at(temp));
	emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(temp + 1));
}

static void emit_prepare_vector(struct emit *e, const struct stub_plan *p, int i)
{
	const struct arch_arg *arg = &p->stub->captures[i].arg;

	emit_mem(e, true, OP_LEA, R8, temp_at(p->spill[i]));
	emit_u8(e, arg->base & 8 ? 0x45 : 0x41);
	emit_bytes(e, "\x0f\x11", 2); /* movups %xmmN,(%r8) */
	emit_u8(e, (arg->base & 7) << 3);
	emit_const(e, RAX, VECTOR_BYTES);
	emit_store_pair(e, p->temp[i], R8);
}

/* What was read is in %rax (a scalar or a string's pointer) or at %r8. */
static void emit_keep(struct emit *e, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	uint64_t cut = c->arg.size > capture_bytes(c);

	if (c->is_string) {
		emit_reg(e, true, OP_MOV_LOAD, R8, RAX);
		emit_const(e, R9, c->bytes_max + 1);
		emit_call_label(e, p->measure);
		emit_store_pair(e, p->temp[i], R8);
	} else if (arch_capture_has_bytes(c)) {
		emit_const(e, RAX, capture_bytes(c) | cut << RING_STRING_TRUNCATED_BIT);
		emit_store_pair(e, p->temp[i], R8);
	} else {
		emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->temp[i]));
	}
}

void emit_prepare_capture(struct emit *e, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	bool checked = capture_is_checked(p->isa, c), variable = arch_capture_has_bytes(c);
	int bad, done;

	if (c->begun || c->stack || (!checked && !variable))
		return;
	if (c->is_comm) {
		emit_prepare_comm(e, p, i);
		return;
	}
	if (c->arg.kind == ARCH_ARG_FP_REGISTER) {
		emit_prepare_vector(e, p, i);
		return;
	}
	if (c->arg.kind != ARCH_ARG_MEMORY && !c->has_length && !c->step_count) {
		emit_value(e, &p->frame, &c->arg);
		if (operand_is_half(&c->arg)) {
			emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->spill[i]));
			emit_mem(e, true, OP_LEA, R8, temp_at(p->spill[i]));
		}
		emit_keep(e, p, i);
		return;
	}
	bad = emit_label(e);
	done = emit_label(e);
	if (c->has_length) {
		emit_prepare_bytes(e, p, c, p->temp[i], bad);
	} else if (c->step_count) {
		emit_found_value(e, p, c, p->temp[i], bad);
		emit_keep(e, p, i);
	} else {
		emit_pointer(e, p, &c->arg, c->is_static, bad);
		if (c->is_string || !variable)
			emit_load(
				e, mem_at(R8, 0), c->arg.size, value_is_signed(&c->arg), REG_VALUE);
		emit_keep(e, p, i);
	}
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

void emit_word(struct emit *e, const struct stub_plan *p, int i)
{
	if (arch_capture_has_bytes(&p->stub->captures[i]))
		emit_mem(e, true, OP_MOV_LOAD, REG_VALUE, temp_at(p->temp[i] + 1));
	else
		emit_captured(e, p, &p->frame, i);
}

void emit_capture(struct emit *e, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];

	emit_word(e, p, i);
	emit_store(e, mem_at(REG_RECORD, p->record_at[i]), arch_capture_fixed(c));
}

/*
 * Never reads past the end: copies eight bytes at a time and then the last eight again,
 * overlapping; of fewer than eight the first and last four; of fewer than four one by one.
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

void emit_copy_pairs(struct emit *e, const struct stub_plan *p)
{
	int next = emit_label(e);

	if (p->recorded_pairs > 1)
		emit_mem(e, true, OP_LEA, R11, temp_at(0));
	emit_place(e, next);
	emit_mem(e, true, OP_MOV_LOAD, RSI, p->recorded_pairs > 1 ? mem_at(R11, 0) : temp_at(0));
	emit_mem(e, false, OP_MOV_LOAD, RDX, p->recorded_pairs > 1 ? mem_at(R11, 8) : temp_at(1));
	emit_imm(e, false, IMM_AND, RDX, RING_STRING_LENGTH);
	emit_copy(e);
	emit_reg(e, true, OP_ADD, REG_OUT, RDX);
	if (p->recorded_pairs > 1) {
		emit_imm(e, true, IMM_ADD, R11, 16);
		emit_mem(e, true, OP_LEA, RAX, temp_at(2 * p->recorded_pairs));
		emit_reg(e, true, OP_CMP, R11, RAX);
		emit_jump_label(e, CC_B, next);
	}
	emit_imm(e, true, IMM_ADD, REG_OUT, (int32_t)p->record_align - 1);
	emit_imm(e, true, IMM_AND, REG_OUT, -(int32_t)p->record_align);
}
