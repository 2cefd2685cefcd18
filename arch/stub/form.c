/* SPDX-License-Identifier: MIT */
#include "arch/stub/form.h"

int form_label(struct form *f)
{
	return f->label(f);
}

void form_place(struct form *f, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_PLACE, .label = label});
}

void form_jump(struct form *f, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_JUMP, .label = label});
}

void form_jump_if(struct form *f, bool wide, int a, enum form_when when, int b, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_JUMP_IF,
			  .wide = wide,
			  .a = (int8_t)a,
			  .when = when,
			  .b = (int8_t)b,
			  .label = label});
}

void form_jump_if_const(
	struct form *f, bool wide, int a, enum form_when when, int32_t value, int label)
{
	f->put(f, &(struct form_insn){.op = FORM_JUMP_IF,
			  .wide = wide,
			  .a = (int8_t)a,
			  .when = when,
			  .is_constant = true,
			  .value = (uint64_t)(int64_t)value,
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

void form_cpu(struct form *f, int a)
{
	f->put(f, &(struct form_insn){.op = FORM_CPU, .a = (int8_t)a});
}

void form_load(struct form *f, int a, struct form_mem mem, uint8_t bytes, bool is_signed)
{
	f->put(f, &(struct form_insn){.op = FORM_LOAD,
			  .a = (int8_t)a,
			  .mem = mem,
			  .bytes = bytes,
			  .is_signed = is_signed});
}

void form_store(struct form *f, int a, struct form_mem mem)
{
	form_store_part(f, a, mem, sizeof(uint64_t));
}

void form_store_part(struct form *f, int a, struct form_mem mem, uint8_t bytes)
{
	f->put(f,
		&(struct form_insn){.op = FORM_STORE, .a = (int8_t)a, .mem = mem, .bytes = bytes});
}

void form_store_packed(struct form *f, int a, struct form_mem mem, uint8_t bytes)
{
	f->put(f, &(struct form_insn){
			  .op = bytes == sizeof(uint64_t) ? FORM_STORE_HALVES : FORM_STORE,
			  .a = (int8_t)a,
			  .mem = mem,
			  .bytes = bytes});
}

/* `op` with a constant operand. */
static void put_const(
	struct form *f, enum form_op op, struct form_mem mem, uint8_t bytes, int32_t value)
{
	f->put(f, &(struct form_insn){.op = op,
			  .mem = mem,
			  .bytes = bytes,
			  .is_constant = true,
			  .value = (uint64_t)(int64_t)value});
}

void form_store_const(struct form *f, struct form_mem mem, uint8_t bytes, int32_t value)
{
	put_const(f, FORM_STORE_CONST, mem, bytes, value);
}

void form_acquire(struct form *f, int a, struct form_mem mem, uint8_t bytes)
{
	f->put(f, &(struct form_insn){
			  .op = FORM_ACQUIRE, .a = (int8_t)a, .mem = mem, .bytes = bytes});
}

void form_publish(struct form *f, int a, struct form_mem mem, uint8_t bytes)
{
	f->put(f, &(struct form_insn){
			  .op = FORM_PUBLISH, .a = (int8_t)a, .mem = mem, .bytes = bytes});
}

void form_publish_const(struct form *f, struct form_mem mem, uint8_t bytes, int32_t value)
{
	put_const(f, FORM_PUBLISH, mem, bytes, value);
}

void form_publish_add(struct form *f, int a, struct form_mem mem)
{
	f->put(f, &(struct form_insn){.op = FORM_PUBLISH_ADD,
			  .a = (int8_t)a,
			  .mem = mem,
			  .bytes = sizeof(uint64_t)});
}

void form_publish_add_const(struct form *f, struct form_mem mem, int32_t value)
{
	put_const(f, FORM_PUBLISH_ADD, mem, sizeof(uint64_t), value);
}

void form_alone(struct form *f, enum form_op op)
{
	f->put(f, &(struct form_insn){.op = op});
}

void form_change(struct form *f, enum form_op op, struct form_mem mem)
{
	f->put(f, &(struct form_insn){.op = op, .mem = mem});
}

void form_compute(struct form *f, int a, struct form_mem mem)
{
	f->put(f, &(struct form_insn){.op = FORM_COMPUTE, .a = (int8_t)a, .mem = mem});
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

void form_two(struct form *f, enum form_op op, bool wide, int a, int b)
{
	f->put(f, &(struct form_insn){.op = op, .wide = wide, .a = (int8_t)a, .b = (int8_t)b});
}

void form_two_const(struct form *f, enum form_op op, bool wide, int a, int32_t value)
{
	f->put(f, &(struct form_insn){.op = op,
			  .wide = wide,
			  .a = (int8_t)a,
			  .is_constant = true,
			  .value = (uint64_t)(int64_t)value});
}

void form_by_right(struct form *f, enum form_op op, bool wide, bool is_signed)
{
	f->put(f, &(struct form_insn){.op = op,
			  .wide = wide,
			  .is_signed = is_signed,
			  .a = FORM_VALUE,
			  .b = FORM_RIGHT});
}
