/* SPDX-License-Identifier: MIT */

#include "arch/stub/form.h"

/* ==== Control ================================================================================= */

int form_label(struct form *f)
{
	return f->label(f);
}

void form_place(struct form *f, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_PLACE, .label = label});
}

void form_mark(struct form *f, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_MARK, .label = label});
}

void form_jump(struct form *f, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_JUMP, .label = label});
}

/* op: FORM_JUMP_IF or FORM_SUB_JUMP_IF. */
static void jump_if(
	struct form *f, enum form_op op, bool wide, int a, enum form_when when, int b, int label)
{
	f->put(f, &(struct form_insn){.op = op,
			  .wide = wide,
			  .a = (int8_t)a,
			  .when = when,
			  .b = (int8_t)b,
			  .label = label});
}

static void jump_if_const(struct form *f, enum form_op op, bool wide, int a, enum form_when when,
	int32_t value, int label)
{
	f->put(f, &(struct form_insn){.op = op,
			  .wide = wide,
			  .a = (int8_t)a,
			  .when = when,
			  .is_constant = true,
			  .value = (uint64_t)(int64_t)value,
			  .label = label});
}

void form_jump_if(struct form *f, bool wide, int a, enum form_when when, int b, int label)
{
	jump_if(f, FORM_JUMP_IF, wide, a, when, b, label);
}

void form_jump_if_const(
	struct form *f, bool wide, int a, enum form_when when, int32_t value, int label)
{
	jump_if_const(f, FORM_JUMP_IF, wide, a, when, value, label);
}

void form_jump_if_at(
	struct form *f, uint8_t bytes, int a, enum form_when when, struct form_mem mem, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_JUMP_IF,
			  .wide = bytes == sizeof(uint64_t),
			  .a = (int8_t)a,
			  .when = when,
			  .is_memory = true,
			  .bytes = bytes,
			  .mem = mem,
			  .label = label});
}

void form_jump_if_at_const(struct form *f, uint8_t bytes, struct form_mem mem, enum form_when when,
	int32_t value, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_JUMP_IF,
			  .wide = bytes == sizeof(uint64_t),
			  .when = when,
			  .is_constant = true,
			  .value = (uint64_t)(int64_t)value,
			  .is_memory = true,
			  .bytes = bytes,
			  .mem = mem,
			  .label = label});
}

void form_sub_jump_if(struct form *f, bool wide, int a, enum form_when when, int b, int label)
{
	jump_if(f, FORM_SUB_JUMP_IF, wide, a, when, b, label);
}

void form_sub_jump_if_const(
	struct form *f, bool wide, int a, enum form_when when, int32_t value, int label)
{
	jump_if_const(f, FORM_SUB_JUMP_IF, wide, a, when, value, label);
}

void form_jump_if_bits(
	struct form *f, struct form_mem mem, uint32_t bits, enum form_when when, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_JUMP_IF_BITS,
			  .mem = mem,
			  .bytes = sizeof(bits),
			  .value = bits,
			  .when = when,
			  .label = label});
}

void form_jump_unless_bytes(
	struct form *f, struct form_mem mem, uint8_t bytes, uint64_t value, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_JUMP_UNLESS_BYTES,
			  .mem = mem,
			  .bytes = bytes,
			  .value = value,
			  .label = label});
}

void form_jump_if_word(
	struct form *f, int scratch, uint64_t address, enum form_when when, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_JUMP_IF_WORD,
			  .a = (int8_t)scratch,
			  .value = address,
			  .when = when,
			  .label = label});
}

void form_call(struct form *f, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_CALL, .label = label});
}

void form_call_nest(struct form *f, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_CALL_NEST, .label = label});
}

void form_ask(struct form *f, int label, int no)
{
	f->put(f, &(struct form_insn){.op = FORM_ASK, .label = label, .no = no});
}

void form_yes_if_const(struct form *f, int a, int32_t value)
{
	f->put(f, &(struct form_insn){.op = FORM_YES_IF,
			  .wide = true,
			  .a = (int8_t)a,
			  .is_constant = true,
			  .value = (uint64_t)(int64_t)value});
}

void form_yes_if_at(struct form *f, int a, struct form_mem mem)
{
	f->put(f, &(struct form_insn){.op = FORM_YES_IF,
			  .wide = true,
			  .a = (int8_t)a,
			  .is_memory = true,
			  .mem = mem,
			  .bytes = sizeof(uint64_t)});
}

void form_stack(struct form *f, enum form_op op, int a)
{
	f->put(f, &(struct form_insn){.op = op, .a = (int8_t)a});
}

void form_align(struct form *f, uint32_t alignment)
{
	f->put(f, &(struct form_insn){.op = FORM_ALIGN, .value = alignment});
}

void form_word(struct form *f, uint8_t bytes, uint64_t value)
{
	f->put(f, &(struct form_insn){.op = FORM_WORD, .bytes = bytes, .value = value});
}

void form_label_word(struct form *f, int label, int from)
{
	f->put(f, &(struct form_insn){.op = FORM_LABEL_WORD, .label = label, .from = from});
}

void form_alone(struct form *f, enum form_op op)
{
	f->put(f, &(struct form_insn){.op = op});
}

/* ==== Values and memory ======================================================================= */

