/* SPDX-License-Identifier: MIT */
/*
 * Hits and spans as `probectl trace --json` prints them (libprobe/output/json.c), one object per
 * line. Unknown fields are skipped, because later versions may add some.
 *
 * The parser is json-c and not jansson: a pointer may be any 64-bit number, and jansson rejects
 * integers above 2^63.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>
#include <json-c/json_object_iterator.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/library.h"
#include "libprobe/record/reader.h"

enum {
	READ_BYTES = 1 << 16,
	LINE_BYTES_MAX = 1 << 24,
	DEPTH_MAX = 8, /* nested objects and arrays */
	ARGS_MAX = 4096
};

/* clang-format off */
#define JSON_FUNCTIONS(X) \
	X(object_array_get_idx) \
	X(object_array_length) \
	X(object_get_double) \
	X(object_get_int64) \
	X(object_get_string) \
	X(object_get_string_len) \
	X(object_get_type) \
	X(object_get_uint64) \
	X(object_iter_begin) \
	X(object_iter_end) \
	X(object_iter_equal) \
	X(object_iter_next) \
	X(object_iter_peek_value) \
	X(object_object_get_ex) \
	X(object_put) \
	X(tokener_error_desc) \
	X(tokener_free) \
	X(tokener_get_error) \
	X(tokener_get_parse_end) \
	X(tokener_new_ex) \
	X(tokener_parse_ex) \
	X(tokener_reset)
/* clang-format on */

/* Written once, by load() under `once`. */
static struct {
	pthread_once_t once;
	const char *missing; /* or NULL */
	struct {
#define MEMBER(name) __typeof__(&json_##name) name;
		JSON_FUNCTIONS(MEMBER)
#undef MEMBER
	} json;
} library = {.once = PTHREAD_ONCE_INIT};

/* Arguments of a hit. */
struct values {
	struct probe_value *items;
	size_t room;
};

struct json_reader {
	int fd;
	char *name;
	char *data; /* unprocessed input: [start, end) */
	size_t start, end, room;
	bool ended;
	uint64_t line; /* current line number, from 1 */
	struct json_tokener *tokener;
	struct json_object *object; /* the last event points into it */
	struct values args, begin_args;
	struct probe_event begin; /* of a span */
	struct probe_stack stack;
	struct probe_frame frames[PROBE_FRAMES_MAX];
	const struct probe_frame *pointers[PROBE_FRAMES_MAX];
};

static void load(void)
{
	static const struct library_function functions[] = {
#define ROW(name) {"json_" #name, offsetof(__typeof__(library.json), name)},
		JSON_FUNCTIONS(ROW)
#undef ROW
	};

	library.missing = library_load("libjson-c.so.5", functions,
		sizeof(functions) / sizeof(functions[0]), &library.json);
}

/* ---- Lines ---------------------------------------------------------------------------- */

static struct probe_error *line_error(const struct json_reader *reader, const char *what)
{
	return probe_error_new(
		PROBE_ERROR_FORMAT, "%s, line %" PRIu64 ": %s", reader->name, reader->line, what);
}

/* Reads more input, after what is there. */
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
		data = realloc(reader->data, length + 2 * READ_BYTES);
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

/* The next line without its end; *ret is NULL after the last. */
static struct probe_error *next_line(
	struct json_reader *reader, const char **ret, size_t *length_ret)
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
	reader->start += *length_ret + (end ? 1 : 0);
	return NULL;
}

/* ---- Values --------------------------------------------------------------------------- */

static struct json_object *field(struct json_object *object, const char *name)
{
	struct json_object *value;

	return library.json.object_object_get_ex(object, name, &value) ? value : NULL;
}

static const char *string_field(struct json_object *object, const char *name)
{
	struct json_object *value = field(object, name);

	return value && library.json.object_get_type(value) == json_type_string
		       ? library.json.object_get_string(value)
		       : NULL;
}

/* Whether the number exists. One that is out of range is clamped. */
static bool int_field(struct json_object *object, const char *name, int *ret)
{
	struct json_object *value = field(object, name);
	int64_t number;

	if (!value || library.json.object_get_type(value) != json_type_int)
		return false;
	number = library.json.object_get_int64(value);
	*ret = (int)(number < INT_MIN ? INT_MIN : number > INT_MAX ? INT_MAX : number);
	return true;
}

static bool unsigned_field(struct json_object *object, const char *name, uint64_t *ret)
{
	struct json_object *value = field(object, name);

	if (!value || library.json.object_get_type(value) != json_type_int)
		return false;
	*ret = library.json.object_get_uint64(value);
	return true;
}

static struct probe_value value_of(struct json_object *value)
{
	struct probe_value ret = {.kind = PROBE_VALUE_NULL};

