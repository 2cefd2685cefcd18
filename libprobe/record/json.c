/* SPDX-License-Identifier: MIT */
/*
 * Reads hits and spans as `probectl trace --json` prints them (libprobe/output/json.c), an object a
 * line. Skips unknown fields, which later versions may add.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/json.h"
#include "libprobe/base/buffer.h"
#include "libprobe/record/record.h"

/* ==== JSON parser ============================================================================= */

/* Surrogates: a character above U+FFFF is a pair of \u escapes in UTF-16. */
enum { HIGH_HALF = 0xd800, LOW_HALF = 0xdc00, HALVES_END = 0xe000, REPLACEMENT = 0xfffd };

bool json_parser_init(struct json_parser *parser)
{
	*parser = (struct json_parser){.values = malloc(JSON_VALUES_MAX * sizeof(*parser->values))};
	return parser->values != NULL;
}

void json_parser_deinit(struct json_parser *parser)
{
	free(parser->values);
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

/* Parses the 4 hexadecimal digits at *from. */
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

/* Parses the digits after "\u", and the low surrogate after a high one. */
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

/* Writes a character as UTF-8, at most 4 bytes. */
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

/* Decodes an escape in place. This is possible because the escape is longer than its character. */
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
	/* Skip the part without escapes. */
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

static bool skip_digits(struct json_parser *p)
{
	const char *start = p->at;

	while (isdigit((unsigned char)*p->at))
		p->at++;
	return p->at > start || fail(p, p->at, "a number is malformed");
}

/* Parses the fraction and exponent of a number, behind its integer part. */
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
	users = buffer_use_point();
	value->kind = JSON_FLOAT;
	value->real = strtod(start, NULL);
	uselocale(users);
	return true;
}

