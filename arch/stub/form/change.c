/* SPDX-License-Identifier: MIT */
/* Changes of memory. */
#include "arch/stub/form.h"

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
