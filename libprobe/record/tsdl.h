/* SPDX-License-Identifier: MIT */
/*
 * The metadata of records: what it says (struct tsdl), and TSDL, the language in which CTF 1.8 says
 * it (https://diamon.org/ctf/v1.8.3, section 7): the part of it that probectl writes
 * (libprobe/record/ctf_metadata.c), and that babeltrace2 writes when it copies one of our records.
 * CTF 2 says the same in JSON (ctf2.h).
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
	const char *description; /* or NULL */
	uint64_t freq;		 /* cycles a second; not 0 */
	int64_t offset_s;
	uint64_t offset;
	struct tsdl_clock *next;
};

/*
 * A name that a number has in an enumeration. Our records have up to three; only what writes them
 * again needs more than to know that they are there.
 */
enum { TSDL_LABELS_MAX = 64 };
struct tsdl_label {
	const char *name;
	int64_t first, last;
	const struct tsdl_label *next;
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
	bool is_text;			 /* an integer with an encoding: a character */
	bool is_hex;			 /* is shown to base 16 */
	bool is_unreadable;		 /* an enumeration whose only label is "unreadable" */
	const struct tsdl_label *labels; /* of an enumeration, the last one first */
	const char *clock_name;		 /* what an integer counts; NULL: nothing */

	/* Of arrays and sequences: */
	const struct tsdl_type *element;
	uint64_t length;
	const char *length_name;

	/* Of structures: */
	struct tsdl_field *fields;
	size_t field_count;
};

/* An entry of the environment. */
struct tsdl_entry {
	const char *name;
	const char *text; /* NULL: it is a number */
	uint64_t number;
	struct tsdl_entry *next;
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
	const char *uri;  /* what it is an event of; or NULL */
	const struct tsdl_type *context, *fields;
	struct tsdl_event *next;
};

/* Owns everything that it points to. */
struct tsdl {
	const char *tracer_version; /* of its env, or NULL */
	uint8_t uuid[TSDL_UUID_BYTES];
	bool has_uuid;
	const struct tsdl_type *packet_header; /* or NULL */
	struct tsdl_entry *environment;
	struct tsdl_clock *clocks;
	struct tsdl_stream *streams;
	struct tsdl_event *events;
	size_t event_count;
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
		struct tsdl_entry **environment;
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

/* A parser of a text, and an empty result. */
struct tsdl_parser tsdl_parser_of(const char *text, size_t length, struct tsdl *ret);
/* These are added to the result; each fails for what makes no sense. */
bool tsdl_add_environment(struct tsdl_parser *p, const char *name, const struct tsdl_value *value);
bool tsdl_add_clock(struct tsdl_parser *p, struct tsdl_clock *clock);
void tsdl_add_stream(struct tsdl_parser *p, struct tsdl_stream *stream);
void tsdl_add_event(struct tsdl_parser *p, struct tsdl_event *event);
/* Adds a field to a structure, whose alignment may grow. */
bool tsdl_add_field(struct tsdl_parser *p, struct tsdl_type *type, const struct tsdl_field *field);
/* Sets the alignment of a type, and the size of an integer, in bits. */
bool tsdl_set_align(struct tsdl_parser *p, uint64_t align, struct tsdl_type *type);
bool tsdl_set_size(struct tsdl_parser *p, uint64_t size, struct tsdl_type *type);
/* Adds a label to an enumeration. */
bool tsdl_add_label(struct tsdl_parser *p, struct tsdl_type *type, const struct tsdl_label *label);

/* Takes a type, and "typealias TYPE := NAME". */
bool tsdl_take_type(struct tsdl_parser *p, const struct tsdl_type **ret);
bool tsdl_take_alias(struct tsdl_parser *p);

#endif
