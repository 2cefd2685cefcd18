/* SPDX-License-Identifier: MIT */
/* The words of TSDL, its numbers, and lists of attributes. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/record/record.h"

/* ---- Errors and memory ----------------------------------------------------------------- */

bool tsdl_fail(struct tsdl_parser *p, const char *format, ...)
{
	va_list ap;
	char *why;
	int length;

	if (p->error)
		return false;
	va_start(ap, format);
	length = vasprintf(&why, format, ap);
	va_end(ap);
	if (length < 0) {
		p->error = probe_error_no_memory();
		return false;
	}
	p->error = probe_error_new(PROBE_ERROR_FORMAT, "line %u: %s", p->line, why);
	free(why);
	return false;
}

/* Memory of a result: blocks of which pieces are given out, in a list. */
enum { BLOCK_BYTES = 1 << 16, ALIGN = _Alignof(max_align_t) };
struct block {
	struct block *next;
	size_t left; /* at its end */
	_Alignas(max_align_t) char bytes[];
};

void *tsdl_alloc(struct tsdl_parser *p, size_t size)
{
	struct block *block = p->tsdl->memory;
	size_t room = BLOCK_BYTES;
	char *piece;

	size = (size + ALIGN - 1) / ALIGN * ALIGN;
	if (p->error)
		return NULL;
	if (!block || block->left < size) {
		room = size > room ? size : room;
		block = calloc(1, sizeof(*block) + room);
		if (!block) {
			p->error = probe_error_no_memory();
			return NULL;
		}
		block->next = p->tsdl->memory;
		block->left = room;
		p->tsdl->memory = block;
	}
	/* From the end, so that `left` says all. */
	piece = block->bytes + block->left - size;
	block->left -= size;
	return piece;
}

void tsdl_free(struct tsdl *tsdl)
{
	struct block *block = tsdl->memory, *next;

	for (; block; block = next) {
		next = block->next;
		free(block);
	}
	*tsdl = (struct tsdl){0};
}

/* ---- Tokens ------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static bool is_ahead(const struct tsdl_parser *p, const char *what)
{
	size_t length = strlen(what);

	return (size_t)(p->end - p->at) >= length && memcmp(p->at, what, length) == 0;
}

/* Goes past blanks and comments. */
static bool skip(struct tsdl_parser *p)
{
	const char *close;

	for (;;) {
		if (is_ahead(p, "//")) {
			while (p->at < p->end && *p->at != '\n')
				p->at++;
		} else if (is_ahead(p, "/*")) {
			close = memmem(p->at + 2, (size_t)(p->end - p->at - 2), "*/", 2);
			if (!close)
				return tsdl_fail(p, "a comment does not end");
			for (; p->at < close + 2; p->at++)
				p->line += *p->at == '\n';
		} else if (p->at < p->end && strchr(" \t\r\n", *p->at) && *p->at) {
			p->line += *p->at++ == '\n';
		} else {
			return true;
		}
	}
}

static bool take_word(struct tsdl_parser *p)
{
	const char *start = p->at;
	char *copy;

	while (p->at < p->end && (is_word(*p->at) || *p->at == '.'))
		p->at++;
	copy = tsdl_alloc(p, (size_t)(p->at - start) + 1);
	if (!copy)
		return false;
	memcpy(copy, start, (size_t)(p->at - start));
	p->text = copy;
	p->token = TSDL_NAME;
	return true;
}

