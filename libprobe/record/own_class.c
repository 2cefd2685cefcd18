/* SPDX-License-Identifier: MIT */
/*
 * Compiles the event classes of a record. A field is either an argument of the probe, or describes
 * another field X:
 *
 *	X_length	length of X, a sequence
 *	X_text		text that the pointer X points to: a string, or bytes that may be text
 *	X_string	like X_text, if the catalogue declares X as a string
 *	X_truncated	1: X is truncated
 *	X_readable	0: X could not be read
 *	X_unreadable	1: X could not be read
 *	unused		no meaning
 *
 * Arguments are in the order of their first fields.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/query/query.h"
#include "libprobe/record/record.h"

/* ==== Compiling steps ========================================================================= */

/*
 * Make lists of steps: divide the fields into runs, and compute offsets. After an error, the
 * functions do nothing and return false or NULL.
 */

enum { BYTE = 8, WORD = 64 };

static bool keep_error(struct step_builder *b, struct probe_error *error)
{
	b->error = probe_error_first(b->error, error);
	return false;
}

#define STEPS_FAIL(b, ...) keep_error(b, probe_error_new(PROBE_ERROR_FORMAT, __VA_ARGS__))

static struct step *add(struct step_builder *b, enum step_op op)
{
	struct step *step;

	if (b->error)
		return NULL;
	if (!ARRAY_ROOM(b->steps, b->count)) {
		b->error = probe_error_no_memory();
		return NULL;
	}
	step = &b->steps[b->count++];
	*step = (struct step){.op = (uint8_t)op, .from = STEP_NO_NUMBER};
	return step;
}

static bool steps_align(struct step_builder *b, uint32_t align)
{
	struct step *run;

	if (!b->in_run || (align > BYTE && align > b->run_align)) {
		run = add(b, STEP_RUN);
		if (!run)
			return false;
		b->run = b->count - 1;
		b->in_run = true;
		b->run_align = align < BYTE ? BYTE : align;
		b->bits = 0;
		run->kind = (uint8_t)(b->run_align / BYTE - 1);
	}
	b->bits = (b->bits + align - 1) / align * align;
	b->steps[b->run].offset = (b->bits + BYTE - 1) / BYTE;
	return true;
}

static struct step *steps_fixed(
	struct step_builder *b, enum step_op op, const struct tsdl_type *type)
{
	struct step *step = steps_align(b, type->align) ? add(b, op) : NULL;
	uint32_t shift = b->bits % BYTE;

	if (!step)
		return NULL;
	if (shift + type->size > WORD) {
		STEPS_FAIL(b, "a bit field reaches over more than %d bits", WORD);
		return NULL;
	}
	if (type->size == WORD && (op == STEP_UNSIGNED || op == STEP_SIGNED))
		step->op = STEP_WORD;
	step->offset = b->bits / BYTE;
	step->left = (uint8_t)(WORD - type->size - shift);
	step->right = (uint8_t)(WORD - type->size);
	b->bits += type->size;
	b->steps[b->run].offset = (b->bits + BYTE - 1) / BYTE;
	return step;
}

static struct step *steps_variable(
	struct step_builder *b, enum step_op op, const struct tsdl_type *type)
{
	const struct tsdl_type *element = type->element;
	struct step *step;
	uint32_t bytes = 0;

	if (type->kind == TSDL_STRING)
		bytes = 1;
	else if (element->kind == TSDL_INTEGER && element->size % BYTE == 0)
		bytes = element->size / BYTE;
	if (!bytes) {
		STEPS_FAIL(b, "an array is not of integers of whole bytes");
		return NULL;
	}
	if (bytes * BYTE % type->align) {
		STEPS_FAIL(b, "the elements of an array have room between them");
		return NULL;
	}
	if (type->kind == TSDL_ARRAY && type->length > UINT32_MAX) {
		STEPS_FAIL(b, "an array is too long");
		return NULL;
	}
	if (!steps_align(b, type->align))
		return NULL;
	if (b->bits % BYTE) {
		STEPS_FAIL(b, "an array does not begin at a byte");
		return NULL;
	}
	step = add(b, op);
	if (!step)
		return NULL;
	step->kind = (uint8_t)bytes;
	step->offset = type->kind == TSDL_ARRAY ? (uint32_t)type->length : 0;
	b->in_run = false;
	return step;
}

