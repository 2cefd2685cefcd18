/* SPDX-License-Identifier: MIT */
/*
 * Event classes of our own records: which fields are arguments of the probe, and which say
 * something about another field, X:
 *
 *	X_length	its length, if X is a sequence
 *	X_text		the text that the pointer X points to: a string, or bytes that may be text
 *	X_string	the same, of what the catalogue knows to be a string
 *	X_truncated	there was more of it
 *	X_readable	0: it could not be read
 *	X_unreadable	the same, the other way round
 *	unused		nothing
 *
 * An argument's place is that of its first field.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/query/query.h"
#include "libprobe/record/record.h"

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

/* What is known of a field. */
struct known {
	enum role role;
	size_t of;	/* the field that it is about; of ROLE_ARG, itself */
	uint16_t value; /* of its argument */
	/* Of ROLE_ARG, and of ROLE_TEXT: */
	size_t text, unreadable; /* fields; SIZE_MAX: none */
	bool is_flagged;	 /* other fields say more about its kind */
};

struct fields {
	const struct tsdl_type *structure;
	size_t count;
	struct known known[OWN_FIELDS_MAX];
	uint16_t values;
};

/* ---- What fields are about ------------------------------------------------------------------- */

static size_t find_field(const struct fields *fields, const char *name, size_t length)
{
	for (size_t i = 0; i < fields->count; i++) {
		const char *its = fields->structure->fields[i].name;

		if (strncmp(its, name, length) == 0 && !its[length])
			return i;
	}
	return SIZE_MAX;
}

static void find_role(struct fields *fields, size_t index)
{
	const char *name = fields->structure->fields[index].name;
	struct known *known = &fields->known[index];
	size_t length = strlen(name);

	*known = (struct known){.of = index, .text = SIZE_MAX, .unreadable = SIZE_MAX};
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		size_t suffix = strlen(suffixes[i].suffix), of;

		if (length <= suffix || strcmp(name + length - suffix, suffixes[i].suffix) != 0)
			continue;
		of = find_field(fields, name, length - suffix);
		if (of == SIZE_MAX)
			continue;
		known->of = of;
		known->role = suffixes[i].role;
	}
}

/* The argument that a field is about: an X_text may have flags of its own. */
static size_t arg_of(const struct fields *fields, size_t index)
{
	size_t of = fields->known[index].of;

	return fields->known[of].role == ROLE_TEXT ? fields->known[of].of : of;
}

static void find_roles(struct fields *fields)
{
	for (size_t i = 0; i < fields->count; i++)
		find_role(fields, i);
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

/* ---- Kinds of arguments ------------------------------------------------------------------------
 */

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
	case TSDL_STRUCT: /* without fields: an argument that can never be read */
		break;
	}
	return PROBE_VALUE_NULL;
}

static enum probe_value_kind kind_of_arg(const struct fields *fields, size_t index)
{
	enum probe_value_kind kind = kind_of(fields->structure->fields[index].type);
	size_t text = fields->known[index].text;

	if (kind == PROBE_VALUE_UNSIGNED && text != SIZE_MAX &&
		fields->structure->fields[text].type->kind == TSDL_STRING)
		return PROBE_VALUE_TEXT;
	return kind;
}

/* ---- Steps --------------------------------------------------------------------------------------
 */

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

