/* SPDX-License-Identifier: MIT */
/*
 * Binds an expression to a site. The types of the site's arguments are now known, which decides the
 * type of each operator. Values are kept in 64 bits, extended by their type. A conversion node is
 * added where a C conversion would change these bits.
 *
 * Only int to unsigned int does, because it clears the upper half. A conversion to 64 bits is free
 * (arch/expr.h), no operator converts from 64 bits to fewer, and constants are converted at once.
 * Operands precede their operator, each followed by its conversion.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/query/query.h"

enum { POINTER_BYTES = 8 }; /* size of a pointer in every supported target */

struct binding {
	const struct expr *expr;
	struct record_layout *layout;
	const struct record_layout_site *site;
	/* One element for each node of the expression: */
	/* type in which the operation is computed */
	struct expr_type operation[ARCH_EXPR_NODES_MAX];
	/* Type to which the node's value is converted for its operator. */
	struct expr_type wanted[ARCH_EXPR_NODES_MAX];
	/* index of the bound node with the node's value */
	uint8_t place[ARCH_EXPR_NODES_MAX];
	/* depth[i] is how deeply operators are nested in bound node i. */
	struct arch_expr_node *nodes;
	uint8_t depth[ARCH_EXPR_NODES_MAX];
	uint8_t count;
};

static struct expr_type result_of(const struct binding *b, uint8_t index)
{
	return expr_result_type(b->expr->nodes[index].kind, b->operation[index]);
}

/* Returns true for one of < <= > >= == !=. */
static bool expr_compares(enum arch_expr_kind kind)
{
	return kind >= ARCH_EXPR_LT && kind <= ARCH_EXPR_NE;
}

/* Converts a constant to the bits of a double. -0 becomes 0. */
static uint64_t expr_double_of(struct expr_type type, uint64_t value)
{
	double number;
	uint64_t bits;

	if (type.is_double)
		memcpy(&number, &value, sizeof(number));
	else
		number = type.is_signed ? (double)(int64_t)value : (double)value;
	number = number == 0 ? 0 : number;
	memcpy(&bits, &number, sizeof(bits));
	return bits;
}

/* ---- Arguments ------------------------------------------------------------------------- */

static bool is_scalar(const struct arch_arg *spec)
{
	return spec->size == 1 || spec->size == 2 || spec->size == 4 || spec->size == 8;
}

/* Returns true if a node is an argument of type double or float. A float is converted to double. */
static bool is_double(const struct binding *b, const struct expr_node *node)
{
	const struct arch_arg *spec = &b->site->specs[node->arg];

	/* Start events keep only integers and strings. */
	return node->kind == ARCH_EXPR_CAPTURE && !node->is_string && !node->of_begin &&
	       !node->step_count && spec->is_float && (spec->size == 4 || spec->size == 8);
}

/* Returns an integer's type after promotion: types smaller than int become int. */
static struct expr_type promoted(uint32_t size, bool is_signed)
{
	return (struct expr_type){.wide = size == 8, .is_signed = is_signed || size < 4};
}

static struct expr_type type_of(const struct binding *b, const struct expr_node *node)
{
	const struct arch_arg spec = operand_cast(&b->site->specs[node->arg], node->cast);
	const struct arch_step *last;

	if (is_double(b, node))
		return expr_double;
	if (!node->step_count)
		return promoted(spec.size, spec.is_signed);
	last = &node->steps[node->step_count - 1];
	return promoted(last->size, last->is_signed);
}

static struct probe_error *check_there(
	const struct binding *b, const struct expr_node *node, uint8_t arg)
{
	char list[ARGUMENT_TEXT];

	if (arg < b->site->count)
		return NULL;
	argument_list(b->site->specs, b->site->count, list);
	return expr_error(b->expr, PROBE_ERROR_USAGE, node->at,
		"there is no arg%u, the probe has %s", arg, list);
}

/* Returns an error if the argument that should be the index is no integer at this site. */
static struct probe_error *check_index(const struct binding *b, const struct expr_node *node)
{
	struct probe_error *error = check_there(b, node, node->index);
	const struct arch_arg *spec = &b->site->specs[node->index];

