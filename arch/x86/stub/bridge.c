/* SPDX-License-Identifier: MIT */
/*
 * What is written for x86-64 alone calls what is written in the form (arch/stub), each part by the
 * name that it had before.
 */
#include "arch/x86/stub/lower.h"
#include "arch/x86/stub/plan.h"

/* The register of the form that is there. */
static int form_register(int reg)
{
	int ret = 0;

	while (lowering_register(ret) != reg)
		ret++;
	return ret;
}

const struct sequence *emit_sequence_begin(
	struct emit *e, struct stub_plan *plan, int scratch, int aborted)
{
	struct lowering l;

	lowering_init(&l, e, NULL);
	return form_sequence_begin(&l.form, plan, form_register(scratch), aborted);
}

void emit_sequence_end(struct emit *e, const struct stub_plan *plan, const struct sequence *q)
{
	struct lowering l;

	lowering_init(&l, e, NULL);
	form_sequence_end(&l.form, plan, q);
}

void emit_sequence_leave(struct emit *e, const struct stub_plan *plan)
{
	struct lowering l;

	lowering_init(&l, e, NULL);
	form_sequence_leave(&l.form, plan);
}

void emit_cpu_set(struct emit *e, const struct stub_plan *plan, int reg, uint8_t shift,
	uint64_t sets, int slow)
{
	struct lowering l;

	lowering_init(&l, e, NULL);
	form_cpu_set(&l.form, plan, form_register(reg), shift, sets, slow);
}

void emit_shared_set(struct emit *e, const struct stub_plan *plan, int reg, uint32_t offset)
{
	struct lowering l;

	lowering_init(&l, e, NULL);
	form_shared_set(&l.form, plan, form_register(reg), offset);
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

void emit_time(struct emit *e, const struct stub_plan *plan)
{
	struct lowering l;

	lowering_init(&l, e, NULL);
	form_now(&l.form, plan);
}

void emit_captured(
	struct emit *e, const struct stub_plan *plan, const struct frame *frame, int capture)
{
	struct lowering l;

	lowering_init(&l, e, frame);
	form_captured(&l.form, FORM_VALUE, plan, capture);
}

void emit_expr(struct emit *e, const struct stub_plan *plan, const struct frame *frame,
	const struct arch_expr *expr, int bad)
{
	struct lowering l;

	lowering_init(&l, e, frame);
	form_expr(&l.form, plan, expr, bad);
}

void emit_filter(struct emit *e, const struct stub_plan *plan, const struct frame *frame,
	const struct arch_expr *expr, int reject)
{
	struct lowering l;

	lowering_init(&l, e, frame);
	form_filter(&l.form, plan, expr, reject);
}

void emit_record_body(struct emit *e, const struct stub_plan *plan)
{
	struct lowering l;

	lowering_init(&l, e, NULL);
	form_record_body(&l.form, plan);
}

void emit_word(struct emit *e, const struct stub_plan *plan, int i)
{
	struct lowering l;

	lowering_init(&l, e, &plan->frame);
	form_captured_word(&l.form, plan, i);
}

void emit_copy(struct emit *e)
{
	struct lowering l;

	lowering_init(&l, e, NULL);
	form_copy(&l.form);
}

void emit_store_pair(struct emit *e, int temp, int pointer)
{
	struct lowering l;

	lowering_init(&l, e, NULL);
	form_store_pair(&l.form, temp, form_register(pointer));
}

/* ---- The other way round ------------------------------------------------------------------- */

void form_end(struct form *f, struct stub_plan *plan)
{
	emit_end(((struct lowering *)f)->e, plan);
}
