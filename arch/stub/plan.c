/* SPDX-License-Identifier: MIT */
/* Plans a stub: temporaries, registers, system calls; refuses impossible stubs. */

#include "arch/layout.h"
#include "arch/stub/flights.h"
#include "arch/stub/plan.h"

/* ==== What each action needs ================================================================== */

enum {
	/* Sizes that become immediate operands. */
	RING_BYTES_MAX = 1 << 30,
	TABLE_BYTES_MAX = 1 << 30,
	KEPT_BYTES_MAX = 1 << 30 /* the data kept in one entry */
};

/* Allocates `count` temporaries; returns the first. */
static int take_temps(struct stub_plan *p, int count)
{
	p->frame.temps += count;
	return p->frame.temps - count;
}

bool action_has_spans(const struct arch_action *a)
{
	return a->flights.table && a->flights.record;
}

bool action_keeps_begins(const struct arch_action *a)
{
	return a->flights.table && a->flights.keep && !a->flights.marks;
}

/* Returns true if the action uses the data that its start event has kept. */
static bool action_uses_begins(const struct arch_action *a)
{
	return action_keeps_begins(a) && a->kind != ARCH_ACTION_BEGIN;
}

/* ---- Records ---------------------------------------------------------------------------- */

/* Lays out a record in a ring, or one that a start event keeps. A stub has only one layout. */
static bool plan_record_body(struct stub_plan *p, bool overwrite)
{
	const struct arch_stub *s = p->stub;

	if (p->records)
		return false;
	p->records = true;
	p->fixed_bytes = sizeof(struct ring_record);
	for (int i = 0; i < s->recorded; i++) {
		p->record_at[i] = (int32_t)p->fixed_bytes;
		p->fixed_bytes += arch_capture_fixed(&s->captures[i]);
	}
	p->record_mask_at = (int32_t)p->fixed_bytes;
	if (p->records_mask)
		p->fixed_bytes += ring_mask_bytes(s->recorded);
	p->record_align = overwrite ? RING_BACK_BYTES : RING_ALIGN;
	p->max_bytes = (uint32_t)ring_padded(p->max_bytes + p->fixed_bytes, p->record_align);
	if (!p->recorded_pairs)
		p->fixed_bytes = p->max_bytes;
	p->kernel_tid |= !s->thread.has_tid && s->may_call_kernel;
	return true;
}

static bool plan_record(struct stub_plan *p)
{
	const struct arch_action *action = p->at->action;
	const struct arch_record *r = &action->record;
	uint32_t room = RING_RECORD_MAX - (r->overwrite ? RING_BACK_BYTES : 0);

	if (!plan_record_body(p, r->overwrite))
		return false;
	/* A waiting end event of a span would hold its start event, and so block other hits. */
	if (r->room && (r->overwrite || action_has_spans(action)))
		return false;
	p->waits = r->room != 0;
	/* the duration, and the start event's record */
	if (action_has_spans(action))
		p->max_bytes += 8 + action->flights.keep - action->flights.record;
	return p->max_bytes <= room && p->max_bytes <= r->ring_bytes &&
	       r->ring_bytes <= RING_BYTES_MAX && !(r->ring_bytes & (r->ring_bytes - 1));
}

/* ---- Cells ------------------------------------------------------------------------------ */

bool action_has_norm(const struct arch_action *a)
{
	for (int k = 0; k < a->gather.key_count; k++)
		if (a->gather.keys[k].is_norm)
			return true;
	return false;
}

static bool is_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

