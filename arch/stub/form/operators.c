/* SPDX-License-Identifier: MIT */
/* The processor and the kernel; doubles; operators. */
#include "arch/stub/form.h"

void form_cpu(struct form *f, int a)
{
	f->put(f, &(struct form_insn){.op = FORM_CPU, .a = (int8_t)a});
}

void form_time(struct form *f)
{
	f->put(f, &(struct form_insn){.op = FORM_TIME});
}

void form_store_time(struct form *f, struct form_mem mem)
{
	f->put(f, &(struct form_insn){.op = FORM_STORE_TIME, .mem = mem});
}

void form_kernel(struct form *f, enum form_call call)
{
	f->put(f, &(struct form_insn){.op = FORM_KERNEL, .value = call});
}

void form_add_double(struct form *f, struct form_mem mem, int temp)
{
	f->put(f, &(struct form_insn){.op = FORM_ADD_DOUBLE, .mem = mem, .value = (uint64_t)temp});
}

void form_vector(struct form *f, enum form_op op, int temp)
{
	f->put(f, &(struct form_insn){.op = op, .value = (uint64_t)temp});
}

void form_one(struct form *f, enum form_op op, bool wide, int a)
{
	f->put(f, &(struct form_insn){.op = op, .wide = wide, .a = (int8_t)a});
}

void form_flip(struct form *f, int a, uint8_t bit)
{
	f->put(f, &(struct form_insn){.op = FORM_FLIP, .a = (int8_t)a, .shift = bit});
}

void form_highest(struct form *f, int a, int b)
{
	f->put(f, &(struct form_insn){.op = FORM_HIGHEST, .a = (int8_t)a, .b = (int8_t)b});
}

void form_lowest(struct form *f, int a, int b)
{
	f->put(f, &(struct form_insn){.op = FORM_LOWEST, .a = (int8_t)a, .b = (int8_t)b});
}

void form_multiply(struct form *f, int a, int b, int32_t factor)
{
	f->put(f, &(struct form_insn){.op = FORM_MULTIPLY,
			  .a = (int8_t)a,
			  .b = (int8_t)b,
			  .value = (uint64_t)(int64_t)factor});
}

void form_two(struct form *f, enum form_op op, bool wide, int a, int b)
{
	f->put(f, &(struct form_insn){.op = op, .wide = wide, .a = (int8_t)a, .b = (int8_t)b});
}

void form_two_at(struct form *f, enum form_op op, int a, struct form_mem mem)
{
	f->put(f, &(struct form_insn){.op = op,
			  .wide = true,
			  .a = (int8_t)a,
			  .is_memory = true,
			  .bytes = sizeof(uint64_t),
			  .mem = mem});
}

void form_two_const(struct form *f, enum form_op op, bool wide, int a, int32_t value)
{
	f->put(f, &(struct form_insn){.op = op,
			  .wide = wide,
			  .a = (int8_t)a,
			  .is_constant = true,
			  .value = (uint64_t)(int64_t)value});
}

void form_shift_by_right(struct form *f, enum form_op op, int a)
{
	f->put(f, &(struct form_insn){.op = op, .wide = true, .a = (int8_t)a, .b = FORM_RIGHT});
}

void form_by_right(struct form *f, enum form_op op, bool wide, bool is_signed)
{
	f->put(f, &(struct form_insn){.op = op,
			  .wide = wide,
			  .is_signed = is_signed,
			  .a = FORM_VALUE,
			  .b = FORM_RIGHT});
}

void form_mul_high(struct form *f, uint8_t shift)
{
	f->put(f, &(struct form_insn){.op = FORM_MUL_HIGH, .wide = true, .shift = shift});
}
