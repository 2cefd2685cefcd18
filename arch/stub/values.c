/* SPDX-License-Identifier: MIT */
/* The values of operands that need no check: constants, registers, memory; pairs; and the time. */
#include "arch/arch.h"
#include "arch/stub/plan.h"

bool value_is_signed(const struct arch_arg *arg)
{
	return arg->is_signed && !arg->is_float;
}

/* The constant, converted to the declared size and sign. */
static uint64_t value_of_immediate(const struct arch_arg *arg)
{
	unsigned int bits = arg->size * 8;
	uint64_t value = (uint64_t)arg->disp;

	if (bits >= 64)
		return value;
	value &= (UINT64_C(1) << bits) - 1;
	if (value_is_signed(arg) && value >> (bits - 1))
		value |= ~UINT64_C(0) << bits;
	return value;
}

void form_original(struct form *f, int a, int reg)
{
	f->put(f, &(struct form_insn){.op = FORM_ORIGINAL,
			  .a = (int8_t)a,
			  .b = (int8_t)reg,
			  .bytes = sizeof(uint64_t)});
}

void form_operand_address(struct form *f, int a, const struct arch_arg *arg)
{
	bool far = arg->disp != (int32_t)arg->disp;
	bool based = arg->base >= 0;
	struct form_mem mem = form_at(a, far || !based ? 0 : (int32_t)arg->disp);

	if (based)
		form_original(f, a, arg->base);
	else
		form_address(f, a, (uint64_t)arg->disp);
	if (arg->index >= 0) {
		form_original(f, FORM_SCRATCH, arg->index);
		mem.index = FORM_SCRATCH;
		mem.scale = arg->scale ? (uint8_t)arg->scale : 1;
	}
	if (mem.index != FORM_NONE || mem.disp)
		form_compute(f, a, mem);
	if (based && far) {
		form_const(f, FORM_SCRATCH, (uint64_t)arg->disp);
		form_two(f, FORM_ADD, true, a, FORM_SCRATCH);
	}
}

void form_operand(struct form *f, int a, const struct arch_arg *arg)
{
	bool is_signed = value_is_signed(arg);
	uint32_t in_register = arg->size < arg->width ? arg->size : arg->width;

	switch (arg->kind) {
	case ARCH_ARG_IMMEDIATE:
		form_const(f, a, value_of_immediate(arg));
		break;
	case ARCH_ARG_REGISTER:
		f->put(f, &(struct form_insn){.op = FORM_ORIGINAL,
				  .a = (int8_t)a,
				  .b = (int8_t)arg->base,
				  .bytes = (uint8_t)in_register,
				  .shift = arg->shift,
				  .is_signed = is_signed});
		break;
	case ARCH_ARG_FP_REGISTER:
		f->put(f, &(struct form_insn){.op = FORM_VECTOR,
				  .a = (int8_t)a,
				  .b = (int8_t)arg->base,
				  .bytes = (uint8_t)arg->size});
		break;
	case ARCH_ARG_MEMORY:
		form_operand_address(f, a, arg);
		form_load(f, a, form_at(a, 0), (uint8_t)arg->size, is_signed);
		break;
	case ARCH_ARG_UNKNOWN:
		break;
	}
}

void form_store_operand(
	struct form *f, const struct arch_arg *arg, struct form_mem mem, uint8_t bytes)
{
	uint32_t in_register = arg->size < arg->width ? arg->size : arg->width;
	bool is_constant = arg->kind == ARCH_ARG_IMMEDIATE && bytes >= sizeof(uint32_t);

	if (arg->kind == ARCH_ARG_REGISTER && bytes <= in_register) {
		form_store_original(f, arg->base, arg->shift, mem, bytes);
		return;
	}
	if (!is_constant) {
		form_operand(f, FORM_VALUE, arg);
		form_store_packed(f, FORM_VALUE, mem, bytes);
	}
	for (int at = 0; is_constant && at < bytes; at += 4, mem.disp += 4)
		form_store_const(f, mem, 4, (int32_t)(value_of_immediate(arg) >> 8 * at));
}

void form_captured(struct form *f, int a, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];

	if (c->begun) {
		form_load(f, a, form_temp(p->kept_temp), sizeof(uint64_t), false);
		form_load(f, a, form_at(a, c->begun + 8), sizeof(uint64_t), false);
	} else if (p->checked >> i & 1) {
		form_load(f, a, form_temp(p->temp[i]), sizeof(uint64_t), false);
	} else {
		form_operand(f, a, &c->arg);
	}
}

void form_now(struct form *f, const struct stub_plan *p)
{
	if (p->stub->thread.no_counter)
		form_call(f, p->time);
	else
		form_time(f);
}

void form_store_now(struct form *f, const struct stub_plan *p, struct form_mem mem)
{
	if (p->stub->thread.no_counter) {
		form_now(f, p);
		form_store_packed(f, FORM_VALUE, mem, sizeof(uint64_t));
	} else {
		form_store_time(f, mem);
	}
}

void form_store_pair(struct form *f, int temp, int pointer)
{
	form_store(f, pointer, form_temp(temp));
	form_store(f, FORM_VALUE, form_temp(temp + 1));
}
