/* SPDX-License-Identifier: MIT */
/*
 * The structures around the fields of events: header and context of packets, header and context of
 * events. Their fields are known by name, and another one is not understood: it may change what
 * the others mean.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/record/record.h"

enum { NAMES_MAX = 10, ADDRESS_BITS = 64 };

/* A number of a structure, by its name. */
struct name {
	const char *name;
	uint16_t number;
};

static const struct name names[][NAMES_MAX] = {
	[OWN_PACKET_HEADER] = {{"magic", OWN_MAGIC}, {"stream_id", OWN_STREAM_ID},
		{"stream_instance_id", OWN_IGNORED}},
	[OWN_PACKET_CONTEXT] = {{"timestamp_begin", OWN_BEGIN}, {"timestamp_end", OWN_END},
		{"content_size", OWN_CONTENT}, {"packet_size", OWN_PACKET},
		{"packet_seq_num", OWN_SEQUENCE}, {"events_discarded", OWN_DISCARDED},
		{"cpu_id", OWN_CPU}, {"pid", OWN_PACKET_PID}},
	[OWN_EVENT_HEADER] = {{"id", OWN_ID}, {"timestamp", OWN_TIME}},
	[OWN_EVENT_CONTEXT] = {{"pid", OWN_PID}, {"tid", OWN_TID}, {"child", OWN_CHILD},
		{"callstack_end", OWN_STACK_END}},
};

size_t own_length_of(const struct tsdl_type *structure, size_t index)
{
	const char *name = structure->fields[index].type->length_name;

	for (size_t i = 0; i < index; i++)
		if (strcmp(structure->fields[i].name, name) == 0 &&
			structure->fields[i].type->kind == TSDL_INTEGER &&
			!structure->fields[i].type->is_signed)
			return i;
	return SIZE_MAX;
}

/* Is the field the length of the next one? */
static bool is_length(const struct tsdl_type *structure, size_t index)
{
	return index + 1 < structure->field_count &&
	       structure->fields[index + 1].type->kind == TSDL_SEQUENCE &&
	       own_length_of(structure, index + 1) == index;
}

static bool add_number(struct step_builder *b, enum own_context context,
	const struct tsdl_type *structure, size_t index, uint32_t *has)
{
	const struct tsdl_field *field = &structure->fields[index];
	bool is_signed = field->type->is_signed;
	struct step *step;
	uint16_t number = 0;

	for (const struct name *name = names[context]; name->name; name++)
		if (strcmp(name->name, field->name) == 0)
			number = name->number;
	if (is_length(structure, index))
		number = (uint16_t)(OWN_FREE + index);
	else if (number)
		*has |= UINT32_C(1) << number;
	else
		return steps_fail(b, "its field '%s' is not understood", field->name);
	step = steps_fixed(b, is_signed ? STEP_NUMBER_SIGNED : STEP_NUMBER, field->type);
	if (step)
		step->to = number;
	return step != NULL;
}

static bool is_array_of(const struct tsdl_type *type, enum tsdl_kind kind, uint32_t bits)
{
	return type->kind == kind && type->element->kind == TSDL_INTEGER &&
	       type->element->size == bits;
}

static bool add_field(struct step_builder *b, enum own_context context,
	const struct tsdl_type *structure, size_t index, uint32_t *has)
{
	const struct tsdl_field *field = &structure->fields[index];
	const struct tsdl_type *type = field->type;
	struct step *step;
	size_t length;

	if (type->kind == TSDL_INTEGER)
		return add_number(b, context, structure, index, has);
	if (context == OWN_PACKET_HEADER && strcmp(field->name, "uuid") == 0 &&
		is_array_of(type, TSDL_ARRAY, 8) && type->length == TSDL_UUID_BYTES)
		return steps_variable(b, STEP_UUID, type) != NULL;
	if (context == OWN_EVENT_CONTEXT && strcmp(field->name, "comm") == 0 &&
		type->kind == TSDL_STRING)
		return steps_variable(b, STEP_COMM, type) != NULL;
	length = type->kind == TSDL_SEQUENCE ? own_length_of(structure, index) : SIZE_MAX;
	if (context != OWN_EVENT_CONTEXT || strcmp(field->name, "callstack_user") != 0 ||
		length == SIZE_MAX || !is_array_of(type, TSDL_SEQUENCE, ADDRESS_BITS))
		return steps_fail(b, "its field '%s' is not understood", field->name);
	step = steps_variable(b, STEP_STACK, type);
	if (step)
		step->from = (uint16_t)(OWN_FREE + length);
	return step != NULL;
}

bool own_context_steps(struct step_builder *b, enum own_context context,
	const struct tsdl_type *structure, uint32_t *has)
{
	if (!structure)
		return !b->error;
	if (structure->field_count > OWN_FIELDS_MAX)
		return steps_fail(b, "it has more than %d fields", OWN_FIELDS_MAX);
	if (!steps_align(b, structure->align))
		return false;
	for (size_t i = 0; i < structure->field_count; i++)
		if (!add_field(b, context, structure, i, has))
			return false;
	return true;
}
