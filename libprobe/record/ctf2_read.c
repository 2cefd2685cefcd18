/* SPDX-License-Identifier: MIT */
/* The fragments of CTF 2's metadata. */
#include <string.h>

#include "libprobe/record/ctf2_type.h"

enum { VERSION = 2, BYTE_MAX = 255 };

static bool is(const char *text, const char *wanted)
{
	return text && strcmp(text, wanted) == 0;
}

/* ---- preamble and trace-class --------------------------------------------------------------- */

static bool take_uuid(struct tsdl_parser *p, const struct json *bytes)
{
	const struct json *byte = bytes->kind == JSON_ARRAY ? bytes->first : NULL;
	size_t count = 0;

	for (; byte; byte = byte->next) {
		if (byte->kind != JSON_INTEGER || byte->is_negative || byte->number > BYTE_MAX ||
			count == TSDL_UUID_BYTES)
			return tsdl_fail(p, "the uuid is malformed");
		p->tsdl->uuid[count++] = (uint8_t)byte->number;
	}
	p->tsdl->has_uuid = true;
	return count == TSDL_UUID_BYTES || tsdl_fail(p, "the uuid is malformed");
}

static bool take_preamble(struct tsdl_parser *p, const struct json *fragment)
{
	const struct json *uuid = json_member(fragment, "uuid");
	const struct json *extensions = json_member(fragment, "extensions");
	uint64_t version = 0;

	if (!ctf2_take_number(p, fragment, "version", &version))
		return false;
	if (version != VERSION)
		return tsdl_fail(p, "it is not of version 2 of the Common Trace Format");
	if (extensions && (extensions->kind != JSON_OBJECT || extensions->first))
		return tsdl_fail(p, "its extensions are not understood");
	return !uuid || take_uuid(p, uuid);
}

static bool take_environment(struct tsdl_parser *p, const struct json *environment)
{
	const struct json *entry = environment ? environment->first : NULL;

	for (; entry; entry = entry->next) {
		struct tsdl_value value = {.token = TSDL_NUMBER};

		if (entry->kind == JSON_STRING) {
			value.token = TSDL_TEXT;
			value.text = entry->text;
		} else if (entry->kind == JSON_INTEGER) {
			value.number = entry->number;
		}
		if (!tsdl_add_environment(p, entry->name, &value))
			return false;
	}
	return true;
}

static bool take_trace(struct tsdl_parser *p, const struct json *fragment)
{
	return take_environment(p, json_member_of(fragment, "environment", JSON_OBJECT)) &&
	       ctf2_take_structure(p, fragment, "packet-header-field-class", CTF2_PACKET_HEADER,
		       NULL, &p->tsdl->packet_header);
}

/* ---- clock-class ---------------------------------------------------------------------------- */

static bool take_offset(struct tsdl_parser *p, const struct json *offset, struct tsdl_clock *clock)
{
	const struct json *seconds = json_member(offset, "seconds");

	if (seconds && (seconds->kind != JSON_INTEGER || seconds->number > INT64_MAX))
		return tsdl_fail(p, "a clock's offset is no number");
	if (seconds)
		clock->offset_s =
			seconds->is_negative ? -(int64_t)seconds->number : (int64_t)seconds->number;
	return ctf2_take_number(p, offset, "cycles", &clock->offset);
}

static bool take_clock(struct tsdl_parser *p, const struct json *fragment)
{
	struct tsdl_clock *clock = tsdl_alloc(p, sizeof(*clock));

	if (!clock || !ctf2_take_number(p, fragment, "frequency", &clock->freq))
		return false;
	if (!is(json_text(fragment, "origin"), "unix-epoch"))
		return tsdl_fail(p, "a clock does not count from 1970");
	clock->name = json_text(fragment, "id");
	clock->description = json_text(fragment, "description");
	return take_offset(p, json_member(fragment, "offset-from-origin"), clock) &&
	       tsdl_add_clock(p, clock);
}

/* ---- data-stream-class and event-record-class ----------------------------------------------- */

static bool take_stream(struct tsdl_parser *p, const struct json *fragment)
{
	const char *clock = json_text(fragment, "default-clock-class-id");
	struct tsdl_stream *stream = tsdl_alloc(p, sizeof(*stream));

	if (!stream || !ctf2_take_number(p, fragment, "id", &stream->id) ||
		!ctf2_take_structure(p, fragment, "packet-context-field-class", CTF2_PACKET_CONTEXT,
			clock, &stream->packet_context) ||
		!ctf2_take_structure(p, fragment, "event-record-header-field-class",
			CTF2_EVENT_HEADER, clock, &stream->event_header) ||
		!ctf2_take_structure(p, fragment, "event-record-common-context-field-class",
			CTF2_EVENT_CONTEXT, clock, &stream->event_context))
		return false;
	tsdl_add_stream(p, stream);
	return true;
}

static bool take_event(struct tsdl_parser *p, const struct json *fragment)
{
	const struct json *own = json_member(fragment, "attributes");
	struct tsdl_event *event = tsdl_alloc(p, sizeof(*event));

	if (!event || !ctf2_take_number(p, fragment, "id", &event->id) ||
		!ctf2_take_number(p, fragment, "data-stream-class-id", &event->stream_id))
		return false;
	event->name = json_text(fragment, "name");
	event->uri = json_text(json_member(own, "babeltrace.org,2020"), "emf-uri");
	if (json_member(fragment, "specific-context-field-class"))
		return tsdl_fail(p, "an event's own context is not understood");
	if (!ctf2_take_structure(
		    p, fragment, "payload-field-class", CTF2_EVENT_PAYLOAD, NULL, &event->fields))
		return false;
	tsdl_add_event(p, event);
	return true;
}

/* ---- The metadata --------------------------------------------------------------------------- */

static bool take_fragment(struct tsdl_parser *p, const struct json *fragment, bool is_first)
{
	static const struct {
		const char *name;
		bool (*take)(struct tsdl_parser *p, const struct json *fragment);
	} fragments[] = {
		{"preamble", take_preamble},
		{"trace-class", take_trace},
		{"clock-class", take_clock},
		{"data-stream-class", take_stream},
		{"event-record-class", take_event},
	};
	const char *type = json_text(fragment, "type");

	if (is(type, "preamble") != is_first)
		return tsdl_fail(p, "the preamble is not the first text, and the only one");
	for (size_t i = 0; type && i < sizeof(fragments) / sizeof(fragments[0]); i++)
		if (is(fragments[i].name, type))
			return fragments[i].take(p, fragment);
	return tsdl_fail(p, "'%s' is not understood", type ? type : "");
}

/* What is wrong with a text as a whole is said to be where it begins. */
static void take_text(struct tsdl_parser *p, bool is_first)
{
	unsigned int line = p->line, after;
	const struct json *fragment;

	if (*p->at++ != CTF2_SEPARATOR) {
		tsdl_fail(p, "a text does not begin with a record separator");
		return;
	}
	fragment = json_take(p);
	after = p->line;
	p->line = line;
	if (fragment)
		take_fragment(p, fragment, is_first);
	p->line = after;
}

struct probe_error *ctf2_parse(const char *text, size_t length, struct tsdl *ret)
{
	struct tsdl_parser p = tsdl_parser_of(text, length, ret);
	bool is_first = true;

	while (!p.error && p.at < p.end) {
		take_text(&p, is_first);
		is_first = false;
	}
	return p.error;
}