	switch (library.json.object_get_type(value)) {
	case json_type_int:
		ret.kind = PROBE_VALUE_UNSIGNED;
		ret.u = library.json.object_get_uint64(value);
		if (ret.u <= INT64_MAX) {
			ret.kind = PROBE_VALUE_SIGNED;
			ret.i = library.json.object_get_int64(value);
		}
		break;
	case json_type_double:
		ret.kind = PROBE_VALUE_FLOAT;
		ret.f = library.json.object_get_double(value);
		break;
	case json_type_string:
		ret.kind = PROBE_VALUE_STRING;
		ret.bytes = library.json.object_get_string(value);
		ret.length = (size_t)library.json.object_get_string_len(value);
		break;
	default:
		break;
	}
	return ret;
}

static struct probe_error *take_args(const struct json_reader *reader, struct json_object *args,
	struct values *values, struct probe_event *ret)
{
	size_t count = library.json.object_array_length(args);
	struct probe_value *items;

	if (count > ARGS_MAX)
		return line_error(reader, "there are too many arguments");
	if (count > values->room) {
		items = reallocarray(values->items, count, sizeof(*items));
		if (!items)
			return probe_error_no_memory();
		values->items = items;
		values->room = count;
	}
	for (size_t i = 0; i < count; i++)
		values->items[i] = value_of(library.json.object_array_get_idx(args, i));
	ret->args = values->items;
	ret->arg_count = count;
	return NULL;
}

/* "truncated" lists arguments by index. */
static void take_truncated(struct values *values, struct json_object *list, size_t arg_count)
{
	size_t count = library.json.object_array_length(list);

	for (size_t i = 0; i < count; i++) {
		struct json_object *item = library.json.object_array_get_idx(list, i);
		uint64_t arg = library.json.object_get_uint64(item);

		if (arg < arg_count)
			values->items[arg].truncated = true;
	}
}

/* "named" has the texts of the arguments that "named_args" lists by index, in the same order. */
static void take_named(struct values *values, struct json_object *named, struct json_object *list,
	size_t arg_count)
{
	struct json_object_iterator at = library.json.object_iter_begin(named);
	struct json_object_iterator end = library.json.object_iter_end(named);
	size_t count = library.json.object_array_length(list);

	for (size_t i = 0; i < count && !library.json.object_iter_equal(&at, &end); i++) {
		struct json_object *item = library.json.object_array_get_idx(list, i);
		struct probe_value text = value_of(library.json.object_iter_peek_value(&at));
		uint64_t arg = library.json.object_get_uint64(item);

		library.json.object_iter_next(&at);
		if (arg >= arg_count || text.kind != PROBE_VALUE_STRING ||
			(values->items[arg].kind != PROBE_VALUE_SIGNED &&
				values->items[arg].kind != PROBE_VALUE_UNSIGNED))
			continue;
		values->items[arg].kind = PROBE_VALUE_TEXT;
		values->items[arg].known = true;
		values->items[arg].bytes = text.bytes;
		values->items[arg].length = text.length;
	}
}

static bool is_array(struct json_object *value)
{
	return value && library.json.object_get_type(value) == json_type_array;
}

/* Addresses are strings: "0x...". */
static uint64_t address_field(struct json_object *object, const char *name)
{
	const char *text = string_field(object, name);

	return text ? strtoull(text, NULL, 16) : 0;
}

static enum probe_stack_end end_of(const char *text)
{
	if (!text || strcmp(text, "whole") == 0)
		return PROBE_STACK_WHOLE;
	return strcmp(text, "truncated") == 0 ? PROBE_STACK_TRUNCATED : PROBE_STACK_LOST;
}