static bool plan_gather(struct stub_plan *p)
{
	const struct arch_gather *g = &p->at->action->gather;
	uint32_t bytes = (2 + g->key_count) * sizeof(uint64_t);

	p->at->value_temp = take_temps(p, 1);
	p->at->time_temp = take_temps(p, 1);
	if (g->is_double && g->parts & ARCH_GATHER_SUM)
		p->at->double_temp = take_temps(p, FORM_VECTOR_TEMPS + 1);
	if (!g->key_count)
		return true;
	p->at->tag_temp = take_temps(p, 1);
	p->at->tries_temp = take_temps(p, 1);
	if (g->key_count > ARCH_KEYS_MAX || !is_power_of_two(g->entries) ||
		g->entries > TABLE_BYTES_MAX || g->entry_bytes > TABLE_BYTES_MAX)
		return false;
	for (int k = 0; k < g->key_count; k++) {
		uint8_t string = g->keys[k].string;

		if (!g->keys[k].number &&
			(string >= p->stub->capture_count ||
				!arch_capture_has_bytes(&p->stub->captures[string])))
			return false;
		if (g->keys[k].number && g->keys[k].is_norm)
			return false;
		if (!g->keys[k].number)
			bytes += (capture_bytes(&p->stub->captures[string]) + 7) & ~7u;
		p->at->key_temp[k] = g->keys[k].number || g->keys[k].is_norm ? take_temps(p, 1)
									     : p->temp[string] + 1;
	}
	/* The longest texts of the keys need room between the words and the cell. */
	if (bytes > g->entry_cell)
		return false;
	if (action_has_norm(p->at->action))
		p->at->norm_temp = take_temps(p, NORM_TEMPS);
	return true;
}

/* ---- Pairs ------------------------------------------------------------------------------ */

/* Does a kept argument (string of `bytes`, or number if 0) fit at `offset`? */
static bool is_place(const struct arch_flights *f, uint32_t offset, uint32_t bytes)
{
	return offset >= sizeof(struct probe_begun) && offset % 8 == 0 &&
	       offset + 8 + (bytes ? (bytes + 7) & ~7u : 8) <= (f->record ? f->record : f->keep);
}

static bool may_keep(
	const struct arch_stub *s, const struct arch_flights *f, const struct arch_kept *k)
{
	const struct arch_capture *c = &s->captures[k->capture];

	return k->capture < s->capture_count && c->is_string == (k->bytes > 0) &&
	       arch_capture_has_bytes(c) == (k->bytes > 0) && is_place(f, k->offset, k->bytes);
}

static bool may_keep_begins(const struct arch_stub *s, const struct arch_flights *f)
{
	if (f->keep % 8 || f->keep > RING_RECORD_MAX || f->record % 8 ||
		(f->record && (f->record < sizeof(struct probe_begun) ||
				      f->record + sizeof(struct ring_record) > f->keep)) ||
		(uint64_t)f->depth * (f->keep + 16) > KEPT_BYTES_MAX ||
		f->kept_count > ARCH_KEPT_MAX)
		return false;
	for (int i = 0; i < f->kept_count; i++)
		if (f->takes ? !is_place(f, f->kept[i].offset, f->kept[i].bytes)
			     : !may_keep(s, f, &f->kept[i]))
			return false;
	for (int i = 0; i < s->capture_count; i++)
		if (s->captures[i].begun &&
			!is_place(f, s->captures[i].begun,
				s->captures[i].is_string ? s->captures[i].bytes_max : 0))
			return false;
	return true;
}

/* Plans the data that a start event keeps, or that the end event uses. */
static bool plan_keeping(struct stub_plan *p)
{
	const struct arch_action *action = p->at->action;

	if (!may_keep_begins(p->stub, &action->flights))
		return false;
	p->at->entry_temp = take_temps(p, 1);
	if (action->flights.compares)
		p->at->place_temp = take_temps(p, 1);
	if (action->kind == ARCH_ACTION_BEGIN) {
		p->at->pass_temp = take_temps(p, 1);
		p->at->last_temp = take_temps(p, 1);
		return !action->flights.record ||
		       (plan_record_body(p, false) &&
			       p->max_bytes <= action->flights.keep - action->flights.record);
	}
	p->at->kept_temp = take_temps(p, 1);
	if (!action->flights.record)
		return action->kind == ARCH_ACTION_GATHER;
	p->at->has_duration = true;
	p->at->value_temp = take_temps(p, 1);
	p->at->time_temp = take_temps(p, 1);
	p->at->begin_temp = take_temps(p, 1);
	return action->kind == ARCH_ACTION_RECORD && !action->record.overwrite;
}

