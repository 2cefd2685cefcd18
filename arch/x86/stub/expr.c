/* SPDX-License-Identifier: MIT */
/*
 * Expressions as machine code (arch/expr.h).
 *
 * The generator walks the tree; each node's value is computed into %rax, extended to 64 bits
 * according to its type. If both operands of an operator need more than a load, the left one
 * waits in a temporary. Conditions become jumps: 0 and 1 are materialised only if something
 * computes with them.
 */
#include "arch/layout.h"
#include "arch/x86/stub/stub.h"
#include "arch/x86/stub/plan.h"

struct context {
	struct emit *e;
	const struct stub_plan *plan;
	const struct frame *frame;
	const struct arch_expr_node *nodes;
	int temps; /* in use */
	int bad;   /* where to jump if it cannot be computed */
};

static void value_of(struct context *c, int node);
static void jump_if(struct context *c, int node, bool when, int label);

/* ---- Looking at trees -------------------------------------------------------- */

static bool is_string_test(enum arch_expr_kind kind)
{
	return kind == ARCH_EXPR_STRING_IS || kind == ARCH_EXPR_STRING_BEGINS;
}

static bool is_capture(enum arch_expr_kind kind)
{
	return kind == ARCH_EXPR_CAPTURE || kind == ARCH_EXPR_DOUBLE || kind == ARCH_EXPR_FLOAT;
}

static bool is_leaf(const struct arch_expr_node *n)
{
	return n->kind <= ARCH_EXPR_DURATION;
}

static bool is_binary(const struct arch_expr_node *n)
{
	return n->kind >= ARCH_EXPR_ADD;
}

/* Yields 0 or 1 by a jump. */
static bool is_condition(const struct arch_expr_node *n)
{
	return is_string_test(n->kind) || n->kind == ARCH_EXPR_NOT || n->kind == ARCH_EXPR_IN ||
	       n->kind >= ARCH_EXPR_LT;
}

static bool is_small_constant(const struct arch_expr_node *n)
{
	return n->kind == ARCH_EXPR_CONST && (int64_t)n->value == (int32_t)n->value;
}

uint32_t expr_captures(const struct arch_expr *expr)
{
	uint32_t used = 0;

	for (int i = 0; expr && i < expr->count; i++)
		if (is_capture(expr->nodes[i].kind) || is_string_test(expr->nodes[i].kind))
			used |= UINT32_C(1) << expr->nodes[i].capture;
	return used;
}

bool expr_has(const struct arch_expr *expr, enum arch_expr_kind kind)
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

		if (is_leaf(n) || is_string_test(n->kind))
			continue;
		need[i] = need[n->left];
		if (is_binary(n)) {
			bool waits = n->is_double ? expr->nodes[n->right].kind != ARCH_EXPR_CONST
						  : !is_leaf(&expr->nodes[n->left]) &&
							    !is_leaf(&expr->nodes[n->right]);

			if (need[n->right] + waits > need[i])
				need[i] = need[n->right] + waits;
		}
	}
	return need[expr->count - 1];
}

bool expr_is_possible(const struct stub_plan *plan, const struct arch_expr *expr)
{
	if (!expr)
		return true;
	if (!expr->count || expr->count > ARCH_EXPR_NODES_MAX)
		return false;
	for (int i = 0; i < expr->count; i++) {
		const struct arch_expr_node *n = &expr->nodes[i];
		bool string = is_string_test(n->kind);

		if (string || is_capture(n->kind)) {
			if (n->capture >= plan->stub->capture_count ||
				plan->stub->captures[n->capture].is_string != string ||
				arch_capture_has_bytes(&plan->stub->captures[n->capture]) != string)
				return false;
		} else if (!is_leaf(n) && (n->left >= i || (is_binary(n) && n->right >= i))) {
			return false;
		}
	}
	return true;
}

/* ---- Values -------------------------------------------------------------------- */

/* Extends the low 32 bits of %rax according to a type. */
static void extend(struct context *c, const struct arch_expr_node *type)
{
	if (type->wide)
		return;
	if (type->is_signed)
		emit_reg(c->e, true, OP_MOVSX32, RAX, RAX);
	else
		emit_reg(c->e, false, OP_MOV_LOAD, RAX, RAX);
}

/* ---- Floating-point values, without the processor's unit for them ------------------ */

/*
 * %rax = the double of the float in %eax; changes %rcx and %rdx. A float has 8 bits of exponent,
 * with a bias of 127, and 23 behind them; a double 11, 1023 and 52.
 */