/* What is no frame is left out. */
static const struct probe_stack *take_stack(struct json_reader *reader, struct json_object *frames)
{
	size_t count = library.json.object_array_length(frames);
	struct probe_stack *stack = &reader->stack;

	*stack = (struct probe_stack){
		.frames = reader->pointers, .end = end_of(string_field(reader->object, "stack"))};
	for (size_t i = 0; i < count; i++) {
		struct json_object *item = library.json.object_array_get_idx(frames, i);
		struct probe_frame *frame = &reader->frames[stack->count];

		if (library.json.object_get_type(item) != json_type_object)
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

/* Before there were versions, it was the first one. */
static struct probe_error *check_schema(const struct json_reader *reader)
{
	uint64_t schema;

	if (!unsigned_field(reader->object, "schema", &schema) || schema <= PROBE_JSON_SCHEMA)
		return NULL;
	return probe_error_new(PROBE_ERROR_FORMAT,
		"%s, line %" PRIu64 ": a newer probectl has written this (schema %" PRIu64
		"; this one knows %d)",
		reader->name, reader->line, schema, PROBE_JSON_SCHEMA);
}

static struct probe_error *take_hit(const struct json_reader *reader, struct json_object *object,
	struct values *values, struct probe_event *ret)
{
	struct json_object *args = field(object, "args"), *list = field(object, "truncated");
	struct json_object *named = field(object, "named"), *places = field(object, "named_args");
	struct probe_error *error;

	*ret = (struct probe_event){.kind = PROBE_EVENT_HIT,
		.cpu = -1,
		.provider = string_field(object, "provider"),
		.name = string_field(object, "name"),
		.comm = string_field(object, "comm")};
	if (!ret->provider || !ret->name || !is_array(args) ||
		!unsigned_field(object, "ts", &ret->time_ns) ||
		!int_field(object, "pid", &ret->pid) || !int_field(object, "tid", &ret->tid))
		return line_error(
			reader, "this is not a hit, as `probectl trace --json` prints it");
	int_field(object, "cpu", &ret->cpu);
	ret->pc = address_field(object, "pc");
	error = take_args(reader, args, values, ret);
	if (!error && named && library.json.object_get_type(named) == json_type_object &&
		is_array(places))
		take_named(values, named, places, ret->arg_count);
	if (!error && is_array(list))
		take_truncated(values, list, ret->arg_count);
	return error;
}

/* A span is the hit of its end, with its begin. */
static struct probe_error *take_begin(
	struct json_reader *reader, struct json_object *object, struct probe_event *end)
{
	struct probe_error *error;

	if (library.json.object_get_type(object) != json_type_object ||
		!unsigned_field(reader->object, "duration", &end->duration_ns))
		return line_error(
			reader, "this is not a span, as `probectl trace -t span --json` prints it");
	error = take_hit(reader, object, &reader->begin_args, &reader->begin);
	if (!reader->begin.comm && reader->begin.tid == end->tid)
		reader->begin.comm = end->comm;
	end->begin = &reader->begin;
	return error;
}

static struct probe_error *take_event(struct json_reader *reader, struct probe_event *ret)
{
	struct json_object *object = reader->object, *begin = field(object, "begin"), *frames;
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
	frames = field(object, "frames");
	if (!error && is_array(frames))
		ret->stack = take_stack(reader, frames);
	return !error && begin ? take_begin(reader, begin, ret) : error;
}

/* ---- Reading --------------------------------------------------------------------------- */

static void json_close(void *source)
{
	struct json_reader *reader = source;

	if (!reader)
		return;
	library.json.object_put(reader->object);
	if (reader->tokener)
		library.json.tokener_free(reader->tokener);
	free(reader->args.items);
	free(reader->begin_args.items);
	free(reader->data);
	free(reader->name);
	free(reader);
}

struct probe_error *reader_json_open(int fd, const char *name, void **ret)
{
	struct json_reader *reader;

	pthread_once(&library.once, load);
	if (library.missing)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"JSON is read with json-c, and %s is missing: install it "
			"(Debian: libjson-c5)",
			library.missing);
	reader = calloc(1, sizeof(*reader));
	if (!reader)
		return probe_error_no_memory();
	reader->fd = fd;
	reader->name = strdup(name);
	reader->tokener = library.json.tokener_new_ex(DEPTH_MAX);
	if (!reader->name || !reader->tokener) {
		json_close(reader);
		return probe_error_no_memory();
	}
	*ret = reader;
	return NULL;
}

static struct probe_error *parse(struct json_reader *reader, const char *line, size_t length)
{
	struct json_tokener *tokener = reader->tokener;
	enum json_tokener_error problem;
	size_t at;

	library.json.tokener_reset(tokener);
	reader->object = library.json.tokener_parse_ex(tokener, line, (int)length);
	problem = library.json.tokener_get_error(tokener);
	if (problem == json_tokener_continue)
		return line_error(reader, "the object does not end");
	if (problem != json_tokener_success)
		return probe_error_new(PROBE_ERROR_FORMAT,
			"%s, line %" PRIu64 ": this is not JSON, as `probectl trace --json` prints "
			"it (%s)",
			reader->name, reader->line, library.json.tokener_error_desc(problem));
	if (library.json.object_get_type(reader->object) != json_type_object)
		return line_error(
			reader, "this is not a JSON object (does the program write there, too?)");
	at = library.json.tokener_get_parse_end(tokener);
	while (at < length && strchr(" \t\r", line[at]) && line[at])
		at++;
	if (at < length)
		return line_error(
			reader, "there is more after the object: the program writes there, too");
	return NULL;
}

/* Reports on sites are not events of the program. */
static bool is_of_site(struct json_object *object)
{
	return field(object, "inconsistent") && !field(object, "args");
}

static struct probe_error *json_next(void *source, struct probe_event *ret, bool *there_ret)
{
	struct json_reader *reader = source;
	struct probe_error *error;
	const char *line;
	size_t length;

	do {
		library.json.object_put(reader->object);
		reader->object = NULL;
		error = next_line(reader, &line, &length);
		if (!error && line && length)
			error = parse(reader, line, length);
		if (!error && reader->object)
			error = check_schema(reader);
		if (error)
			return error;
	} while (line && (!length || is_of_site(reader->object)));
	*there_ret = line != NULL;
	return line ? take_event(reader, ret) : NULL;
}

const struct reader_ops reader_json = {
	.next = json_next,
	.close = json_close,
};
