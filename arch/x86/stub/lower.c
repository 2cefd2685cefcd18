/* SPDX-License-Identifier: MIT */
/*
 * The form as machine code. Each of its registers is one of x86-64's: where an instruction here
 * wants a certain one (a shift's count in %cl, a division's operands), the form has the same rule.
 */
#include "arch/x86/stub/lower.h"

int lower_register(int form_register)
{
	static const int registers[FORM_REGISTERS] = {
		[FORM_VALUE] = RAX,
		[FORM_RIGHT] = RCX,
		[FORM_SCRATCH] = RDX,
		[FORM_POINTER] = R8,
		[FORM_NEXT] = R9,
		[FORM_SET] = RDI,
		[FORM_FROM] = RSI,
		[FORM_SPARE] = R10,
		[FORM_SPARE_2] = R11,
	};

	return registers[form_register];
}

struct emit_mem lower_mem(struct form_mem m)
{
	struct emit_mem ret = {.index = m.index == FORM_NONE ? REG_NONE : lower_register(m.index),
		.scale = m.scale,
		.disp = m.disp};

	switch (m.base) {
	case FORM_THREAD:
		ret.fs = true;
		/* fall through */
	case FORM_NONE:
		ret.base = REG_NONE;
		break;
	case FORM_CALLER: /* above the return address */
		ret.disp += (int32_t)sizeof(uint64_t);
		/* fall through */
	case FORM_FRAME:
		ret.base = RSP;
		break;
	default:
		ret.base = lower_register(m.base);
	}
	return ret;
}

/* Do the flags tell whether the result is 0? */
static bool is_test(const struct form_insn *i)
{
	switch (i->op) {
	case FORM_NEGATE:
	case FORM_ADD:
	case FORM_SUB:
	case FORM_AND:
	case FORM_OR:
	case FORM_XOR:
		return true;
	case FORM_SHL:
	case FORM_SHR:
		return i->is_constant && i->value;
	default:
		return false;
	}
}

static void lower(const struct lowering *l, const struct form_insn *i)
{
	switch (form_subject(i->op)) {
	case FORM_CONTROL:
		lower_control(l, i);
		break;
	case FORM_VALUES:
		lower_value(l, i);
		break;
	case FORM_MEMORY:
		lower_memory(l, i);
		break;
	case FORM_CHANGES:
		lower_change(l, i);
		break;
	case FORM_SYSTEM:
		lower_system(l, i);
		break;
	case FORM_DOUBLES:
		lower_double(l, i);
		break;
	case FORM_OPERATORS:
		lower_operator(l, i);
		break;
	}
}

static void put(struct form *form, const struct form_insn *i)
{
	struct lowering *l = (struct lowering *)form;

	lower(l, i);
	l->tested = is_test(i) ? i->a : FORM_NONE;
	l->tested_wide = i->wide;
}

static int new_label(struct form *form)
{
	return emit_label(((struct lowering *)form)->e);
}

void lowering_init(struct lowering *l, struct emit *e, const struct frame *frame)
{
	*l = (struct lowering){
		.form = {put, new_label}, .e = e, .frame = frame, .tested = FORM_NONE};
}

struct emit *lowering_emit(struct form *f)
{
	return ((struct lowering *)f)->e;
}

struct emit *lowering_set_frame(struct form *f, const struct frame *frame)
{
	((struct lowering *)f)->frame = frame;
	return lowering_emit(f);
}
