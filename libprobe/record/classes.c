/* SPDX-License-Identifier: MIT */
/*
 * What an event of another tool's record means. Each event class is analysed once: which of its
 * fields are arguments, and which members of its context hold process and thread. A field X_length
 * before an array X is none (LTTng's).
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/record/reader.h"
#include "libprobe/record/ctf_stream.h"

enum member_kind {
	MEMBER_SKIP,
	MEMBER_NULL, /* an argument of an unsupported type */
	MEMBER_SIGNED,
	MEMBER_UNSIGNED,
	MEMBER_BOOL,
	MEMBER_BITS,
	MEMBER_SINGLE,
	MEMBER_DOUBLE,
	MEMBER_STRING,
	MEMBER_BYTES
};

enum { NOWHERE = -1, BYTE_BITS = 8, NAME_BYTES = 32 };

/* Members of a context, by index, or NOWHERE. */
struct context {
	int pid, tid, comm, ip, stack;
};

struct event_class {
	const bt_event_class *key;
	const char *provider, *name; /* one allocation */
	bool has_clock, has_packets;
	struct context common, specific;
	int cpu; /* in the packet's context */
	size_t arg_count, member_count;
	uint8_t *numbers; /* 1 + number of the argument that each payload member is; 0: not known */
	uint8_t kinds[];  /* enum member_kind of each payload member */
};

void reader_classes_init(struct reader_classes *classes, const struct babeltrace *bt)
{
	*classes = (struct reader_classes){.bt = bt};
}

static void class_free(void *data)
{
	struct event_class *class = data;

	free((char *)class->provider);
	free(class);
}

void reader_classes_deinit(struct reader_classes *classes)
{
	tdestroy(classes->tree, class_free);
	free(classes->values);
	free(classes->bytes);
	reader_stacks_deinit(&classes->stacks);
	reader_classes_init(classes, classes->bt);
}

/* ---- Looking at a class ------------------------------------------------------------- */

static const bt_field_class *member_class(
	const struct babeltrace *bt, const bt_field_class *structure, uint64_t i)
{
	return bt->field_class_structure_member_borrow_field_class_const(
		bt->field_class_structure_borrow_member_by_index_const(structure, i));
}

static const char *member_name(
	const struct babeltrace *bt, const bt_field_class *structure, uint64_t i)
{
	return bt->field_class_structure_member_get_name(
		bt->field_class_structure_borrow_member_by_index_const(structure, i));
}

static bool is(const struct babeltrace *bt, const bt_field_class *class, bt_field_class_type type)
{
	return bt_field_class_type_is(bt->field_class_get_type(class), type);
}

/*
 * The index of a member with this type and either name; NOWHERE if there is none, or no
 * structure.
 */
static int find_member(const struct babeltrace *bt, const bt_field_class *structure,
	bt_field_class_type type, const char *name, const char *other)
{
	uint64_t count;

	if (!structure)
		return NOWHERE;
	count = bt->field_class_structure_get_member_count(structure);
	for (uint64_t i = 0; i < count; i++) {
		const char *its = member_name(bt, structure, i);

		if ((strcmp(its, name) == 0 || strcmp(its, other) == 0) &&
			is(bt, member_class(bt, structure, i), type))
			return (int)i;
	}
	return NOWHERE;
}

/* Addresses, as LTTng records callstack_user, too. */
static int find_stack(const struct babeltrace *bt, const bt_field_class *structure)
{
	int i = find_member(bt, structure, BT_FIELD_CLASS_TYPE_DYNAMIC_ARRAY, "callstack_user",
		"callstack_user");

	return i != NOWHERE && is(bt,
				       bt->field_class_array_borrow_element_field_class_const(
					       member_class(bt, structure, (uint64_t)i)),
				       BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER)
		       ? i
		       : NOWHERE;
}

static struct context find_context(const struct babeltrace *bt, const bt_field_class *structure)
{
	return (struct context){
		.pid = find_member(bt, structure, BT_FIELD_CLASS_TYPE_INTEGER, "vpid", "pid"),
		.tid = find_member(bt, structure, BT_FIELD_CLASS_TYPE_INTEGER, "vtid", "tid"),
		.comm = find_member(bt, structure, BT_FIELD_CLASS_TYPE_STRING, "procname", "comm"),
		.ip = find_member(bt, structure, BT_FIELD_CLASS_TYPE_INTEGER, "ip", "pc"),
		.stack = find_stack(bt, structure),
	};
}

