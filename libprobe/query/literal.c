/* SPDX-License-Identifier: MIT */
/* Constants and texts in C's syntax (C11, 6.4.4.1, 6.4.4.4 and 6.4.5). */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/buffer.h"
#include "libprobe/query/query.h"

static struct probe_error *mistake(const struct expr *expr, const char *at, const char *why)
{
	return expr_error(expr, PROBE_ERROR_USAGE, at, "%s", why);
}

/* ---- Integers -------------------------------------------------------------------------- */

/* Returns the value of a digit up to f; 16 for other characters. */
static unsigned int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned int)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned int)(c - 'a') + 10;
	if (c >= 'A' && c <= 'F')
		return (unsigned int)(c - 'A') + 10;
	return 16;
}

struct suffix {
	bool is_unsigned, is_long;
};

/* Parses u, l, ll, ul, ull, lu or llu, also in upper case. "lL" is invalid. */
static struct suffix take_suffix(const char **at)
{
	struct suffix suffix = {0};

	for (;; (*at)++) {
		char c = **at;

		if ((c == 'u' || c == 'U') && !suffix.is_unsigned) {
			suffix.is_unsigned = true;
		} else if ((c == 'l' || c == 'L') && !suffix.is_long) {
			suffix.is_long = true;
			if ((*at)[1] == c)
				(*at)++;
		} else {
			return suffix;
		}
	}
}

/* Parses a unit of time. Returns its nanoseconds, or 0 if no unit follows. */
static uint64_t take_unit(const char **at, unsigned int base)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};

	for (size_t i = 0; base == 10 && i < sizeof(units) / sizeof(units[0]); i++) {
		size_t length = strlen(units[i].name);
		char next = strncmp(*at, units[i].name, length) == 0 ? (*at)[length] : '_';

		if (isalnum((unsigned char)next) || next == '_')
			continue;
		*at += length;
		return units[i].ns;
	}
	return 0;
}

static struct probe_error *parse_floating(
	const struct expr *expr, const char **at, struct expr_node *node)
{
	locale_t users = buffer_use_point();
	char *end = NULL;
	double value = strtod(*at, &end);

	uselocale(users);
	if (isinf(value))
		return mistake(expr, *at, "the number does not fit a double");
	if (isalnum((unsigned char)*end) || *end == '_' || *end == '.')
		return mistake(expr, end, "expected an operator after the number");
	*at = end;
	node->kind = ARCH_EXPR_CONST;
	node->type = expr_double;
	memcpy(&node->value, &value, sizeof(value));
	return NULL;
}

struct probe_error *expr_integer(const struct expr *expr, const char **at, struct expr_node *node)
{
	const char *start = *at, *digit = start, *point = start;
	struct expr_type *type = &node->type;
	unsigned int base = 10;
	struct suffix suffix = {.is_long = true};
	uint64_t value = 0, unit;
	bool fits = true;

	while (isdigit((unsigned char)*point))
		point++;
	if (*point == '.' || *point == 'e' || *point == 'E')
		return parse_floating(expr, at, node);
	if (digit[0] == '0' && (digit[1] == 'x' || digit[1] == 'X')) {
		base = 16;
		digit += 2;
		if (digit_value(*digit) >= base)
			return mistake(expr, digit, "expected a hexadecimal digit");
	} else if (digit[0] == '0' && isdigit((unsigned char)digit[1])) {
		base = 8;
	}
	for (; digit_value(*digit) < base; digit++)
		fits = fits && !__builtin_mul_overflow(value, base, &value) &&
		       !__builtin_add_overflow(value, digit_value(*digit), &value);
	if (base == 8 && isdigit((unsigned char)*digit))
		return mistake(
			expr, digit, "expected octal digits, since the number begins with 0");
	*at = digit;
	unit = take_unit(at, base);
	if (unit)
		fits = fits && !__builtin_mul_overflow(value, unit, &value);
	else
		suffix = take_suffix(at);
	/* Find the first of C's types that holds it; decimals without a suffix are never unsigned.
	 */
	type->wide = suffix.is_long || value > UINT32_MAX;
	if (!type->wide && !suffix.is_unsigned && base == 10)
		type->wide = value > INT32_MAX;
	type->is_signed = !suffix.is_unsigned && value <= (type->wide ? INT64_MAX : INT32_MAX);
	if (fits && base == 10 && !type->is_signed && !suffix.is_unsigned)
		return mistake(expr, start, "the number does not fit 63 bits; add the suffix u");
	if (!fits)
		return mistake(expr, start, "the number does not fit 64 bits");
	if (isalnum((unsigned char)**at) || **at == '_')
		return mistake(expr, *at, "expected an operator after the number");
	node->kind = ARCH_EXPR_CONST;
	node->value = value;
	return NULL;
}