	if (error || (spec->kind != ARCH_ARG_UNKNOWN && spec->kind != ARCH_ARG_FP_REGISTER &&
			     !spec->is_float && is_scalar(spec)))
		return error;
	return expr_error(b->expr, PROBE_ERROR_USAGE, node->at,
		"arg%u is not an index: it is declared as '%.*s'", node->index,
		(int)spec->spec_length, spec->spec);
}

/* Returns an error if the site's argument is not what the node needs. */
static struct probe_error *check_arg(const struct binding *b, const struct expr_node *node)
{
	const struct arch_arg *spec = &b->site->specs[node->arg];
	bool is_pointer = node->is_string || node->kind != ARCH_EXPR_CAPTURE || node->step_count;
	struct probe_error *error = check_there(b, node, node->arg);

	if (!error && node->has_length)
		error = check_there(b, node, node->length);
	if (!error && node->has_index)
		error = check_index(b, node);
	if (error)
		return error;
	if (spec->kind == ARCH_ARG_UNKNOWN)
		return expr_error(b->expr, PROBE_ERROR_UNSUPPORTED, node->at,
			"arg%u cannot be read: '%.*s' is not understood", node->arg,
			(int)spec->spec_length, spec->spec);
	if (is_double(b, node) && !node->cast)
		return NULL;
	if ((uint32_t)abs(node->cast) > spec->size && !spec->is_float)
		return expr_error(b->expr, PROBE_ERROR_USAGE, node->at,
			"arg%u has only %u bytes: it is declared as '%.*s'", node->arg, spec->size,
			(int)spec->spec_length, spec->spec);
	if (spec->is_float || !is_scalar(spec) ||
		(is_pointer && (spec->kind == ARCH_ARG_FP_REGISTER || spec->size < POINTER_BYTES)))
		return expr_error(b->expr, PROBE_ERROR_USAGE, node->at,
			"arg%u is not %s: it is declared as '%.*s'", node->arg,
			node->step_count ? "a pointer"
			: is_pointer	 ? "a string"
					 : "an integer",
			(int)spec->spec_length, spec->spec);
	return NULL;
}

/*
 * Returns how many bytes of a string to capture: one more than the longest text that the expression
 * compares with it, so that a longer string differs. One capture serves all nodes.
 */
static uint16_t string_bytes(const struct expr *expr, const struct expr_node *string)
{
	struct capture wanted = expr_operand(string);
	unsigned int longest = 0;

	for (size_t i = 0; i < expr->count; i++) {
		const struct expr_node *node = &expr->nodes[i];
		struct capture its = expr_operand(node);

		if (node->text && capture_is(&its, &wanted) && node->text_length > longest)
			longest = node->text_length;
	}
	return (uint16_t)(longest + 1);
}

static struct probe_error *capture(struct binding *b, const struct expr_node *node, uint8_t *ret)
{
	const struct arch_arg *specs = b->site->specs, *spec = &specs[node->arg];
	struct capture wanted = expr_operand(node);
	struct probe_error *error;
	int index;

	if (node->of_begin) {
		/* The start event has kept it, as expr_ask_begin() has decided. */
		index = record_layout_capture_begun(
			b->layout, b->site, &wanted, node->text ? string_bytes(b->expr, node) : 0);
		if (index < 0)
			return expr_error(b->expr, PROBE_ERROR_USAGE, node->at,
				"the probe's arguments and the expressions together are more than "
				"%d",
				ARCH_ARGS_MAX);
		*ret = (uint8_t)index;
		return NULL;
	}
	error = check_arg(b, node);
	if (error)
		return error;
	index = record_layout_capture(
		b->layout, b->site, &wanted, wanted.is_string ? string_bytes(b->expr, node) : 0);
	if (index < 0 && node->has_length)
		return expr_error(b->expr, PROBE_ERROR_UNSUPPORTED, node->at,
			"arg%u cannot be captured: '%.*s', of as many bytes as '%.*s'", node->arg,
			(int)spec->spec_length, spec->spec, (int)specs[node->length].spec_length,
			specs[node->length].spec);
	if (index < 0)
		return expr_error(b->expr, PROBE_ERROR_UNSUPPORTED, node->at,
			"arg%u cannot be captured: '%.*s'", node->arg, (int)spec->spec_length,
			spec->spec);
	*ret = (uint8_t)index;
	return NULL;
}

