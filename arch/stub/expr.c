/* SPDX-License-Identifier: MIT */
/*
 * Expressions as code (arch/expr.h).
 *
 * The generator walks the tree; each node's value is computed into VALUE, extended to 64 bits
 * according to its type. If both operands of an operator need more than a load, the left one
 * waits in a temporary. Conditions become jumps: 0 and 1 are materialised only if something
 * computes with them. An early filter runs before more than three registers are saved.
 */
#include <assert.h>

#include "arch/layout.h"
#include "arch/stub/plan.h"

struct context {
	struct form *f;
	const struct stub_plan *plan;
	const struct arch_expr_node *nodes;
	int temps; /* in use */
	int bad;   /* where to jump if it cannot be computed */
};

static void value_of(struct context *c, int node);
static void jump_if(struct context *c, int node, bool when, int label);

/* ---- Looking at nodes ---------------------------------------------------------- */

/* Yields 0 or 1 by a jump. */
static bool is_condition(const struct arch_expr_node *n)
{
	return arch_expr_is_string_test(n->kind) || n->kind == ARCH_EXPR_NOT ||
	       n->kind == ARCH_EXPR_IN || n->kind >= ARCH_EXPR_LT;
}

static bool is_small_constant(const struct arch_expr_node *n)
{
	return n->kind == ARCH_EXPR_CONST && (int64_t)n->value == (int32_t)n->value;
}

/* ---- Values -------------------------------------------------------------------- */

/* Extends the low 32 bits of VALUE according to a type. */
static void extend(struct context *c, const struct arch_expr_node *type)
{
	if (!type->wide)
		form_extend(c->f, FORM_VALUE, FORM_VALUE, sizeof(uint32_t), type->is_signed);
}

/* a = a leaf; changes SCRATCH, and that of a double RIGHT. */
static void leaf(struct context *c, int a, const struct arch_expr_node *n)
{
	const struct arch_stub *s = c->plan->stub;

	switch (n->kind) {
	case ARCH_EXPR_CONST:
		form_const(c->f, a, n->value);
		break;
	case ARCH_EXPR_CAPTURE:
		form_captured(c->f, a, c->plan, n->capture);
		break;
	case ARCH_EXPR_DOUBLE:
	case ARCH_EXPR_FLOAT:
		assert(a == FORM_VALUE);
		form_captured(c->f, a, c->plan, n->capture);
		if (n->kind == ARCH_EXPR_FLOAT)
			form_widen(c->f);
		form_positive_zero(c->f);
		break;
	case ARCH_EXPR_TID:
		form_load(c->f, a,
			s->thread.has_tid ? form_at(FORM_THREAD, s->thread.tid_offset)
					  : form_temp(c->plan->tid_temp),
			sizeof(uint32_t), true);
		break;
	case ARCH_EXPR_PID:
		if (s->pid)
			form_const(c->f, a, s->pid);
		else
			form_load(c->f, a, form_temp(c->plan->pid_temp), sizeof(uint32_t), true);
		break;
	case ARCH_EXPR_DURATION:
		form_load(c->f, a, form_temp(c->plan->duration_temp), sizeof(uint64_t), false);
		break;
	default:
		if (c->plan->kernel_cpu)
			form_load(c->f, a, form_temp(c->plan->cpu_temp), sizeof(uint32_t), false);
		else
			form_cpu(c->f, a);
		break;
	}
}

/* VALUE and RIGHT = the operands of a node. */
static void operands(struct context *c, const struct arch_expr_node *n)
{
	const struct arch_expr_node *left = &c->nodes[n->left], *right = &c->nodes[n->right];

	if (arch_expr_is_leaf(right->kind)) {
		value_of(c, n->left);
		leaf(c, FORM_RIGHT, right);
	} else if (arch_expr_is_leaf(left->kind)) {
		value_of(c, n->right);
		form_move(c->f, FORM_RIGHT, FORM_VALUE);
		leaf(c, FORM_VALUE, left);
	} else {
		struct form_mem temp;

		/* The left one is computed before it waits: see expr_temps(). */
		value_of(c, n->left);
		temp = form_temp(c->plan->expr_temp + c->temps++);
		form_store(c->f, FORM_VALUE, temp);
		value_of(c, n->right);
		form_move(c->f, FORM_RIGHT, FORM_VALUE);
		form_load(c->f, FORM_VALUE, temp, sizeof(uint64_t), false);
		c->temps--;
	}
}

