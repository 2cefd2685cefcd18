/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "libprobe/record/json.h"

enum { DEPTH_MAX = 16, HIGH_SURROGATE = 0xd800, LOW_SURROGATE = 0xdc00, SURROGATES_END = 0xe000 };

void json_skip(struct tsdl_parser *p)
{
	for (; p->at < p->end && *p->at && strchr(" \t\r\n", *p->at); p->at++)
		p->line += *p->at == '\n';
}

/* The next character; 0: there is none. */
static char next(const struct tsdl_parser *p)
{
	return (char)(p->at < p->end ? *p->at : '\0');
}

static bool take_char(struct tsdl_parser *p, char c)
{
	if (next(p) != c)
		return tsdl_fail(p, "there is no %c", c);
	p->at++;
	return true;
}

/* ---- Strings -------------------------------------------------------------------------------- */

static bool take_hex(struct tsdl_parser *p, unsigned int *ret)
{
	static const char digits[] = "0123456789abcdefABCDEF";

	*ret = 0;
	for (size_t i = 0; i < 4; i++) {
		const char *digit = next(p) ? strchr(digits, next(p)) : NULL;
		unsigned int value;

		if (!digit)
			return tsdl_fail(p, "a character's number is malformed");
		value = (unsigned int)(digit - digits);
		*ret = *ret << 4 | (value < 16 ? value : value - 6);
		p->at++;
	}
	return true;
}

/* What follows "\u", which may be two of them. */
static bool take_code(struct tsdl_parser *p, unsigned int *ret)
{
	unsigned int low;

	if (!take_hex(p, ret))
		return false;
	if (*ret < HIGH_SURROGATE || *ret >= SURROGATES_END)
		return true;
	if (*ret >= LOW_SURROGATE || !take_char(p, '\\') || !take_char(p, 'u') ||
		!take_hex(p, &low) || low < LOW_SURROGATE || low >= SURROGATES_END)
		return tsdl_fail(p, "a character is half of one");
	*ret = 0x10000 + ((*ret - HIGH_SURROGATE) << 10) + (low - LOW_SURROGATE);
	return true;
}

/* At most 4 bytes of UTF-8. */
static char *put_code(char *to, unsigned int code)
{
	if (code < 0x80) {
		*to++ = (char)code;
		return to;
	}
	if (code < 0x800) {
		*to++ = (char)(0xc0 | code >> 6);
	} else {
		if (code < 0x10000) {
			*to++ = (char)(0xe0 | code >> 12);
		} else {
			*to++ = (char)(0xf0 | code >> 18);
			*to++ = (char)(0x80 | (code >> 12 & 0x3f));
		}
		*to++ = (char)(0x80 | (code >> 6 & 0x3f));
	}
	*to++ = (char)(0x80 | (code & 0x3f));
	return to;
}

/* What follows a backslash: never longer than it was. */
static bool take_escape(struct tsdl_parser *p, char **to)
{
	static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	const char *letter = next(p) ? strchr(letters, next(p)) : NULL;
	unsigned int code;

	if (letter) {
		p->at++;
		*(*to)++ = meant[letter - letters];
		return true;
	}
	if (!take_char(p, 'u') || !take_code(p, &code))
		return false;
	if (!code)
		return tsdl_fail(p, "a string has a NUL in it");
	*to = put_code(*to, code);
	return true;
}

static bool take_string(struct tsdl_parser *p, const char **ret)
{
	const char *close = p->at + 1;
	char *to;

	if (next(p) != '"')
		return tsdl_fail(p, "there is no string");
	while (close < p->end && *close != '"')
		close += *close == '\\' ? 2 : 1;
	if (close >= p->end)
		return tsdl_fail(p, "a string does not end");
	to = tsdl_alloc(p, (size_t)(close - p->at));
	*ret = to;
	p->at++;
	while (to && p->at < close) {
		char c = *p->at++;

		if ((unsigned char)c < ' ')
			return tsdl_fail(p, "a string has a control character in it");
		if (c != '\\')
			*to++ = c;
		else if (!take_escape(p, &to))
			return false;
	}
	p->at = close + 1;
	return to != NULL;
}

/* ---- Numbers and words ---------------------------------------------------------------------- */

static bool is_part(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '.' || c == '-' || c == '+';
}

/* An integer, or whatever else is in one piece. */
static bool take_word(struct tsdl_parser *p, struct json *value)
{
	const char *start = p->at;
	uint64_t number = 0;
	bool fits = true;

	value->is_negative = next(p) == '-';
	p->at += value->is_negative;
	for (; next(p) >= '0' && next(p) <= '9'; p->at++) {
		unsigned int digit = (unsigned int)(*p->at - '0');

		fits &= number <= (UINT64_MAX - digit) / 10;
		number = number * 10 + digit;
	}
	if (fits && !is_part(next(p)) && p->at > start + value->is_negative) {
		value->kind = JSON_INTEGER;
		value->number = number;
		return true;
	}
	while (is_part(next(p)))
		p->at++;
	return p->at > start || tsdl_fail(p, "there is no value");
}

/* ---- Values --------------------------------------------------------------------------------- */

static const struct json *take_value(struct tsdl_parser *p, const char *name);

/* What is between two brackets. */
static bool take_members(struct tsdl_parser *p, struct json *value, char close)
{
	const struct json **end = &value->first;
	const char *name = NULL;

	p->at++;
	for (json_skip(p); next(p) != close; json_skip(p)) {
		struct json *member;

		if (value->first) {
			if (!take_char(p, ','))
				return false;
			json_skip(p);
		}
		if (value->kind == JSON_OBJECT) {
			if (!take_string(p, &name))
				return false;
			json_skip(p);
			if (!take_char(p, ':'))
				return false;
			json_skip(p);
		}
		member = (struct json *)take_value(p, name);
		if (!member)
			return false;
		*end = member;
		end = &member->next;
	}
	p->at++;
	return true;
}

static bool take_into(struct tsdl_parser *p, struct json *value)
{
	switch (next(p)) {
	case '"':
		value->kind = JSON_STRING;
		return take_string(p, &value->text);
	case '[':
		value->kind = JSON_ARRAY;
		return take_members(p, value, ']');
	case '{':
		value->kind = JSON_OBJECT;
		return take_members(p, value, '}');
	}
	return take_word(p, value);
}

static const struct json *take_value(struct tsdl_parser *p, const char *name)
{
	struct json *value;
	bool taken;

	if (p->depth == DEPTH_MAX) {
		tsdl_fail(p, "values are nested too deeply");
		return NULL;
	}
	value = tsdl_alloc(p, sizeof(*value));
	if (!value)
		return NULL;
	value->name = name;
	p->depth++;
	taken = take_into(p, value);
	p->depth--;
	return taken ? value : NULL;
}

const struct json *json_take(struct tsdl_parser *p)
{
	const struct json *value;

	json_skip(p);
	value = take_value(p, NULL);
	json_skip(p);
	return value;
}

/* ---- Members -------------------------------------------------------------------------------- */

const struct json *json_member(const struct json *object, const char *name)
{
	const struct json *member = object && object->kind == JSON_OBJECT ? object->first : NULL;

	while (member && strcmp(member->name, name) != 0)
		member = member->next;
	return member;
}

const struct json *json_member_of(const struct json *object, const char *name, enum json_kind kind)
{
	const struct json *member = json_member(object, name);

	return member && member->kind == kind ? member : NULL;
}

const char *json_text(const struct json *object, const char *name)
{
	const struct json *member = json_member_of(object, name, JSON_STRING);

	return member ? member->text : NULL;
}