static void emit_widen(struct emit *e)
{
	int is_small = emit_label(e), is_large = emit_label(e), done = emit_label(e);

	emit_reg(e, false, OP_MOV_LOAD, RDX, RAX);
	emit_shift(e, false, false, RDX, 31); /* the sign */
	emit_shift(e, true, true, RDX, 63);
	emit_imm(e, false, IMM_AND, RAX, 0x7fffffff);
	emit_imm(e, false, IMM_CMP, RAX, 0x800000);
	emit_jump_label(e, CC_B, is_small);
	emit_imm(e, false, IMM_CMP, RAX, 0x7f800000);
	emit_jump_label(e, CC_AE, is_large);
	emit_shift(e, true, true, RAX, 52 - 23);
	emit_const(e, RCX, UINT64_C(896) << 52 /* 1023 - 127 */);
	emit_reg(e, true, OP_ADD, RAX, RCX);
	emit_jump_label(e, -1, done);

	emit_place(e, is_large); /* infinite, or no number */
	emit_shift(e, true, true, RAX, 52 - 23);
	emit_const(e, RCX, UINT64_C(1792) << 52 /* 2047 - 255 */);
	emit_reg(e, true, OP_ADD, RAX, RCX);
	emit_jump_label(e, -1, done);

	emit_place(e, is_small); /* 0, or %rax * 2^-149: its first bit is implied in a double */
	emit_reg(e, false, OP_TEST, RAX, RAX);
	emit_jump_label(e, CC_E, done);
	emit_push(e, RDX);
	emit_reg(e, true, OP_BSR, RDX, RAX);
	emit_const(e, RCX, 52);
	emit_reg(e, true, OP_SUB, RCX, RDX);
	emit_shift_cl(e, true, SHIFT_LEFT, RAX);
	emit_imm(e, false, IMM_ADD, RDX, 1023 - 149 - 1); /* the first bit adds the 1 */
	emit_shift(e, true, true, RDX, 52);
	emit_reg(e, true, OP_ADD, RAX, RDX);
	emit_pop(e, RDX);
	emit_place(e, done);
	emit_reg(e, true, OP_OR, RAX, RDX);
}

/* -0 becomes 0: it is not less than 0. */
static void emit_positive_zero(struct emit *e)
{
	int done = emit_label(e);

	emit_reg(e, true, OP_MOV_LOAD, RDX, RAX);
	emit_shift(e, true, true, RDX, 1);
	emit_reg(e, true, OP_TEST, RDX, RDX);
	emit_jump_label(e, CC_NE, done);
	emit_const(e, RAX, 0);
	emit_place(e, done);
}

void emit_order_of_double(struct emit *e)
{
	int negative = emit_label(e), done = emit_label(e);

	emit_reg(e, true, OP_MOV_LOAD, RDX, RCX);
	emit_reg(e, true, OP_TEST, RDX, RDX);
	emit_jump_label(e, CC_NS ^ 1, negative);
	emit_flip(e, RDX, 63);
	emit_jump_label(e, -1, done);
	emit_place(e, negative);
	emit_one(e, true, ONE_NOT, RDX);
	emit_place(e, done);
}

static void leaf(struct context *c, const struct arch_expr_node *n)
{
	const struct arch_stub *s = c->plan->stub;

	switch (n->kind) {
	case ARCH_EXPR_CONST:
		emit_const(c->e, RAX, n->value);
		break;
	case ARCH_EXPR_CAPTURE:
		emit_captured(c->e, c->plan, c->frame, n->capture);
		break;
	case ARCH_EXPR_DOUBLE:
	case ARCH_EXPR_FLOAT:
		emit_captured(c->e, c->plan, c->frame, n->capture);
		if (n->kind == ARCH_EXPR_FLOAT)
			emit_widen(c->e);
		emit_positive_zero(c->e);
		break;
	case ARCH_EXPR_TID:
		emit_mem(c->e, true, OP_MOVSX32, RAX,
			s->thread.has_tid ? mem_fs(s->thread.tid_offset)
					  : temp_at(c->plan->tid_temp));
		break;
	case ARCH_EXPR_PID:
		if (s->pid)
			emit_const(c->e, RAX, s->pid);
		else
			emit_mem(c->e, true, OP_MOVSX32, RAX, temp_at(c->plan->pid_temp));
		break;
	case ARCH_EXPR_DURATION:
		emit_mem(c->e, true, OP_MOV_LOAD, RAX, temp_at(c->plan->duration_temp));
		break;
	default:
		emit_cpu_hint(c->e);
		break;
	}
}