void form_const(struct form *f, int a, uint64_t value)
{
	f->put(f, &(struct form_insn){.op = FORM_CONST, .a = (int8_t)a, .value = value});
}

void form_address(struct form *f, int a, uint64_t address)
{
	f->put(f, &(struct form_insn){.op = FORM_ADDRESS, .a = (int8_t)a, .value = address});
}

void form_label_address(struct form *f, int a, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_LABEL, .a = (int8_t)a, .label = label});
}

void form_move(struct form *f, int a, int b)
{
	form_extend(f, a, b, sizeof(uint64_t), false);
}

void form_extend(struct form *f, int a, int b, uint8_t bytes, bool is_signed)
{
	f->put(f, &(struct form_insn){.op = FORM_MOVE,
			  .a = (int8_t)a,
			  .b = (int8_t)b,
			  .bytes = bytes,
			  .is_signed = is_signed});
}

void form_compute(struct form *f, int a, struct form_mem mem)
{
	f->put(f, &(struct form_insn){.op = FORM_COMPUTE, .a = (int8_t)a, .mem = mem});
}

void form_load(struct form *f, int a, struct form_mem mem, uint8_t bytes, bool is_signed)
{
	f->put(f, &(struct form_insn){.op = FORM_LOAD,
			  .a = (int8_t)a,
			  .mem = mem,
			  .bytes = bytes,
			  .is_signed = is_signed});
}

/* Store a register; a number. op: FORM_STORE or FORM_PUBLISH. */
static void put_store(struct form *f, enum form_op op, int a, struct form_mem mem, uint8_t bytes)
{
	f->put(f, &(struct form_insn){.op = op, .a = (int8_t)a, .mem = mem, .bytes = bytes});
}

static void put_const(
	struct form *f, enum form_op op, struct form_mem mem, uint8_t bytes, int32_t value)
{
	f->put(f, &(struct form_insn){.op = op,
			  .mem = mem,
			  .bytes = bytes,
			  .is_constant = true,
			  .value = (uint64_t)(int64_t)value});
}

void form_store(struct form *f, int a, struct form_mem mem)
{
	form_store_part(f, a, mem, sizeof(uint64_t));
}

void form_store_part(struct form *f, int a, struct form_mem mem, uint8_t bytes)
{
	put_store(f, FORM_STORE, a, mem, bytes);
}

void form_store_const(struct form *f, struct form_mem mem, uint8_t bytes, int32_t value)
{
	put_const(f, FORM_STORE, mem, bytes, value);
}

void form_store_packed(struct form *f, int a, struct form_mem mem, uint8_t bytes)
{
	put_store(f, bytes == sizeof(uint64_t) ? FORM_STORE_HALVES : FORM_STORE, a, mem, bytes);
}

void form_store_original(struct form *f, int reg, uint8_t shift, struct form_mem mem, uint8_t bytes)
{
	f->put(f, &(struct form_insn){.op = FORM_STORE_ORIGINAL,
			  .b = (int8_t)reg,
			  .shift = shift,
			  .mem = mem,
			  .bytes = bytes});
}

void form_store_vector(struct form *f, int vector, struct form_mem mem)
{
	f->put(f, &(struct form_insn){.op = FORM_STORE_VECTOR, .b = (int8_t)vector, .mem = mem});
}

void form_acquire(struct form *f, int a, struct form_mem mem, uint8_t bytes)
{
	f->put(f, &(struct form_insn){
			  .op = FORM_ACQUIRE, .a = (int8_t)a, .mem = mem, .bytes = bytes});
}

void form_publish(struct form *f, int a, struct form_mem mem, uint8_t bytes)
{
	put_store(f, FORM_PUBLISH, a, mem, bytes);
}

void form_publish_const(struct form *f, struct form_mem mem, uint8_t bytes, int32_t value)
{
	put_const(f, FORM_PUBLISH, mem, bytes, value);
}

/* ==== System, doubles, operators ============================================================== */

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

/* ==== Changes of memory ======================================================================= */

void form_change(struct form *f, enum form_op op, struct form_mem mem)
{
	form_add_const_to(f, op, mem, sizeof(uint64_t), 1);
}

void form_add_to(struct form *f, enum form_op op, struct form_mem mem, uint8_t bytes, int a)
{
	f->put(f, &(struct form_insn){.op = op, .a = (int8_t)a, .mem = mem, .bytes = bytes});
}

void form_add_const_to(
	struct form *f, enum form_op op, struct form_mem mem, uint8_t bytes, int32_t value)
{
	f->put(f, &(struct form_insn){.op = op,
			  .mem = mem,
			  .bytes = bytes,
			  .is_constant = true,
			  .value = (uint64_t)(int64_t)value});
}

void form_fetch_add(struct form *f, int a, struct form_mem mem, uint8_t bytes)
{
	form_add_to(f, FORM_FETCH_ADD, mem, bytes, a);
}

void form_exchange(struct form *f, int a, struct form_mem mem, uint8_t bytes)
{
	form_add_to(f, FORM_EXCHANGE, mem, bytes, a);
}

void form_cas(
	struct form *f, struct form_mem mem, uint8_t bytes, int a, enum form_when when, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_CAS,
			  .mem = mem,
			  .bytes = bytes,
			  .a = (int8_t)a,
			  .when = when,
			  .label = label});
}
