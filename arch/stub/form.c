/* SPDX-License-Identifier: MIT */

#include "arch/stub/form.h"

int form_label(struct form *f)
{
	return f->label(f);
}

/* ==== Control ================================================================================= */

void form_place(struct form *f, int label)
{
	FORM(f, .op = FORM_PLACE, .label = label);
}

void form_jump(struct form *f, int label)
{
	FORM(f, .op = FORM_JUMP, .label = label);
}

void form_jump_if(struct form *f, bool wide, int a, enum form_when when, int b, int label)
{
	FORM(f, .op = FORM_JUMP_IF, .wide = wide, .a = a, .when = when, .b = b, .label = label);
}

void form_jump_if_const(
	struct form *f, bool wide, int a, enum form_when when, int32_t value, int label)
{
	FORM(f, .op = FORM_JUMP_IF, .wide = wide, .a = a, .when = when, .is_constant = true,
		.value = (uint64_t)value, .label = label);
}

void form_jump_if_at(
	struct form *f, uint8_t bytes, int a, enum form_when when, struct form_mem mem, int label)
{
	FORM(f, .op = FORM_JUMP_IF, .wide = bytes == sizeof(uint64_t), .a = a, .when = when,
		.is_memory = true, .bytes = bytes, .mem = mem, .label = label);
}

void form_jump_if_at_const(struct form *f, uint8_t bytes, struct form_mem mem, enum form_when when,
	int32_t value, int label)
{
	FORM(f, .op = FORM_JUMP_IF, .wide = bytes == sizeof(uint64_t), .when = when,
		.is_constant = true, .value = (uint64_t)value, .is_memory = true, .bytes = bytes,
		.mem = mem, .label = label);
}

void form_sub_jump_if(struct form *f, bool wide, int a, enum form_when when, int b, int label)
{
	FORM(f, .op = FORM_SUB_JUMP_IF, .wide = wide, .a = a, .when = when, .b = b, .label = label);
}

void form_sub_jump_if_const(
	struct form *f, bool wide, int a, enum form_when when, int32_t value, int label)
{
	FORM(f, .op = FORM_SUB_JUMP_IF, .wide = wide, .a = a, .when = when, .is_constant = true,
		.value = (uint64_t)value, .label = label);
}

void form_jump_if_bits(
	struct form *f, struct form_mem mem, uint32_t bits, enum form_when when, int label)
{
	FORM(f, .op = FORM_JUMP_IF_BITS, .mem = mem, .bytes = sizeof(bits), .value = bits,
		.when = when, .label = label);
}

void form_jump_if_word(
	struct form *f, int scratch, uint64_t address, enum form_when when, int label)
{
	FORM(f, .op = FORM_JUMP_IF_WORD, .a = scratch, .value = address, .when = when,
		.label = label);
}

void form_call(struct form *f, int label)
{
	FORM(f, .op = FORM_CALL, .label = label);
}

void form_word(struct form *f, uint8_t bytes, uint64_t value)
{
	FORM(f, .op = FORM_WORD, .bytes = bytes, .value = value);
}

/* ==== Values and memory ======================================================================= */

void form_const(struct form *f, int a, uint64_t value)
{
	FORM(f, .op = FORM_CONST, .a = a, .value = value);
}

void form_address(struct form *f, int a, uint64_t address)
{
	FORM(f, .op = FORM_ADDRESS, .a = a, .value = address);
}

void form_move(struct form *f, int a, int b)
{
	form_extend(f, a, b, sizeof(uint64_t), false);
}

void form_extend(struct form *f, int a, int b, uint8_t bytes, bool is_signed)
{
	FORM(f, .op = FORM_MOVE, .a = a, .b = b, .bytes = bytes, .is_signed = is_signed);
}

void form_compute(struct form *f, int a, struct form_mem mem)
{
	FORM(f, .op = FORM_COMPUTE, .a = a, .mem = mem);
}

void form_load(struct form *f, int a, struct form_mem mem, uint8_t bytes, bool is_signed)
{
	FORM(f, .op = FORM_LOAD, .a = a, .mem = mem, .bytes = bytes, .is_signed = is_signed);
}

void form_memory(struct form *f, enum form_op op, int a, struct form_mem mem, uint8_t bytes)
{
	FORM(f, .op = op, .a = a, .mem = mem, .bytes = bytes);
}

void form_memory_const(
	struct form *f, enum form_op op, struct form_mem mem, uint8_t bytes, int32_t value)
{
	FORM(f, .op = op, .mem = mem, .bytes = bytes, .is_constant = true,
		.value = (uint64_t)value);
}

void form_store(struct form *f, int a, struct form_mem mem)
{
	form_memory(f, FORM_STORE, a, mem, sizeof(uint64_t));
}

void form_store_const(struct form *f, struct form_mem mem, uint8_t bytes, int32_t value)
{
	form_memory_const(f, FORM_STORE, mem, bytes, value);
}

void form_store_packed(struct form *f, int a, struct form_mem mem, uint8_t bytes)
{
	form_memory(f, bytes == sizeof(uint64_t) ? FORM_STORE_HALVES : FORM_STORE, a, mem, bytes);
}

void form_acquire(struct form *f, int a, struct form_mem mem, uint8_t bytes)
{
	form_memory(f, FORM_ACQUIRE, a, mem, bytes);
}

void form_change(struct form *f, enum form_op op, struct form_mem mem)
{
	form_memory_const(f, op, mem, sizeof(uint64_t), 1);
}

void form_cas(
	struct form *f, struct form_mem mem, uint8_t bytes, int a, enum form_when when, int label)
{
	FORM(f, .op = FORM_CAS, .mem = mem, .bytes = bytes, .a = a, .when = when, .label = label);
}

/* ==== Operators =============================================================================== */

void form_one(struct form *f, enum form_op op, bool wide, int a)
{
	FORM(f, .op = op, .wide = wide, .a = a);
}

void form_multiply(struct form *f, int a, int b, int32_t factor)
{
	FORM(f, .op = FORM_MULTIPLY, .a = a, .b = b, .value = (uint64_t)factor);
}

void form_two(struct form *f, enum form_op op, bool wide, int a, int b)
{
	FORM(f, .op = op, .wide = wide, .a = a, .b = b);
}

void form_two_at(struct form *f, enum form_op op, int a, struct form_mem mem)
{
	FORM(f, .op = op, .wide = true, .a = a, .is_memory = true, .bytes = sizeof(uint64_t),
		.mem = mem);
}

void form_two_const(struct form *f, enum form_op op, bool wide, int a, int32_t value)
{
	FORM(f, .op = op, .wide = wide, .a = a, .is_constant = true, .value = (uint64_t)value);
}

void form_by_right(struct form *f, enum form_op op, bool wide, bool is_signed)
{
	FORM(f, .op = op, .wide = wide, .is_signed = is_signed, .a = FORM_VALUE, .b = FORM_RIGHT);
}