/* ---- Types ----------------------------------------------------------------------------- */

static bool is_unary(enum arch_expr_kind kind)
{
	return kind >= ARCH_EXPR_NEGATE && kind < ARCH_EXPR_ADD;
}

/* Returns a kept argument's type: always 64 bits, because start events' sites may differ. */
static struct expr_type kept_type(const struct binding *b, const struct expr_node *node)
{
	struct capture what = expr_operand(node);
	const struct record_layout_kept *kept =
		record_layout_find_kept(b->site->kept, b->site->kept_count, &what, 0);

	return (struct expr_type){.wide = true, .is_signed = !kept || !kept->is_unsigned};
}

/*
 * Returns an error if an operator has a double, unless it compares it with a double or a constant.
 */
static struct probe_error *check_doubles(const struct binding *b, const struct expr_node *node)
{
	const struct expr_node *nodes = b->expr->nodes;
	bool any = result_of(b, node->left).is_double, all = any;

	if (arch_expr_is_binary(node->kind)) {
		bool right = result_of(b, node->right).is_double;

		all = (any || nodes[node->left].kind == ARCH_EXPR_CONST) &&
		      (right || nodes[node->right].kind == ARCH_EXPR_CONST);
		any |= right;
	}
	if (!any || (all && expr_compares(node->kind)))
		return NULL;
	return expr_error(b->expr, PROBE_ERROR_USAGE, node->at,
		"a floating-point number can only be compared, with another one or a constant");
}

/* Decides the types of nodes, operands first. The whole expression's value is not converted. */
static struct probe_error *decide_types(struct binding *b)
{
	for (uint8_t i = 0; i < b->expr->count; i++) {
		const struct expr_node *node = &b->expr->nodes[i];
		struct expr_type type = {.wide = false, .is_signed = true};
		struct probe_error *error;

		if (node->kind == ARCH_EXPR_CONST) {
			type = node->type;
		} else if (node->kind == ARCH_EXPR_DURATION) {
			type.wide = true;
		} else if (node->kind == ARCH_EXPR_CAPTURE && node->of_begin) {
			type = kept_type(b, node);
		} else if (node->kind == ARCH_EXPR_CAPTURE) {
			error = check_arg(b, node);
			if (error)
				return error;
			type = type_of(b, node);
		} else if (node->kind == ARCH_EXPR_IN) {
			type = expr_operator_type(node->kind, result_of(b, node->left), node->type);
			b->wanted[node->left] = type;
		} else if (is_unary(node->kind)) {
			type = result_of(b, node->left);
		} else if (arch_expr_is_binary(node->kind)) {
			type = expr_operator_type(
				node->kind, result_of(b, node->left), result_of(b, node->right));
			if (expr_converts(node->kind)) {
				b->wanted[node->left] = type;
				b->wanted[node->right] = type;
			}
		}
		error = is_unary(node->kind) || arch_expr_is_binary(node->kind)
				? check_doubles(b, node)
				: NULL;
		if (error)
			return error;
		b->operation[i] = type;
		b->wanted[i] = result_of(b, i);
	}
	return NULL;
}

/* ---- Nodes ----------------------------------------------------------------------------- */

static struct probe_error *add(struct binding *b, const struct arch_expr_node *node, const char *at)
{
	uint8_t depth = 0;

	if (b->count == ARCH_EXPR_NODES_MAX)
		return expr_error(b->expr, PROBE_ERROR_USAGE, at,
			"there are more than 64 operators, operands and conversions");
	if (is_unary(node->kind) || arch_expr_is_binary(node->kind))
		depth = b->depth[node->left] + 1;
	if (arch_expr_is_binary(node->kind) && depth <= b->depth[node->right])
		depth = b->depth[node->right] + 1;
	if (depth > ARCH_EXPR_DEPTH_MAX)
		return expr_error(b->expr, PROBE_ERROR_USAGE, at,
			"more than 16 operators and conversions are nested");
	b->depth[b->count] = depth;
	b->nodes[b->count++] = *node;
	return NULL;
}