/* %rax and %rcx = the operands of a node; a small constant on the right is not loaded. */
static void operands(struct context *c, const struct arch_expr_node *n)
{
	const struct arch_expr_node *left = &c->nodes[n->left], *right = &c->nodes[n->right];

	if (is_leaf(left)) {
		value_of(c, n->right);
		emit_reg(c->e, true, OP_MOV_LOAD, RCX, RAX);
		leaf(c, left);
	} else if (is_leaf(right)) {
		value_of(c, n->left);
		emit_reg(c->e, true, OP_MOV_LOAD, RCX, RAX);
		leaf(c, right);
		emit_reg(c->e, true, OP_XCHG, RAX, RCX);
	} else {
		int temp = c->plan->expr_temp + c->temps++;

		value_of(c, n->left);
		emit_mem(c->e, true, OP_MOV_STORE, RAX, temp_at(temp));
		value_of(c, n->right);
		emit_reg(c->e, true, OP_MOV_LOAD, RCX, RAX);
		emit_mem(c->e, true, OP_MOV_LOAD, RAX, temp_at(temp));
		c->temps--;
	}
}

/* %rax / %rcx or its remainder. Operands that would trap are excluded before. */
static void divide(struct context *c, const struct arch_expr_node *n)
{
	bool remainder = n->kind == ARCH_EXPR_MOD;
	int done = emit_label(c->e), plain = emit_label(c->e);

	emit_reg(c->e, n->wide, OP_TEST, RCX, RCX);
	emit_jump_label(c->e, CC_E, c->bad);
	if (n->is_signed) {
		emit_imm(c->e, n->wide, IMM_CMP, RCX, -1);
		emit_jump_label(c->e, CC_NE, plain);
		if (remainder)
			emit_const(c->e, RAX, 0);
		else
			emit_one(c->e, n->wide, ONE_NEG, RAX);
		emit_jump_label(c->e, -1, done);
		emit_place(c->e, plain);
		emit_bytes(c->e, n->wide ? "\x48\x99" : "\x99", n->wide ? 2 : 1); /* cqo, cdq */
		emit_one(c->e, n->wide, ONE_IDIV, RCX);
	} else {
		emit_reg(c->e, false, OP_XOR, RDX, RDX);
		emit_one(c->e, n->wide, ONE_DIV, RCX);
	}
	if (remainder)
		emit_reg(c->e, n->wide, OP_MOV_LOAD, RAX, RDX);
	emit_place(c->e, done);
}

static void compute(struct context *c, const struct arch_expr_node *n)
{
	/* clang-format off */
	static const struct { enum emit_op op; int digit; } plain[] = {
		[ARCH_EXPR_ADD] = {OP_ADD, IMM_ADD},
		[ARCH_EXPR_SUB] = {OP_SUB, IMM_SUB},
		[ARCH_EXPR_AND] = {OP_AND, IMM_AND},
		[ARCH_EXPR_OR] = {OP_OR, IMM_OR},
		[ARCH_EXPR_XOR] = {OP_XOR, IMM_XOR},
	};
	/* clang-format on */
	const struct arch_expr_node *right = &c->nodes[n->right];

	switch (n->kind) {
	case ARCH_EXPR_ADD:
	case ARCH_EXPR_SUB:
	case ARCH_EXPR_AND:
	case ARCH_EXPR_OR:
	case ARCH_EXPR_XOR:
		if (is_small_constant(right)) {
			value_of(c, n->left);
			emit_imm(c->e, n->wide, plain[n->kind].digit, RAX, (int32_t)right->value);
		} else {
			operands(c, n);
			emit_reg(c->e, n->wide, plain[n->kind].op, RAX, RCX);
		}
		break;
	case ARCH_EXPR_MUL:
		operands(c, n);
		emit_reg(c->e, n->wide, OP_IMUL, RAX, RCX);
		break;
	case ARCH_EXPR_DIV:
	case ARCH_EXPR_MOD:
		operands(c, n);
		divide(c, n);
		break;
	default: /* the processor takes the count modulo the width */
		operands(c, n);
		emit_shift_cl(c->e, n->wide,
			n->kind == ARCH_EXPR_SHL ? SHIFT_LEFT
			: n->is_signed		 ? SHIFT_RIGHT_SIGNED
						 : SHIFT_RIGHT,
			RAX);
		break;
	}
	extend(c, n);
}

static void value_of(struct context *c, int node)
{
	const struct arch_expr_node *n = &c->nodes[node];

	if (is_leaf(n)) {
		leaf(c, n);
	} else if (is_condition(n)) {
		int is_false = emit_label(c->e), done = emit_label(c->e);

		jump_if(c, node, false, is_false);
		emit_const(c->e, RAX, 1);
		emit_jump_label(c->e, -1, done);
		emit_place(c->e, is_false);
		emit_const(c->e, RAX, 0);
		emit_place(c->e, done);
	} else if (is_binary(n)) {
		compute(c, n);
	} else {
		value_of(c, n->left);
		if (n->kind != ARCH_EXPR_CONVERT)
			emit_one(c->e, n->wide, n->kind == ARCH_EXPR_NEGATE ? ONE_NEG : ONE_NOT,
				RAX);
		extend(c, n);
	}
}