/* Returns true if the key is a text that fits into an entry and is not the start event's data. */
static bool may_match(const struct arch_stub *s, const struct arch_flights *f)
{
	const struct arch_capture *c = &s->captures[f->string];

	return !f->match && f->string < s->capture_count && c->is_string && !c->begun &&
	       c->bytes_max <= f->text && f->text <= RING_RECORD_MAX;
}

bool flights_by_frame(const struct arch_flights *flights)
{
	return flights->compares && flights->frame.kind == ARCH_ARG_MEMORY;
}

bool action_is_tail(const struct arch_action *action)
{
	return action->kind >= ARCH_ACTION_TAIL_ENTRY && action->kind <= ARCH_ACTION_TAIL_RETURN;
}

/* Plans events' identities. Returns false if the captures do not allow it. */
static bool plan_identity(struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	const struct arch_flights *f = &p->at->action->flights;

	if (!f->compares)
		return !f->same_count;
	p->at->same_temp = take_temps(p, 1);
	if (flights_by_frame(f) &&
		(f->same_count || !operand_is_possible(p->isa, &f->frame) || f->frame.base < 0))
		return false;
	for (int i = 0; i < f->same_count; i++)
		if (f->same[i] >= s->capture_count || s->captures[f->same[i]].begun ||
			s->captures[f->same[i]].stack ||
			s->captures[f->same[i]].arg.kind == ARCH_ARG_FP_REGISTER)
			return false;
	return f->same_count <= ARCH_SAME_MAX && f->identities && !f->single;
}

static bool plan_flights(struct stub_plan *p)
{
	const struct arch_flights *f = &p->at->action->flights;
	bool by_key = flights_by_key(f);

	p->kernel_tid |= !by_key && !p->stub->thread.has_tp;
	if (f->text)
		p->at->match_temp = take_temps(p, 2);
	if (f->text && !may_match(p->stub, f))
		return false;
	if (f->process)
		p->at->process_temp = take_temps(p, 1);
	if ((f->single && by_key) || ((f->takes || f->gives) && !f->single) ||
		(f->identities && by_key) || !plan_identity(p))
		return false;
	/*
	 * By key, the distance from a key's home must be below the table's size: see flight_free().
	 */
	return is_power_of_two(f->entries) && (!by_key || f->entries >= FLIGHT_PROBES_MAX) &&
	       is_power_of_two(f->depth) && f->depth < 1 << 20 &&
	       (action_keeps_begins(p->at->action) ? plan_keeping(p)
						   : p->at->action->kind != ARCH_ACTION_RECORD);
}

/* ---- All actions ------------------------------------------------------------------------ */

/* Plans what the action p->at needs. */
static bool plan_action(struct stub_plan *p)
{
	const struct arch_action *action = p->at->action;

	if (action->kind == ARCH_ACTION_RECORD && !plan_record(p))
		return false;
	if (action->kind == ARCH_ACTION_GATHER && !plan_gather(p))
		return false;
	if (action->flights.table && !plan_flights(p))
		return false;
	if (p->at->has_duration)
		p->at->duration_temp = take_temps(p, 1);
	if (action->kind == ARCH_ACTION_GATE)
		take_temps(p, GATE_TEMPS);
	if (action->kind == ARCH_ACTION_CALL) /* words, mask and pointers: see arch_call */
		p->at->call_temp = take_temps(p, 2 * p->stub->recorded + 1);
	p->calls |= action->kind == ARCH_ACTION_CALL;
	return true;
}

/* Returns true if these actions can be in one stub. */
static bool go_together(const struct arch_stub *s)
{
	int users = 0;
	bool begun = false;

	if (s->action_count < 1 || s->action_count > ARCH_STUB_ACTIONS)
		return false;
	for (int i = 0; i < s->action_count; i++) {
		if (s->action_count > 1 && (s->actions[i].kind == ARCH_ACTION_GATE ||
						   s->actions[i].kind == ARCH_ACTION_CALL))
			return false;
		if (action_is_tail(&s->actions[i]) &&
			(i || !flights_by_frame(&s->actions[i].flights)))
			return false;
		users += action_uses_begins(&s->actions[i]);
	}
	for (int i = 0; i < s->capture_count; i++)
		begun |= s->captures[i].begun != 0;
	return users < 2 || !begun;
}

