/* SPDX-License-Identifier: MIT */
/* What an expression needs of a stub, and whether it can be evaluated there. */
#include "arch/stub/plan.h"

uint32_t expr_captures(const struct arch_expr *expr)
{
	uint32_t used = 0;

	for (int i = 0; expr && i < expr->count; i++)
		if (arch_expr_is_capture(expr->nodes[i].kind) ||
			arch_expr_is_string_test(expr->nodes[i].kind))
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
