/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "libprobe/record/record.h"

/* Halves of a character above U+FFFF in UTF-16, which is what \u says. */
enum { HIGH_HALF = 0xd800, LOW_HALF = 0xdc00, HALVES_END = 0xe000, REPLACEMENT = 0xfffd };

bool json_parser_init(struct json_parser *parser)
{
	*parser = (struct json_parser){
		.values = malloc(JSON_VALUES_MAX * sizeof(*parser->values)),
		.c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0),
	};
	return parser->values && parser->c_locale;
}

void json_parser_deinit(struct json_parser *parser)
{
	free(parser->values);
	if (parser->c_locale)
		freelocale(parser->c_locale);
}

static bool fail(struct json_parser *p, const char *at, const char *why)
{
	p->why = why;
	p->is_cut_off = at == p->end;
	return false;
}

static void skip_blanks(struct json_parser *p)
{
	while (*p->at == ' ' || *p->at == '\t' || *p->at == '\r' || *p->at == '\n')
		p->at++;
}

/* ---- Strings -------------------------------------------------------------------------------- */

/* Takes the 4 digits at *from. */
static bool take_hex(struct json_parser *p, char **from, unsigned int *ret)
{
	static const char digits[] = "0123456789abcdefABCDEF";

	*ret = 0;
	for (size_t i = 0; i < 4; i++, (*from)++) {
		const char *digit = **from ? strchr(digits, **from) : NULL;
		unsigned int value;

		if (!digit)
			return fail(p, *from, "a character's number is malformed");
		value = (unsigned int)(digit - digits);
		*ret = *ret << 4 | (value < 16 ? value : value - 6);
	}
	return true;
}