static bool is_bytes(const struct babeltrace *bt, const bt_field_class *class)
{
	const bt_field_class *element;

	if (!is(bt, class, BT_FIELD_CLASS_TYPE_ARRAY))
		return false;
	element = bt->field_class_array_borrow_element_field_class_const(class);
	return is(bt, element, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER) &&
	       bt->field_class_integer_get_field_value_range(element) == BYTE_BITS;
}

static enum member_kind kind_of(const struct babeltrace *bt, const bt_field_class *class)
{
	static const struct {
		bt_field_class_type type;
		enum member_kind kind;
	} kinds[] = {
		{BT_FIELD_CLASS_TYPE_SIGNED_INTEGER, MEMBER_SIGNED},
		{BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER, MEMBER_UNSIGNED},
		{BT_FIELD_CLASS_TYPE_BOOL, MEMBER_BOOL},
		{BT_FIELD_CLASS_TYPE_BIT_ARRAY, MEMBER_BITS},
		{BT_FIELD_CLASS_TYPE_SINGLE_PRECISION_REAL, MEMBER_SINGLE},
		{BT_FIELD_CLASS_TYPE_DOUBLE_PRECISION_REAL, MEMBER_DOUBLE},
		{BT_FIELD_CLASS_TYPE_STRING, MEMBER_STRING},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (is(bt, class, kinds[i].type))
			return kinds[i].kind;
	return is_bytes(bt, class) ? MEMBER_BYTES : MEMBER_NULL;
}

static bool is_length_of(const char *name, const char *array)
{
	size_t length = strlen(array);

	return strncmp(name, array, length) == 0 && strcmp(name + length, "_length") == 0;
}

/* Whether this is the length of the array that follows. LTTng puts an underscore before it. */
static bool is_length(const struct babeltrace *bt, const bt_field_class *payload, uint64_t i)
{
	const char *name = member_name(bt, payload, i), *array;

	if (i + 1 == bt->field_class_structure_get_member_count(payload) ||
		!is(bt, member_class(bt, payload, i + 1), BT_FIELD_CLASS_TYPE_DYNAMIC_ARRAY))
		return false;
	array = member_name(bt, payload, i + 1);
	return is_length_of(name, array) || (name[0] == '_' && is_length_of(name + 1, array));
}

static void find_args(
	const struct babeltrace *bt, const bt_field_class *payload, struct event_class *class)
{
	for (size_t i = 0; i < class->member_count; i++) {
		enum member_kind kind = kind_of(bt, member_class(bt, payload, i));

		if (kind == MEMBER_UNSIGNED && is_length(bt, payload, i))
			kind = MEMBER_SKIP;
		class->arg_count += kind != MEMBER_SKIP;
		class->kinds[i] = (uint8_t)kind;
		class->numbers[i] = reader_arg_number(member_name(bt, payload, i));
	}
}

static bool set_names(
	const struct babeltrace *bt, const bt_event_class *key, struct event_class *class)
{
	const char *full = bt->event_class_get_name(key);
	char number[NAME_BYTES];

	if (!full) {
		snprintf(number, sizeof(number), "%ju", (uintmax_t)bt->event_class_get_id(key));
		full = number;
	}
	return reader_split_name(full, &class->provider, &class->name);
}

static struct event_class *class_create(const struct babeltrace *bt, const bt_event_class *key)
{
	const bt_field_class *payload = bt->event_class_borrow_payload_field_class_const(key);
	const bt_stream_class *stream = bt->event_class_borrow_stream_class_const(key);
	size_t count = payload ? bt->field_class_structure_get_member_count(payload) : 0;
	struct event_class *class = calloc(1, sizeof(*class) + 2 * count);

