/* SPDX-License-Identifier: MIT */
/*
 * Instructions that read memory and change it: one of the processor's each, locked where threads
 * share the word.
 */
#include "arch/x86/stub/lower.h"

static void add_to(struct emit *e, const struct form_insn *i)
{
	struct emit_mem m = lower_mem(i->mem);
	bool wide = i->bytes == sizeof(uint64_t);

	if (!i->is_constant)
		emit_mem(e, wide, OP_ADD_TO, lower_register(i->a), m);
	else if (i->value == 1)
		emit_inc(e, wide, m);
	else if (i->value == UINT64_MAX)
		emit_dec(e, wide, m);
	else
		emit_imm_mem(e, wide, IMM_ADD, m, (int32_t)i->value);
}

void lower_change(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;
	struct emit_mem m = lower_mem(i->mem);
	bool wide = i->bytes == sizeof(uint64_t);

	switch (i->op) {
	case FORM_COUNT:
	case FORM_PUBLISH_ADD:
	case FORM_PUBLISH_ADD_WHOLE: /* no signal comes within an instruction */
		add_to(e, i);
		break;
	case FORM_COUNT_SHARED:
		emit_lock(e);
		add_to(e, i);
		break;
	case FORM_FETCH_ADD:
		emit_lock(e);
		emit_mem(e, wide, OP_XADD, lower_register(i->a), m);
		break;
	case FORM_EXCHANGE: /* locked without a prefix */
		emit_mem(e, wide, OP_XCHG, lower_register(i->a), m);
		break;
	default: /* FORM_CAS */
		emit_lock(e);
		emit_mem(e, wide, OP_CMPXCHG, lower_register(i->a), m);
		emit_jump_label(e, i->when == FORM_EQ ? CC_E : CC_NE, i->label);
		break;
	}
}