static bool take_number(struct json_parser *p, struct json *value)
{
	const uint64_t least = UINT64_C(1) << 63; /* magnitude of the smallest int64_t */
	const char *start = p->at;
	uint64_t number = 0;
	bool fits = true;

	value->is_negative = *p->at == '-';
	p->at += value->is_negative;
	if (!isdigit((unsigned char)*p->at))
		return fail(p, p->at, "a number is malformed");
	for (; isdigit((unsigned char)*p->at); p->at++) {
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

/* Parses an array or object, from bracket to bracket. */
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
	return *p->at == '-' || isdigit((unsigned char)*p->at) ? take_number(p, value)
							       : take_word(p);
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

/* ==== Hits as JSON ============================================================================ */

enum { READ_BYTES = 1 << 16, LINE_BYTES_MAX = 1 << 24, ARGS_MAX = 4096 };

struct values {
	struct probe_value *items;
	size_t room;
};

struct json_reader {
	int fd;
	char *name;
	/* the input not parsed yet is [start, end); there is room for a NUL after `end` */
	char *data;
	size_t start, end, room;
	bool ended;
	uint64_t line; /* number of the current line, from 1 */
	struct json_parser parser;
	/* current object; the last event points into this object and its line */
	const struct json *object;
	struct values args, begin_args;
	struct probe_event begin; /* start event of a span */
	struct probe_stack stack;
	struct probe_frame frames[PROBE_FRAMES_MAX];
	const struct probe_frame *pointers[PROBE_FRAMES_MAX];
};

/* ---- Lines ---------------------------------------------------------------------------- */

static struct probe_error *line_error(const struct json_reader *reader, const char *what)
{
	return probe_error_new(
		PROBE_ERROR_FORMAT, "%s, line %" PRIu64 ": %s", reader->name, reader->line, what);
}

static struct probe_error *read_more(struct json_reader *reader)
{
	size_t length = reader->end - reader->start;
	char *data;
	ssize_t n;

	if (reader->start)
		memmove(reader->data, reader->data + reader->start, length);
	reader->start = 0;
	reader->end = length;
	if (length > LINE_BYTES_MAX)
		return line_error(reader, "it is too long for a hit");
	if (reader->room - length < READ_BYTES) {
		data = realloc(reader->data, length + 2 * READ_BYTES + 1);
		if (!data)
			return probe_error_no_memory();
		reader->data = data;
		reader->room = length + 2 * READ_BYTES;
	}
	do {
		n = read(reader->fd, reader->data + length, reader->room - length);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return probe_error_system(errno, "cannot read %s", reader->name);
	reader->ended = n == 0;
	reader->end += (size_t)n;
	return NULL;
}

/* Finds the next line, and ends it with a NUL. *ret is NULL after the last line. */
static struct probe_error *next_line(struct json_reader *reader, char **ret, size_t *length_ret)
{
	size_t searched = 0;
	char *end = NULL;

	reader->line++;
	for (;;) {
		struct probe_error *error;
		size_t length = reader->end - reader->start;

		if (length > searched)
			end = memchr(
				reader->data + reader->start + searched, '\n', length - searched);
		if (end || reader->ended)
			break;
		searched = length;
		error = read_more(reader);
		if (error)
			return error;
	}
	if (!end && reader->start == reader->end) {
		*ret = NULL;
		return NULL;
	}
	*ret = reader->data + reader->start;
	*length_ret = (size_t)((end ? end : reader->data + reader->end) - *ret);
	(*ret)[*length_ret] = '\0';
	reader->start += *length_ret + (end ? 1 : 0);
	return NULL;
}

/* ---- Values --------------------------------------------------------------------------- */

static const char *string_field(const struct json *object, const char *name)
{
	const struct json *value = json_member(object, name, JSON_STRING);

	return value ? value->text : NULL;
}

static int64_t signed_of(const struct json *value)
{
	if (value->is_negative)
		return (int64_t)-value->number;
	return value->number > INT64_MAX ? INT64_MAX : (int64_t)value->number;
}

/* Returns 0 for a negative number. */
static uint64_t unsigned_of(const struct json *value)
{
	return value->is_negative ? 0 : value->number;
}

/* Gets a number, clamped to int. Returns false if the field is missing. */
static bool int_field(const struct json *object, const char *name, int *ret)
{
	const struct json *value = json_member(object, name, JSON_INTEGER);
	int64_t number;

	if (!value)
		return false;
	number = signed_of(value);
	*ret = (int)(number < INT_MIN ? INT_MIN : number > INT_MAX ? INT_MAX : number);
	return true;
}

static bool unsigned_field(const struct json *object, const char *name, uint64_t *ret)
{
	const struct json *value = json_member(object, name, JSON_INTEGER);

	if (!value)
		return false;
	*ret = unsigned_of(value);
	return true;
}

static struct probe_value value_of(const struct json *value)
{
	struct probe_value ret = {.kind = PROBE_VALUE_NULL};

	switch (value->kind) {
	case JSON_INTEGER:
		if (value->is_negative || value->number <= INT64_MAX) {
			ret.kind = PROBE_VALUE_SIGNED;
			ret.i = signed_of(value);
		} else {
			ret.kind = PROBE_VALUE_UNSIGNED;
			ret.u = value->number;
		}
		break;
	case JSON_FLOAT:
		ret.kind = PROBE_VALUE_FLOAT;
		ret.f = value->real;
		break;
	case JSON_STRING:
		ret.kind = PROBE_VALUE_STRING;
		ret.bytes = value->text;
		ret.length = value->length;
		break;
	case JSON_NONE:
	case JSON_ARRAY:
	case JSON_OBJECT:
		break;
	}
	return ret;
}

static struct probe_error *take_args(const struct json_reader *reader, const struct json *args,
	struct values *values, struct probe_event *ret)
{
	struct probe_value *items;
	size_t i = 0;

	if (args->length > ARGS_MAX)
		return line_error(reader, "there are too many arguments");
	if (args->length > values->room) {
		items = reallocarray(values->items, args->length, sizeof(*items));
		if (!items)
			return probe_error_no_memory();
		values->items = items;
		values->room = args->length;
	}
	for (const struct json *arg = args->first; arg; arg = arg->next)
		values->items[i++] = value_of(arg);
	ret->args = values->items;
	ret->arg_count = args->length;
	return NULL;
}

/* Returns the index of an argument in a list; SIZE_MAX if it is invalid. */
static size_t arg_of(const struct json *item, size_t arg_count)
{
	return item->kind == JSON_INTEGER && unsigned_of(item) < arg_count ? unsigned_of(item)
									   : SIZE_MAX;
}

/* Sets arguments' texts: "named" lists texts, "named_args" the arguments' indexes. */
static void take_named(
	struct values *values, const struct json *named, const struct json *list, size_t arg_count)
{
	const struct json *text = named->first, *item = list->first;

	for (; text && item; text = text->next, item = item->next) {
		size_t arg = arg_of(item, arg_count);
		struct probe_value *value = &values->items[arg == SIZE_MAX ? 0 : arg];

		if (arg == SIZE_MAX || text->kind != JSON_STRING ||
			(value->kind != PROBE_VALUE_SIGNED && value->kind != PROBE_VALUE_UNSIGNED))
			continue;
		value->kind = PROBE_VALUE_TEXT;
		value->known = true;
		value->bytes = text->text;
		value->length = text->length;
	}
}

/* Gets an address such as "0x7f00". */
static uint64_t address_field(const struct json *object, const char *name)
{
	const char *text = string_field(object, name);

	return text ? strtoull(text, NULL, 16) : 0;
}

/* Reads a call stack. Skips items that are not frames. */
static const struct probe_stack *take_stack(struct json_reader *reader, const struct json *frames)
{
	const char *end = string_field(reader->object, "stack");
	struct probe_stack *stack = &reader->stack;

	*stack = (struct probe_stack){.frames = reader->pointers,
		.end = !end || strcmp(end, "whole") == 0 ? PROBE_STACK_WHOLE
		       : strcmp(end, "truncated") == 0	 ? PROBE_STACK_TRUNCATED
							 : PROBE_STACK_LOST};
	for (const struct json *item = frames->first; item; item = item->next) {
		struct probe_frame *frame = &reader->frames[stack->count];

		if (item->kind != JSON_OBJECT)
			continue;
		if (stack->count == PROBE_FRAMES_MAX) {
			stack->end = PROBE_STACK_TRUNCATED;
			break;
		}
		*frame = (struct probe_frame){.ip = address_field(item, "ip"),
			.module = string_field(item, "module"),
			.symbol = string_field(item, "symbol"),
			.offset = address_field(item, "offset"),
			.file = string_field(item, "file")};
		int_field(item, "line", &frame->line);
		reader->pointers[stack->count++] = frame;
	}
	return stack;
}

static struct probe_error *take_hit(const struct json_reader *reader, const struct json *object,
	struct values *values, struct probe_event *ret)
{
	const struct json *args = json_member(object, "args", JSON_ARRAY);
	const struct json *truncated = json_member(object, "truncated", JSON_ARRAY);
	const struct json *named = json_member(object, "named", JSON_OBJECT);
	const struct json *named_args = json_member(object, "named_args", JSON_ARRAY);
	struct probe_error *error;

	*ret = (struct probe_event){.kind = PROBE_EVENT_HIT,
		.cpu = -1,
		.provider = string_field(object, "provider"),
		.name = string_field(object, "name"),
		.comm = string_field(object, "comm")};
	if (!ret->provider || !ret->name || !args || !unsigned_field(object, "ts", &ret->time_ns) ||
		!int_field(object, "pid", &ret->pid) || !int_field(object, "tid", &ret->tid))
		return line_error(
			reader, "this is not a hit, as `probectl trace --json` prints it");
	int_field(object, "cpu", &ret->cpu);
	ret->pc = address_field(object, "pc");
	error = take_args(reader, args, values, ret);
	if (!error && named && named_args)
		take_named(values, named, named_args, ret->arg_count);
	if (error || !truncated)
		return error;
	for (const struct json *item = truncated->first; item; item = item->next) {
		size_t arg = arg_of(item, ret->arg_count);

		if (arg != SIZE_MAX)
			values->items[arg].truncated = true;
	}
	return NULL;
}

static struct probe_error *take_event(struct json_reader *reader, struct probe_event *ret)
{
	const struct json *object = reader->object, *begin, *frames;
	struct probe_error *error;
	uint64_t lost;

	if (unsigned_field(object, "lost", &lost)) {
		*ret = (struct probe_event){.kind = PROBE_EVENT_LOST,
			.lost = lost,
			.cpu = -1,
			.provider = string_field(object, "provider"),
			.name = string_field(object, "name")};
		return NULL;
	}
	error = take_hit(reader, object, &reader->args, ret);
	frames = json_member(object, "frames", JSON_ARRAY);
	begin = json_find(object, "begin");
	if (error)
		return error;
	if (frames)
		ret->stack = take_stack(reader, frames);
	if (!begin)
		return NULL;
	/* A span's start event, to which its end event points. */
	if (begin->kind != JSON_OBJECT || !unsigned_field(object, "duration", &ret->duration_ns))
		return line_error(
			reader, "this is not a span, as `probectl trace -t span --json` prints it");
	error = take_hit(reader, begin, &reader->begin_args, &reader->begin);
	if (!reader->begin.comm && reader->begin.tid == ret->tid)
		reader->begin.comm = ret->comm;
	ret->begin = &reader->begin;
	return error;
}

/* ---- Reading --------------------------------------------------------------------------- */

static void lines_close(void *source)
{
	struct json_reader *reader = source;

	if (!reader)
		return;
	json_parser_deinit(&reader->parser);
	free(reader->args.items);
	free(reader->begin_args.items);
	free(reader->data);
	free(reader->name);
	free(reader);
}

struct probe_error *reader_json_open(int fd, const char *name, void **ret)
{
	struct json_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return probe_error_no_memory();
	reader->fd = fd;
	reader->name = strdup(name);
	if (!json_parser_init(&reader->parser) || !reader->name) {
		lines_close(reader);
		return probe_error_no_memory();
	}
	*ret = reader;
	return NULL;
}

static struct probe_error *parse(struct json_reader *reader, char *line, size_t length)
{
	struct json_parser *parser = &reader->parser;
	uint64_t schema;

	reader->object = json_parse(parser, line, length);
	if (!reader->object && parser->is_cut_off)
		return line_error(reader, "the object does not end");
	if (!reader->object)
		return probe_error_new(PROBE_ERROR_FORMAT,
			"%s, line %" PRIu64 ": this is not JSON, as `probectl trace --json` prints "
			"it (%s)",
			reader->name, reader->line, parser->why);
	if (reader->object->kind != JSON_OBJECT)
		return line_error(
			reader, "this is not a JSON object (does the program write there, too?)");
	if (parser->at < parser->end)
		return line_error(
			reader, "there is more after the object: the program writes there, too");
	/* An object without a version has the first one. */
	if (unsigned_field(reader->object, "schema", &schema) && schema > PROBE_JSON_SCHEMA)
		return probe_error_new(PROBE_ERROR_FORMAT,
			"%s, line %" PRIu64 ": a newer probectl has written this (schema %" PRIu64
			"; this one knows %d)",
			reader->name, reader->line, schema, PROBE_JSON_SCHEMA);
	return NULL;
}

static struct probe_error *json_next(void *source, struct probe_event *ret, bool *there_ret)
{
	struct json_reader *reader = source;
	struct probe_error *error;
	size_t length;
	char *line;

	do {
		error = next_line(reader, &line, &length);
		if (!error && line && length)
			error = parse(reader, line, length);
		if (error)
			return error;
		/* An object with "inconsistent" but without "args" is a report on a site. */
	} while (line && (!length || (json_find(reader->object, "inconsistent") &&
					     !json_find(reader->object, "args"))));
	*there_ret = line != NULL;
	return line ? take_event(reader, ret) : NULL;
}

const struct reader_ops reader_json = {
	.next = json_next,
	.close = lines_close,
};
