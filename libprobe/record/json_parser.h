/* SPDX-License-Identifier: MIT */
/*
 * Reading JSON (RFC 8259) that anyone may have written. A text becomes a tree of values without any
 * allocation: values are in an array of the parser, and strings are decoded where they stand in the
 * text, which they never outgrow. So memory and time are bounded by the length of the text, which
 * the caller limits, and by the limits below.
 */
#ifndef LIBPROBE_RECORD_JSON_PARSER_H
#define LIBPROBE_RECORD_JSON_PARSER_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	JSON_DEPTH_MAX = 8,	  /* of arrays and objects in each other */
	JSON_VALUES_MAX = 1 << 16 /* in one text */
};

enum json_kind {
	JSON_NONE,    /* null, true or false */
	JSON_INTEGER, /* without point and exponent; one that is out of range is clamped */
	JSON_FLOAT,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT
};

struct json {
	enum json_kind kind;
	bool is_negative;	 /* of JSON_INTEGER */
	const char *name;	 /* of a member of an object, up to a NUL; else NULL */
	const struct json *next; /* in the same array or object; NULL after the last */
	size_t length;		 /* bytes of a string; values in an array or object */
	union {
		uint64_t number; /* of JSON_INTEGER, without its sign: up to 2^63 if negative */
		double real;
		const char *text; /* UTF-8 if the input is; a NUL follows it, more may be in it */
		const struct json *first; /* in an array or object; NULL if it is empty */
	};
};

struct json_parser {
	struct json *values;
	size_t count;
	locale_t c_locale; /* numbers have a point, whatever the user's locale */
	char *at, *end;
	unsigned int depth;

	/* After an error: */
	const char *why;
	bool is_cut_off; /* the text ended before its value did */
};

/* False without memory. json_parser_deinit() may follow in any case. */
bool json_parser_init(struct json_parser *parser);
void json_parser_deinit(struct json_parser *parser);

/*
 * Parses one value, and goes past blanks after it to parser->at. text[length] must be a NUL; the
 * text is changed. The tree lives as long as the text, until the next call. NULL after an error.
 */
const struct json *json_parse(struct json_parser *parser, char *text, size_t length);

/* The first member of an object with this name; NULL: there is none. */
const struct json *json_find(const struct json *object, const char *name);
/* The same, if it is of this kind; else NULL. */
const struct json *json_member(const struct json *object, const char *name, enum json_kind kind);

#endif