/* ==== What can be captured ==================================================================== */

/*
 * Which arguments can be captured, and how.
 *
 * A 16-byte value (__int128) may be in two registers, of which the note names the one with the
 * lower half; gcc and clang pair them differently. gcc also writes only a constant's lower half.
 * The stub captures that, as bytes that are cut off.
 */

enum { HALF_BYTES = 8 };

static bool is_scalar_size(uint32_t size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

bool operand_is_half(const struct arch_arg *arg)
{
	return arg->size == 2 * HALF_BYTES &&
	       (arg->kind == ARCH_ARG_IMMEDIATE ||
		       (arg->kind == ARCH_ARG_REGISTER && arg->width == HALF_BYTES));
}

bool operand_is_possible(const struct stub_isa *isa, const struct arch_arg *arg)
{
	switch (arg->kind) {
	case ARCH_ARG_IMMEDIATE:
		return !arg->symbol && (is_scalar_size(arg->size) || operand_is_half(arg));
	case ARCH_ARG_REGISTER:
		return arg->base >= 0 && arg->base < isa->registers &&
		       (is_scalar_size(arg->size) || operand_is_half(arg));
	case ARCH_ARG_FP_REGISTER:
		return arg->base >= 0 && arg->base < isa->vectors &&
		       (arg->size == 4 || arg->size == 8 || arg->size == VECTOR_BYTES);
	case ARCH_ARG_MEMORY:
		return !arg->symbol && arg->size > 0 && arg->size <= PAGE_BYTES &&
		       arg->base < isa->registers && arg->index < isa->registers;
	case ARCH_ARG_ADDRESS:
		return !arg->symbol && arg->size == 8 && arg->base < isa->registers &&
		       arg->index < isa->registers;
	case ARCH_ARG_UNKNOWN:
		break;
	}
	return false;
}

/* Can the argument be a pointer, a length or an index? Not if it is in a vector register. */
static bool is_whole(const struct arch_arg *arg)
{
	return arg->kind != ARCH_ARG_FP_REGISTER && is_scalar_size(arg->size);
}

static bool steps_are_possible(const struct arch_capture *c)
{
	if (c->step_count > ARCH_STEPS_MAX)
		return false;
	for (int i = 0; i < c->step_count; i++) {
		const struct arch_step *step = &c->steps[i];
		bool is_address =
			!step->size && i + 1 == c->step_count && (c->is_string || c->has_length);

		if ((!is_address && !is_scalar_size(step->size)) || (step->scale && !c->has_index))
			return false;
	}
	return true;
}

bool capture_is_possible(const struct stub_isa *isa, const struct arch_capture *c)
{
	if (c->stack == ARCH_STACK_BYTES)
		return c->bytes_max > 0 && c->bytes_max <= ARCH_STACK_MAX && c->bytes_max % 8 == 0;
	if (c->stack == ARCH_STACK_FRAMES)
		return c->bytes_max > 0 && c->bytes_max <= 8 * ARCH_FRAMES_MAX &&
		       c->bytes_max % 8 == 0;
	if (c->is_comm)
		return true;
	if (c->begun)
		return !c->is_string || c->bytes_max > 0;
	if (!operand_is_possible(isa, &c->arg))
		return false;
	if (c->has_length && (!operand_is_possible(isa, &c->length) || !is_whole(&c->length)))
		return false;
	if (c->has_index && (!operand_is_possible(isa, &c->index) || !is_whole(&c->index)))
		return false;
	if (!steps_are_possible(c))
		return false;
	return !(c->is_string || c->has_length || c->step_count) || is_whole(&c->arg);
}

uint32_t capture_bytes(const struct arch_capture *c)
{
	if (c->stack)
		return c->bytes_max;
	if (c->is_comm)
		return ARCH_COMM_MAX;
	if (c->arg.kind == ARCH_ARG_FP_REGISTER)
		return VECTOR_BYTES;
	if (c->is_string || c->has_length)
		return c->bytes_max;
	if (operand_is_half(&c->arg))
		return HALF_BYTES;
	return c->arg.size < c->bytes_max ? c->arg.size : c->bytes_max;
}

/* Temporaries of a capture besides its pair. */
static int capture_spill_temps(const struct arch_capture *c)
{
	if (c->stack)
		return c->stack == ARCH_STACK_FRAMES ? STACK_TEMPS + c->bytes_max / 8
						     : RESIDENT_TEMPS;
	if (c->is_comm)
		return ARCH_COMM_MAX / 8;
	if (!arch_capture_has_bytes(c))
		return 0;
	return c->arg.kind == ARCH_ARG_FP_REGISTER ? VECTOR_BYTES / 8 : operand_is_half(&c->arg);
}

bool operand_is_checked(const struct stub_isa *isa, const struct arch_arg *arg, bool is_static)
{
	if (arg->kind != ARCH_ARG_MEMORY)
		return false;
	if (arg->index != ARCH_REG_NONE)
		return true;
	/* Static storage and the stack frame are always mapped. */
	if (arg->base == isa->stack_pointer)
		return arg->disp < -(int64_t)isa->red_zone || arg->disp > PAGE_BYTES;
	return !is_static || arg->base >= 0;
}

bool capture_is_checked(const struct stub_isa *isa, const struct arch_capture *c)
{
	if (c->stack || c->is_comm || c->begun)
		return false;
	return c->step_count || operand_is_checked(isa, &c->arg, c->is_static) ||
	       (c->has_length && operand_is_checked(isa, &c->length, c->length_is_static));
}

/* Returns the maximum number of pointers that a hit checks for this capture. */
static int capture_checks(const struct stub_isa *isa, const struct arch_capture *c)
{
	if (c->stack || c->is_comm)
		return 0;
	return (c->is_string || c->has_length) + operand_is_checked(isa, &c->arg, c->is_static) +
	       (c->has_length && operand_is_checked(isa, &c->length, c->length_is_static)) +
	       (c->has_index && operand_is_checked(isa, &c->index, c->index_is_static));
}

/* ==== What expressions need =================================================================== */

/* Captures and temporaries of expressions, and whether the stub can evaluate them. */

uint32_t expr_captures(const struct arch_expr *expr)
{
	uint32_t used = 0;

	for (int i = 0; expr && i < expr->count; i++)
		if (arch_expr_is_capture(expr->nodes[i].kind) ||
			arch_expr_is_string_test(expr->nodes[i].kind))
			used |= UINT32_C(1) << expr->nodes[i].capture;
	return used;
}

static bool expr_has(const struct arch_expr *expr, enum arch_expr_kind kind)
{
	for (int i = 0; expr && i < expr->count; i++)
		if (expr->nodes[i].kind == kind)
			return true;
	return false;
}

int expr_temps(const struct arch_expr *expr)
{
	int need[ARCH_EXPR_NODES_MAX] = {0};

	if (!expr || !expr->count)
		return 0;
	for (int i = 0; i < expr->count; i++) {
		const struct arch_expr_node *n = &expr->nodes[i];

		if (arch_expr_is_leaf(n->kind) || arch_expr_is_string_test(n->kind))
			continue;
		need[i] = need[n->left];
		if (arch_expr_is_binary(n->kind)) {
			bool waits = n->is_double ? expr->nodes[n->right].kind != ARCH_EXPR_CONST
						  : !arch_expr_is_leaf(expr->nodes[n->left].kind) &&
							    !arch_expr_is_leaf(
								    expr->nodes[n->right].kind);

			if (need[n->right] + waits > need[i])
				need[i] = need[n->right] + waits;
		}
	}
	return need[expr->count - 1];
}

bool expr_is_possible(const struct arch_stub *stub, const struct arch_expr *expr)
{
	if (!expr)
		return true;
	if (!expr->count || expr->count > ARCH_EXPR_NODES_MAX)
		return false;
	for (int i = 0; i < expr->count; i++) {
		const struct arch_expr_node *n = &expr->nodes[i];
		bool string = arch_expr_is_string_test(n->kind);

		if (string || arch_expr_is_capture(n->kind)) {
			if (n->capture >= stub->capture_count ||
				stub->captures[n->capture].is_string != string ||
				arch_capture_has_bytes(&stub->captures[n->capture]) != string)
				return false;
		} else if (!arch_expr_is_leaf(n->kind) &&
			   (n->left >= i || (arch_expr_is_binary(n->kind) && n->right >= i))) {
			return false;
		}
	}
	return true;
}

/* ==== The whole plan ========================================================================== */

/* ---- Expressions ------------------------------------------------------------------------ */

/*
 * Returns true if an expression uses the start event's data or the duration, which are known only
 * once the start event is found.
 */
static bool asks_of_pair(const struct arch_stub *s, const struct arch_expr *expr)
{
	uint32_t used = expr_captures(expr);

	for (int i = 0; i < s->capture_count; i++)
		if (used >> i & 1 && s->captures[i].begun)
			return true;
	return expr_has(expr, ARCH_EXPR_DURATION);
}

/*
 * Returns the number of temporaries for an expression, 0 if `expr` is NULL, -1 if it is impossible.
 */
static int plan_expression(struct stub_plan *p, const struct arch_expr *expr, bool has_pair)
{
	if (!expr)
		return 0;
	if (!expr_is_possible(p->stub, expr) || (asks_of_pair(p->stub, expr) && !has_pair))
		return -1;
	p->at->has_duration |= expr_has(expr, ARCH_EXPR_DURATION);
	p->kernel_tid |= expr_has(expr, ARCH_EXPR_TID) && !p->stub->thread.has_tid;
	p->kernel_pid |= expr_has(expr, ARCH_EXPR_PID) && !p->stub->pid;
	p->kernel_cpu |=
		expr_has(expr, ARCH_EXPR_CPU) && !p->isa->has_cpu_hint && !p->stub->thread.has_rseq;
	return expr_temps(expr);
}

enum { EXPRESSIONS_MAX = 4 + ARCH_KEYS_MAX };

/* Plans the expressions of the stub and of the action p->at. */
static bool plan_expressions(struct stub_plan *p, int *temps_inout)
{
	const struct arch_action *a = p->at->action;
	bool has_pair = a->flights.table && a->kind != ARCH_ACTION_BEGIN;
	int needs[EXPRESSIONS_MAX], count = 0;

	needs[count++] = plan_expression(p, p->stub->filter, false);
	needs[count++] = plan_expression(p, a->gather.value, false);
	needs[count++] = plan_expression(p, a->flights.match, false);
	needs[count++] = plan_expression(p, a->flights.filter, has_pair);
	for (int k = 0; k < a->gather.key_count; k++)
		needs[count++] = plan_expression(p, a->gather.keys[k].number, has_pair);
	for (int i = 0; i < count; i++) {
		if (needs[i] < 0)
			return false;
		if (needs[i] > *temps_inout)
			*temps_inout = needs[i];
	}
	return true;
}

/* ---- Captures --------------------------------------------------------------------------- */

/* Allocates temporaries: pairs first, then values behind pointers and copies of registers. */
static bool plan_captures(struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	bool uses_begins = false, takes_stack = false;

	for (int i = 0; i < s->action_count; i++) {
		const struct arch_action *a = &s->actions[i];

		uses_begins |= action_uses_begins(a);
		takes_stack |= a->kind == ARCH_ACTION_RECORD || a->kind == ARCH_ACTION_GATHER;
	}
	for (int i = 0; i < s->capture_count; i++) {
		const struct arch_capture *c = &s->captures[i];

		/* Only an end event can capture its start event's data, which is not recorded. */
		if (!capture_is_possible(p->isa, c) ||
			(c->begun && (!uses_begins || i < s->recorded)) ||
			(c->stack && !takes_stack))
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

/* ---- All parts of the plan -------------------------------------------------------------- */

/* Returns true if the filter can run before other registers are saved and captures prepared. */
static bool is_early(const struct stub_plan *p)
{
	const struct arch_expr *filter = p->stub->filter;
	uint32_t used = expr_captures(filter);

	if (!filter || expr_temps(filter) || action_is_tail(&p->stub->actions[0]) ||
		p->kernel_tid || p->kernel_pid || p->kernel_cpu)
		return false;
	for (int i = 0; i < p->stub->capture_count; i++)
		if (used >> i & 1 && (arch_capture_has_bytes(&p->stub->captures[i]) ||
					     capture_is_checked(p->isa, &p->stub->captures[i])))
			return false;
	return true;
}

/* Form registers of the whole stub: see lay_out() in struct stub_isa. */
static int registers_of(const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	int most = s->filter || s->every > 1 ? 2 : 1;

	if (p->frame.temps || s->rate)
		return 8;
	for (int i = 0; i < s->action_count; i++) {
		const struct arch_action *a = &s->actions[i];

		if (a->kind == ARCH_ACTION_RECORD && !a->record.overwrite)
			most = 3;
		else if (a->kind != ARCH_ACTION_COUNT)
			return 8;
	}
	return most;
}

static void plan_temps_of_checks(struct stub_plan *p)
{
	int checks = 0;

	if (p->checked)
		p->mask_temp = take_temps(p, 1);
	/* A hit that may check several pointers remembers readable pages. */
	for (int i = 0; i < p->stub->capture_count; i++)
		checks += capture_checks(p->isa, &p->stub->captures[i]);
	p->keeps_pages = checks > 1 && p->stub->may_call_kernel;
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

/* Plans all actions, and what precedes them. */
static bool plan_actions(struct stub_plan *p)
{
	struct action_plan *end = p->actions + p->stub->action_count;
	int temps = 0;

	for (int i = 0; i < p->stub->action_count; i++)
		p->actions[i].action = &p->stub->actions[i];
	for (p->at = p->actions; p->at < end; p->at++)
		if (!plan_expressions(p, &temps))
			return false;
	p->expr_temp = take_temps(p, temps);
	for (p->at = p->actions; p->at < end; p->at++)
		if (!plan_action(p))
			return false;
	plan_temps_of_checks(p);
	/* Normal forms, no longer than texts, come last: small offsets make shorter code. */
	for (p->at = p->actions; p->at < end; p->at++)
		for (int k = 0; k < p->at->action->gather.key_count; k++) {
			const struct arch_key *key = &p->at->action->gather.keys[k];

			if (key->is_norm)
				p->at->text_temp[k] = take_temps(p,
					(int)(capture_bytes(&p->stub->captures[key->string]) + 7) /
						8);
		}
	return true;
}

bool plan_stub(struct stub_plan *p, const struct arch_stub *s, const struct stub_isa *isa)
{
	*p = (struct stub_plan){.stub = s, .isa = isa};
	if (s->capture_count > ARCH_ARGS_MAX || s->recorded > s->capture_count ||
		s->every > INT32_MAX || s->rate > INT32_MAX || !go_together(s))
		return false;
	/* In a mode that a system call would end, the stub cannot ask the kernel for the time. */
	if (s->thread.no_counter && (s->thread.has_rseq || s->thread.has_modes ||
					    !s->may_ask_time || !isa->time_subroutine))
		return false;
	if (!plan_captures(p) || (p->names && !s->may_ask_name))
		return false;
	if (!plan_actions(p) || (p->calls && !isa->call))
		return false;
	if (((p->kernel_tid || p->kernel_pid) && !s->may_call_kernel) ||
		(p->kernel_cpu && !s->may_ask_cpu))
		return false;
	p->is_early = is_early(p);
	/* A call's unwind rules need fixed offsets. */
	p->keeps_flags = !s->frees_flags || p->calls;
	isa->lay_out(p, registers_of(p));
	return true;
}

bool arch_capturable(const struct arch *arch, const struct arch_arg *arg)
{
	return operand_is_possible(arch->stubs, arg);
}

bool arch_capture_checked(const struct arch *arch, const struct arch_capture *capture)
{
	return capture_is_checked(arch->stubs, capture);
}
