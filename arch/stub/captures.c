/* SPDX-License-Identifier: MIT */
/*
 * How a stub reads a probe's arguments.
 *
 * A memory operand that is not on the stack or in static storage, and every string, is reached
 * through a pointer that the program itself may never follow. So it is checked first (readable.c),
 * except addresses near above the stack pointer whose base is the frame pointer's register: there,
 * that is the frame. Where the processor ignores some bits of a pointer, they are cleared before it
 * is checked and followed; a number that is recorded keeps them.
 */
#include <linux/prctl.h>

#include "arch/arch.h"
#include "arch/layout.h"
#include "arch/stub/plan.h"

/* So far above the stack pointer there are frames. */
enum { STACK_NEAR = 2 * PAGE_BYTES };

/* ---- Checked pointers -------------------------------------------------------------- */

/* Jumps to `bad` unless the `size` bytes at POINTER are readable, or perhaps to `good`. */
static void check_bytes(struct form *f, const struct stub_plan *p, uint32_t size, int good, int bad)
{
	form_untag(f, p);
	form_move(f, FORM_FROM, FORM_POINTER);
	form_check(f, p, FORM_FRAME, bad);
	if (size == 1)
		return;
	/* does it end in another page? */
	form_compute(f, FORM_FROM, form_at(FORM_POINTER, (int32_t)size - 1));
	form_move(f, FORM_VALUE, FORM_FROM);
	form_compare_pages(f, p, FORM_VALUE, FORM_POINTER);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, good);
	form_check(f, p, FORM_FRAME, bad);
}

/* POINTER = a memory operand's address; jumps to `bad` if it is not readable. */
static void pointer(struct form *f, const struct stub_plan *p, const struct arch_arg *arg,
	bool is_static, int bad)
{
	int32_t near = STACK_NEAR - (int32_t)arg->size;
	int good;

	form_operand_address(f, FORM_POINTER, arg);
	if (!operand_is_checked(p->isa, arg, is_static))
		return;
	good = form_label(f);
	if (arg->base == p->isa->frame_pointer) {
		form_compute(f, FORM_VALUE, form_at(FORM_FRAME, near - 1));
		form_two(f, FORM_SUB, true, FORM_VALUE, FORM_POINTER);
		form_jump_if_const(f, true, FORM_VALUE, FORM_BELOW, near, good);
	}
	check_bytes(f, p, arg->size, good, bad);
	form_place(f, good);
}

/* ---- Steps, and bytes of a stated length --------------------------------------------- */

/* VALUE = a scalar, even one in memory that must be checked; changes POINTER. */
static void checked_value(struct form *f, const struct stub_plan *p, const struct arch_arg *arg,
	bool is_static, int bad)
{
	if (!operand_is_checked(p->isa, arg, is_static)) {
		form_operand(f, FORM_VALUE, arg);
		return;
	}
	pointer(f, p, arg, is_static, bad);
	form_load(
		f, FORM_VALUE, form_at(FORM_POINTER, 0), (uint8_t)arg->size, value_is_signed(arg));
}

/* VALUE += the index, times the scale of a step; changes POINTER and a temporary. */
static void add_index(struct form *f, const struct stub_plan *p, const struct arch_capture *c,
	int32_t scale, int temp, int bad)
{
	form_store(f, FORM_VALUE, form_temp(temp));
	checked_value(f, p, &c->index, c->index_is_static, bad);
	form_multiply(f, FORM_VALUE, FORM_VALUE, scale);
	form_two_at(f, FORM_ADD, FORM_VALUE, form_temp(temp));
}

/* VALUE = the argument, or what the steps lead to from it; may change a temporary. */
static void found_value(
	struct form *f, const struct stub_plan *p, const struct arch_capture *c, int temp, int bad)
{
	checked_value(f, p, &c->arg, c->is_static, bad);
	for (int i = 0; i < c->step_count; i++) {
		const struct arch_step *step = &c->steps[i];
		int good;

		if (step->scale)
			add_index(f, p, c, step->scale, temp, bad);
		if (!step->size) {
			form_compute(f, FORM_VALUE, form_at(FORM_VALUE, step->offset));
			continue;
		}
		good = form_label(f);
		form_compute(f, FORM_POINTER, form_at(FORM_VALUE, step->offset));
		check_bytes(f, p, step->size, good, bad);
		form_place(f, good);
		form_load(f, FORM_VALUE, form_at(FORM_POINTER, 0), step->size, step->is_signed);
	}
}