/* ==== Headers and contexts ==================================================================== */

/*
 * The structures around events' fields: headers and contexts. Their fields are known by name. An
 * unknown one is an error, because it may change the others' meaning.
 */

enum { NAMES_MAX = 10, ADDRESS_BITS = 64 };

/* A field's name, and the number for its value. */
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

/* Returns the earlier field with the length of the sequence `index`, or SIZE_MAX. */
static size_t own_length_of(const struct tsdl_type *structure, size_t index)
{
	const char *name = structure->fields[index].type->length_name;

	for (size_t i = 0; i < index; i++)
		if (strcmp(structure->fields[i].name, name) == 0 &&
			structure->fields[i].type->kind == TSDL_INTEGER &&
			!structure->fields[i].type->is_signed)
			return i;
	return SIZE_MAX;
}

/* Returns true if a field is the length of the next field. */
static bool is_length(const struct tsdl_type *structure, size_t index)
{
	return index + 1 < structure->field_count &&
	       structure->fields[index + 1].type->kind == TSDL_SEQUENCE &&
	       own_length_of(structure, index + 1) == index;
}

static bool own_context_add_number(struct step_builder *b, enum own_context context,
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
		return STEPS_FAIL(b, "its field '%s' is not understood", field->name);
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

static bool own_context_add_field(struct step_builder *b, enum own_context context,
	const struct tsdl_type *structure, size_t index, uint32_t *has)
{
	const struct tsdl_field *field = &structure->fields[index];
	const struct tsdl_type *type = field->type;
	struct step *step;
	size_t length;

	if (type->kind == TSDL_INTEGER)
		return own_context_add_number(b, context, structure, index, has);
	if (context == OWN_PACKET_HEADER && strcmp(field->name, "uuid") == 0 &&
		is_array_of(type, TSDL_ARRAY, 8) && type->length == TSDL_UUID_BYTES)
		return steps_variable(b, STEP_UUID, type) != NULL;
	if (context == OWN_EVENT_CONTEXT && strcmp(field->name, "comm") == 0 &&
		type->kind == TSDL_STRING)
		return steps_variable(b, STEP_COMM, type) != NULL;
	length = type->kind == TSDL_SEQUENCE ? own_length_of(structure, index) : SIZE_MAX;
	if (context != OWN_EVENT_CONTEXT || strcmp(field->name, "callstack_user") != 0 ||
		length == SIZE_MAX || !is_array_of(type, TSDL_SEQUENCE, ADDRESS_BITS))
		return STEPS_FAIL(b, "its field '%s' is not understood", field->name);
	step = steps_variable(b, STEP_STACK, type);
	if (step)
		step->from = (uint16_t)(OWN_FREE + length);
	return step != NULL;
}

/* Adds the steps of a structure (may be NULL), and its numbers to the mask *has. */
static bool own_context_steps(struct step_builder *b, enum own_context context,
	const struct tsdl_type *structure, uint32_t *has)
{
	if (!structure)
		return !b->error;
	if (structure->field_count > OWN_FIELDS_MAX)
		return STEPS_FAIL(b, "it has more than %d fields", OWN_FIELDS_MAX);
	if (!steps_align(b, structure->align))
		return false;
	for (size_t i = 0; i < structure->field_count; i++)
		if (!own_context_add_field(b, context, structure, i, has))
			return false;
	return true;
}

/* ==== Classes of events ======================================================================= */

enum { CHARACTER_BITS = 8, NAME_BYTES = 32 };

enum role { ROLE_ARG, ROLE_LENGTH, ROLE_TEXT, ROLE_TRUNCATED, ROLE_READABLE, ROLE_UNREADABLE };

static const struct {
	const char *suffix;
	enum role role;
} suffixes[] = {
	{"_length", ROLE_LENGTH},
	{"_text", ROLE_TEXT},
	{"_string", ROLE_TEXT},
	{"_truncated", ROLE_TRUNCATED},
	{"_readable", ROLE_READABLE},
	{"_unreadable", ROLE_UNREADABLE},
};

struct known {
	enum role role;
	size_t of; /* index of the field that this field describes; for ROLE_ARG its own index */
	uint16_t value; /* index of the argument's value */
	/* for an argument or X_text: fields of its text and X_unreadable; SIZE_MAX if none */
	size_t text, unreadable;
	bool is_flagged; /* the kind of the value depends on other fields, such as X_unreadable */
};

struct fields {
	const struct tsdl_type *structure;
	size_t count;
	struct known known[OWN_FIELDS_MAX];
	uint16_t values;
};

/* ---- Roles of fields ------------------------------------------------------------------------- */

/* Returns the argument that a field describes. For a flag of X_text, that is X. */
static size_t arg_of(const struct fields *fields, size_t index)
{
	size_t of = fields->known[index].of;

	return fields->known[of].role == ROLE_TEXT ? fields->known[of].of : of;
}

static void find_roles(struct fields *fields)
{
	for (size_t i = 0; i < fields->count; i++) {
		const char *name = fields->structure->fields[i].name;
		struct known *known = &fields->known[i];
		size_t length = strlen(name);

		*known = (struct known){.of = i, .text = SIZE_MAX, .unreadable = SIZE_MAX};
		for (size_t k = 0; k < sizeof(suffixes) / sizeof(suffixes[0]); k++) {
			size_t suffix = strlen(suffixes[k].suffix), of = 0;

			if (length <= suffix ||
				strcmp(name + length - suffix, suffixes[k].suffix) != 0)
				continue;
			while (of < fields->count &&
				(strncmp(fields->structure->fields[of].name, name,
					 length - suffix) != 0 ||
					fields->structure->fields[of].name[length - suffix]))
				of++;
			if (of == fields->count)
				continue;
			known->of = of;
			known->role = suffixes[k].role;
		}
	}
	for (size_t i = 0; i < fields->count; i++) {
		const struct known *known = &fields->known[i];
		struct known *of = &fields->known[known->of];

		if (known->role == ROLE_TEXT)
			of->text = i;
		if (known->role == ROLE_UNREADABLE)
			of->unreadable = i;
		if (known->role != ROLE_ARG && known->role != ROLE_LENGTH)
			fields->known[arg_of(fields, i)].is_flagged = true;
	}
}

/* ---- Kinds of arguments ---------------------------------------------------------------------- */

static bool is_array(const struct tsdl_type *type)
{
	return type->kind == TSDL_SEQUENCE || type->kind == TSDL_ARRAY;
}

static bool is_of_bytes(const struct tsdl_type *type)
{
	return is_array(type) && type->element->kind == TSDL_INTEGER &&
	       type->element->size == CHARACTER_BITS && !type->element->is_signed;
}

static enum probe_value_kind kind_of(const struct tsdl_type *type)
{
	switch (type->kind) {
	case TSDL_INTEGER:
		if (type->is_unreadable)
			return PROBE_VALUE_NULL;
		return type->is_signed ? PROBE_VALUE_SIGNED : PROBE_VALUE_UNSIGNED;
	case TSDL_FLOAT:
		return PROBE_VALUE_FLOAT;
	case TSDL_STRING:
		return PROBE_VALUE_STRING;
	case TSDL_ARRAY:
	case TSDL_SEQUENCE:
		if (!is_of_bytes(type))
			return PROBE_VALUE_NULL;
		return type->element->is_text ? PROBE_VALUE_STRING : PROBE_VALUE_BYTES;
	case TSDL_STRUCT: /* a structure without fields is an argument that can never be read */
		break;
	}
	return PROBE_VALUE_NULL;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static bool add_fixed(
	struct step_builder *b, enum step_op op, const struct tsdl_type *type, uint16_t to)
{
	struct step *step = steps_fixed(b, op, type);

	if (step)
		step->to = to;
	return step != NULL;
}

static uint16_t number_of_field(size_t index)
{
	return (uint16_t)(OWN_FREE + index);
}

/* Adds a step that stores a flag or length. */
static bool add_number(struct step_builder *b, const struct tsdl_type *type, uint16_t to)
{
	if (type->kind != TSDL_INTEGER)
		return STEPS_FAIL(b, "a flag or a length is no integer");
	return add_fixed(b, STEP_NUMBER, type, to);
}

static bool add_sequence(
	struct step_builder *b, struct fields *fields, size_t index, enum step_op op)
{
	const struct tsdl_type *type = fields->structure->fields[index].type;
	const struct known *known = &fields->known[index];
	size_t length = SIZE_MAX;
	struct step *step;

	if (type->kind == TSDL_SEQUENCE) {
		length = own_length_of(fields->structure, index);
		if (length == SIZE_MAX || fields->known[length].role != ROLE_LENGTH)
			return STEPS_FAIL(b, "the length of '%s' is not understood",
				fields->structure->fields[index].name);
	}
	step = steps_variable(b, op, type);
	if (!step)
		return false;
	step->to = known->value;
	if (length != SIZE_MAX)
		step->from = number_of_field(length);
	step->also = known->unreadable == SIZE_MAX ? OWN_NEVER : number_of_field(known->unreadable);
	return true;
}

static bool add_arg(struct step_builder *b, struct fields *fields, size_t index)
{
	const struct tsdl_type *type = fields->structure->fields[index].type;
	uint16_t value = fields->known[index].value;

	switch (type->kind) {
	case TSDL_INTEGER:
		if (type->is_unreadable)
			return add_fixed(b, STEP_NUMBER, type, OWN_IGNORED);
		return add_fixed(b, type->is_signed ? STEP_SIGNED : STEP_UNSIGNED, type, value);
	case TSDL_FLOAT:
		return add_fixed(b, type->size == 32 ? STEP_SINGLE : STEP_DOUBLE, type, value);
	case TSDL_STRING:
		return add_sequence(b, fields, index, STEP_STRING);
	case TSDL_ARRAY:
	case TSDL_SEQUENCE:
		if (!is_of_bytes(type))
			return add_sequence(b, fields, index, STEP_SKIP);
		return add_sequence(
			b, fields, index, type->element->is_text ? STEP_CHARS : STEP_BYTES);
	case TSDL_STRUCT:
		break;
	}
	return !type->field_count || STEPS_FAIL(b, "structures in structures are not understood");
}

/*
 * Adds a field's steps. A string is read completely or not at all, so only X_unreadable is used for
 * it. Flags of a pointer's text do not make the pointer null.
 */
static bool add_field(struct step_builder *b, struct fields *fields, size_t index)
{
	const struct tsdl_type *type = fields->structure->fields[index].type;
	const struct known *known = &fields->known[index];
	const struct known *of = &fields->known[known->of];
	const struct tsdl_type *of_type = fields->structure->fields[known->of].type;
	enum step_op op = known->role == ROLE_TRUNCATED	 ? STEP_TRUNCATED
			  : known->role == ROLE_READABLE ? STEP_READABLE
							 : STEP_UNREADABLE;

	switch (known->role) {
	case ROLE_ARG:
		return add_arg(b, fields, index);
	case ROLE_TEXT:
		if (kind_of(type) != PROBE_VALUE_STRING)
			return STEPS_FAIL(b, "the text of a pointer is none");
		return add_sequence(
			b, fields, index, type->kind == TSDL_STRING ? STEP_STRING : STEP_GUESS);
	case ROLE_LENGTH:
		return add_number(b, type, number_of_field(index));
	case ROLE_TRUNCATED:
		break;
	case ROLE_READABLE:
		if (of->role == ROLE_TEXT || kind_of(of_type) == PROBE_VALUE_STRING)
			return add_number(b, type, OWN_IGNORED);
		break;
	case ROLE_UNREADABLE:
		if (of->role == ROLE_TEXT)
			return add_number(b, type, number_of_field(index));
		break;
	}
	if (type->kind != TSDL_INTEGER)
		return STEPS_FAIL(b, "a flag is no integer");
	return add_fixed(b, op, type, of->value);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Returns the number that a field sets if it has no value of its own, or 0. */
static uint16_t number_of(const struct fields *fields, size_t index)
{
	const char *name = fields->structure->fields[index].name;

	return strcmp(name, "unused") == 0    ? OWN_IGNORED
	       : strcmp(name, CTF_FRAME) == 0 ? OWN_CALL
					      : 0;
}

/* Returns the length of LABEL in a field LABEL_argN_I (ctf_metadata.c); 0 for other names. */
static size_t label_length(const char *name)
{
	size_t length = 0;
	unsigned int arg, place;
	int end = 0;

	for (const char *at = name; (at = strstr(at, "_arg")); at++)
		length = (size_t)(at - name);
	if (length && sscanf(name + length, "_arg%2u_%2u%n", &arg, &place, &end) != 2)
		return 0;
	return name[length + (size_t)end] ? 0 : length;
}

/* Returns 1 + N for a field argN or argN_I (ctf_metadata.c); 0 for other names. */
static uint8_t arg_number(const char *name)
{
	const char *end;
	uint8_t number;
	size_t length = strcspn(name, "_");
	char arg[NAME_BYTES];

	if (length >= sizeof(arg) || name[length + strspn(name + length, "_0123456789")])
		return 0;
	memcpy(arg, name, length);
	arg[length] = '\0';
	end = argument_parse(arg, &number);
	return end && !*end ? (uint8_t)(number + 1) : 0;
}

/* Returns an argument's value, without what events have. */
static struct probe_value value_of(const struct fields *fields, size_t arg)
{
	const struct tsdl_field *field = &fields->structure->fields[arg], *text;
	struct probe_value value = {
		.kind = kind_of(field->type), .number = arg_number(field->name)};

	if (fields->known[arg].text == SIZE_MAX)
		return value;
	text = &fields->structure->fields[fields->known[arg].text];
	if (value.kind == PROBE_VALUE_UNSIGNED && text->type->kind == TSDL_STRING)
		value.kind = PROBE_VALUE_TEXT;
	/* The catalogue declares the argument's text as a string. */
	value.known = strcmp(strrchr(text->name, '_'), "_string") == 0;
	return value;
}

/* Names a value that is a member of a structure. Returns false if out of memory. */
static bool label(const char *name, size_t value, struct own_class *class)
{
	size_t length = label_length(name);

	if (!length || value >= ARCH_ARGS_MAX)
		return true;
	class->values[value].number = (uint8_t)(PROBE_ARGS_MAX + 1 + value);
	class->labels[value] = strndup(name, length);
	class->event.labels = (const char *const *)class->labels;
	return class->labels[value] != NULL;
}

/* Makes a value for each argument. Returns false if out of memory. */
static bool make_values(struct fields *fields, struct own_class *class)
{
	bool is_placed[OWN_FIELDS_MAX] = {0};

	class->values = calloc(fields->count + 1, sizeof(*class->values));
	class->labels = calloc(fields->count + 1, sizeof(*class->labels));
	if (!class->values || !class->labels)
		return false;
	for (size_t i = 0; i < fields->count; i++) {
		size_t arg = arg_of(fields, i);

		if (number_of(fields, arg)) {
			/* Events have their own. */
			class->event.frame |= number_of(fields, arg) == OWN_CALL;
			continue;
		}
		if (!is_placed[arg]) {
			is_placed[arg] = true;
			fields->known[arg].value = fields->values;
			class->event.arg_count = (size_t)fields->values + 1;
			class->values[fields->values] = value_of(fields, arg);
			if (!label(fields->structure->fields[arg].name, fields->values++, class))
				return false;
		}
		fields->known[i].value = fields->known[arg].value;
	}
	class->event.args = class->values;
	return true;
}

static bool add_fields(struct step_builder *b, struct fields *fields, const struct own_class *class)
{
	/* begun[i] is true if a field of value i was added */
	bool begun[OWN_FIELDS_MAX] = {0};

	if (!steps_align(b, fields->structure->align))
		return false;
	for (size_t i = 0; i < fields->count; i++) {
		const struct known *known = &fields->known[arg_of(fields, i)];
		uint16_t number = number_of(fields, arg_of(fields, i));

		if (number) {
			/* A flag of the field is always set. */
			if (!add_number(b, fields->structure->fields[i].type,
				    arg_of(fields, i) == i ? number : OWN_IGNORED))
				return false;
			continue;
		}
		if (known->is_flagged && !begun[known->value]) {
			struct step *step = add(b, STEP_KIND);

			if (!step)
				return false;
			step->to = known->value;
			step->kind = (uint8_t) class->values[known->value].kind;
		}
		begun[known->value] = true;
		if (!add_field(b, fields, i))
			return false;
	}
	return true;
}

/* ---- Classes --------------------------------------------------------------------------------- */

/* The events that probectl adds, with the types of fields: N a number, S a string up to a NUL. */
static const struct {
	const char *name, *kinds;
	enum own_meaning meaning;
} meanings[] = {
	{"frame", "NSSNNSN", OWN_FRAME},
	{"thread", "NNS", OWN_THREAD},
};

/* Returns the meaning of a class. probectl's own events have the provider "probectl". */
static enum own_meaning meaning_of(
	const struct own_class *class, const struct fields *fields, uint64_t stream_id)
{
	if (strcmp(class->event.provider, "probectl") != 0)
		return OWN_HIT;
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		const char *kinds = meanings[i].kinds;
		/* No field may describe another one. */
		bool is_same = strcmp(meanings[i].name, class->event.name) == 0 &&
			       fields->count == strlen(kinds) && fields->values == fields->count;

		for (size_t k = 0; is_same && kinds[k]; k++)
			is_same = fields->structure->fields[k].type->kind ==
				  (kinds[k] == 'S' ? TSDL_STRING : TSDL_INTEGER);
		if (is_same)
			return meanings[i].meaning;
	}
	return stream_id ? OWN_NOTHING : OWN_HIT;
}

/*
 * Splits "provider:name" at the first colon; the provider of a function, "fn:FILE", has one of its
 * own. Without a colon, the provider is "". Makes one allocation, which starts with the provider.
 * Returns false if out of memory.
 */
static bool split_name(const char *full, const char **provider_ret, const char **name_ret)
{
	size_t length = strlen(full),
	       skipped = event_is_of_function(full) ? strlen(SDT_FUNCTIONS) : 0;
	const char *colon = strchr(full + skipped, ':');
	char *copy = calloc(1, length + 2);

	*provider_ret = copy;
	if (!copy)
		return false;
	/* Without a colon, a NUL before the name is the provider. */
	memcpy(copy + (colon ? 0 : 1), full, length);
	if (colon)
		copy[colon - full] = '\0';
	*name_ret = copy + (colon ? colon - full : 0) + 1;
	return true;
}

/* Compiles a class of events: its context, its fields, its meaning. */
static struct probe_error *own_class_compile(const struct tsdl_event *event,
	const struct tsdl_stream *stream, uint32_t *has, struct own_class *ret)
{
	static const struct tsdl_type nothing = {.kind = TSDL_STRUCT, .align = 1};
	struct fields fields = {.structure = event->fields ? event->fields : &nothing};
	struct step_builder b = {0};

	fields.count = fields.structure->field_count;
	*ret = (struct own_class){.id = event->id, .event = {.kind = PROBE_EVENT_HIT, .cpu = -1}};
	if (fields.count > OWN_FIELDS_MAX)
		return probe_error_new(
			PROBE_ERROR_FORMAT, "it has more than %d fields", OWN_FIELDS_MAX);
	if (event->context || !event->name)
		return probe_error_new(PROBE_ERROR_FORMAT, "%s",
			event->name ? "its own context is not understood" : "it has no name");
	find_roles(&fields);
	if (!split_name(event->name, &ret->event.provider, &ret->event.name) ||
		!make_values(&fields, ret))
		return probe_error_no_memory();
	if (own_context_steps(&b, OWN_EVENT_CONTEXT, stream->event_context, has) &&
		add_fields(&b, &fields, ret))
		add(&b, STEP_END);
	ret->steps = b.steps;
	ret->meaning = meaning_of(ret, &fields, stream->id);
	return b.error;
}

/* ==== Metadata ================================================================================ */

/* Compiles a record's metadata: clocks, streams, events. */

enum { NSEC_PER_SEC = 1000000000, TIME_BITS = 64 };

/* ---- Clocks ---------------------------------------------------------------------------------- */

static const struct tsdl_type *type_of(const struct tsdl_type *structure, const char *name)
{
	for (size_t i = 0; structure && i < structure->field_count; i++)
		if (strcmp(structure->fields[i].name, name) == 0)
			return structure->fields[i].type;
	return NULL;
}

static bool is_time(const struct tsdl_type *type, const char *clock)
{
	return type && type->kind == TSDL_INTEGER && type->size == TIME_BITS && type->clock_name &&
	       strcmp(type->clock_name, clock) == 0;
}

/* Finds a stream's clock. All times of the stream must have the same clock. */
static struct probe_error *find_clock(
	const struct tsdl *tsdl, const struct tsdl_stream *stream, struct own_clock *ret)
{
	const struct tsdl_type *time = type_of(stream->event_header, "timestamp");
	const char *name = time && time->clock_name ? time->clock_name : "";
	unsigned __int128 rest, part;
	uint64_t base_ns;

	if (is_time(time, name) &&
		is_time(type_of(stream->packet_context, "timestamp_begin"), name) &&
		is_time(type_of(stream->packet_context, "timestamp_end"), name))
		for (const struct tsdl_clock *clock = tsdl->clocks; clock; clock = clock->next)
			if (strcmp(clock->name, name) == 0) {
				part = NSEC_PER_SEC % clock->freq;
				rest = clock->offset % clock->freq;
				base_ns = (uint64_t)clock->offset_s * NSEC_PER_SEC +
					  clock->offset / clock->freq * NSEC_PER_SEC +
					  (uint64_t)(rest * NSEC_PER_SEC / clock->freq);
				*ret = (struct own_clock){.base_ns = (int64_t)base_ns,
					.freq = clock->freq,
					.whole = NSEC_PER_SEC / clock->freq,
					.part = (uint64_t)((part << 64) / clock->freq)};
				return NULL;
			}
	return probe_error_new(PROBE_ERROR_FORMAT, "its times are not of one clock");
}

/* ---- Streams --------------------------------------------------------------------------------- */

static bool has_all(uint32_t has, const enum own_number *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!OWN_HAS(has, numbers[i]))
			return false;
	return true;
}

/*
 * Compiles the header of events, which has an id and a time at fixed offsets, because both are read
 * long before the event is decoded.
 */
static struct probe_error *compile_header(
	const struct tsdl_stream *stream, struct own_stream_class *ret)
{
	static const enum own_number wanted[] = {OWN_ID, OWN_TIME};
	struct step_builder b = {0};

	if (own_context_steps(&b, OWN_EVENT_HEADER, stream->event_header, &ret->has) &&
		(!has_all(ret->has, wanted, 2) || b.count != 3 || b.bits % BYTE ||
			b.run_align % BYTE))
		STEPS_FAIL(&b, "its events' header is not understood");
	for (size_t i = 0; i < b.count && !b.error; i++) {
		if (b.steps[i].op == STEP_RUN) {
			ret->header_bytes = b.steps[i].offset;
			ret->header_align = b.steps[i].kind + 1U;
		} else if (b.steps[i].to == OWN_ID) {
			ret->id_at = b.steps[i];
		} else {
			ret->time_at = b.steps[i];
		}
	}
	free(b.steps);
	return b.error;
}

/* ---- The trace ------------------------------------------------------------------------------- */

/* Compiles what comes before a packet's events: the header, or the context. */
static struct probe_error *compile_packet(enum own_context context,
	const struct tsdl_type *structure, uint32_t *has, struct step **ret)
{
	static const enum own_number header[] = {OWN_MAGIC, OWN_STREAM_ID};
	static const enum own_number wanted[] = {
		OWN_BEGIN, OWN_END, OWN_CONTENT, OWN_PACKET, OWN_SEQUENCE, OWN_DISCARDED, OWN_CPU};
	bool is_header = context == OWN_PACKET_HEADER;
	struct step_builder b = {0};

	if (own_context_steps(&b, context, structure, has) &&
		!(is_header ? has_all(*has, header, 2)
			    : has_all(*has, wanted, sizeof(wanted) / sizeof(wanted[0]))))
		STEPS_FAIL(&b, "%s",
			is_header ? "the packets' header lacks something"
				  : "its packets' context lacks something");
	add(&b, STEP_END);
	*ret = b.steps;
	return b.error;
}

static struct probe_error *compile_streams(const struct tsdl *tsdl, struct own_trace *ret)
{
	for (const struct tsdl_stream *s = tsdl->streams; s; s = s->next) {
		struct own_stream_class *class;
		struct probe_error *error;

		if (!ARRAY_ROOM(ret->streams, ret->stream_count))
			return probe_error_no_memory();
		class = &ret->streams[ret->stream_count++];
		*class = (struct own_stream_class){.id = s->id, .described = s};
		error = compile_header(s, class);
		if (!error)
			error = compile_packet(
				OWN_PACKET_CONTEXT, s->packet_context, &class->has, &class->packet);
		error = error ?: find_clock(tsdl, s, &class->clock);
		if (error)
			return probe_error_prefix(error, "stream %ju", (uintmax_t)s->id);
	}
	ARRAY_SORT(ret->streams, ret->stream_count, id);
	for (size_t i = 1; i < ret->stream_count; i++)
		if (ret->streams[i].id == ret->streams[i - 1].id)
			return probe_error_new(PROBE_ERROR_FORMAT, "two streams have number %ju",
				(uintmax_t)ret->streams[i].id);
	return NULL;
}

static struct probe_error *compile_event(const struct tsdl_event *event, struct own_trace *ret)
{
	struct own_stream_class *stream =
		ARRAY_FIND(ret->streams, ret->stream_count, id, event->stream_id);
	struct probe_error *error;

	if (!stream)
		return probe_error_new(PROBE_ERROR_FORMAT, "its stream is not described");
	if (!ARRAY_ROOM(stream->classes, stream->class_count))
		return probe_error_no_memory();
	error = own_class_compile(
		event, stream->described, &stream->has, &stream->classes[stream->class_count]);
	stream->class_count++;
	return error;
}

static struct probe_error *compile_events(const struct tsdl *tsdl, struct own_trace *ret)
{
	for (const struct tsdl_event *event = tsdl->events; event; event = event->next) {
		struct probe_error *error = compile_event(event, ret);

		if (error)
			return probe_error_prefix(
				error, "event %s", event->name ? event->name : "");
	}
	for (size_t i = 0; i < ret->stream_count; i++) {
		struct own_stream_class *stream = &ret->streams[i];

		ARRAY_SORT(stream->classes, stream->class_count, id);
		for (size_t k = 1; k < stream->class_count; k++)
			if (stream->classes[k].id == stream->classes[k - 1].id)
				return probe_error_new(PROBE_ERROR_FORMAT,
					"two events have number %ju",
					(uintmax_t)stream->classes[k].id);
	}
	return NULL;
}

struct probe_error *own_trace_compile(const struct tsdl *tsdl, struct own_trace *ret)
{
	struct probe_error *error;
	uint32_t has = 0;

	*ret = (struct own_trace){.has_uuid = tsdl->has_uuid};
	memcpy(ret->uuid, tsdl->uuid, sizeof(ret->uuid));
	error = compile_packet(OWN_PACKET_HEADER, tsdl->packet_header, &has, &ret->packet_header)
			?: compile_streams(tsdl, ret);
	return error ?: compile_events(tsdl, ret);
}

void own_trace_free(struct own_trace *trace)
{
	for (size_t i = 0; i < trace->stream_count; i++) {
		struct own_stream_class *stream = &trace->streams[i];

		for (size_t k = 0; k < stream->class_count; k++) {
			struct own_class *class = &stream->classes[k];

			for (size_t i = 0; class->labels && i < class->event.arg_count; i++)
				free(class->labels[i]);
			free(class->labels);
			free((char *)class->event.provider);
			free(class->values);
			free(class->steps);
		}
		free(stream->classes);
		free(stream->packet);
	}
	free(trace->streams);
	free(trace->packet_header);
	*trace = (struct own_trace){0};
}