	if (!class)
		return NULL;
	if (!set_names(bt, key, class)) {
		free(class);
		return NULL;
	}
	class->key = key;
	class->numbers = class->kinds + count;
	class->member_count = count;
	class->has_clock = bt->stream_class_borrow_default_clock_class_const(stream) != NULL;
	class->has_packets = bt->stream_class_supports_packets(stream);
	class->common = find_context(
		bt, bt->stream_class_borrow_event_common_context_field_class_const(stream));
	class->specific =
		find_context(bt, bt->event_class_borrow_specific_context_field_class_const(key));
	class->cpu = NOWHERE;
	if (class->has_packets)
		class->cpu = find_member(bt,
			bt->stream_class_borrow_packet_context_field_class_const(stream),
			BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER, "cpu_id", "cpu_id");
	if (payload)
		find_args(bt, payload, class);
	return class;
}

/* ---- Classes by their address ---------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	const struct event_class *x = a, *y = b;

	return (x->key > y->key) - (x->key < y->key);
}

/* NULL without memory. */
static const struct event_class *class_of(struct reader_classes *classes, const bt_event_class *key)
{
	const struct event_class wanted = {.key = key};
	void **place = tfind(&wanted, &classes->tree, compare);
	struct event_class *class;
	struct probe_value *values;

	if (place)
		return *place;
	class = class_create(classes->bt, key);
	if (!class)
		return NULL;
	if (class->arg_count > classes->value_room) {
		values = reallocarray(classes->values, class->arg_count, sizeof(*values));
		if (values) {
			classes->values = values;
			classes->value_room = class->arg_count;
		}
	}
	if (class->arg_count > classes->value_room || !tsearch(class, &classes->tree, compare)) {
		class_free(class);
		return NULL;
	}
	return class;
}

/* ---- Values ------------------------------------------------------------------------------ */

static int64_t integer(const struct babeltrace *bt, const bt_field *field)
{
	if (bt_field_class_type_is(
		    bt->field_get_class_type(field), BT_FIELD_CLASS_TYPE_SIGNED_INTEGER))
		return bt->field_integer_signed_get_value(field);
	return (int64_t)bt->field_integer_unsigned_get_value(field);
}

/* NULL: it has none. */
static const struct probe_stack *take_stack(
	struct reader_classes *classes, const bt_field *addresses)
{
	const struct babeltrace *bt = classes->bt;
	uint64_t count = bt->field_array_get_length(addresses), ips[PROBE_FRAMES_MAX];

	for (uint64_t i = 0; i < count && i < PROBE_FRAMES_MAX; i++)
		ips[i] = bt->field_integer_unsigned_get_value(
			bt->field_array_borrow_element_field_by_index_const(addresses, i));
	/* Nobody has named them. */
	return count ? reader_stacks_take(&classes->stacks, NULL, (const uint8_t *)ips, count,
			       PROBE_STACK_WHOLE)
		     : NULL;
}

static void take_context(struct reader_classes *classes, const struct context *context,
	const bt_field *fields, struct probe_event *ret)
{
	const struct babeltrace *bt = classes->bt;
	const bt_field *(*member)(const bt_field *, uint64_t) =
		bt->field_structure_borrow_member_field_by_index_const;

	if (context->pid != NOWHERE)
		ret->pid = (pid_t)integer(bt, member(fields, (uint64_t)context->pid));
	if (context->tid != NOWHERE)
		ret->tid = (pid_t)integer(bt, member(fields, (uint64_t)context->tid));
	if (context->ip != NOWHERE)
		ret->pc = (uint64_t)integer(bt, member(fields, (uint64_t)context->ip));
	if (context->comm != NOWHERE)
		ret->comm = ctf_known(babeltrace_text(bt, member(fields, (uint64_t)context->comm)));
	if (context->stack != NOWHERE)
		ret->stack = take_stack(classes, member(fields, (uint64_t)context->stack));
}

static void take_string(const struct babeltrace *bt, const bt_field *field, struct probe_value *ret)
{
	ret->kind = PROBE_VALUE_STRING;
	ret->bytes = bt->field_string_get_value(field);
	ret->length = bt->field_string_get_length(field);
}

/* Appends to the event's bytes; pointers are set once all bytes are there. */
static bool take_bytes(struct reader_classes *classes, const bt_field *field, size_t *used,
	struct probe_value *ret)
{
	const struct babeltrace *bt = classes->bt;
	size_t length = bt->field_array_get_length(field);
	char *bytes;

