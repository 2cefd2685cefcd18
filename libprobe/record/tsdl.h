/* SPDX-License-Identifier: MIT */
/*
 * The metadata of records: what it says (struct tsdl), and TSDL, the language in which CTF 1.8 says
 * it (https://diamon.org/ctf/v1.8.3, section 7): the part of it that probectl writes
 * (libprobe/record/ctf_metadata.c), and that babeltrace2 writes when it copies one of our records.
 *
 * What else the language has (variants, other byte orders, named structures) is not understood,
 * and neither is an attribute that is not listed here: it might change what the bytes mean. The
 * metadata of a record of 10,000 sites is some megabytes; whatever it says, parsing takes memory
 * and time in proportion to its length.
 */
#ifndef LIBPROBE_RECORD_TSDL_H
#define LIBPROBE_RECORD_TSDL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/error.h"

enum { TSDL_UUID_BYTES = 16 };

enum tsdl_kind {
	TSDL_INTEGER, /* an enumeration, too */
	TSDL_FLOAT,
	TSDL_STRING,
	TSDL_STRUCT,
	TSDL_ARRAY,   /* of a fixed length */
	TSDL_SEQUENCE /* of a length that an earlier field has */
};

/* A clock counts from offset_s seconds and `offset` cycles after 1970. */
struct tsdl_clock {
	const char *name;
	uint64_t freq; /* cycles a second; not 0 */
	int64_t offset_s;
	uint64_t offset;
	struct tsdl_clock *next;
};

struct tsdl_type;

struct tsdl_field {
	const char *name; /* without the underscore that it may begin with */
	const struct tsdl_type *type;
};

/* Sizes and alignments are in bits. */
struct tsdl_type {
	enum tsdl_kind kind;
	uint32_t align; /* a power of two, up to 64 */
	uint32_t size;	/* of integers 1 to 64, of floating-point numbers 32 or 64 */
	bool is_signed;
	bool is_text;		/* an integer with an encoding: a character */
	bool is_unreadable;	/* an enumeration whose only label is "unreadable" */
	const char *clock_name; /* what an integer counts; NULL: nothing */

	/* Of arrays and sequences: */
	const struct tsdl_type *element;
	uint64_t length;
	const char *length_name;

	/* Of structures: */
	struct tsdl_field *fields;
	size_t field_count;
};

/* Types are always structures, or NULL. Lists are in the order of the metadata. */
struct tsdl_stream {
	uint64_t id;
	const struct tsdl_type *packet_context, *event_header, *event_context;
	struct tsdl_stream *next;
};

struct tsdl_event {
	uint64_t id, stream_id;
	const char *name; /* or NULL */
	const struct tsdl_type *context, *fields;
	struct tsdl_event *next;
};

/* Owns everything that it points to. */
struct tsdl {
	const char *tracer_version; /* of its env, or NULL */
	uint8_t uuid[TSDL_UUID_BYTES];
	bool has_uuid;
	const struct tsdl_type *packet_header; /* or NULL */
	struct tsdl_clock *clocks;
	struct tsdl_stream *streams;
	struct tsdl_event *events;
	void *memory; /* what tsdl_free() frees */
};

/*
 * Parses metadata. Error: PROBE_ERROR_FORMAT ("line N: ..."), PROBE_ERROR_MEMORY. *ret is what was
 * understood before an error, too; the caller always frees it.
 */
PROBE_MUST_CHECK struct probe_error *tsdl_parse(const char *text, size_t length, struct tsdl *ret);
void tsdl_free(struct tsdl *tsdl);

/* ---- For the files of the parser ------------------------------------------------------ */

enum tsdl_token {
	TSDL_END,
	TSDL_NAME, /* with its dots: clock.realtime.value */
	TSDL_NUMBER,
	TSDL_TEXT,   /* in quotes */
	TSDL_ASSIGN, /* = */
	TSDL_DEFINE, /* := */
	TSDL_MARK    /* one of { } [ ] ( ) ; : , - . */
};

struct tsdl_alias {
	const char *name;
	const struct tsdl_type *type;
};
enum { TSDL_ALIASES_MAX = 256, TSDL_CLOCKS_MAX = 256, TSDL_DEPTH_MAX = 8 };

struct tsdl_parser {
	struct tsdl *tsdl;
	const char *at, *end;
	unsigned int line;
	enum tsdl_token token; /* the next one, of which nothing is used yet */
	char mark;	       /* of TSDL_MARK */
	uint64_t number;       /* of TSDL_NUMBER */
	const char *text;      /* of TSDL_NAME and TSDL_TEXT */
	struct tsdl_alias aliases[TSDL_ALIASES_MAX];
	size_t alias_count, clock_count;
	struct { /* of the result's lists */
		struct tsdl_clock **clocks;
		struct tsdl_stream **streams;
		struct tsdl_event **events;
	} ends;
	unsigned int depth; /* of types in types */
	struct probe_error *error;
};

/* All of these return false (NULL) after the first error, which the parser keeps. */
bool tsdl_fail(struct tsdl_parser *p, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Zeros that live as long as the result. */
void *tsdl_alloc(struct tsdl_parser *p, size_t size);
/* Goes to the next token. */
bool tsdl_next(struct tsdl_parser *p);
bool tsdl_is_mark(const struct tsdl_parser *p, char mark);
bool tsdl_is_name(const struct tsdl_parser *p, const char *name);
/* Takes a token that must be there. */
bool tsdl_take_mark(struct tsdl_parser *p, char mark);
bool tsdl_take(struct tsdl_parser *p, enum tsdl_token token, const char *what);
bool tsdl_take_name(struct tsdl_parser *p, const char **ret);

/* What is to the right of "=". */
struct tsdl_value {
	enum tsdl_token token; /* TSDL_NUMBER, TSDL_NAME or TSDL_TEXT */
	bool negative;
	uint64_t number;
	const char *text;
};
bool tsdl_take_value(struct tsdl_parser *p, struct tsdl_value *ret);
/* The value as a number that is not negative, or as true or false. */
bool tsdl_number_of(struct tsdl_parser *p, const struct tsdl_value *value, uint64_t *ret);
bool tsdl_bool_of(struct tsdl_parser *p, const struct tsdl_value *value, bool *ret);
/* Takes "{ name = value; ... }": `each` is called after each value. */
bool tsdl_take_attributes(struct tsdl_parser *p,
	bool (*each)(struct tsdl_parser *p, const char *name, const struct tsdl_value *value,
		void *data),
	void *data);

/* Takes a type, and "typealias TYPE := NAME". */
bool tsdl_take_type(struct tsdl_parser *p, const struct tsdl_type **ret);
bool tsdl_take_alias(struct tsdl_parser *p);

#endif
