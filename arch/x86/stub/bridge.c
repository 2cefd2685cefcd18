/* SPDX-License-Identifier: MIT */
/*
 * What is written for x86-64 alone calls what is written in the form (arch/stub), each part by the
 * name that it had before.
 */
#include "arch/x86/stub/lower.h"
#include "arch/x86/stub/plan.h"

void emit_sequence_leave(struct emit *e, const struct stub_plan *plan)
{
	struct lowering l;

	lowering_init(&l, e, NULL);
	form_sequence_leave(&l.form, plan);
}

void emit_shared_inc(struct emit *e, const struct stub_plan *plan, size_t field)
{
	struct lowering l;

	lowering_init(&l, e, NULL);
	form_shared_inc(&l.form, plan, field);
}

void emit_cpu_inc(struct emit *e, struct stub_plan *plan, size_t field, int slow)
{
	struct lowering l;

	lowering_init(&l, e, NULL);
	form_cpu_inc(&l.form, plan, field, slow);
}

void emit_captured(
	struct emit *e, const struct stub_plan *plan, const struct frame *frame, int capture)
{
	struct lowering l;

	lowering_init(&l, e, frame);
	form_captured(&l.form, FORM_VALUE, plan, capture);
}

void emit_word(struct emit *e, const struct stub_plan *plan, int i)
{
	struct lowering l;

	lowering_init(&l, e, &plan->frame);
	form_captured_word(&l.form, plan, i);
}