static struct probe_error *add_conversion(struct binding *b, struct expr_type type, const char *at)
{
	return add(b,
		&(struct arch_expr_node){.kind = ARCH_EXPR_CONVERT,
			.wide = type.wide,
			.is_signed = type.is_signed,
			.left = b->count - 1},
		at);
}

/* Returns true if a captured value is not sign-extended, like 4 bytes of a vector register. */
static bool is_raw(const struct binding *b, const struct expr_node *node)
{
	const struct arch_arg *spec = &b->site->specs[node->arg];

	return node->kind == ARCH_EXPR_CAPTURE && !node->of_begin && !node->step_count &&
	       !spec->is_float && spec->kind == ARCH_ARG_FP_REGISTER && spec->size == 4;
}

static enum arch_expr_kind double_kind(const struct arch_arg *spec)
{
	return spec->size == 4 ? ARCH_EXPR_FLOAT : ARCH_EXPR_DOUBLE;
}

/* Adds a bound node and, if its operator needs one, a conversion of the value. */
static struct probe_error *bind_node(struct binding *b, uint8_t index)
{
	const struct expr_node *node = &b->expr->nodes[index];
	struct expr_type from = result_of(b, index), to = b->wanted[index];
	struct arch_expr_node bound = {
		.kind = is_double(b, node) ? double_kind(&b->site->specs[node->arg]) : node->kind,
		.wide = b->operation[index].wide,
		.is_double = expr_compares(node->kind) && b->operation[index].is_double,
		.is_signed = b->operation[index].is_signed,
		.text = node->text,
		.text_length = node->text_length,
		.list = node->list,
		.list_count = node->list_count};
	struct probe_error *error;

	if (node->kind == ARCH_EXPR_CONST) {
		bound.value = to.is_double ? expr_double_of(from, node->value)
					   : expr_convert(to, node->value);
		bound.wide = to.wide;
		bound.is_signed = to.is_signed;
	}
	if (node->kind == ARCH_EXPR_CAPTURE || node->text) {
		error = capture(b, node, &bound.capture);
		if (error)
			return error;
	}
	if (is_unary(node->kind) || arch_expr_is_binary(node->kind))
		bound.left = b->place[node->left];
	if (arch_expr_is_binary(node->kind))
		bound.right = b->place[node->right];
	if (is_raw(b, node)) {
		bound.wide = true;
		bound.is_signed = false;
	}
	error = add(b, &bound, node->at);
	if (!error && is_raw(b, node))
		error = add_conversion(b, from, node->at);
	if (!error && node->kind != ARCH_EXPR_CONST && !to.wide && from.is_signed != to.is_signed)
		error = add_conversion(b, to, node->at);
	b->place[index] = b->count - 1;
	return error;
}

/* ---- Doubles --------------------------------------------------------------------------- */

bool expr_is_double(const struct expr *expr, const struct record_layout_site *site)
{
	const struct expr_node *node = expr->nodes;
	const struct arch_arg *spec;

	if (expr->count != 1 || node->is_symbol || node->kind != ARCH_EXPR_CAPTURE ||
		node->of_begin || node->step_count || node->arg >= site->count)
		return false;
	spec = &site->specs[node->arg];
	return spec->is_float && (spec->size == 4 || spec->size == 8) &&
	       spec->kind != ARCH_ARG_UNKNOWN;
}

struct probe_error *expr_bind_double(const struct expr *expr, struct record_layout *layout,
	const struct record_layout_site *site, struct arch_expr_node *nodes, uint8_t *count_ret)
{
	const struct expr_node *node = expr->nodes;
	const struct arch_arg *spec = &site->specs[node->arg];
	struct capture wanted = expr_operand(node);
	int index = record_layout_capture(layout, site, &wanted, 0);

	if (index < 0)
		return expr_error(expr, PROBE_ERROR_UNSUPPORTED, node->at,
			"arg%u cannot be captured: '%.*s'", node->arg, (int)spec->spec_length,
			spec->spec);
	nodes[0] = (struct arch_expr_node){
		.kind = double_kind(spec), .wide = true, .capture = (uint8_t)index};
	*count_ret = 1;
	return NULL;
}

