/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "libprobe/query/query.h"
#include "probe/session.h"

static const char *skip_blanks(const char *at)
{
	while (*at == ' ' || *at == '\t')
		at++;
	return at;
}

static bool take_word(const char **at, const char *word)
{
	size_t length = strlen(word);

	if (strncmp(*at, word, length) != 0)
		return false;
	*at = skip_blanks(*at + length);
	return true;
}

static bool take_arg(const char **at, uint8_t *ret)
{
	const char *end = argument_parse(*at, ret);

	if (end)
		*at = skip_blanks(end);
	return end != NULL;
}

bool capture_is(const struct capture *a, const struct capture *b)
{
	if (a->step_count != b->step_count)
		return false;
	for (size_t i = 0; i < a->step_count; i++)
		if (!arch_step_is(&a->steps[i], &b->steps[i]))
			return false;
	return a->arg == b->arg && a->has_index == b->has_index &&
	       (!a->has_index || a->index == b->index) && a->is_string == b->is_string &&
	       a->has_length == b->has_length && (!a->has_length || a->length == b->length) &&
	       a->fixed_length == b->fixed_length && a->of_begin == b->of_begin;
}

/* The length of a string: an argument, or a number of bytes. */
static const char *parse_length(const char **at, struct capture *capture)
{
	unsigned long number;
	char *end;

	capture->has_length = true;
	if (take_arg(at, &capture->length))
		return NULL;
	capture->length = capture->arg;
	number = **at >= '0' && **at <= '9' ? strtoul(*at, &end, 0) : 0;
	if (!number || number > PROBE_STRING_BYTES_MAX)
		return "expected the length: arg0 to arg31, or a number of bytes up to 8192";
	capture->fixed_length = (uint16_t)number;
	*at = skip_blanks(end);
	return NULL;
}

/* One of the list. Returns what was expected at *at, or NULL. */
static const char *parse_capture(const char **at, struct capture *capture)
{
	const char *expected, *start = *at;
	bool has_parenthesis;

	capture->is_string = take_word(at, "str");
	capture->has_length =
		!capture->is_string && (take_word(at, "bytes") || take_word(at, "hex"));
	capture->is_symbol = !capture->is_string && !capture->has_length && take_word(at, "sym");
	has_parenthesis = *at != start;
	if (has_parenthesis && !take_word(at, "("))
		return capture->is_string   ? "expected '(' after str"
		       : capture->is_symbol ? "expected '(' after sym"
					    : "expected '(' after bytes";
	expected = has_parenthesis && !capture->is_symbol ? operand_parse_address(at, capture)
							  : operand_parse(at, capture);
	if (expected)
		return start == *at && !has_parenthesis
			       ? "expected arg0 to arg31, str(argN), bytes(argN,argM) or "
				 "sym(argN)"
			       : expected;
	*at = skip_blanks(*at);
	if (has_parenthesis && !capture->is_symbol && take_word(at, ",")) {
		expected = parse_length(at, capture);
		if (expected)
			return expected;
	} else if (capture->has_length) {
		return "expected ',' and the length: an argument, or a number of bytes";
	}
	if (has_parenthesis && !take_word(at, ")"))
		return "expected ')'";
	return NULL;
}

const char *captures_parse(
	const char **at, struct capture captures[CAPTURES_MAX], size_t *count_ret)
{
	const char *expected;

	*count_ret = 0;
	*at = skip_blanks(*at + 1);
	do {
		if (*count_ret == CAPTURES_MAX)
			return "there are more than 32 arguments";
		captures[*count_ret] = (struct capture){0};
		expected = parse_capture(at, &captures[*count_ret]);
		if (expected)
			return expected;
		++*count_ret;
	} while (take_word(at, ","));
	return **at != ')' || (*at)[1] != '\0' ? "expected ',' or ')'" : NULL;
}
