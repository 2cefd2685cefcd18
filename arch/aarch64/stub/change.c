/* SPDX-License-Identifier: MIT */
/*
 * Instructions that read memory and change it. What threads share is changed by one instruction
 * of FEAT_LSE, or, on processors that lack it, by a loop: it is left when the store has found that
 * nobody has changed the word since it was loaded.
 *
 * The loop's load acquires and its store releases, but a later access may still come between the
 * two, which it could not if this were one instruction. So nothing may depend on a word that looks
 * claimed to others as soon as this thread goes on: what it writes then must be harmless until
 * something is published.
 *
 * Source: DDI 0487, B2.3 (the order of memory) and C6.2.
 */
#include "arch/aarch64/stub/lower.h"
#include "arch/arch.h"

/* A64_STEP_2 += the operand; of a number that does not fit, by way of A64_STATUS. */
static void add_operand(struct a64 *e, const struct form_insn *i)
{
	int64_t number = (int64_t)i->value;

	if (i->is_constant && a64_op_const(e, true, number < 0 ? A64_SUB : A64_ADD, A64_STEP_2,
				      A64_STEP_2, (uint64_t)(number < 0 ? -number : number)))
		return;
	a64_op(e, true, A64_ADD, A64_STEP_2, A64_STEP_2, a64_operand(e, i, A64_STATUS));
}

static void add_to(struct a64 *e, const struct form_insn *i)
{
	int at;

	if (i->op == FORM_COUNT && a64_is_direct(i->mem, i->bytes)) {
		a64_lower_load(e, A64_STEP_2, i->mem, i->bytes, false);
		add_operand(e, i);
		a64_lower_store(e, A64_STEP_2, i->mem, i->bytes);
		return;
	}
	at = a64_address_of(e, i->mem, A64_STEP);
	a64_load(e, A64_STEP_2, at, 0, i->bytes, false);
	add_operand(e, i);
	if (i->op == FORM_PUBLISH_ADD)
		a64_store_release(e, A64_STEP_2, at, i->bytes);
	else
		a64_store(e, A64_STEP_2, at, 0, i->bytes);
}

static void add_to_shared(struct a64 *e, const struct form_insn *i, bool lse)
{
	int at = a64_address_of(e, i->mem, A64_STEP), again;

	if (lse) {
		a64_add_to(e, a64_operand(e, i, A64_STEP_2), at, i->bytes);
		return;
	}
	again = a64_label(e);
	a64_place(e, again);
	a64_load_exclusive(e, A64_STEP_2, at, i->bytes);
	add_operand(e, i);
	a64_store_exclusive(e, A64_STATUS, A64_STEP_2, at, i->bytes);
	a64_jump_zero(e, false, false, A64_STATUS, again);
}

static void fetch_add(struct a64 *e, const struct form_insn *i, bool lse)
{
	bool wide = i->bytes == sizeof(uint64_t);
	int at = a64_address_of(e, i->mem, A64_STEP), a = a64_register(i->a), again;

	if (lse) {
		a64_fetch_add(e, a, a, at, i->bytes);
		return;
	}
	again = a64_label(e);
	a64_place(e, again);
	a64_load_exclusive(e, A64_STEP_2, at, i->bytes);
	a64_op(e, wide, A64_ADD, A64_STEP_2, A64_STEP_2, a);
	a64_store_exclusive(e, A64_STATUS, A64_STEP_2, at, i->bytes);
	a64_jump_zero(e, false, false, A64_STATUS, again);
	a64_op(e, wide, A64_SUB, a, A64_STEP_2, a);
}

static void exchange(struct a64 *e, const struct form_insn *i, bool lse)
{
	int at = a64_address_of(e, i->mem, A64_STEP), a = a64_register(i->a), again;

	if (lse) {
		a64_swap(e, a, a, at, i->bytes);
		return;
	}
	again = a64_label(e);
	a64_place(e, again);
	a64_load_exclusive(e, A64_STATUS, at, i->bytes);
	a64_store_exclusive(e, A64_STEP_2, a, at, i->bytes);
	a64_jump_zero(e, false, false, A64_STEP_2, again);
	a64_move(e, a, A64_STATUS);
}

static void compare_and_swap(struct a64 *e, const struct form_insn *i, bool lse)
{
	bool wide = i->bytes == sizeof(uint64_t);
	int at = a64_address_of(e, i->mem, A64_STEP), value = a64_register(FORM_VALUE);
	int found = lse ? A64_STEP_2 : A64_STATUS;

	if (lse) {
		a64_move(e, found, value);
		a64_cas(e, found, a64_register(i->a), at, i->bytes);
		a64_op(e, wide, A64_SUBS, A64_ZERO, found, value);
	} else {
		int again = a64_label(e), differs = a64_label(e);

		a64_place(e, again);
		a64_load_exclusive(e, found, at, i->bytes);
		a64_op(e, wide, A64_SUBS, A64_ZERO, found, value);
		a64_jump_if(e, A64_NE, differs);
		a64_store_exclusive(e, A64_STEP_2, a64_register(i->a), at, i->bytes);
		a64_jump_zero(e, false, false, A64_STEP_2, again);
		a64_place(e, differs);
	}
	a64_move(e, value, found);
	a64_jump_if(e, i->when == FORM_EQ ? A64_EQ : A64_NE, i->label);
}

void a64_lower_change(const struct a64_lowering *l, const struct form_insn *i)
{
	bool lse = l->thread->has_atomics;

	switch (i->op) {
	case FORM_COUNT:
	case FORM_PUBLISH_ADD:
		add_to(l->e, i);
		break;
	case FORM_PUBLISH_ADD_WHOLE:
	case FORM_COUNT_SHARED:
		add_to_shared(l->e, i, lse);
		break;
	case FORM_FETCH_ADD:
		fetch_add(l->e, i, lse);
		break;
	case FORM_EXCHANGE:
		exchange(l->e, i, lse);
		break;
	default: /* FORM_CAS */
		compare_and_swap(l->e, i, lse);
		break;
	}
}