/* Takes the digits after "\u", which may say the first half of a character. */
static bool take_code(struct json_parser *p, char **from, unsigned int *ret)
{
	char *second;
	unsigned int low;

	if (!take_hex(p, from, ret))
		return false;
	if (*ret < HIGH_HALF || *ret >= HALVES_END)
		return true;
	if (*ret < LOW_HALF && (*from)[0] == '\\' && (*from)[1] == 'u') {
		second = *from + 2;
		if (!take_hex(p, &second, &low))
			return false;
		if (low >= LOW_HALF && low < HALVES_END) {
			*from = second;
			*ret = 0x10000 + ((*ret - HIGH_HALF) << 10) + (low - LOW_HALF);
			return true;
		}
	}
	*ret = REPLACEMENT;
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

/* Takes an escape, from its backslash on. It is longer than what it stands for. */
static bool take_escape(struct json_parser *p, char **from, char **to)
{
	static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	const char *letter = (*from)[1] ? strchr(letters, (*from)[1]) : NULL;
	unsigned int code;

	if (letter) {
		*from += 2;
		*(*to)++ = meant[letter - letters];
		return true;
	}
	if ((*from)[1] != 'u')
		return fail(p, *from + 1, "a string has an unknown escape");
	*from += 2;
	if (!take_code(p, from, &code))
		return false;
	*to = put_code(*to, code);
	return true;
}

static bool take_string(struct json_parser *p, const char **ret, size_t *length_ret)
{
	char *from = p->at + 1, *to;

	if (*p->at != '"')
		return fail(p, p->at, "a string is expected");
	*ret = from;
	/* Most strings have nothing to decode. */
	while ((unsigned char)*from >= ' ' && *from != '"' && *from != '\\')
		from++;
	to = from;
	while (*from != '"') {
		if ((unsigned char)*from < ' ')
			return fail(p, from, "a string has a control character in it");
		if (*from != '\\')
			*to++ = *from++;
		else if (!take_escape(p, &from, &to))
			return false;
	}
	*to = '\0';
	*length_ret = (size_t)(to - *ret);
	p->at = from + 1;
	return true;
}

/* ---- Numbers and words ---------------------------------------------------------------------- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool skip_digits(struct json_parser *p)
{
	const char *start = p->at;

	while (is_digit(*p->at))
		p->at++;
	return p->at > start || fail(p, p->at, "a number is malformed");
}

/* Takes the point and the exponent of a number whose integer has been taken. */
static bool take_float(struct json_parser *p, const char *start, struct json *value)
{
	locale_t users;

	if (*p->at == '.') {
		p->at++;
		if (!skip_digits(p))
			return false;
	}
	if (*p->at == 'e' || *p->at == 'E') {
		p->at++;
		p->at += *p->at == '-' || *p->at == '+';
		if (!skip_digits(p))
			return false;
	}
	users = uselocale(p->c_locale);
	value->kind = JSON_FLOAT;
	value->real = strtod(start, NULL);
	uselocale(users);
	return true;
}

static bool take_number(struct json_parser *p, struct json *value)
{
	const uint64_t least = UINT64_C(1) << 63; /* the most of a negative one */
	const char *start = p->at;
	uint64_t number = 0;
	bool fits = true;

	value->is_negative = *p->at == '-';
	p->at += value->is_negative;
	if (!is_digit(*p->at))
		return fail(p, p->at, "a number is malformed");
	for (; is_digit(*p->at); p->at++) {
		unsigned int digit = (unsigned int)(*p->at - '0');

		fits &= number <= (UINT64_MAX - digit) / 10;
		number = number * 10 + digit;
	}
	if (*p->at == '.' || *p->at == 'e' || *p->at == 'E')
		return take_float(p, start, value);
	value->kind = JSON_INTEGER;
	value->number = fits ? number : UINT64_MAX;
	if (value->is_negative && value->number > least)
		value->number = least;
	return true;
}

static bool take_word(struct json_parser *p)
{
	static const char *const words[] = {"null", "true", "false"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const char *at = words[i];

		if (*p->at != *at)
			continue;
		for (; *at && *p->at == *at; at++)
			p->at++;
		return !*at || fail(p, p->at, "unexpected character");
	}
	return fail(p, p->at, "unexpected character");
}

/* ---- Values --------------------------------------------------------------------------------- */

static struct json *take_value(struct json_parser *p);

/* Takes an array or an object, whose kind is known, up to its last bracket. */
static bool take_members(struct json_parser *p, struct json *value, char close)
{
	const struct json **end = &value->first;
	const char *name = NULL;
	size_t name_length;

	if (p->depth == JSON_DEPTH_MAX)
		return fail(p, p->at, "nesting too deep");
	p->depth++;
	p->at++;
	for (skip_blanks(p); *p->at != close; skip_blanks(p)) {
		struct json *member;

		if (value->first) {
			if (*p->at != ',')
				return fail(p, p->at, "a comma or a bracket is expected");
			p->at++;
			skip_blanks(p);
		}
		if (value->kind == JSON_OBJECT) {
			if (!take_string(p, &name, &name_length))
				return false;
			skip_blanks(p);
			if (*p->at != ':')
				return fail(p, p->at, "a colon is expected");
			p->at++;
			skip_blanks(p);
		}
		member = take_value(p);
		if (!member)
			return false;
		member->name = name;
		*end = member;
		end = &member->next;
		value->length++;
	}
	p->depth--;
	p->at++;
	return true;
}

static bool take_into(struct json_parser *p, struct json *value)
{
	switch (*p->at) {
	case '"':
		value->kind = JSON_STRING;
		return take_string(p, &value->text, &value->length);
	case '[':
		value->kind = JSON_ARRAY;
		return take_members(p, value, ']');
	case '{':
		value->kind = JSON_OBJECT;
		return take_members(p, value, '}');
	}
	return *p->at == '-' || is_digit(*p->at) ? take_number(p, value) : take_word(p);
}

static struct json *take_value(struct json_parser *p)
{
	struct json *value;

	if (p->count == JSON_VALUES_MAX) {
		fail(p, p->at, "too many values");
		return NULL;
	}
	value = &p->values[p->count++];
	*value = (struct json){0};
	return take_into(p, value) ? value : NULL;
}

const struct json *json_parse(struct json_parser *parser, char *text, size_t length)
{
	const struct json *value;

	parser->at = text;
	parser->end = text + length;
	parser->count = 0;
	parser->depth = 0;
	skip_blanks(parser);
	value = take_value(parser);
	if (value)
		skip_blanks(parser);
	return value;
}

const struct json *json_find(const struct json *object, const char *name)
{
	const struct json *member = object->first;

	while (member && strcmp(member->name, name) != 0)
		member = member->next;
	return member;
}

const struct json *json_member(const struct json *object, const char *name, enum json_kind kind)
{
	const struct json *member = json_find(object, name);

	return member && member->kind == kind ? member : NULL;
}