static void compute(struct context *c, const struct arch_expr_node *n)
{
	static const enum form_op ops[] = {
		[ARCH_EXPR_ADD] = FORM_ADD,
		[ARCH_EXPR_SUB] = FORM_SUB,
		[ARCH_EXPR_MUL] = FORM_MUL,
		[ARCH_EXPR_DIV] = FORM_DIV,
		[ARCH_EXPR_MOD] = FORM_MOD,
		[ARCH_EXPR_SHL] = FORM_SHL,
		[ARCH_EXPR_SHR] = FORM_SHR,
		[ARCH_EXPR_AND] = FORM_AND,
		[ARCH_EXPR_OR] = FORM_OR,
		[ARCH_EXPR_XOR] = FORM_XOR,
	};
	const struct arch_expr_node *right = &c->nodes[n->right];
	enum form_op op = ops[n->kind];

	switch (n->kind) {
	case ARCH_EXPR_DIV:
	case ARCH_EXPR_MOD:
		operands(c, n);
		form_jump_if_const(c->f, n->wide, FORM_RIGHT, FORM_EQ, 0, c->bad);
		form_by_right(c->f, op, n->wide, n->is_signed);
		break;
	case ARCH_EXPR_SHL:
	case ARCH_EXPR_SHR:
		operands(c, n);
		form_by_right(c->f, op, n->wide, n->is_signed);
		break;
	case ARCH_EXPR_MUL:
		operands(c, n);
		form_two(c->f, op, n->wide, FORM_VALUE, FORM_RIGHT);
		break;
	default:
		if (is_small_constant(right)) {
			value_of(c, n->left);
			form_two_const(c->f, op, n->wide, FORM_VALUE, (int32_t)right->value);
		} else {
			operands(c, n);
			form_two(c->f, op, n->wide, FORM_VALUE, FORM_RIGHT);
		}
		break;
	}
	extend(c, n);
}

static void value_of(struct context *c, int node)
{
	const struct arch_expr_node *n = &c->nodes[node];

	if (arch_expr_is_leaf(n->kind)) {
		leaf(c, FORM_VALUE, n);
	} else if (is_condition(n)) {
		int is_false = form_label(c->f), done = form_label(c->f);

		jump_if(c, node, false, is_false);
		form_const(c->f, FORM_VALUE, 1);
		form_jump(c->f, done);
		form_place(c->f, is_false);
		form_const(c->f, FORM_VALUE, 0);
		form_place(c->f, done);
	} else if (arch_expr_is_binary(n->kind)) {
		compute(c, n);
	} else {
		value_of(c, n->left);
		if (n->kind != ARCH_EXPR_CONVERT)
			form_one(c->f, n->kind == ARCH_EXPR_NEGATE ? FORM_NEGATE : FORM_COMPLEMENT,
				n->wide, FORM_VALUE);
		extend(c, n);
	}
}

/* ---- Conditions ------------------------------------------------------------------ */

/* Jumps to `differ` unless the `length` bytes at VALUE equal a literal. */
static void compare_bytes(struct context *c, const char *text, size_t length, int differ)
{
	size_t at = 0;

	for (; length - at >= 8; at += 8) {
		uint64_t word = 0;

		for (int k = 7; k >= 0; k--)
			word = word << 8 | (uint8_t)text[at + k];
		form_jump_unless_bytes(c->f, form_at(FORM_VALUE, (int32_t)at), 8, word, differ);
	}
	for (; at < length; at++)
		form_jump_unless_bytes(
			c->f, form_at(FORM_VALUE, (int32_t)at), 1, (uint8_t)text[at], differ);
}

