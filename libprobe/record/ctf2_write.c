/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "libprobe/record/ctf2.h"

enum { BYTE = 8, HEX = 16 };

static void text(struct buffer *out, const char *string)
{
	buffer_char(out, '"');
	buffer_json_escaped(out, string, strlen(string));
	buffer_char(out, '"');
}

/* The key of an object's further member. */
static void key(struct buffer *out, const char *name)
{
	buffer_string(out, ",\"");
	buffer_string(out, name);
	buffer_string(out, "\":");
}

static void text_member(struct buffer *out, const char *name, const char *value)
{
	key(out, name);
	text(out, value);
}

static void number_member(struct buffer *out, const char *name, uint64_t value)
{
	key(out, name);
	buffer_unsigned(out, value);
}

/* An object begins with its type. */
static void begin(struct buffer *out, const char *type)
{
	buffer_string(out, "{\"type\":");
	text(out, type);
}

static void begin_fragment(struct buffer *out, const char *type)
{
	buffer_char(out, CTF2_SEPARATOR);
	begin(out, type);
}

static void end_fragment(struct buffer *out)
{
	buffer_string(out, "}\n");
}

/* ---- Types ---------------------------------------------------------------------------------- */

static void bits(struct buffer *out, const struct tsdl_type *type)
{
	number_member(out, "length", type->size);
	text_member(out, "byte-order", "little-endian");
	if (type->align != 1)
		number_member(out, "alignment", type->align);
}

static void labels(struct buffer *out, const struct tsdl_type *type)
{
	key(out, "mappings");
	for (const struct tsdl_label *label = type->labels; label; label = label->next) {
		buffer_char(out, label == type->labels ? '{' : ',');
		text(out, label->name);
		buffer_string(out, ":[[");
		buffer_signed(out, label->first);
		buffer_char(out, ',');
		buffer_signed(out, label->last);
		buffer_string(out, "]]");
	}
	buffer_char(out, '}');
}

static void integer(struct buffer *out, const struct tsdl_type *type)
{
	begin(out,
		type->is_signed ? "fixed-length-signed-integer" : "fixed-length-unsigned-integer");
	bits(out, type);
	if (type->is_hex)
		number_member(out, "preferred-display-base", HEX);
	if (type->labels)
		labels(out, type);
}

/* Integers that are characters are a string, those that are bytes a blob. */
static void array(struct buffer *out, const struct tsdl_type *type, enum ctf2_place place)
{
	const struct tsdl_type *element = type->element;
	bool is_fixed = type->kind == TSDL_ARRAY;
	bool is_bytes = element->kind == TSDL_INTEGER && element->size == BYTE &&
			!element->is_signed && element->align == BYTE;

	if (is_bytes && element->is_text)
		begin(out, is_fixed ? "static-length-string" : "dynamic-length-string");
	else if (is_bytes)
		begin(out, is_fixed ? "static-length-blob" : "dynamic-length-blob");
	else
		begin(out, is_fixed ? "static-length-array" : "dynamic-length-array");
	if (!is_bytes) {
		key(out, "element-field-class");
		integer(out, element);
		buffer_char(out, '}');
	}
	if (is_fixed) {
		number_member(out, "length", type->length);
		return;
	}
	key(out, "length-field-location");
	buffer_string(out, "{\"origin\":");
	text(out, ctf2_origin(place));
	buffer_string(out, ",\"path\":[");
	text(out, type->length_name);
	buffer_string(out, "]}");
}

/* The type of a field, without structures with fields, of which there are none in others. */
static void field_class(struct buffer *out, const struct tsdl_field *field, enum ctf2_place place)
{
	const char *role = ctf2_role(place, field->name);

	switch (field->type->kind) {
	case TSDL_INTEGER:
		integer(out, field->type);
		break;
	case TSDL_FLOAT:
		begin(out, "fixed-length-floating-point-number");
		bits(out, field->type);
		break;
	case TSDL_STRING:
		begin(out, "null-terminated-string");
		break;
	case TSDL_STRUCT:
		begin(out, "structure");
		break;
	case TSDL_ARRAY:
	case TSDL_SEQUENCE:
		array(out, field->type, place);
		break;
	}
	if (role) {
		key(out, "roles");
		buffer_char(out, '[');
		text(out, role);
		buffer_char(out, ']');
	}
	buffer_char(out, '}');
}

