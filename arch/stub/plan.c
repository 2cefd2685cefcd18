/* SPDX-License-Identifier: MIT */
/* What a stub needs: temporaries, registers, what is asked of the kernel; and what is refused. */
#include "arch/layout.h"
#include "arch/stub/plan.h"

int take_temps(struct stub_plan *p, int count)
{
	int first = p->frame.temps;

	p->frame.temps += count;
	return first;
}

/* ---- Expressions ------------------------------------------------------------------------ */

enum { EXPRESSIONS_MAX = 4 + ARCH_KEYS_MAX };

/* All expressions of a stub. */
static int expressions(const struct arch_stub *s, const struct arch_expr *ret[EXPRESSIONS_MAX])
{
	int count = 0;

	ret[count++] = s->filter;
	ret[count++] = s->gather.value;
	ret[count++] = s->flights.match;
	ret[count++] = s->flights.filter;
	for (int k = 0; k < s->gather.key_count; k++)
		ret[count++] = s->gather.keys[k].number;
	return count;
}

/* Does it ask for what is known once an end has found its begin? */
static bool asks_of_pair(const struct arch_stub *s, const struct arch_expr *expr)
{
	uint32_t used = expr_captures(expr);

	for (int i = 0; i < s->capture_count; i++)
		if (used >> i & 1 && s->captures[i].begun)
			return true;
	return expr_has(expr, ARCH_EXPR_DURATION);
}

static bool may_ask_of_pair(const struct arch_stub *s, const struct arch_expr *expr)
{
	return s->flights.table && s->kind != ARCH_STUB_BEGIN && expr != s->filter &&
	       expr != s->gather.value && expr != s->flights.match;
}

static bool plan_expressions(struct stub_plan *p)
{
	const struct arch_expr *all[EXPRESSIONS_MAX];
	int count = expressions(p->stub, all), temps = 0;

	for (int i = 0; i < count; i++) {
		if (!all[i])
			continue;
		if (!expr_is_possible(p->stub, all[i]))
			return false;
		if (asks_of_pair(p->stub, all[i]) && !may_ask_of_pair(p->stub, all[i]))
			return false;
		p->has_duration |= expr_has(all[i], ARCH_EXPR_DURATION);
		if (expr_temps(all[i]) > temps)
			temps = expr_temps(all[i]);
		p->kernel_tid |= expr_has(all[i], ARCH_EXPR_TID) && !p->stub->thread.has_tid;
		p->kernel_pid |= expr_has(all[i], ARCH_EXPR_PID) && !p->stub->pid;
		p->kernel_cpu |= expr_has(all[i], ARCH_EXPR_CPU) && !p->isa->has_cpu_hint &&
				 !p->stub->thread.has_rseq;
	}
	p->expr_temp = take_temps(p, temps);
	return true;
}

/* ---- Captures --------------------------------------------------------------------------- */

/* Only an end that has found its begin knows what that has kept. */
static bool may_be_begun(const struct arch_stub *s, int capture)
{
	return stub_keeps_begins(s) && s->kind != ARCH_STUB_BEGIN && capture >= s->recorded;
}

/* Only these actions prepare what they take of the stack. */
static bool may_take_stack(const struct arch_stub *s)
{
	return s->kind == ARCH_STUB_RECORD || s->kind == ARCH_STUB_GATHER;
}

/* Pairs come first, then values read through pointers, and copies of registers. */
static bool plan_captures(struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	for (int i = 0; i < s->capture_count; i++) {
		const struct arch_capture *c = &s->captures[i];

		if (!capture_is_possible(p->isa, c) || (c->begun && !may_be_begun(s, i)) ||
			(c->stack && !may_take_stack(s)))
			return false;
		p->checked |= (uint32_t)capture_is_checked(p->isa, c) << i;
		p->records_mask |= i < s->recorded && capture_is_checked(p->isa, c);
		p->strings |= c->is_string && !c->begun;
		p->extents |= c->has_length && !c->is_string;
		p->stacks |= c->stack != ARCH_STACK_NOT;
		p->names |= c->is_comm;
		if (!arch_capture_has_bytes(c))
			continue;
		p->temp[i] = take_temps(p, 2);
		if (i < s->recorded) {
			p->recorded_pairs++;
			p->max_bytes += capture_bytes(c);
		}
	}
	for (int i = 0; i < s->capture_count; i++) {
		const struct arch_capture *c = &s->captures[i];

		if (!arch_capture_has_bytes(c) && capture_is_checked(p->isa, c))
			p->temp[i] = take_temps(p, 1);
		else
			p->spill[i] = take_temps(p, capture_spill_temps(c));
	}
	return true;
}

