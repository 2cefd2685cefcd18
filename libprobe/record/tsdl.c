/* SPDX-License-Identifier: MIT */
/*
 * The blocks of metadata: trace, env, clock, stream and event. A block has values (name = value;)
 * and types (name := struct { ... };).
 */
#include <string.h>

#include "libprobe/record/record.h"

/* What may stand in a block: `value` and `type` fail on what they do not know. */
struct block_kind {
	bool (*value)(struct tsdl_parser *p, const char *name, const struct tsdl_value *value,
		void *data);
	const char *const *type_names; /* up to NULL, */
	const size_t *type_offsets;    /* and where each belongs: a struct tsdl_type * */
};

static bool is(const char *name, const char *wanted)
{
	return strcmp(name, wanted) == 0;
}

static bool take_block_type(
	struct tsdl_parser *p, const struct block_kind *kind, const char *name, void *data)
{
	const struct tsdl_type **place = NULL;

	for (size_t i = 0; kind->type_names[i]; i++)
		if (is(kind->type_names[i], name))
			place = (const struct tsdl_type **)((char *)data + kind->type_offsets[i]);
	if (!place)
		return tsdl_fail(p, "'%s' is not understood", name);
	if (!tsdl_take_type(p, place))
		return false;
	return (*place)->kind == TSDL_STRUCT || tsdl_fail(p, "'%s' is no structure", name);
}

static bool take_block(struct tsdl_parser *p, const struct block_kind *kind, void *data)
{
	struct tsdl_value value;
	const char *name;

	if (!data || !tsdl_take_mark(p, '{'))
		return false;
	while (!tsdl_is_mark(p, '}')) {
		if (!tsdl_take_name(p, &name))
			return false;
		if (p->token == TSDL_DEFINE) {
			if (!tsdl_next(p) || !take_block_type(p, kind, name, data))
				return false;
		} else if (!tsdl_take(p, TSDL_ASSIGN, "=") || !tsdl_take_value(p, &value) ||
			   !kind->value(p, name, &value, data)) {
			return false;
		}
		if (!tsdl_take_mark(p, ';'))
			return false;
	}
	return tsdl_next(p) && tsdl_take_mark(p, ';');
}

static const char *const no_names[] = {NULL};

/* ---- trace and env ------------------------------------------------------------------------- */

static bool take_uuid(struct tsdl_parser *p, const struct tsdl_value *value)
{
	const char *at = value->token == TSDL_TEXT ? value->text : "";
	static const char digits[] = "0123456789abcdef";
	size_t count = 0;

	for (; *at; at++) {
		const char *digit = strchr(digits, *at | 0x20);

		if (*at == '-')
			continue;
		if (!digit || count == 2 * TSDL_UUID_BYTES)
			return tsdl_fail(p, "the uuid is malformed");
		p->tsdl->uuid[count / 2] =
			(uint8_t)(p->tsdl->uuid[count / 2] << 4 | (digit - digits));
		count++;
	}
	p->tsdl->has_uuid = true;
	return count == 2 * TSDL_UUID_BYTES || tsdl_fail(p, "the uuid is malformed");
}

static bool trace_value(
	struct tsdl_parser *p, const char *name, const struct tsdl_value *value, void *data)
{
	uint64_t number;

	(void)data;
	if (is(name, "uuid"))
		return take_uuid(p, value);
	if (is(name, "byte_order"))
		return (value->token == TSDL_NAME && is(value->text, "le")) ||
		       tsdl_fail(p, "only little-endian is understood");
	if (!is(name, "major") && !is(name, "minor"))
		return tsdl_fail(p, "the trace's '%s' is not understood", name);
	if (!tsdl_number_of(p, value, &number))
		return false;
	return number == (is(name, "major") ? 1 : 8) ||
	       tsdl_fail(p, "it is not of version 1.8 of the Common Trace Format");
}

static bool take_trace(struct tsdl_parser *p)
{
	static const char *const names[] = {"packet.header", NULL};
	static const size_t offsets[] = {offsetof(struct tsdl, packet_header)};
	static const struct block_kind kind = {trace_value, names, offsets};

	return take_block(p, &kind, p->tsdl);
}

/* Anything may be there. */
static bool env_value(
	struct tsdl_parser *p, const char *name, const struct tsdl_value *value, void *data)
{
	(void)data;
	if (value->token == TSDL_TEXT && is(name, "tracer_version"))
		p->tsdl->tracer_version = value->text;
	return true;
}

static bool take_env(struct tsdl_parser *p)
{
	static const struct block_kind kind = {env_value, no_names, NULL};

	return take_block(p, &kind, p->tsdl);
}

/* ---- clock --------------------------------------------------------------------------------- */

static bool clock_value(
	struct tsdl_parser *p, const char *name, const struct tsdl_value *value, void *data)
{
	struct tsdl_clock *clock = data;

