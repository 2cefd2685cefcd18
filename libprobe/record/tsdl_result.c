/* SPDX-License-Identifier: MIT */
/* What metadata says, put together: the same whichever language says it. */
#include <string.h>

#include "libprobe/record/tsdl.h"

enum { SIZE_MAX_BITS = 64 };

struct tsdl_parser tsdl_parser_of(const char *text, size_t length, struct tsdl *ret)
{
	*ret = (struct tsdl){0};
	return (struct tsdl_parser){.tsdl = ret,
		.at = text,
		.end = text + length,
		.line = 1,
		.ends = {&ret->environment, &ret->clocks, &ret->streams, &ret->events}};
}

/* ---- Lists ---------------------------------------------------------------------------------- */

bool tsdl_add_environment(struct tsdl_parser *p, const char *name, const struct tsdl_value *value)
{
	struct tsdl_entry *entry = tsdl_alloc(p, sizeof(*entry));

	if (!entry)
		return false;
	*entry = (struct tsdl_entry){.name = name, .number = value->number};
	if (value->token != TSDL_NUMBER)
		entry->text = value->text;
	if (value->token == TSDL_TEXT && strcmp(name, "tracer_version") == 0)
		p->tsdl->tracer_version = value->text;
	*p->ends.environment = entry;
	p->ends.environment = &entry->next;
	return true;
}

bool tsdl_add_clock(struct tsdl_parser *p, struct tsdl_clock *clock)
{
	if (!clock->name || !clock->freq)
		return tsdl_fail(p, "a clock has no %s", clock->name ? "frequency" : "name");
	if (p->clock_count++ == TSDL_CLOCKS_MAX)
		return tsdl_fail(p, "there are more than %d clocks", TSDL_CLOCKS_MAX);
	*p->ends.clocks = clock;
	p->ends.clocks = &clock->next;
	return true;
}

void tsdl_add_stream(struct tsdl_parser *p, struct tsdl_stream *stream)
{
	*p->ends.streams = stream;
	p->ends.streams = &stream->next;
}

void tsdl_add_event(struct tsdl_parser *p, struct tsdl_event *event)
{
	*p->ends.events = event;
	p->ends.events = &event->next;
	p->tsdl->event_count++;
}

/* ---- Types ---------------------------------------------------------------------------------- */

bool tsdl_set_align(struct tsdl_parser *p, uint64_t align, struct tsdl_type *type)
{
	if (!align || align > SIZE_MAX_BITS || (align & (align - 1)))
		return tsdl_fail(p, "an alignment is no power of two up to %d", SIZE_MAX_BITS);
	type->align = (uint32_t)align;
	return true;
}

bool tsdl_set_size(struct tsdl_parser *p, uint64_t size, struct tsdl_type *type)
{
	type->size = size && size <= SIZE_MAX_BITS ? (uint32_t)size : 0;
	return type->size || tsdl_fail(p, "an integer has not 1 to %d bits", SIZE_MAX_BITS);
}

bool tsdl_add_label(struct tsdl_parser *p, struct tsdl_type *type, const struct tsdl_label *label)
{
	struct tsdl_label *copy;
	int count = 0;

	for (const struct tsdl_label *each = type->labels; each; each = each->next)
		count++;
	if (count == TSDL_LABELS_MAX)
		return tsdl_fail(p, "an enumeration has more than %d labels", TSDL_LABELS_MAX);
	copy = tsdl_alloc(p, sizeof(*copy));
	if (!copy)
		return false;
	*copy = *label;
	copy->next = type->labels;
	type->is_unreadable = !copy->next && strcmp(label->name, "unreadable") == 0;
	type->labels = copy;
	return true;
}

/* Fields are gathered in blocks that double, since how many there are is not known before. */
bool tsdl_add_field(struct tsdl_parser *p, struct tsdl_type *type, const struct tsdl_field *field)
{
	size_t count = type->field_count;
	struct tsdl_field *fields;

	if (!(count & (count - 1))) {
		fields = tsdl_alloc(p, 2 * (count + 1) * sizeof(*fields));
		if (!fields)
			return false;
		if (count)
			memcpy(fields, type->fields, count * sizeof(*fields));
		type->fields = fields;
	}
	type->fields[type->field_count++] = *field;
	if (field->type->align > type->align)
		type->align = field->type->align;
	return true;
}
