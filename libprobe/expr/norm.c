/* SPDX-License-Identifier: MIT */
/*
 * The normal form of a text. In a path, which has a slash and no blank, each run of digits becomes
 * N. Any other text is taken for SQL: literals become ?, which are
 *
 *	numbers        12, 1.5, 0x1f, 1e-3, unless they are part of a name (t2, $1);
 *	               -12 behind an operator, a comma or a parenthesis
 *	strings        'it''s', and E'it\'s'
 *	dollar quotes  $$it's$$, $tag$it's$tag$
 *
 * Names in double quotes or backquotes, comments, and what else there is, stay. A literal that was
 *cut off, as a string is at its greatest length, becomes ?, too.
 */
#include <stdbool.h>
#include <string.h>

#include "libprobe/expr/norm.h"

struct scan {
	const uint8_t *at, *end;
};

/* Of ASCII, whatever the locale: bytes above are parts of names. */
static bool is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

static bool is_name(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' ||
	       c == '$' || c >= 0x80;
}

static bool is_path(const uint8_t *text, size_t length)
{
	bool has_slash = false;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r'))
			return false;
		has_slash |= text[i] == '/';
	}
	return has_slash;
}

static size_t norm_path(const uint8_t *text, size_t length, uint8_t *out)
{
	uint8_t *start = out;

	for (size_t i = 0; i < length; i++) {
		if (!is_digit(text[i]))
			*out++ = text[i];
		else if (i == 0 || !is_digit(text[i - 1]))
			*out++ = 'N';
	}
	return (size_t)(out - start);
}

/* Behind what a quote encloses; a doubled one is part of it. */
static void skip_quoted(struct scan *s, bool has_escapes)
{
	uint8_t quote = *s->at++;

	for (; s->at < s->end; s->at++) {
		if (has_escapes && *s->at == '\\' && s->at + 1 < s->end) {
			s->at++;
		} else if (*s->at == quote) {
			if (s->at + 1 == s->end || s->at[1] != quote)
				break;
			s->at++;
		}
	}
	if (s->at < s->end)
		s->at++;
}

/* A number may have a point, an exponent with a sign, and letters. */
static void skip_number(struct scan *s)
{
	for (; s->at < s->end; s->at++) {
		bool is_sign =
			(*s->at == '+' || *s->at == '-') && (s->at[-1] == 'e' || s->at[-1] == 'E');

		if (!is_name(*s->at) && *s->at != '.' && !is_sign)
			break;
	}
}

/* Behind $tag$...$tag$, if there is one. */
static bool skip_dollars(struct scan *s)
{
	const uint8_t *open = s->at + 1, *close;
	size_t length;

	while (open < s->end && is_name(*open) && *open != '$')
		open++;
	if (open == s->end || *open != '$' || is_digit(s->at[1]))
		return false;
	length = (size_t)(++open - s->at);
	close = memmem(open, (size_t)(s->end - open), s->at, length);
	s->at = close ? close + length : s->end;
	return true;
}

/* Behind a comment: up to the end of the line, or to its own end. */
static void skip_comment(struct scan *s, const char *end)
{
	size_t length = strlen(end);
	const uint8_t *found = memmem(s->at + 2, (size_t)(s->end - s->at) - 2, end, length);

	s->at = found ? found + length : s->end;
}

static void skip_name(struct scan *s)
{
	while (s->at < s->end && is_name(*s->at))
		s->at++;
}

/* Moves behind the next piece; whether it is a literal. */
static bool take_literal(struct scan *s)
{
	uint8_t c = *s->at, next = s->at + 1 < s->end ? s->at[1] : 0;

	if ((c == 'E' || c == 'e') && next == '\'') {
		s->at++;
		skip_quoted(s, true);
		return true;
	}
	if (c == '\'') {
		skip_quoted(s, false);
		return true;
	}
	if (is_digit(c) || (c == '.' && is_digit(next))) {
		skip_number(s);
		return true;
	}
	if (c == '$' && skip_dollars(s))
		return true;
	if (c == '-' && next == '-')
		skip_comment(s, "\n");
	else if (c == '/' && next == '*')
		skip_comment(s, "*/");
	else if (c == '"' || c == '`')
		skip_quoted(s, false);
	else if (is_name(c))
		skip_name(s);
	else
		s->at++;
	return false;
}

/* Is a number's sign next? Behind an operand, `-` is an operator. `out` is the end of the output.
 */
static bool is_sign(const struct scan *s, const uint8_t *start, const uint8_t *out)
{
	const uint8_t *next = s->at + 1;

	if (*s->at != '-' || next == s->end ||
		!(is_digit(*next) || (*next == '.' && next + 1 < s->end && is_digit(next[1]))))
		return false;
	while (out > start && out[-1] == ' ')
		out--;
	return out > start && memchr("(,=<>+-*/%|", out[-1], 11);
}

static size_t norm_sql(const uint8_t *text, size_t length, uint8_t *out)
{
	struct scan s = {text, text + length};
	uint8_t *start = out;

	while (s.at < s.end) {
		const uint8_t *from;

		s.at += is_sign(&s, start, out);
		from = s.at;
		if (take_literal(&s)) {
			*out++ = '?';
			continue;
		}
		memmove(out, from, (size_t)(s.at - from));
		out += s.at - from;
	}
	return (size_t)(out - start);
}

size_t norm_text(const uint8_t *text, size_t length, uint8_t *out)
{
	return is_path(text, length) ? norm_path(text, length, out) : norm_sql(text, length, out);
}