	if (is(name, "name")) {
		if (value->token == TSDL_NUMBER)
			return tsdl_fail(p, "a clock's name is none");
		clock->name = value->text;
		return true;
	}
	if (is(name, "description") || is(name, "precision") || is(name, "absolute") ||
		is(name, "uuid"))
		return true;
	if (is(name, "freq"))
		return tsdl_number_of(p, value, &clock->freq);
	if (is(name, "offset"))
		return tsdl_number_of(p, value, &clock->offset);
	if (!is(name, "offset_s"))
		return tsdl_fail(p, "a clock's '%s' is not understood", name);
	if (value->token != TSDL_NUMBER || value->number > INT64_MAX)
		return tsdl_fail(p, "a clock's offset is no number");
	clock->offset_s = value->negative ? -(int64_t)value->number : (int64_t)value->number;
	return true;
}

static bool take_clock(struct tsdl_parser *p)
{
	static const struct block_kind kind = {clock_value, no_names, NULL};
	struct tsdl_clock *clock = tsdl_alloc(p, sizeof(*clock));

	if (clock)
		clock->freq = 1000000000; /* the language's default */
	if (!take_block(p, &kind, clock))
		return false;
	if (!clock->name || !clock->freq)
		return tsdl_fail(p, "a clock has no %s", clock->name ? "frequency" : "name");
	if (p->clock_count++ == TSDL_CLOCKS_MAX)
		return tsdl_fail(p, "there are more than %d clocks", TSDL_CLOCKS_MAX);
	*p->ends.clocks = clock;
	p->ends.clocks = &clock->next;
	return true;
}

/* ---- stream and event ------------------------------------------------------------------------ */

static bool stream_value(
	struct tsdl_parser *p, const char *name, const struct tsdl_value *value, void *data)
{
	struct tsdl_stream *stream = data;

	return is(name, "id") ? tsdl_number_of(p, value, &stream->id)
			      : tsdl_fail(p, "a stream's '%s' is not understood", name);
}

static bool take_stream(struct tsdl_parser *p)
{
	static const char *const names[] = {
		"packet.context", "event.header", "event.context", NULL};
	static const size_t offsets[] = {offsetof(struct tsdl_stream, packet_context),
		offsetof(struct tsdl_stream, event_header),
		offsetof(struct tsdl_stream, event_context)};
	static const struct block_kind kind = {stream_value, names, offsets};
	struct tsdl_stream *stream = tsdl_alloc(p, sizeof(*stream));

	if (!take_block(p, &kind, stream))
		return false;
	*p->ends.streams = stream;
	p->ends.streams = &stream->next;
	return true;
}

static bool event_value(
	struct tsdl_parser *p, const char *name, const struct tsdl_value *value, void *data)
{
	struct tsdl_event *event = data;

	if (is(name, "id"))
		return tsdl_number_of(p, value, &event->id);
	if (is(name, "stream_id"))
		return tsdl_number_of(p, value, &event->stream_id);
	if (is(name, "name")) {
		event->name = value->text;
		return value->token != TSDL_NUMBER || tsdl_fail(p, "an event's name is none");
	}
	/* They say nothing about its bytes. */
	return is(name, "model.emf.uri") || is(name, "loglevel") ||
	       tsdl_fail(p, "an event's '%s' is not understood", name);
}

static bool take_event(struct tsdl_parser *p)
{
	static const char *const names[] = {"context", "fields", NULL};
	static const size_t offsets[] = {
		offsetof(struct tsdl_event, context), offsetof(struct tsdl_event, fields)};
	static const struct block_kind kind = {event_value, names, offsets};
	struct tsdl_event *event = tsdl_alloc(p, sizeof(*event));

	if (!take_block(p, &kind, event))
		return false;
	*p->ends.events = event;
	p->ends.events = &event->next;
	return true;
}

/* ---- The metadata ------------------------------------------------------------------------------
 */

static bool take_statement(struct tsdl_parser *p)
{
	static const struct {
		const char *name;
		bool (*take)(struct tsdl_parser *p);
	} kinds[] = {
		{"typealias", tsdl_take_alias},
		{"trace", take_trace},
		{"env", take_env},
		{"clock", take_clock},
		{"stream", take_stream},
		{"event", take_event},
	};
	const char *name;

	if (!tsdl_take_name(p, &name))
		return false;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (is(kinds[i].name, name))
			return kinds[i].take(p);
	return tsdl_fail(p, "'%s' is not understood", name);
}

struct probe_error *tsdl_parse(const char *text, size_t length, struct tsdl *ret)
{
	struct tsdl_parser p = {.tsdl = ret,
		.at = text,
		.end = text + length,
		.line = 1,
		.ends = {&ret->clocks, &ret->streams, &ret->events}};

	*ret = (struct tsdl){0};
	tsdl_next(&p);
	while (!p.error && p.token != TSDL_END)
		take_statement(&p);
	return p.error;
}