/* Whether pages are kept. */
static void plan_checks(struct stub_plan *p)
{
	int checks = 0;

	for (int i = 0; i < p->stub->capture_count; i++)
		checks += capture_checks(p->isa, &p->stub->captures[i]);
	p->keeps_pages = checks > 1 && p->stub->may_call_kernel;
}

/* ---- All of it -------------------------------------------------------------------------- */

/* Whether the filter can run before anything else is saved or prepared. */
static bool is_early(const struct stub_plan *p)
{
	const struct arch_expr *filter = p->stub->filter;
	uint32_t used = expr_captures(filter);

	if (!filter || expr_temps(filter) || p->kernel_tid || p->kernel_pid || p->kernel_cpu)
		return false;
	for (int i = 0; i < p->stub->capture_count; i++)
		if (used >> i & 1 && (arch_capture_has_bytes(&p->stub->captures[i]) ||
					     capture_is_checked(p->isa, &p->stub->captures[i])))
			return false;
	return true;
}

/* How many registers the whole stub needs: see lay_out() of struct stub_isa. */
static int registers_of(const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	if (s->kind == ARCH_STUB_COUNT && !p->frame.temps && !s->rate)
		return s->filter || s->every > 1 ? 2 : 1;
	return s->kind == ARCH_STUB_RECORD && !p->frame.temps && !s->rate && !s->overwrite ? 3 : 8;
}

/*
 * Are all of its parts there for this instruction set? The kernel cannot be asked for the time in a
 * mode that this would end.
 */
static bool has_parts(const struct stub_plan *p)
{
	const struct arch_thread *thread = &p->stub->thread;

	return (p->stub->kind != ARCH_STUB_CALL || p->isa->call) &&
	       (!thread->no_counter || (p->isa->time_subroutine && !thread->has_modes));
}

static void plan_temps_of_checks(struct stub_plan *p)
{
	if (p->checked)
		p->mask_temp = take_temps(p, 1);
	plan_checks(p);
	if (p->keeps_pages)
		p->pages_temp = take_temps(p, KEPT_PAGES);
	p->asks_tagged = p->stub->thread.checks_tags && p->stub->may_call_kernel &&
			 (p->strings || p->extents || p->checked);
	if (p->asks_tagged)
		p->tag_of_temp = take_temps(p, 1);
	if (p->kernel_tid)
		p->tid_temp = take_temps(p, 1);
	if (p->kernel_pid)
		p->pid_temp = take_temps(p, 1);
	if (p->kernel_cpu)
		p->cpu_temp = take_temps(p, 1);
}

/*
 * Room for normal forms, which are no longer than their texts. It comes last: instructions have the
 * distance of other temporaries in fewer bytes.
 */
static void plan_temps_of_texts(struct stub_plan *p)
{
	const struct arch_gather *g = &p->stub->gather;

	for (int k = 0; k < g->key_count; k++)
		if (g->keys[k].is_norm)
			p->text_temp[k] = take_temps(
				p, (int)(capture_bytes(&p->stub->captures[g->keys[k].string]) + 7) /
					   8);
}

bool plan_stub(struct stub_plan *p, const struct arch_stub *s, const struct stub_isa *isa)
{
	*p = (struct stub_plan){.stub = s, .isa = isa};
	if (s->capture_count > ARCH_ARGS_MAX || s->recorded > s->capture_count ||
		s->every > INT32_MAX || s->rate > INT32_MAX)
		return false;
	if (s->thread.no_counter && (s->thread.has_rseq || !s->may_ask_time))
		return false;
	if (!plan_captures(p) || !plan_expressions(p) || (p->names && !s->may_ask_name))
		return false;
	if (!plan_action(p) || !has_parts(p))
		return false;
	if ((p->kernel_tid || p->kernel_pid) && !s->may_call_kernel)
		return false;
	if (p->kernel_cpu && !s->may_ask_cpu)
		return false;
	plan_temps_of_checks(p);
	plan_temps_of_texts(p);
	p->is_early = is_early(p);
	/* Unwinders know where a function's frame has the registers. */
	p->keeps_flags = !s->frees_flags || s->kind == ARCH_STUB_CALL;
	isa->lay_out(p, registers_of(p));
	return true;
}

void plan_answer(const struct stub_plan *p, struct arch_stub_code *ret)
{
	ret->asks = p->strings || p->extents || p->checked || p->stacks || p->kernel_tid ||
		    p->kernel_pid;
	ret->asks_name = p->names;
	ret->asks_cpu = p->kernel_cpu;
	ret->asks_stack = p->stacks;
}