static void string_test(struct context *c, const struct arch_expr_node *n, bool when, int label)
{
	int pair = c->plan->temp[n->capture], end = form_label(c->f);
	int differ = when ? end : label;

	form_load(c->f, FORM_VALUE, form_temp(pair + 1), sizeof(uint32_t), false);
	/* A truncated string has more bits than its length, and is no other. */
	if (n->kind == ARCH_EXPR_STRING_BEGINS)
		form_two_const(c->f, FORM_AND, false, FORM_VALUE, RING_STRING_LENGTH);
	form_jump_if_const(c->f, false, FORM_VALUE,
		n->kind == ARCH_EXPR_STRING_IS ? FORM_NE : FORM_BELOW, n->text_length, differ);
	form_load(c->f, FORM_VALUE, form_temp(pair), sizeof(uint64_t), false);
	compare_bytes(c, n->text, n->text_length, differ);
	if (when)
		form_jump(c->f, label);
	form_place(c->f, end);
}

/* Jumps if the operand is, or is not, one of the numbers. */
static void list_test(struct context *c, const struct arch_expr_node *n, bool when, int label)
{
	int end = form_label(c->f), found = when ? label : end;

	value_of(c, n->left);
	for (int i = 0; i < n->list_count; i++) {
		int64_t number = (int64_t)n->list[i];

		if (!n->wide || number == (int32_t)number) {
			form_jump_if_const(
				c->f, n->wide, FORM_VALUE, FORM_EQ, (int32_t)number, found);
		} else {
			form_const(c->f, FORM_RIGHT, n->list[i]);
			form_jump_if(c->f, true, FORM_VALUE, FORM_EQ, FORM_RIGHT, found);
		}
	}
	if (!when)
		form_jump(c->f, label);
	form_place(c->f, end);
}

static enum form_when condition(const struct arch_expr_node *n)
{
	switch (n->kind) {
	case ARCH_EXPR_LT:
		return n->is_signed ? FORM_LT : FORM_BELOW;
	case ARCH_EXPR_LE:
		return n->is_signed ? FORM_LE : FORM_NOT_ABOVE;
	case ARCH_EXPR_GT:
		return n->is_signed ? FORM_GT : FORM_ABOVE;
	case ARCH_EXPR_GE:
		return n->is_signed ? FORM_GE : FORM_NOT_BELOW;
	case ARCH_EXPR_EQ:
		return FORM_EQ;
	default:
		return FORM_NE;
	}
}

/* SCRATCH = a number with the order of a node's value, a double; jumps if it is NaN. */
static void order_of(struct context *c, int node, int unordered)
{
	value_of(c, node);
	form_move(c->f, FORM_RIGHT, FORM_VALUE);
	form_two_const(c->f, FORM_SHL, true, FORM_RIGHT, 1); /* without its sign */
	form_const(c->f, FORM_SCRATCH, UINT64_C(0x7ff) << 53 /* infinity */);
	form_jump_if(c->f, true, FORM_RIGHT, FORM_ABOVE, FORM_SCRATCH, unordered);
	form_move(c->f, FORM_RIGHT, FORM_VALUE);
	form_order_of_double(c->f);
}

static void double_comparison(
	struct context *c, const struct arch_expr_node *n, bool when, int label)
{
	const struct arch_expr_node *right = &c->nodes[n->right];
	struct form_mem temp = form_temp(c->plan->expr_temp + c->temps);
	int end = form_label(c->f), left = FORM_SCRATCH, other = FORM_RIGHT;
	int unordered = (n->kind == ARCH_EXPR_NE) == when ? label : end;

	order_of(c, n->left, unordered);
	if (right->kind == ARCH_EXPR_CONST) {
		form_const(c->f, FORM_RIGHT, cell_order_of(right->value));
	} else {
		form_store(c->f, FORM_SCRATCH, temp);
		order_of(c, n->right, unordered);
		form_load(c->f, FORM_VALUE, temp, sizeof(uint64_t), false);
		left = FORM_VALUE;
		other = FORM_SCRATCH;
	}
	form_jump_if(c->f, true, left, condition(n) ^ !when, other, label);
	form_place(c->f, end);
}

