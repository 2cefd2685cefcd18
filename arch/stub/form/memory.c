/* SPDX-License-Identifier: MIT */
/* Values, and memory. */
#include "arch/stub/form.h"

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

/* STORE or PUBLISH of a register, or of a number. */
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