	if (length > classes->byte_room - *used) {
		bytes = realloc(classes->bytes, *used + length);
		if (!bytes)
			return false;
		classes->bytes = bytes;
		classes->byte_room = *used + length;
	}
	for (size_t i = 0; i < length; i++)
		classes->bytes[*used + i] = (char)bt->field_integer_unsigned_get_value(
			bt->field_array_borrow_element_field_by_index_const(field, i));
	ret->kind = PROBE_VALUE_BYTES;
	ret->length = length;
	*used += length;
	return true;
}

/* Reads one member that is an argument. False without memory. */
static bool take_member(struct reader_classes *classes, enum member_kind kind,
	const bt_field *field, size_t *used, struct probe_value *value)
{
	const struct babeltrace *bt = classes->bt;

	switch (kind) {
	case MEMBER_SKIP:
	case MEMBER_NULL:
		break;
	case MEMBER_SIGNED:
		value->kind = PROBE_VALUE_SIGNED;
		value->i = bt->field_integer_signed_get_value(field);
		break;
	case MEMBER_UNSIGNED:
		value->kind = PROBE_VALUE_UNSIGNED;
		value->u = bt->field_integer_unsigned_get_value(field);
		break;
	case MEMBER_BOOL:
		value->kind = PROBE_VALUE_UNSIGNED;
		value->u = bt->field_bool_get_value(field) ? 1 : 0;
		break;
	case MEMBER_BITS:
		value->kind = PROBE_VALUE_UNSIGNED;
		value->u = bt->field_bit_array_get_value_as_integer(field);
		break;
	case MEMBER_SINGLE:
		value->kind = PROBE_VALUE_FLOAT;
		value->f = (double)bt->field_real_single_precision_get_value(field);
		break;
	case MEMBER_DOUBLE:
		value->kind = PROBE_VALUE_FLOAT;
		value->f = bt->field_real_double_precision_get_value(field);
		break;
	case MEMBER_STRING:
		take_string(bt, field, value);
		break;
	case MEMBER_BYTES:
		return take_bytes(classes, field, used, value);
	}
	return true;
}

static bool take_args(
	struct reader_classes *classes, const struct event_class *class, const bt_field *payload)
{
	struct probe_value *values = classes->values, *value = values;
	size_t used = 0, at = 0;

	for (size_t i = 0; i < class->member_count; i++) {
		if (class->kinds[i] == MEMBER_SKIP)
			continue;
		*value =
			(struct probe_value){.kind = PROBE_VALUE_NULL, .number = class->numbers[i]};
		if (!take_member(classes, class->kinds[i],
			    classes->bt->field_structure_borrow_member_field_by_index_const(
				    payload, i),
			    &used, value++))
			return false;
	}
	for (size_t i = 0; used && i < class->arg_count; i++) {
		if (values[i].kind != PROBE_VALUE_BYTES)
			continue;
		values[i].bytes = classes->bytes + at;
		at += values[i].length;
	}
	return true;
}

struct probe_error *reader_classes_event(
	struct reader_classes *classes, const bt_message *message, struct probe_event *ret)
{
	const struct babeltrace *bt = classes->bt;
	const bt_event *event = bt->message_event_borrow_event_const(message);
	const struct event_class *class = class_of(classes, bt->event_borrow_class_const(event));
	const bt_field *packet;

	if (!class || !take_args(classes, class, bt->event_borrow_payload_field_const(event)))
		return probe_error_no_memory();
	*ret = (struct probe_event){.kind = PROBE_EVENT_HIT,
		.provider = class->provider,
		.name = class->name,
		.cpu = -1,
		.args = classes->values,
		.arg_count = class->arg_count};
	if (class->has_clock)
		ret->time_ns = babeltrace_time_ns(
			bt, bt->message_event_borrow_default_clock_snapshot_const(message));
	take_context(
		classes, &class->common, bt->event_borrow_common_context_field_const(event), ret);
	take_context(classes, &class->specific,
		bt->event_borrow_specific_context_field_const(event), ret);
	if (class->cpu != NOWHERE) {
		packet =
			bt->packet_borrow_context_field_const(bt->event_borrow_packet_const(event));
		ret->cpu = (int)bt->field_integer_unsigned_get_value(
			bt->field_structure_borrow_member_field_by_index_const(
				packet, (uint64_t) class->cpu));
	}
	return NULL;
}