/* ---- Conditions ------------------------------------------------------------------ */

/* Jumps to `differ` unless the `length` bytes at %rax equal a literal. */
static void compare_bytes(struct context *c, const char *text, size_t length, int differ)
{
	size_t at = 0;

	for (; length - at >= 8; at += 8) {
		uint64_t word = 0;

		for (int k = 7; k >= 0; k--)
			word = word << 8 | (uint8_t)text[at + k];
		emit_const(c->e, RCX, word);
		emit_mem(c->e, true, OP_CMP, RCX, mem_at(RAX, (int32_t)at));
		emit_jump_label(c->e, CC_NE, differ);
	}
	for (; at < length; at++) {
		emit_cmp_byte(c->e, mem_at(RAX, (int32_t)at), text[at]);
		emit_jump_label(c->e, CC_NE, differ);
	}
}

static void string_test(struct context *c, const struct arch_expr_node *n, bool when, int label)
{
	int pair = c->plan->temp[n->capture], end = emit_label(c->e);
	int differ = when ? end : label;

	emit_mem(c->e, false, OP_MOV_LOAD, RAX, temp_at(pair + 1));
	/* A truncated string has more bits than its length, and is no other. */
	if (n->kind == ARCH_EXPR_STRING_BEGINS)
		emit_imm(c->e, false, IMM_AND, RAX, RING_STRING_LENGTH);
	emit_imm(c->e, false, IMM_CMP, RAX, n->text_length);
	emit_jump_label(c->e, n->kind == ARCH_EXPR_STRING_IS ? CC_NE : CC_B, differ);
	emit_mem(c->e, true, OP_MOV_LOAD, RAX, temp_at(pair));
	compare_bytes(c, n->text, n->text_length, differ);
	if (when)
		emit_jump_label(c->e, -1, label);
	emit_place(c->e, end);
}

/* Jumps if the operand is, or is not, one of the numbers. */
static void list_test(struct context *c, const struct arch_expr_node *n, bool when, int label)
{
	int end = emit_label(c->e), found = when ? label : end;

	value_of(c, n->left);
	for (int i = 0; i < n->list_count; i++) {
		int64_t number = (int64_t)n->list[i];

		if (!n->wide || number == (int32_t)number) {
			emit_imm(c->e, n->wide, IMM_CMP, RAX, (int32_t)number);
		} else {
			emit_const(c->e, RCX, n->list[i]);
			emit_reg(c->e, true, OP_CMP, RAX, RCX);
		}
		emit_jump_label(c->e, CC_E, found);
	}
	if (!when)
		emit_jump_label(c->e, -1, label);
	emit_place(c->e, end);
}

/* The condition code of a comparison. */
static int condition(const struct arch_expr_node *n)
{
	switch (n->kind) {
	case ARCH_EXPR_LT:
		return n->is_signed ? CC_L : CC_B;
	case ARCH_EXPR_LE:
		return n->is_signed ? CC_LE : CC_BE;
	case ARCH_EXPR_GT:
		return n->is_signed ? CC_G : CC_A;
	case ARCH_EXPR_GE:
		return n->is_signed ? CC_GE : CC_AE;
	case ARCH_EXPR_EQ:
		return CC_E;
	default:
		return CC_NE;
	}
}

/* %rdx = a number with the order of a node's value, a double; jumps to `unordered` if it is NaN. */
static void order_of(struct context *c, int node, int unordered)
{
	value_of(c, node);
	emit_reg(c->e, true, OP_MOV_LOAD, RCX, RAX);
	emit_shift(c->e, true, true, RCX, 1); /* without its sign */
	emit_const(c->e, RDX, UINT64_C(0x7ff) << 53 /* infinity */);
	emit_reg(c->e, true, OP_CMP, RCX, RDX);
	emit_jump_label(c->e, CC_A, unordered);
	emit_reg(c->e, true, OP_MOV_LOAD, RCX, RAX);
	emit_order_of_double(c->e);
}

static void double_comparison(
	struct context *c, const struct arch_expr_node *n, bool when, int label)
{
	const struct arch_expr_node *right = &c->nodes[n->right];
	int end = emit_label(c->e), temp = c->plan->expr_temp + c->temps;
	int unordered = (n->kind == ARCH_EXPR_NE) == when ? label : end;

