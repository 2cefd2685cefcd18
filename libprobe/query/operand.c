/* SPDX-License-Identifier: MIT */
/*
 * Numbers behind pointers, in C's syntax:
 *
 *   OPERAND   argN | ( TYPE ) argN | * ( TYPE * ) ADDRESS
 *   TYPE      u8 | u16 | u32 | u64 | s8 | s16 | s32 | s64
 *   ADDRESS   OPERAND | ( SUM )
 *   SUM       ADDRESS { + DISTANCE | - DISTANCE }
 *   DISTANCE  NUMBER | argN | argN * NUMBER
 *
 * Unlike in C, a distance counts bytes. If a distance contains argN, this argument is the index of
 * an array item. An operand has at most one such index. Each `*` is a step, which reads memory at
 * an address. The leftmost step is taken last.
 */
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/query/query.h"

/* ---- Arguments -------------------------------------------------------------------------- */

const char *argument_parse(const char *text, uint8_t *ret)
{
	unsigned int number = 0;
	const char *digit;

	if (strncmp(text, "arg", 3) != 0)
		return NULL;
	for (digit = text + 3; isdigit((unsigned char)*digit); digit++) {
		if ((number == 0 && digit > text + 3) || number >= ARCH_ARGS_MAX)
			return NULL;
		number = number * 10 + (unsigned int)(*digit - '0');
	}
	if (digit == text + 3 || number >= ARCH_ARGS_MAX || isalnum((unsigned char)*digit) ||
		*digit == '_')
		return NULL;
	*ret = (uint8_t)number;
	return digit;
}

void argument_list(const struct arch_arg *specs, size_t count, char text[ARGUMENT_TEXT])
{
	static const char more[] = " ...";
	size_t at;

	if (!count) {
		snprintf(text, ARGUMENT_TEXT, "no arguments");
		return;
	}
	at = (size_t)snprintf(text, ARGUMENT_TEXT, "%zu argument%s:", count, count == 1 ? "" : "s");
	for (size_t i = 0; i < count; i++) {
		size_t length = specs[i].spec_length;

		if (at + 1 + length + sizeof(more) > ARGUMENT_TEXT) {
			memcpy(text + at, more, sizeof(more));
			return;
		}
		text[at++] = ' ';
		memcpy(text + at, specs[i].spec, length);
		at += length;
		text[at] = '\0';
	}
}

/* ---- Operands --------------------------------------------------------------------------- */

enum {
	NESTING_MAX = 16,
	/* maximum number of pointers; one step is left for an address that is not read */
	POINTERS_MAX = ARCH_STEPS_MAX - 1
};

struct operand_parser {
	const char *at;
	struct capture *ret;
	unsigned int nesting;
};

static const char *parse_operand(struct operand_parser *p);

static bool take(struct operand_parser *p, char c)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
	if (*p->at != c)
		return false;
	p->at++;
	return true;
}

/* Parses u8 to s64. */
static bool take_type(struct operand_parser *p, struct arch_step *ret)
{
	static const struct {
		const char *bits;
		uint8_t size;
	} sizes[] = {{"8", 1}, {"16", 2}, {"32", 4}, {"64", 8}};

	while (isspace((unsigned char)*p->at))
		p->at++;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t length = strlen(sizes[i].bits);
		bool is_signed = *p->at == 's';

		if ((!is_signed && *p->at != 'u') ||
			strncmp(p->at + 1, sizes[i].bits, length) != 0 ||
			isalnum((unsigned char)p->at[1 + length]) || p->at[1 + length] == '_')
			continue;
		*ret = (struct arch_step){.size = sizes[i].size, .is_signed = is_signed};
		p->at += 1 + length;
		return true;
	}
	return false;
}

static const char *take_number(struct operand_parser *p, const char *expected, int32_t *ret)
{
	unsigned long long number;
	char *end;

	while (isspace((unsigned char)*p->at))
		p->at++;
	if (!isdigit((unsigned char)*p->at))
		return expected;
	errno = 0;
	number = strtoull(p->at, &end, 0);
	if (errno || number > INT32_MAX)
		return "the distance does not fit 31 bits";
	if (isalnum((unsigned char)*end) || *end == '_')
		return expected;
	p->at = end;
	*ret = (int32_t)number;
	return NULL;
}

/* Parses an index and, after `*`, an item's size in bytes (default 1). */
static const char *take_index(struct operand_parser *p, int32_t *scale)
{
	struct capture *ret = p->ret;
	uint8_t index;
	const char *end = argument_parse(p->at, &index);

	if (!end)
		return "expected a number of bytes, or an index such as arg1 * 8";
	if (ret->has_index && ret->index != index)
		return "an address has one argument as an index";
	p->at = end;
	ret->has_index = true;
	ret->index = index;
	*scale = 1;
	return take(p, '*') ? take_number(p, "expected the number of bytes of an item", scale)
			    : NULL;
}