static int digit_of(char c)
{
	if (is_digit(c))
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

static bool take_number(struct tsdl_parser *p)
{
	unsigned int base = 10;

	if (is_ahead(p, "0x") || is_ahead(p, "0X")) {
		base = 16;
		p->at += 2;
	} else if (*p->at == '0') {
		base = 8;
	}
	p->number = 0;
	for (; p->at < p->end && is_word(*p->at); p->at++) {
		unsigned int digit = (unsigned int)digit_of(*p->at);

		if (digit >= base || p->number > (UINT64_MAX - digit) / base)
			return tsdl_fail(p, "a number is malformed, or too large");
		p->number = p->number * base + digit;
	}
	p->token = TSDL_NUMBER;
	return true;
}

/* The character that an escape stands for, after the backslash. */
static bool take_escape(struct tsdl_parser *p, char *ret)
{
	static const char letters[] = "abfnrtv\\\"'?", meant[] = "\a\b\f\n\r\t\v\\\"'?";
	const char *letter = *p->at ? strchr(letters, *p->at) : NULL;
	unsigned int code = 0, digits = 0;

	if (letter) {
		p->at++;
		*ret = meant[letter - letters];
		return true;
	}
	for (; digits < 3 && p->at < p->end && *p->at >= '0' && *p->at <= '7'; digits++)
		code = 8 * code + (unsigned int)(*p->at++ - '0');
	*ret = (char)code;
	return (digits && code) || tsdl_fail(p, "a string has an unknown escape");
}

static bool take_text(struct tsdl_parser *p)
{
	const char *close = ++p->at;
	char *copy;

	while (close < p->end && *close != '"' && *close != '\n')
		close += *close == '\\' && close + 1 < p->end ? 2 : 1;
	if (close >= p->end || *close != '"')
		return tsdl_fail(p, "a string does not end");
	copy = tsdl_alloc(p, (size_t)(close - p->at) + 1);
	p->text = copy;
	p->token = TSDL_TEXT;
	while (copy && p->at < close) {
		if (*p->at == '\\') {
			p->at++;
			if (!take_escape(p, copy++))
				return false;
		} else {
			*copy++ = *p->at++;
		}
	}
	p->at = close + 1;
	return copy != NULL;
}

bool tsdl_next(struct tsdl_parser *p)
{
	if (p->error || !skip(p))
		return false;
	if (p->at == p->end) {
		p->token = TSDL_END;
	} else if (is_digit(*p->at)) {
		return take_number(p);
	} else if (is_word(*p->at)) {
		return take_word(p);
	} else if (*p->at == '"') {
		return take_text(p);
	} else if (is_ahead(p, ":=")) {
		p->token = TSDL_DEFINE;
		p->at += 2;
	} else if (*p->at == '=') {
		p->token = TSDL_ASSIGN;
		p->at++;
	} else if (*p->at && strchr("{}[]();:,-.", *p->at)) {
		p->token = TSDL_MARK;
		p->mark = *p->at++;
	} else {
		return tsdl_fail(p, "a character is none of the language");
	}
	return true;
}

bool tsdl_is_mark(const struct tsdl_parser *p, char mark)
{
	return p->token == TSDL_MARK && p->mark == mark;
}

bool tsdl_is_name(const struct tsdl_parser *p, const char *name)
{
	return p->token == TSDL_NAME && strcmp(p->text, name) == 0;
}

bool tsdl_take_mark(struct tsdl_parser *p, char mark)
{
	return tsdl_is_mark(p, mark) ? tsdl_next(p) : tsdl_fail(p, "there is no %c", mark);
}

bool tsdl_take(struct tsdl_parser *p, enum tsdl_token token, const char *what)
{
	return p->token == token ? tsdl_next(p) : tsdl_fail(p, "there is no %s", what);
}

bool tsdl_take_name(struct tsdl_parser *p, const char **ret)
{
	*ret = p->text;
	return tsdl_take(p, TSDL_NAME, "name");
}

/* ---- Attributes ----------------------------------------------------------------------------- */

bool tsdl_take_value(struct tsdl_parser *p, struct tsdl_value *ret)
{
	*ret = (struct tsdl_value){.negative = tsdl_is_mark(p, '-')};
	if (ret->negative && !tsdl_next(p))
		return false;
	ret->token = p->token;
	ret->number = p->number;
	ret->text = p->text;
	if (p->token == TSDL_NUMBER ||
		(!ret->negative && (p->token == TSDL_NAME || p->token == TSDL_TEXT)))
		return tsdl_next(p);
	return tsdl_fail(p, "there is no value");
}

bool tsdl_number_of(struct tsdl_parser *p, const struct tsdl_value *value, uint64_t *ret)
{
	*ret = value->number;
	return (value->token == TSDL_NUMBER && !value->negative) ||
	       tsdl_fail(p, "a value is no number");
}

bool tsdl_bool_of(struct tsdl_parser *p, const struct tsdl_value *value, bool *ret)
{
	if (value->token == TSDL_NUMBER)
		*ret = value->number != 0;
	else if (strcmp(value->text, "true") == 0 || strcmp(value->text, "TRUE") == 0)
		*ret = true;
	else if (strcmp(value->text, "false") == 0 || strcmp(value->text, "FALSE") == 0)
		*ret = false;
	else
		return tsdl_fail(p, "'%s' is neither true nor false", value->text);
	return true;
}

bool tsdl_take_attributes(struct tsdl_parser *p,
	bool (*each)(struct tsdl_parser *p, const char *name, const struct tsdl_value *value,
		void *data),
	void *data)
{
	struct tsdl_value value;
	const char *name;

	if (!tsdl_take_mark(p, '{'))
		return false;
	while (!tsdl_is_mark(p, '}'))
		if (!tsdl_take_name(p, &name) || !tsdl_take(p, TSDL_ASSIGN, "=") ||
			!tsdl_take_value(p, &value) || !each(p, name, &value, data) ||
			!tsdl_take_mark(p, ';'))
			return false;
	return tsdl_next(p);
}
