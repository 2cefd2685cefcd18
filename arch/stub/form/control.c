/* SPDX-License-Identifier: MIT */
/* Control: labels, jumps, subroutines, data. */
#include "arch/stub/form.h"

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

/* JUMP_IF or SUB_JUMP_IF. */
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
