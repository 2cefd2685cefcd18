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

void emit_address(struct emit *e, const struct frame *frame, const struct arch_arg *arg, int dst)
{
	struct lowering l;

	lowering_init(&l, e, frame);
	form_operand_address(&l.form, form_register(dst), arg);
}

void emit_value(struct emit *e, const struct frame *frame, const struct arch_arg *arg)
{
	struct lowering l;

	lowering_init(&l, e, frame);
	form_operand(&l.form, FORM_VALUE, arg);
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

/* ---- The other way round ------------------------------------------------------------------- */

static struct emit *emit_of(struct form *f)
{
	return ((struct lowering *)f)->e;
}

void form_capture(struct form *f, const struct stub_plan *plan, int i)
{
	emit_capture(emit_of(f), plan, i);
}

void form_copy(struct form *f)
{
	emit_copy(emit_of(f));
}

void form_copy_pairs(struct form *f, const struct stub_plan *plan)
{
	emit_copy_pairs(emit_of(f), plan);
}

void form_end(struct form *f, struct stub_plan *plan)
{
	emit_end(emit_of(f), plan);
}

/* The answer is in the flags. */
void emit_check(struct emit *e, const struct stub_plan *plan, int depth)
{
	if (plan->keeps_pages)
		emit_mem(e, true, OP_LEA, RDI, temp_at(plan->pages_temp + depth));
	emit_call_label(e, plan->check);
}

void emit_check_subroutine(struct emit *e, const struct stub_plan *plan)
{
	struct lowering l;

	lowering_init(&l, e, &plan->frame);
	form_check_subroutine(&l.form, plan);
}

void emit_measure_subroutine(struct emit *e, const struct stub_plan *plan)
{
	struct lowering l;

	lowering_init(&l, e, NULL);
	form_measure_subroutine(&l.form, plan);
}

void emit_extent_subroutine(struct emit *e, const struct stub_plan *plan)
{
	struct lowering l;

	lowering_init(&l, e, NULL);
	form_extent_subroutine(&l.form, plan);
}

void emit_prepare_comm(struct emit *e, const struct stub_plan *plan, int i)
{
	struct lowering l;

	lowering_init(&l, e, &plan->frame);
	form_prepare_comm(&l.form, plan, i);
}