/* ---- Characters and texts -------------------------------------------------------------- */

/* Parses an escape sequence; *at points to its backslash. */
static struct probe_error *take_escape(const struct expr *expr, const char **at, unsigned int *ret)
{
	static const char names[] = "abfnrtv'\"?\\", values[] = "\a\b\f\n\r\t\v'\"?\\";
	const char *start = *at, *digit = start + 1, *found = *digit ? strchr(names, *digit) : NULL;
	unsigned int base = 8, length = 0;

	if (found) {
		*ret = (unsigned char)values[found - names];
		*at = digit + 1;
		return NULL;
	}
	if (*digit == 'x') {
		base = 16;
		digit++;
	}
	/* Read up to three octal digits, or any number of hexadecimal digits. */
	for (*ret = 0; digit_value(*digit) < base && (base == 16 || length < 3); length++) {
		*ret = *ret * base + digit_value(*digit++);
		if (*ret > 0xff)
			return mistake(expr, start, "the escape is more than a byte");
	}
	if (!length)
		return mistake(
			expr, start, "expected an escape of C: \\n, \\t, \\\", \\x41, \\101 ...");
	*at = digit;
	return NULL;
}

static struct probe_error *take_byte(const struct expr *expr, const char **at, unsigned int *ret)
{
	if (**at == '\\')
		return take_escape(expr, at, ret);
	*ret = (unsigned char)*(*at)++;
	return NULL;
}

struct probe_error *expr_character(const struct expr *expr, const char **at, struct expr_node *node)
{
	const char *start = *at;
	struct probe_error *error;
	unsigned int byte;

	++*at;
	if (**at == '\'' || !**at)
		return mistake(expr, *at, "expected a character");
	error = take_byte(expr, at, &byte);
	if (error)
		return error;
	if (**at != '\'')
		return mistake(expr, *at, "expected ' after one character");
	++*at;
	*node = (struct expr_node){.kind = ARCH_EXPR_CONST,
		.type = {.wide = false, .is_signed = true},
		.value = (uint64_t)(int64_t)(int8_t)byte, /* char is signed on x86 */
		.at = start};
	return NULL;
}

struct probe_error *expr_text(struct expr *expr, const char **at, struct expr_node *node)
{
	char *to = expr->literals + expr->literals_length;
	const char *start = (*at)++;
	struct probe_error *error;
	unsigned int byte;

	node->text = to;
	while (**at != '"') {
		const char *from = *at;

		if (!*from)
			return mistake(expr, start, "the text has no closing quote");
		error = take_byte(expr, at, &byte);
		if (error)
			return error;
		if (!byte)
			return mistake(expr, from, "a C string cannot contain NUL");
		if (to - node->text == ARCH_EXPR_TEXT_MAX)
			return mistake(expr, from, "texts have at most 255 bytes");
		*to++ = (char)byte;
	}
	++*at;
	node->text_length = (uint8_t)(to - node->text);
	expr->literals_length += node->text_length;
	return NULL;
}
