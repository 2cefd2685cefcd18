/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/value.h"

bool value_add_number(struct buffer *out, const struct probe_value *value)
{
	if (value->kind == PROBE_VALUE_SIGNED)
		buffer_signed(out, value->i);
	else if (value->kind == PROBE_VALUE_UNSIGNED)
		buffer_unsigned(out, value->u);
	else if (value->kind == PROBE_VALUE_FLOAT)
		buffer_float(out, value->f);
	else
		return false;
	return true;
}

size_t value_stack_line(const struct probe_value *stack, size_t start)
{
	const char *text = stack->bytes + start;
	const char *end = start < stack->length ? memchr(text, '\n', stack->length - start) : text;

	return end ? (size_t)(end - text) : stack->length - start;
}

void value_add_stack(struct buffer *out, const struct probe_value *stack)
{
	for (size_t at = 0, length; at < stack->length; at += length + 1) {
		length = value_stack_line(stack, at);
		buffer_string(out, at ? " < " : "");
		buffer_c_escaped(out, stack->bytes + at, length, 0);
	}
}

void value_add_text(struct buffer *out, const struct probe_value *value)
{
	if (value->kind == PROBE_VALUE_NULL) {
		buffer_string(out, "null");
	} else if (value->kind == PROBE_VALUE_UNSIGNED && value->u > UINT32_MAX) {
		buffer_hex(out, value->u);
	} else if (value->kind == PROBE_VALUE_BYTES) {
		buffer_char(out, '{');
		buffer_hex_bytes(out, value->bytes, value->length);
		buffer_string(out, value->truncated ? "...}" : "}");
	} else if (value->kind == PROBE_VALUE_STACK) {
		value_add_stack(out, value);
	} else if (value->kind == PROBE_VALUE_OTHER) {
		buffer_bytes(out, value->bytes, value->length);
	} else if (!value_add_number(out, value)) {
		buffer_char(out, '"');
		buffer_c_escaped(out, value->bytes, value->length, '"');
		buffer_string(out, value->truncated ? "\"..." : "\"");
	}
}

bool value_number(const struct probe_value *value, double *ret)
{
	if (value->kind != PROBE_VALUE_SIGNED && value->kind != PROBE_VALUE_UNSIGNED &&
		value->kind != PROBE_VALUE_FLOAT)
		return false;
	*ret = value->kind == PROBE_VALUE_SIGNED     ? (double)value->i
	       : value->kind == PROBE_VALUE_UNSIGNED ? (double)value->u
						     : value->f;
	return true;
}

static int rank(const struct probe_value *value)
{
	if (value->kind == PROBE_VALUE_NULL)
		return 0;
	if (value->kind == PROBE_VALUE_OTHER)
		return 3;
	return value_has_bytes(value) ? 2 : 1;
}

static bool is_negative(const struct probe_value *value)
{
	return value->kind == PROBE_VALUE_SIGNED && value->i < 0;
}

static int compare_numbers(const struct probe_value *a, const struct probe_value *b)
{
	double left = 0, right = 0;

	if (a->kind != PROBE_VALUE_FLOAT && b->kind != PROBE_VALUE_FLOAT) {
		if (is_negative(a) != is_negative(b))
			return is_negative(a) ? -1 : 1;
		/* Numbers of the same sign in two's complement sort like unsigned numbers. */
		return ORDER(a->u, b->u);
	}
	value_number(a, &left);
	value_number(b, &right);
	if (isnan(left) || isnan(right))
		return (isnan(left) != 0) - (isnan(right) != 0);
	return ORDER(left, right);
}

static int compare_bytes(const struct probe_value *a, const struct probe_value *b)
{
	size_t shorter = a->length < b->length ? a->length : b->length;

	return (shorter ? memcmp(a->bytes, b->bytes, shorter) : 0) ?: ORDER(a->length, b->length)
		?: a->truncated - b->truncated;
}

int value_compare(const struct probe_value *a, const struct probe_value *b)
{
	int order = rank(a) - rank(b);

	if (order || rank(a) == 0)
		return order;
	return value_has_bytes(a) ? compare_bytes(a, b) : compare_numbers(a, b);
}

struct map_part value_part(const struct probe_value *value)
{
	if (value_has_bytes(value))
		return (struct map_part){value->bytes, value->length};
	return (struct map_part){&value->u, sizeof(value->u)};
}

uint64_t value_class(const struct probe_value *value)
{
	enum { NUMBER, NEGATIVE, FLOATING, BYTES, TRUNCATED };

	if (value_has_bytes(value))
		return value->truncated ? TRUNCATED : BYTES;
	if (value->kind == PROBE_VALUE_FLOAT && value->u)
		return FLOATING;
	return is_negative(value) ? NEGATIVE : NUMBER;
}