/* POINTER = a pointer in VALUE, to what is measured. */
static void follow(struct form *f, const struct stub_plan *p)
{
	form_move(f, FORM_POINTER, FORM_VALUE);
	form_untag(f, p);
}

/*
 * VALUE = the word of the string at POINTER of NEXT bytes at most, as in the record. The first
 * temporary has its stated length, which may be more than NEXT.
 */
static void sized_string(struct form *f, const struct stub_plan *p, int temp)
{
	int done = form_label(f);

	form_const(f, FORM_VALUE, 0);
	form_jump_if_const(f, true, FORM_NEXT, FORM_EQ, 0, done);
	form_store(f, FORM_NEXT, form_temp(temp + 1));
	form_two_const(f, FORM_ADD, true, FORM_NEXT, 1);
	form_call_nest(f, p->measure);
	form_const(f, FORM_RIGHT, UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	form_two_at(f, FORM_ADD, FORM_RIGHT, form_temp(temp + 1));
	form_jump_if(f, true, FORM_VALUE, FORM_NE, FORM_RIGHT, done);
	form_load(f, FORM_RIGHT, form_temp(temp + 1), sizeof(uint64_t), false);
	form_jump_if_at(f, sizeof(uint64_t), FORM_RIGHT, FORM_NE, form_temp(temp), done);
	form_move(f, FORM_VALUE, FORM_RIGHT); /* no NUL among all of its bytes */
	form_place(f, done);
}

/* VALUE = the word of the bytes from POINTER to NEXT; the temporary has their stated length. */
static void sized_bytes(
	struct form *f, const struct stub_plan *p, const struct arch_capture *c, int temp)
{
	int kept = form_label(f);

	form_two(f, FORM_ADD, true, FORM_NEXT, FORM_POINTER);
	form_call_nest(f, p->extent);
	form_const(f, FORM_NEXT, c->bytes_max);
	form_jump_if_at(f, sizeof(uint64_t), FORM_NEXT, FORM_NOT_BELOW, form_temp(temp), kept);
	form_const(f, FORM_NEXT, UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	form_two(f, FORM_OR, true, FORM_VALUE, FORM_NEXT);
	form_place(f, kept);
}

/* Stores the pair of the bytes; jumps to `bad` if an operand cannot be read. */
static void prepare_bytes(
	struct form *f, const struct stub_plan *p, const struct arch_capture *c, int temp, int bad)
{
	int positive = form_label(f), all = form_label(f);

	checked_value(f, p, &c->length, c->length_is_static, bad);
	if (value_is_signed(&c->length)) {
		form_jump_if_const(f, true, FORM_VALUE, FORM_GE, 0, positive);
		form_const(f, FORM_VALUE, 0);
	}
	form_place(f, positive);
	form_store(f, FORM_VALUE, form_temp(temp));
	found_value(f, p, c, temp + 1, bad);
	follow(f, p);
	/* at most bytes_max */
	form_const(f, FORM_NEXT, c->bytes_max);
	form_jump_if_at(f, sizeof(uint64_t), FORM_NEXT, FORM_NOT_ABOVE, form_temp(temp), all);
	form_load(f, FORM_NEXT, form_temp(temp), sizeof(uint64_t), false);
	form_place(f, all);
	if (c->is_string)
		sized_string(f, p, temp);
	else
		sized_bytes(f, p, c, temp);
	form_store_pair(f, temp, FORM_POINTER);
}

void form_capture_subroutines(struct form *f, const struct stub_plan *p)
{
	if (p->strings)
		form_measure_subroutine(f, p);
	if (p->extents)
		form_extent_subroutine(f, p);
	form_check_subroutines(f, p);
}

/* ---- Before the sequence -------------------------------------------------------------- */

/*
 * Only the kernel has the thread's name: prctl(2), PR_GET_NAME, copies 16 bytes with a NUL
 * among them, and fails for no other reason than the address (kernel/sys.c of Linux). The C
 * library keeps no copy, and anybody may give the thread another name
 * (/proc/PID/task/TID/comm), so it is asked for at each hit. So a hit has the name that its
 * thread had then, and no controller has to look at a thread before it ends.
 *
 *	POINTER	where the name goes
 *	VALUE	its length
 */
static void prepare_comm(struct form *f, const struct stub_plan *p, int i)
{
	int next = form_label(f), end = form_label(f);

	form_store_const(f, form_temp(p->spill[i]), sizeof(uint64_t), 0);
	form_store_const(f, form_temp(p->spill[i] + 1), sizeof(uint64_t), 0);
	form_compute(f, FORM_POINTER, form_temp(p->spill[i]));
	form_move(f, FORM_FROM, FORM_POINTER);
	form_const(f, FORM_SET, PR_GET_NAME);
	form_kernel(f, FORM_CALL_PRCTL);
	form_const(f, FORM_VALUE, 0);
	form_place(f, next);
	form_load(f, FORM_SCRATCH, form_indexed(FORM_POINTER, FORM_VALUE, 0), 1, false);
	form_jump_if_const(f, false, FORM_SCRATCH, FORM_EQ, 0, end);
	form_two_const(f, FORM_ADD, false, FORM_VALUE, 1);
	form_jump_if_const(f, false, FORM_VALUE, FORM_BELOW, ARCH_COMM_MAX, next);
	form_place(f, end);
	form_store_pair(f, p->temp[i], FORM_POINTER);
}

static void prepare_vector(struct form *f, const struct stub_plan *p, int i)
{
	form_compute(f, FORM_POINTER, form_temp(p->spill[i]));
	form_store_vector(f, p->stub->captures[i].arg.base, form_at(FORM_POINTER, 0));
	form_const(f, FORM_VALUE, VECTOR_BYTES);
	form_store_pair(f, p->temp[i], FORM_POINTER);
}

static void keep_string(struct form *f, const struct stub_plan *p, int i)
{
	form_const(f, FORM_NEXT, p->stub->captures[i].bytes_max + 1);
	form_call_nest(f, p->measure);
	form_store_pair(f, p->temp[i], FORM_POINTER);
}

/* What was read is in VALUE (a scalar or a string's pointer) or at POINTER. */
static void keep(struct form *f, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	uint64_t cut = c->arg.size > capture_bytes(c);

	if (c->is_string) {
		follow(f, p);
		keep_string(f, p, i);
	} else if (arch_capture_has_bytes(c)) {
		form_const(f, FORM_VALUE, capture_bytes(c) | cut << RING_STRING_TRUNCATED_BIT);
		form_store_pair(f, p->temp[i], FORM_POINTER);
	} else {
		form_store(f, FORM_VALUE, form_temp(p->temp[i]));
	}
}

/* An operand that no pointer leads to. */
static void prepare_operand(struct form *f, const struct stub_plan *p, int i)
{
	const struct arch_arg *arg = &p->stub->captures[i].arg;

	if (p->stub->captures[i].is_string) {
		form_operand(f, FORM_POINTER, arg);
		form_untag(f, p);
		keep_string(f, p, i);
		return;
	}
	form_operand(f, FORM_VALUE, arg);
	if (operand_is_half(arg)) {
		form_store(f, FORM_VALUE, form_temp(p->spill[i]));
		form_compute(f, FORM_POINTER, form_temp(p->spill[i]));
	}
	keep(f, p, i);
}

static void prepare_followed(struct form *f, const struct stub_plan *p, int i, int bad)
{
	const struct arch_capture *c = &p->stub->captures[i];

	if (c->has_length) {
		prepare_bytes(f, p, c, p->temp[i], bad);
		return;
	}
	if (c->step_count) {
		found_value(f, p, c, p->temp[i], bad);
	} else {
		pointer(f, p, &c->arg, c->is_static, bad);
		if (c->is_string || !arch_capture_has_bytes(c))
			form_load(f, FORM_VALUE, form_at(FORM_POINTER, 0), (uint8_t)c->arg.size,
				value_is_signed(&c->arg));
	}
	keep(f, p, i);
}

/* It could not be read. Its bit in the mask is set so far. */
static void prepare_null(struct form *f, const struct stub_plan *p, int i)
{
	form_add_const_to(f, FORM_COUNT, form_temp(p->mask_temp), sizeof(uint32_t),
		(int32_t) - (UINT32_C(1) << i));
	form_store_const(f, form_temp(p->temp[i]), sizeof(uint64_t), 0);
	if (arch_capture_has_bytes(&p->stub->captures[i])) {
		form_const(f, FORM_VALUE, UINT64_C(1) << RING_STRING_NULL_BIT);
		form_store(f, FORM_VALUE, form_temp(p->temp[i] + 1));
	}
}

void form_prepare_capture(struct form *f, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	bool checked = capture_is_checked(p->isa, c);
	int bad, done;

	if (c->begun || c->stack || (!checked && !arch_capture_has_bytes(c)))
		return;
	if (c->is_comm) {
		prepare_comm(f, p, i);
	} else if (c->arg.kind == ARCH_ARG_FP_REGISTER) {
		prepare_vector(f, p, i);
	} else if (c->arg.kind != ARCH_ARG_MEMORY && !c->has_length && !c->step_count) {
		prepare_operand(f, p, i);
	} else {
		bad = form_label(f);
		done = form_label(f);
		prepare_followed(f, p, i, bad);
		if (checked)
			form_jump(f, done);
		form_place(f, bad);
		if (checked)
			prepare_null(f, p, i);
		form_place(f, done);
	}
}

/* ---- Within the sequence ----------------------------------------------------------------- */

void form_captured_word(struct form *f, const struct stub_plan *p, int i)
{
	if (arch_capture_has_bytes(&p->stub->captures[i]))
		form_load(f, FORM_VALUE, form_temp(p->temp[i] + 1), sizeof(uint64_t), false);
	else
		form_captured(f, FORM_VALUE, p, i);
}

void form_capture(struct form *f, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	struct form_mem place = form_at(FORM_RECORD, p->record_at[i]);
	uint8_t bytes = (uint8_t)arch_capture_fixed(c);

	if (arch_capture_has_bytes(c) || p->checked >> i & 1) {
		form_captured_word(f, p, i);
		form_store_packed(f, FORM_VALUE, place, bytes);
	} else {
		form_store_operand(f, &c->arg, place, bytes);
	}
}

/* The `bytes` bytes at FROM + index + disp go to POINTER + index + disp. */
static void copy_part(struct form *f, int index, int32_t disp, uint8_t bytes)
{
	form_load(f, FORM_VALUE, form_indexed(FORM_FROM, index, disp), bytes, false);
	form_store_part(f, FORM_VALUE, form_indexed(FORM_POINTER, index, disp), bytes);
}

void form_copy(struct form *f)
{
	int words = form_label(f), few = form_label(f), bytes = form_label(f);
	int done = form_label(f);

	form_compute(f, FORM_SPARE, form_at(FORM_SCRATCH, -8));
	form_const(f, FORM_NEXT, 0);
	form_jump_if_const(f, false, FORM_SCRATCH, FORM_BELOW, 8, few);
	form_place(f, words);
	copy_part(f, FORM_NEXT, 0, 8);
	form_two_const(f, FORM_ADD, true, FORM_NEXT, 8);
	form_jump_if(f, true, FORM_NEXT, FORM_BELOW, FORM_SPARE, words);
	copy_part(f, FORM_SPARE, 0, 8);
	form_jump(f, done);

	form_place(f, few);
	form_jump_if_const(f, false, FORM_SCRATCH, FORM_BELOW, 4, bytes);
	copy_part(f, FORM_NONE, 0, 4);
	copy_part(f, FORM_SCRATCH, -4, 4);
	form_jump(f, done);

	form_place(f, bytes);
	form_jump_if(f, false, FORM_NEXT, FORM_NOT_BELOW, FORM_SCRATCH, done);
	copy_part(f, FORM_NEXT, 0, 1);
	form_two_const(f, FORM_ADD, false, FORM_NEXT, 1);
	form_jump(f, bytes);
	form_place(f, done);
}

void form_copy_pairs(struct form *f, const struct stub_plan *p)
{
	bool many = p->recorded_pairs > 1;
	int next = form_label(f);

	if (many)
		form_compute(f, FORM_SPARE_2, form_temp(0));
	form_place(f, next);
	form_load(f, FORM_FROM, many ? form_at(FORM_SPARE_2, 0) : form_temp(0), 8, false);
	form_load(f, FORM_SCRATCH, many ? form_at(FORM_SPARE_2, 8) : form_temp(1), 4, false);
	form_two_const(f, FORM_AND, false, FORM_SCRATCH, RING_STRING_LENGTH);
	form_copy(f);
	form_two(f, FORM_ADD, true, FORM_POINTER, FORM_SCRATCH);
	if (many) {
		form_two_const(f, FORM_ADD, true, FORM_SPARE_2, 16);
		form_compute(f, FORM_VALUE, form_temp(2 * p->recorded_pairs));
		form_jump_if(f, true, FORM_SPARE_2, FORM_BELOW, FORM_VALUE, next);
	}
	form_two_const(f, FORM_ADD, true, FORM_POINTER, (int32_t)p->record_align - 1);
	form_two_const(f, FORM_AND, true, FORM_POINTER, -(int32_t)p->record_align);
}