	order_of(c, n->left, unordered);
	if (right->kind == ARCH_EXPR_CONST) {
		emit_const(c->e, RCX, cell_order_of(right->value));
		emit_reg(c->e, true, OP_CMP, RDX, RCX);
	} else {
		emit_mem(c->e, true, OP_MOV_STORE, RDX, temp_at(temp));
		order_of(c, n->right, unordered);
		emit_mem(c->e, true, OP_MOV_LOAD, RAX, temp_at(temp));
		emit_reg(c->e, true, OP_CMP, RAX, RDX);
	}
	emit_jump_label(c->e, when ? condition(n) : condition(n) ^ 1, label);
	emit_place(c->e, end);
}

static void comparison(struct context *c, const struct arch_expr_node *n, bool when, int label)
{
	const struct arch_expr_node *right = &c->nodes[n->right];

	if (n->is_double) {
		double_comparison(c, n, when, label);
		return;
	}
	if (is_small_constant(right)) {
		value_of(c, n->left);
		emit_imm(c->e, n->wide, IMM_CMP, RAX, (int32_t)right->value);
	} else {
		operands(c, n);
		emit_reg(c->e, n->wide, OP_CMP, RAX, RCX);
	}
	emit_jump_label(c->e, condition(n) ^ !when, label);
}

/* Jumps to `label` if the node's truth value equals `when`. */
static void jump_if(struct context *c, int node, bool when, int label)
{
	const struct arch_expr_node *n = &c->nodes[node];
	bool decided = n->kind == ARCH_EXPR_EITHER; /* what decides alone */

	if (is_string_test(n->kind)) {
		string_test(c, n, when, label);
	} else if (n->kind == ARCH_EXPR_IN) {
		list_test(c, n, when, label);
	} else if (n->kind == ARCH_EXPR_NOT) {
		jump_if(c, n->left, !when, label);
	} else if (n->kind == ARCH_EXPR_BOTH || n->kind == ARCH_EXPR_EITHER) {
		int end = emit_label(c->e);

		jump_if(c, n->left, decided, when == decided ? label : end);
		jump_if(c, n->right, when, label);
		emit_place(c->e, end);
	} else if (is_condition(n)) {
		comparison(c, n, when, label);
	} else {
		value_of(c, node);
		emit_reg(c->e, true, OP_TEST, RAX, RAX);
		emit_jump_label(c->e, when ? CC_NE : CC_E, label);
	}
}

/* ---- Whole expressions ------------------------------------------------------------- */

/* If a capture cannot be read, the expression cannot be computed. */
static void need_captures(struct context *c, const struct arch_expr *expr)
{
	const struct stub_plan *p = c->plan;
	uint32_t used = expr_captures(expr), checked = 0;

	for (int i = 0; i < p->stub->capture_count; i++) {
		const struct arch_capture *capture = &p->stub->captures[i];

		if (!(used >> i & 1))
			continue;
		if (capture->is_string || capture->begun) {
			if (capture->is_string) {
				emit_mem(c->e, false, OP_MOV_LOAD, RAX, temp_at(p->temp[i] + 1));
			} else {
				emit_mem(c->e, true, OP_MOV_LOAD, RAX, temp_at(p->kept_temp));
				emit_mem(
					c->e, false, OP_MOV_LOAD, RAX, mem_at(RAX, capture->begun));
			}
			emit_shift(c->e, false, false, RAX, RING_STRING_NULL_BIT);
			emit_jump_label(c->e, CC_NE, c->bad);
		}
		if (x86_64_capture_checked(capture))
			checked |= UINT32_C(1) << i;
	}
	if (!checked)
		return;
	emit_mem(c->e, false, OP_MOV_LOAD, RAX, temp_at(p->mask_temp));
	emit_one(c->e, false, ONE_NOT, RAX);
	emit_imm(c->e, false, IMM_AND, RAX, (int32_t)checked);
	emit_jump_label(c->e, CC_NE, c->bad);
}

void emit_expr(struct emit *e, const struct stub_plan *plan, const struct frame *frame,
	const struct arch_expr *expr, int bad)
{
	struct context c = {e, plan, frame, expr->nodes, 0, bad};

	need_captures(&c, expr);
	value_of(&c, expr->count - 1);
}

void emit_filter(struct emit *e, const struct stub_plan *plan, const struct frame *frame,
	const struct arch_expr *expr, int reject)
{
	struct context c = {e, plan, frame, expr->nodes, 0, reject};

	need_captures(&c, expr);
	jump_if(&c, expr->count - 1, false, reject);
}