/* ---- Binding --------------------------------------------------------------------------- */

/* Appends the nodes of an expression to those that are bound. */
static struct probe_error *bind_more(struct binding *b, const struct expr *expr)
{
	struct probe_error *error;
	struct capture string;

	b->expr = expr;
	if (expr_word(expr))
		return expr_error(expr, PROBE_ERROR_USAGE, expr->text, EXPR_ONLY_KEYS);
	if (expr_is_string(expr, &string))
		return expr_error(expr, PROBE_ERROR_USAGE, expr->text,
			"str(arg%u) is a string, not a number", string.arg);
	error = decide_types(b);
	if (!error && result_of(b, expr->count - 1).is_double)
		error = expr_error(expr, PROBE_ERROR_USAGE, expr->nodes[expr->count - 1].at,
			expr_is_symbol(expr) ? "a floating-point number is no address"
					     : "a floating-point number can only be compared, or "
					       "be a whole key or value");
	for (uint8_t i = 0; i < expr->count && !error; i++) {
		const struct expr_node *node = &expr->nodes[i], *count = &expr->nodes[node->right];
		bool is_shift = node->kind == ARCH_EXPR_SHL || node->kind == ARCH_EXPR_SHR;
		const char *why = NULL;
		uint64_t unused;

		/* A constant shift count may be invalid for the left operand's type. */
		if (is_shift && count->kind == ARCH_EXPR_CONST)
			why = expr_compute(node->kind, b->operation[i], 0, count->value, &unused);
		error = why ? expr_error(expr, PROBE_ERROR_USAGE, count->at, "%s", why)
			    : bind_node(b, i);
	}
	return error;
}

struct probe_error *expr_bind(const struct expr *expr, struct record_layout *layout,
	const struct record_layout_site *site, struct arch_expr_node *nodes, uint8_t *count_ret)
{
	struct binding b = {.layout = layout, .site = site, .nodes = nodes};
	struct probe_error *error = bind_more(&b, expr);

	*count_ret = b.count;
	return error;
}

struct probe_error *expr_bind_both(const struct expr *first, const struct expr *second,
	struct record_layout *layout, const struct record_layout_site *site,
	struct arch_expr_node *nodes, uint8_t *count_ret, uint8_t *first_ret)
{
	struct binding b = {.layout = layout, .site = site, .nodes = nodes};
	struct probe_error *error = bind_more(&b, first);
	struct arch_expr_node both = {.kind = ARCH_EXPR_BOTH, .is_signed = true};

	*first_ret = b.count;
	both.left = b.count - 1;
	error = error ?: bind_more(&b, second);
	both.right = b.count - 1;
	error = error ?: add(&b, &both, second->text);
	*count_ret = b.count;
	return error;
}

struct probe_error *expr_check_string(
	const struct expr *expr, const struct record_layout_site *site)
{
	const struct binding b = {.expr = expr, .site = site};

	return check_arg(&b, &expr->nodes[expr->count - 1]);
}

/* ---- Arguments of the start event -------------------------------------------------------- */

bool expr_ask_begin(const struct expr *expr, uint16_t string_bytes_max,
	struct record_layout_kept *kept, uint8_t *count)
{
	for (uint8_t i = 0; i < expr->count; i++) {
		const struct expr_node *node = &expr->nodes[i];
		uint16_t bytes = node->is_string ? string_bytes_max
				 : node->text	 ? string_bytes(expr, node)
						 : 0;

		struct capture what = expr_operand(node);

		if (!node->of_begin || record_layout_find_kept(kept, *count, &what, bytes))
			continue;
		if (*count == ARCH_KEPT_MAX)
			return false;
		kept[(*count)++] = (struct record_layout_kept){.what = what, .bytes = bytes};
	}
	return true;
}

struct probe_error *expr_check_begin(const struct expr *expr, const struct record_layout_site *site)
{
	struct binding b = {.expr = expr, .site = site};
	struct probe_error *error = NULL;

	for (uint8_t i = 0; i < expr->count && !error; i++)
		if (expr->nodes[i].of_begin)
			error = check_arg(&b, &expr->nodes[i]);
	return error;
}