static const char *parse_sum(struct operand_parser *p, struct arch_step *step);

/* Parses an address, and distances that are added. */
static const char *parse_address(struct operand_parser *p, struct arch_step *step)
{
	const char *expected;

	if (!take(p, '('))
		return parse_operand(p);
	if (++p->nesting > NESTING_MAX)
		return "more than 16 parentheses are nested";
	expected = parse_sum(p, step);
	if (!expected && !take(p, ')'))
		return "expected '+', '-' or ')' after the address";
	return expected;
}

static const char *parse_sum(struct operand_parser *p, struct arch_step *step)
{
	const char *expected = parse_address(p, step);

	while (!expected) {
		bool is_negative = take(p, '-');
		int32_t number = 0, *sum;

		if (!is_negative && !take(p, '+'))
			break;
		while (isspace((unsigned char)*p->at))
			p->at++;
		sum = isdigit((unsigned char)*p->at) ? &step->offset : &step->scale;
		expected = sum == &step->offset
				   ? take_number(p, "expected a number of bytes", &number)
				   : take_index(p, &number);
		if (!expected && __builtin_add_overflow(*sum, is_negative ? -number : number, sum))
			expected = "the distance does not fit 31 bits";
	}
	return expected;
}

/* Parses a step, which reads memory at an address, from behind its asterisk. */
static const char *parse_step(struct operand_parser *p)
{
	struct arch_step step;
	const char *expected;

	if (!take(p, '('))
		return "expected '(' and a type, such as (u64 *)";
	if (!take_type(p, &step))
		return "expected a type: u8, u16, u32, u64, s8, s16, s32 or s64";
	if (!take(p, '*') || !take(p, ')'))
		return "expected '*)' after the type";
	expected = parse_address(p, &step);
	if (expected)
		return expected;
	if (p->ret->step_count == POINTERS_MAX)
		return "more than 3 pointers are followed";
	p->ret->steps[p->ret->step_count++] = step;
	return NULL;
}

static const char *parse_operand(struct operand_parser *p)
{
	const char *end;

	if (take(p, '*'))
		return parse_step(p);
	end = argument_parse(p->at, &p->ret->arg);
	if (!end)
		return "expected arg0 to arg31";
	p->at = end;
	return NULL;
}

signed char operand_parse_cast(const char **at)
{
	struct operand_parser parser = {.at = *at};
	struct arch_step type;

	if (!take(&parser, '(') || !take_type(&parser, &type) || !take(&parser, ')'))
		return 0;
	*at = parser.at;
	return (signed char)(type.is_signed ? -type.size : type.size);
}

struct arch_arg operand_cast(const struct arch_arg *arg, signed char cast)
{
	struct arch_arg ret = *arg;
	uint32_t size = (uint32_t)(cast < 0 ? -cast : cast);

	if (cast && !arg->is_float && size <= arg->size) {
		ret.size = size;
		ret.is_signed = cast < 0;
	}
	return ret;
}

bool capture_is(const struct capture *a, const struct capture *b)
{
	if (a->step_count != b->step_count)
		return false;
	for (size_t i = 0; i < a->step_count; i++)
		if (!arch_step_is(&a->steps[i], &b->steps[i]))
			return false;
	return a->arg == b->arg && a->cast == b->cast && a->has_index == b->has_index &&
	       (!a->has_index || a->index == b->index) && a->is_string == b->is_string &&
	       a->has_length == b->has_length && (!a->has_length || a->length == b->length) &&
	       a->fixed_length == b->fixed_length && a->of_begin == b->of_begin;
}

const char *operand_parse(const char **at, struct capture *ret)
{
	struct operand_parser parser = {.at = *at, .ret = ret};
	const char *expected;

	ret->step_count = 0;
	ret->has_index = false;
	ret->cast = operand_parse_cast(&parser.at);
	while (isspace((unsigned char)*parser.at))
		parser.at++;
	expected = ret->cast && *parser.at == '*' ? "expected arg0 to arg31 after the type"
						  : parse_operand(&parser);
	*at = parser.at;
	return expected;
}

const char *operand_parse_address(const char **at, struct capture *ret)
{
	struct operand_parser parser = {.at = *at, .ret = ret};
	struct arch_step step = {0};
	const char *expected;

	ret->step_count = 0;
	ret->has_index = false;
	expected = parse_sum(&parser, &step);
	if (!expected && (step.offset || step.scale))
		ret->steps[ret->step_count++] = step;
	*at = parser.at;
	return expected;
}