static void comparison(struct context *c, const struct arch_expr_node *n, bool when, int label)
{
	const struct arch_expr_node *right = &c->nodes[n->right];
	enum form_when holds = condition(n) ^ !when;

	if (n->is_double) {
		double_comparison(c, n, when, label);
	} else if (is_small_constant(right)) {
		value_of(c, n->left);
		form_jump_if_const(c->f, n->wide, FORM_VALUE, holds, (int32_t)right->value, label);
	} else {
		operands(c, n);
		form_jump_if(c->f, n->wide, FORM_VALUE, holds, FORM_RIGHT, label);
	}
}

/* Jumps to `label` if the node's truth value equals `when`. */
static void jump_if(struct context *c, int node, bool when, int label)
{
	const struct arch_expr_node *n = &c->nodes[node];
	bool decided = n->kind == ARCH_EXPR_EITHER; /* what decides alone */

	if (arch_expr_is_string_test(n->kind)) {
		string_test(c, n, when, label);
	} else if (n->kind == ARCH_EXPR_IN) {
		list_test(c, n, when, label);
	} else if (n->kind == ARCH_EXPR_NOT) {
		jump_if(c, n->left, !when, label);
	} else if (n->kind == ARCH_EXPR_BOTH || n->kind == ARCH_EXPR_EITHER) {
		int end = form_label(c->f);

		jump_if(c, n->left, decided, when == decided ? label : end);
		jump_if(c, n->right, when, label);
		form_place(c->f, end);
	} else if (is_condition(n)) {
		comparison(c, n, when, label);
	} else {
		value_of(c, node);
		form_jump_if_const(c->f, true, FORM_VALUE, when ? FORM_NE : FORM_EQ, 0, label);
	}
}

/* ---- Whole expressions ------------------------------------------------------------- */

/* Jumps if the word of a string, in VALUE, says that not one byte could be read. */
static void need_word(struct context *c)
{
	_Static_assert(RING_STRING_NULL_BIT == 31, "as a number, it is negative");
	form_jump_if_const(c->f, false, FORM_VALUE, FORM_LT, 0, c->bad);
}

/* If a capture cannot be read, the expression cannot be computed. */
static void need_captures(struct context *c, const struct arch_expr *expr)
{
	const struct stub_plan *p = c->plan;
	uint32_t used = expr_captures(expr), checked = used & p->checked;

	for (int i = 0; i < p->stub->capture_count; i++) {
		const struct arch_capture *capture = &p->stub->captures[i];

		if (!(used >> i & 1))
			continue;
		if (capture->is_string) {
			form_load(c->f, FORM_VALUE, form_temp(p->temp[i] + 1), sizeof(uint32_t),
				false);
			need_word(c);
		} else if (capture->begun) {
			form_load(
				c->f, FORM_VALUE, form_temp(p->kept_temp), sizeof(uint64_t), false);
			form_load(c->f, FORM_VALUE, form_at(FORM_VALUE, capture->begun),
				sizeof(uint32_t), false);
			need_word(c);
		}
	}
	if (!checked)
		return;
	form_load(c->f, FORM_VALUE, form_temp(p->mask_temp), sizeof(uint32_t), false);
	form_two_const(c->f, FORM_AND, false, FORM_VALUE, (int32_t)checked);
	form_jump_if_const(c->f, false, FORM_VALUE, FORM_NE, (int32_t)checked, c->bad);
}

void form_expr(struct form *f, const struct stub_plan *plan, const struct arch_expr *expr, int bad)
{
	struct context c = {f, plan, expr->nodes, 0, bad};

	need_captures(&c, expr);
	value_of(&c, expr->count - 1);
}

void form_filter(
	struct form *f, const struct stub_plan *plan, const struct arch_expr *expr, int reject)
{
	struct context c = {f, plan, expr->nodes, 0, reject};

	need_captures(&c, expr);
	jump_if(&c, expr->count - 1, false, reject);
}