/* A member that is a structure, if there is one. */
static void structure(
	struct buffer *out, const char *name, const struct tsdl_type *type, enum ctf2_place place)
{
	if (!type)
		return;
	key(out, name);
	begin(out, "structure");
	key(out, "member-classes");
	buffer_char(out, '[');
	for (size_t i = 0; i < type->field_count; i++) {
		buffer_string(out, i ? ",{\"name\":" : "{\"name\":");
		text(out, type->fields[i].name);
		key(out, "field-class");
		field_class(out, &type->fields[i], place);
		buffer_char(out, '}');
	}
	buffer_char(out, ']');
	if (type->align != 1)
		number_member(out, "minimum-alignment", type->align);
	buffer_char(out, '}');
}

/* ---- Fragments ------------------------------------------------------------------------------ */

static void preamble(struct buffer *out, const struct tsdl *tsdl)
{
	begin_fragment(out, "preamble");
	number_member(out, "version", 2);
	if (tsdl->has_uuid) {
		key(out, "uuid");
		for (size_t i = 0; i < TSDL_UUID_BYTES; i++) {
			buffer_char(out, i ? ',' : '[');
			buffer_unsigned(out, tsdl->uuid[i]);
		}
		buffer_char(out, ']');
	}
	end_fragment(out);
}

static void trace_class(struct buffer *out, const struct tsdl *tsdl)
{
	begin_fragment(out, "trace-class");
	key(out, "environment");
	buffer_char(out, '{');
	for (const struct tsdl_entry *entry = tsdl->environment; entry; entry = entry->next) {
		if (entry != tsdl->environment)
			buffer_char(out, ',');
		text(out, entry->name);
		buffer_char(out, ':');
		if (entry->text)
			text(out, entry->text);
		else
			buffer_unsigned(out, entry->number);
	}
	buffer_char(out, '}');
	structure(out, "packet-header-field-class", tsdl->packet_header, CTF2_PACKET_HEADER);
	end_fragment(out);
}

static void clock_class(struct buffer *out, const struct tsdl_clock *clock)
{
	begin_fragment(out, "clock-class");
	text_member(out, "id", clock->name);
	text_member(out, "name", clock->name);
	if (clock->description)
		text_member(out, "description", clock->description);
	number_member(out, "frequency", clock->freq);
	text_member(out, "origin", "unix-epoch");
	key(out, "offset-from-origin");
	buffer_string(out, "{\"seconds\":");
	buffer_signed(out, clock->offset_s + (int64_t)(clock->offset / clock->freq));
	number_member(out, "cycles", clock->offset % clock->freq);
	buffer_char(out, '}');
	end_fragment(out);
}

/* The clock that events count by; NULL: there is none. */
static const char *clock_of(const struct tsdl_stream *stream)
{
	const struct tsdl_type *header = stream->event_header;

	for (size_t i = 0; header && i < header->field_count; i++)
		if (header->fields[i].type->clock_name)
			return header->fields[i].type->clock_name;
	return NULL;
}

static void stream_class(struct buffer *out, const struct tsdl_stream *stream)
{
	const char *clock = clock_of(stream);

	begin_fragment(out, "data-stream-class");
	number_member(out, "id", stream->id);
	if (clock)
		text_member(out, "default-clock-class-id", clock);
	structure(out, "packet-context-field-class", stream->packet_context, CTF2_PACKET_CONTEXT);
	structure(out, "event-record-header-field-class", stream->event_header, CTF2_EVENT_HEADER);
	structure(out, "event-record-common-context-field-class", stream->event_context,
		CTF2_EVENT_CONTEXT);
	end_fragment(out);
}

static void event_class(struct buffer *out, const struct tsdl_event *event)
{
	begin_fragment(out, "event-record-class");
	number_member(out, "id", event->id);
	number_member(out, "data-stream-class-id", event->stream_id);
	if (event->name)
		text_member(out, "name", event->name);
	if (event->uri) {
		/* Where babeltrace2 looks for it, and TSDL's model.emf.uri is. */
		key(out, "attributes");
		buffer_string(out, "{\"babeltrace.org,2020\":{\"emf-uri\":");
		text(out, event->uri);
		buffer_string(out, "}}");
	}
	structure(out, "payload-field-class", event->fields, CTF2_EVENT_PAYLOAD);
	end_fragment(out);
}

void ctf2_write(struct buffer *out, const struct tsdl *tsdl)
{
	preamble(out, tsdl);
	trace_class(out, tsdl);
	for (const struct tsdl_clock *clock = tsdl->clocks; clock; clock = clock->next)
		clock_class(out, clock);
	for (const struct tsdl_stream *stream = tsdl->streams; stream; stream = stream->next)
		stream_class(out, stream);
	for (const struct tsdl_event *event = tsdl->events; event; event = event->next)
		event_class(out, event);
}
