/* SPDX-License-Identifier: MIT */
/*
 * Numbers behind pointers, as C writes them:
 *
 *	OPERAND   argN | * ( TYPE * ) ADDRESS
 *	TYPE      u8 | u16 | u32 | u64 | s8 | s16 | s32 | s64
 *	ADDRESS   OPERAND | ( ADDRESS ) | ( ADDRESS + NUMBER ) | ( ADDRESS - NUMBER )
 *
 * Unlike in C, a number counts bytes. Each `*` is a step: what is read last is written first.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/names/argument.h"
#include "libprobe/names/operand.h"

enum { NESTING_MAX = 16 };

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

/* u8 to s64. */
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

/* After + or -. */
static const char *add_number(struct operand_parser *p, bool is_negative, int32_t *offset)
{
	unsigned long long number;
	char *end;

	while (isspace((unsigned char)*p->at))
		p->at++;
	if (!isdigit((unsigned char)*p->at))
		return "expected a number of bytes";
	errno = 0;
	number = strtoull(p->at, &end, 0);
	if (errno || number > INT32_MAX ||
		__builtin_add_overflow(
			*offset, is_negative ? -(int32_t)number : (int32_t)number, offset))
		return "the distance does not fit 31 bits";
	if (isalnum((unsigned char)*end) || *end == '_')
		return "expected a number of bytes";
	p->at = end;
	return NULL;
}

/* An address, and how far behind it. */
static const char *parse_address(struct operand_parser *p, int32_t *offset)
{
	const char *expected;
	bool is_negative;

	if (!take(p, '('))
		return parse_operand(p);
	if (++p->nesting > NESTING_MAX)
		return "more than 16 parentheses are nested";
	expected = parse_address(p, offset);
	while (!expected) {
		is_negative = take(p, '-');
		if (!is_negative && !take(p, '+'))
			break;
		expected = add_number(p, is_negative, offset);
	}
	if (!expected && !take(p, ')'))
		return "expected '+', '-' or ')' after the address";
	return expected;
}

/* After the asterisk. */
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
	expected = parse_address(p, &step.offset);
	if (expected)
		return expected;
	if (p->ret->step_count == ARCH_STEPS_MAX)
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

const char *operand_parse(const char **at, struct capture *ret)
{
	struct operand_parser parser = {.at = *at, .ret = ret};
	const char *expected;

	ret->step_count = 0;
	expected = parse_operand(&parser);
	*at = parser.at;
	return expected;
}
