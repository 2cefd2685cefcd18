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

static void add_to(struct a64 *e, const struct form_insn *i)
{
	int at = a64_address_of(e, i->mem), by = a64_operand(e, i);

	a64_load(e, A64_STEP_2, at, 0, i->bytes, false);
	a64_op(e, true, A64_ADD, A64_STEP_2, A64_STEP_2, by);
	if (i->op == FORM_PUBLISH_ADD)
		a64_store_release(e, A64_STEP_2, at, i->bytes);
	else
		a64_store(e, A64_STEP_2, at, 0, i->bytes);
}

static void add_to_shared(struct a64 *e, const struct form_insn *i, bool lse)
{
	int at = a64_address_of(e, i->mem), again;

	if (lse) {
		a64_add_to(e, a64_operand(e, i), at, i->bytes);
		return;
	}
	again = a64_label(e);
	a64_place(e, again);
	a64_load_exclusive(e, A64_STEP_2, at, i->bytes);
	a64_op(e, true, A64_ADD, A64_STEP_2, A64_STEP_2, a64_operand(e, i));
	a64_store_exclusive(e, A64_STATUS, A64_STEP_2, at, i->bytes);
	a64_jump_zero(e, false, false, A64_STATUS, again);
}

static void fetch_add(struct a64 *e, const struct form_insn *i, bool lse)
{
	bool wide = i->bytes == sizeof(uint64_t);
	int at = a64_address_of(e, i->mem), a = a64_register(i->a), again;

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
	int at = a64_address_of(e, i->mem), a = a64_register(i->a), again;

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
	int at = a64_address_of(e, i->mem), value = a64_register(FORM_VALUE);

	if (lse) {
		a64_move(e, A64_STATUS, value);
		a64_cas(e, A64_STATUS, a64_register(i->a), at, i->bytes);
		a64_op(e, wide, A64_SUBS, A64_ZERO, A64_STATUS, value);
	} else {
		int again = a64_label(e), differs = a64_label(e);

		a64_place(e, again);
		a64_load_exclusive(e, A64_STATUS, at, i->bytes);
		a64_op(e, wide, A64_SUBS, A64_ZERO, A64_STATUS, value);
		a64_jump_if(e, A64_NE, differs);
		a64_store_exclusive(e, A64_STEP_2, a64_register(i->a), at, i->bytes);
		a64_jump_zero(e, false, false, A64_STEP_2, again);
		a64_place(e, differs);
	}
	a64_move(e, value, A64_STATUS);
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
