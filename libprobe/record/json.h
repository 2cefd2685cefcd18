/* SPDX-License-Identifier: MIT */
/*
 * JSON (RFC 8259), as metadata has it: a tree in the parser's memory. Metadata is untrusted, and
 * this is read in our own process: a text takes memory in proportion to its length, and is not
 * nested deeply. json-c, which reads what `trace --json` prints, ends a process that has no memory
 * left, so it only runs in a child (libprobe/record/process.c).
 */
#ifndef LIBPROBE_RECORD_JSON_H
#define LIBPROBE_RECORD_JSON_H

#include "libprobe/record/tsdl.h"

enum json_kind {
	JSON_OTHER, /* null, true, false, and numbers that are no integers of 64 bits */
	JSON_INTEGER,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT
};

struct json {
	enum json_kind kind;
	bool is_negative;	 /* of JSON_INTEGER */
	const char *name;	 /* as a member of an object; else NULL */
	const struct json *next; /* in the array or the object */
	union {
		uint64_t number;	  /* without its sign */
		const char *text;	  /* UTF-8, without a NUL in it */
		const struct json *first; /* of an array, or an object; or NULL */
	};
};

/* Goes past blanks. */
void json_skip(struct tsdl_parser *p);
/* Takes one text, and blanks behind it. NULL after an error. */
const struct json *json_take(struct tsdl_parser *p);

/* A member of an object; NULL: there is none, or it is no object. */
const struct json *json_member(const struct json *object, const char *name);
/* The same, of the kind that it has to have; NULL also if it has not. */
const struct json *json_member_of(const struct json *object, const char *name, enum json_kind kind);
/* The text of such a member, or NULL. */
const char *json_text(const struct json *object, const char *name);

#endif