/* A flag that is needed later, or by nobody. */
static bool add_number(struct step_builder *b, const struct tsdl_type *type, uint16_t to)
{
	if (type->kind != TSDL_INTEGER)
		return steps_fail(b, "a flag or a length is no integer");
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
			return steps_fail(b, "the length of '%s' is not understood",
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

/* Text that a number may point to. */
static bool add_text(struct step_builder *b, struct fields *fields, size_t index)
{
	const struct tsdl_type *type = fields->structure->fields[index].type;

	if (kind_of(type) != PROBE_VALUE_STRING)
		return steps_fail(b, "the text of a pointer is none");
	return add_sequence(b, fields, index, type->kind == TSDL_STRING ? STEP_STRING : STEP_GUESS);
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
	return !type->field_count || steps_fail(b, "structures in structures are not understood");
}

static bool add_flag(struct step_builder *b, struct fields *fields, size_t index, enum step_op op)
{
	const struct tsdl_type *type = fields->structure->fields[index].type;
	const struct known *of = &fields->known[fields->known[index].of];

	if (type->kind != TSDL_INTEGER)
		return steps_fail(b, "a flag is no integer");
	return add_fixed(b, op, type, of->value);
}

/*
 * A string is read whole or not at all, so it has only X_unreadable. A number that points to text
 * has the text's flags, too, which do not make the number null.
 */
static bool add_field(struct step_builder *b, struct fields *fields, size_t index)
{
	const struct tsdl_type *type = fields->structure->fields[index].type;
	const struct known *known = &fields->known[index];
	const struct known *of = &fields->known[known->of];
	const struct tsdl_type *of_type = fields->structure->fields[known->of].type;

	switch (known->role) {
	case ROLE_ARG:
		return add_arg(b, fields, index);
	case ROLE_TEXT:
		return add_text(b, fields, index);
	case ROLE_LENGTH:
		return add_number(b, type, number_of_field(index));
	case ROLE_TRUNCATED:
		return add_flag(b, fields, index, STEP_TRUNCATED);
	case ROLE_READABLE:
		if (of->role == ROLE_TEXT || kind_of(of_type) == PROBE_VALUE_STRING)
			return add_number(b, type, OWN_IGNORED);
		return add_flag(b, fields, index, STEP_READABLE);
	case ROLE_UNREADABLE:
		if (of->role == ROLE_TEXT)
			return add_number(b, type, number_of_field(index));
		return add_flag(b, fields, index, STEP_UNREADABLE);
	}
	return false;
}

/* ---- Values
 * -------------------------------------------------------------------------------------- */

static bool is_unused(const struct fields *fields, size_t index)
{
	return strcmp(fields->structure->fields[index].name, "unused") == 0;
}

/* Is its text a string, as the catalogue says? */
static bool has_string(const struct fields *fields, size_t arg)
{
	size_t text = fields->known[arg].text;
	const char *name = text == SIZE_MAX ? "" : fields->structure->fields[text].name;

	return text != SIZE_MAX && strcmp(strrchr(name, '_'), "_string") == 0;
}

/*
 * 1 + the number of the probe's argument that a field is, by its name: argN, or argN_I
 * (libprobe/record/ctf_metadata.c). 0 if it is none.
 */
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

/* Numbers the arguments. False without memory. */
static bool make_values(struct fields *fields, struct own_class *class)
{
	bool is_placed[OWN_FIELDS_MAX] = {0};

	class->values = calloc(fields->count + 1, sizeof(*class->values));
	if (!class->values)
		return false;
	for (size_t i = 0; i < fields->count; i++) {
		size_t arg = arg_of(fields, i);

		if (is_unused(fields, arg))
			continue;
		if (!is_placed[arg]) {
			is_placed[arg] = true;
			fields->known[arg].value = fields->values;
			class->values[fields->values++] =
				(struct probe_value){.kind = kind_of_arg(fields, arg),
					.known = has_string(fields, arg),
					.number = arg_number(fields->structure->fields[arg].name)};
		}
		fields->known[i].value = fields->known[arg].value;
	}
	class->event.args = class->values;
	class->event.arg_count = fields->values;
	return true;
}

static bool add_fields(struct step_builder *b, struct fields *fields, const struct own_class *class)
{
	bool begun[OWN_FIELDS_MAX] = {0}; /* by value */

	if (!steps_align(b, fields->structure->align))
		return false;
	for (size_t i = 0; i < fields->count; i++) {
		const struct known *known = &fields->known[arg_of(fields, i)];

		if (is_unused(fields, i)) {
			if (!add_number(b, fields->structure->fields[i].type, OWN_IGNORED))
				return false;
			continue;
		}
		if (known->is_flagged && !begun[known->value] &&
			!steps_kind(b, known->value, class->values[known->value].kind))
			return false;
		begun[known->value] = true;
		if (!add_field(b, fields, i))
			return false;
	}
	return true;
}

/* ---- Classes
 * --------------------------------------------------------------------------------------- */

/* What an event of ours is, by its name and its fields: N(umber), S(tring up to a NUL). */
static const struct {
	const char *name, *kinds;
	enum own_meaning meaning;
} meanings[] = {
	{"frame", "NSSNNSN", OWN_FRAME},
	{"thread", "NNS", OWN_THREAD},
};

/* Each field is a value of its own, which no other one says more about. */
static bool has_kinds(const struct fields *fields, const char *kinds)
{
	if (fields->count != strlen(kinds) || fields->values != fields->count)
		return false;
	for (size_t i = 0; kinds[i]; i++)
		if (fields->structure->fields[i].type->kind !=
			(kinds[i] == 'S' ? TSDL_STRING : TSDL_INTEGER))
			return false;
	return true;
}

/* The first stream has hits of streams' own events (probectl:...), too. */
static enum own_meaning meaning_of(
	const struct own_class *class, const struct fields *fields, uint64_t stream_id)
{
	if (strcmp(class->event.provider, "probectl") != 0)
		return OWN_HIT;
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
		if (strcmp(meanings[i].name, class->event.name) == 0 &&
			has_kinds(fields, meanings[i].kinds))
			return meanings[i].meaning;
	return stream_id ? OWN_NOTHING : OWN_HIT;
}

/*
 * Splits "provider:name" at the first colon; without one, the provider is "". Both are parts of one
 * allocation, which begins with the provider. False without memory.
 */
static bool split_name(const char *full, const char **provider_ret, const char **name_ret)
{
	size_t length = strlen(full);
	char *copy = calloc(1, length + 2), *colon;

	*provider_ret = copy;
	if (!copy)
		return false;
	/* Without a colon, the provider is the empty string before the name. */
	memcpy(copy + (strchr(full, ':') ? 0 : 1), full, length);
	colon = strchr(copy, ':');
	if (colon)
		*colon = '\0';
	*name_ret = colon ? colon + 1 : copy + 1;
	return true;
}

void own_class_free(struct own_class *class)
{
	free((char *)class->event.provider);
	free(class->values);
	free(class->steps);
}

struct probe_error *own_class_compile(const struct tsdl_event *event,
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
		steps_end(&b);
	ret->steps = b.steps;
	ret->meaning = meaning_of(ret, &fields, stream->id);
	return b.error;
}
