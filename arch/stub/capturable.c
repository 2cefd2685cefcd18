/* SPDX-License-Identifier: MIT */
/*
 * What can be captured, and how.
 *
 * A memory operand that is not on the stack or in static storage, and every string, is reached
 * through a pointer that the program itself may never follow. So it is checked first.
 *
 * Halves. A value of 16 bytes (__int128) may be in two registers, but the note names only the one
 * with its lower half. gcc and clang pair registers differently, so nobody can say which holds the
 * other half; and gcc writes only the lower half of a constant. What is captured is that half, as
 * bytes that are cut.
 */
#include "arch/stub/plan.h"

enum { HALF_BYTES = 8 };

static bool is_scalar_size(uint32_t size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* Does the operand have only the lower half of the value? */
bool operand_is_half(const struct arch_arg *arg)
{
	return arg->size == 2 * HALF_BYTES &&
	       (arg->kind == ARCH_ARG_IMMEDIATE ||
		       (arg->kind == ARCH_ARG_REGISTER && arg->width == HALF_BYTES));
}

bool operand_is_possible(const struct stub_isa *isa, const struct arch_arg *arg)
{
	switch (arg->kind) {
	case ARCH_ARG_IMMEDIATE:
		return !arg->symbol && (is_scalar_size(arg->size) || operand_is_half(arg));
	case ARCH_ARG_REGISTER:
		return arg->base >= 0 && arg->base < isa->registers &&
		       (is_scalar_size(arg->size) || operand_is_half(arg));
	case ARCH_ARG_FP_REGISTER:
		return arg->base >= 0 && arg->base < isa->vectors &&
		       (arg->size == 4 || arg->size == 8 || arg->size == VECTOR_BYTES);
	case ARCH_ARG_MEMORY:
		return !arg->symbol && arg->size > 0 && arg->size <= PAGE_BYTES &&
		       arg->base < isa->registers && arg->index < isa->registers;
	case ARCH_ARG_UNKNOWN:
		break;
	}
	return false;
}

/* Pointers and lengths are in general registers, constants or memory. */
static bool is_whole(const struct arch_arg *arg)
{
	return arg->kind != ARCH_ARG_FP_REGISTER && is_scalar_size(arg->size);
}

static bool steps_are_possible(const struct arch_capture *c)
{
	if (c->step_count > ARCH_STEPS_MAX)
		return false;
	for (int i = 0; i < c->step_count; i++) {
		const struct arch_step *step = &c->steps[i];
		bool is_address =
			!step->size && i + 1 == c->step_count && (c->is_string || c->has_length);

		if ((!is_address && !is_scalar_size(step->size)) || (step->scale && !c->has_index))
			return false;
	}
	return true;
}

bool capture_is_possible(const struct stub_isa *isa, const struct arch_capture *c)
{
	if (c->stack == ARCH_STACK_BYTES)
		return c->bytes_max > 0 && c->bytes_max <= ARCH_STACK_MAX && c->bytes_max % 8 == 0;
	if (c->stack == ARCH_STACK_FRAMES)
		return c->bytes_max > 0 && c->bytes_max <= 8 * ARCH_FRAMES_MAX &&
		       c->bytes_max % 8 == 0;
	if (c->is_comm)
		return true;
	if (c->begun)
		return !c->is_string || c->bytes_max > 0;
	if (!operand_is_possible(isa, &c->arg))
		return false;
	if (c->has_length && (!operand_is_possible(isa, &c->length) || !is_whole(&c->length)))
		return false;
	if (c->has_index && (!operand_is_possible(isa, &c->index) || !is_whole(&c->index)))
		return false;
	if (!steps_are_possible(c))
		return false;
	return !(c->is_string || c->has_length || c->step_count) || is_whole(&c->arg);
}

uint32_t capture_bytes(const struct arch_capture *c)
{
	if (c->stack)
		return c->bytes_max;
	if (c->is_comm)
		return ARCH_COMM_MAX;
	if (c->arg.kind == ARCH_ARG_FP_REGISTER)
		return VECTOR_BYTES;
	if (c->is_string || c->has_length)
		return c->bytes_max;
	if (operand_is_half(&c->arg))
		return HALF_BYTES;
	return c->arg.size < c->bytes_max ? c->arg.size : c->bytes_max;
}

int capture_spill_temps(const struct arch_capture *c)
{
	if (c->stack)
		return c->stack == ARCH_STACK_FRAMES ? STACK_TEMPS + c->bytes_max / 8
						     : RESIDENT_TEMPS;
	if (c->is_comm)
		return ARCH_COMM_MAX / 8;
	if (!arch_capture_has_bytes(c))
		return 0;
	return c->arg.kind == ARCH_ARG_FP_REGISTER ? VECTOR_BYTES / 8 : operand_is_half(&c->arg);
}

/* Static storage and the stack frame are mapped as long as the code there runs. */
static bool memory_is_safe(const struct stub_isa *isa, const struct arch_arg *arg, bool is_static)
{
	if (arg->index != ARCH_REG_NONE)
		return false;
	if (arg->base == isa->stack_pointer)
		return arg->disp >= -(int64_t)isa->red_zone && arg->disp <= PAGE_BYTES;
	return is_static && arg->base < 0;
}

bool operand_is_checked(const struct stub_isa *isa, const struct arch_arg *arg, bool is_static)
{
	return arg->kind == ARCH_ARG_MEMORY && !memory_is_safe(isa, arg, is_static);
}

bool capture_is_checked(const struct stub_isa *isa, const struct arch_capture *c)
{
	if (c->stack || c->is_comm || c->begun)
		return false;
	return c->step_count || operand_is_checked(isa, &c->arg, c->is_static) ||
	       (c->has_length && operand_is_checked(isa, &c->length, c->length_is_static));
}

int capture_checks(const struct stub_isa *isa, const struct arch_capture *c)
{
	if (c->stack || c->is_comm)
		return 0;
	return (c->is_string || c->has_length) + operand_is_checked(isa, &c->arg, c->is_static) +
	       (c->has_length && operand_is_checked(isa, &c->length, c->length_is_static)) +
	       (c->has_index && operand_is_checked(isa, &c->index, c->index_is_static));
}
