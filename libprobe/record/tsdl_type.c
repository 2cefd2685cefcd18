/* SPDX-License-Identifier: MIT */
/* Types of TSDL. */
#include <string.h>

#include "libprobe/record/record.h"

enum { BYTE = 8, SIZE_MAX_BITS = 64, SINGLE_BITS = 32, DOUBLE_BITS = 64 };

static bool is(const char *name, const char *wanted)
{
	return strcmp(name, wanted) == 0;
}

/* ---- Attributes of several types ---------------------------------------------------------- */

static bool is_little_endian(struct tsdl_parser *p, const struct tsdl_value *value)
{
	return (value->token == TSDL_NAME &&
		       (is(value->text, "le") || is(value->text, "native"))) ||
	       tsdl_fail(p, "only little-endian is understood");
}

static bool has_encoding(
	struct tsdl_parser *p, const struct tsdl_value *value, struct tsdl_type *type)
{
	if (value->token == TSDL_NUMBER)
		return tsdl_fail(p, "an encoding is no name");
	type->is_text = !is(value->text, "none");
	return true;
}

static bool set_align(struct tsdl_parser *p, uint64_t align, struct tsdl_type *type)
{
	if (!align || align > SIZE_MAX_BITS || (align & (align - 1)))
		return tsdl_fail(p, "an alignment is no power of two up to %d", SIZE_MAX_BITS);
	type->align = (uint32_t)align;
	return true;
}

/* ---- Integers and enumerations ------------------------------------------------------------- */

static bool set_size(struct tsdl_parser *p, uint64_t size, struct tsdl_type *type)
{
	type->size = size && size <= SIZE_MAX_BITS ? (uint32_t)size : 0;
	return type->size || tsdl_fail(p, "an integer has not 1 to %d bits", SIZE_MAX_BITS);
}

static bool integer_attribute(
	struct tsdl_parser *p, const char *name, const struct tsdl_value *value, void *data)
{
	static const char prefix[] = "clock.", suffix[] = ".value";
	struct tsdl_type *type = data;
	uint64_t number;
	size_t length;
	char *clock;

	if (is(name, "base"))
		return true;
	if (is(name, "byte_order"))
		return is_little_endian(p, value);
	if (is(name, "encoding"))
		return has_encoding(p, value, type);
	if (is(name, "signed"))
		return tsdl_bool_of(p, value, &type->is_signed);
	if (is(name, "map")) {
		length = value->token == TSDL_NAME ? strlen(value->text) : 0;
		if (length < sizeof(prefix) + sizeof(suffix) - 2 ||
			strncmp(value->text, prefix, sizeof(prefix) - 1) != 0 ||
			!is(value->text + length - (sizeof(suffix) - 1), suffix))
			return tsdl_fail(p, "an integer is mapped to no clock");
		length -= sizeof(prefix) + sizeof(suffix) - 2;
		clock = tsdl_alloc(p, length + 1);
		if (clock)
			memcpy(clock, value->text + sizeof(prefix) - 1, length);
		type->clock_name = clock;
		return clock != NULL;
	}
	if (!is(name, "size") && !is(name, "align"))
		return tsdl_fail(p, "an integer's '%s' is not understood", name);
	if (!tsdl_number_of(p, value, &number))
		return false;
	if (is(name, "align"))
		return set_align(p, number, type);
	return set_size(p, number, type);
}

static bool take_integer(struct tsdl_parser *p, struct tsdl_type *type)
{
	type->kind = TSDL_INTEGER;
	if (!tsdl_take_attributes(p, integer_attribute, type))
		return false;
	if (!type->size)
		return tsdl_fail(p, "an integer has no size");
	if (!type->align)
		type->align = type->size % BYTE ? 1 : BYTE;
	return true;
}

/* Takes a label of an enumeration, with its number or range if it has one. */
static bool take_label(struct tsdl_parser *p, const char **ret)
{
	struct tsdl_value value;

	*ret = p->text;
	if (p->token != TSDL_NAME && p->token != TSDL_TEXT)
		return tsdl_fail(p, "an enumeration has no label");
	if (!tsdl_next(p))
		return false;
	if (p->token != TSDL_ASSIGN)
		return true;
	if (!tsdl_next(p) || !tsdl_take_value(p, &value))
		return false;
	if (!tsdl_is_mark(p, '.'))
		return true;
	return tsdl_take_mark(p, '.') && tsdl_take_mark(p, '.') && tsdl_take_mark(p, '.') &&
	       tsdl_take_value(p, &value);
}

/* Its values are those of its integer; only one label has a meaning here. */
static bool take_enum(struct tsdl_parser *p, struct tsdl_type *type)
{
	const struct tsdl_type *integer;
	const char *label;
	bool is_first = true;

	if (!tsdl_take_mark(p, ':') || !tsdl_take_type(p, &integer))
		return false;
	if (integer->kind != TSDL_INTEGER)
		return tsdl_fail(p, "an enumeration is not of integers");
	*type = *integer;
	type->is_unreadable = false;
	if (!tsdl_take_mark(p, '{'))
		return false;
	while (!tsdl_is_mark(p, '}')) {
		if (!take_label(p, &label))
			return false;
		type->is_unreadable = is_first && is(label, "unreadable");
		is_first = false;
		if (!tsdl_is_mark(p, '}') && !tsdl_take_mark(p, ','))
			return false;
	}
	return tsdl_next(p);
}

/* ---- Floating-point numbers and strings ------------------------------------------------------ */

struct float_attributes {
	struct tsdl_type *type;
	uint64_t exponent, mantissa;
};

static bool float_attribute(
	struct tsdl_parser *p, const char *name, const struct tsdl_value *value, void *data)
{
	struct float_attributes *attributes = data;
	uint64_t number;

	if (is(name, "byte_order"))
		return is_little_endian(p, value);
	if (!is(name, "exp_dig") && !is(name, "mant_dig") && !is(name, "align"))
		return tsdl_fail(p, "a floating-point number's '%s' is not understood", name);
	if (!tsdl_number_of(p, value, &number))
		return false;
	if (is(name, "align"))
		return set_align(p, number, attributes->type);
	*(is(name, "exp_dig") ? &attributes->exponent : &attributes->mantissa) = number;
	return true;
}

static bool take_float(struct tsdl_parser *p, struct tsdl_type *type)
{
	struct float_attributes attributes = {.type = type};

	*type = (struct tsdl_type){.kind = TSDL_FLOAT, .align = 1};
	if (!tsdl_take_attributes(p, float_attribute, &attributes))
		return false;
	if (attributes.exponent == 8 && attributes.mantissa == 24)
		type->size = SINGLE_BITS;
	else if (attributes.exponent == 11 && attributes.mantissa == 53)
		type->size = DOUBLE_BITS;
	else
		return tsdl_fail(p, "a floating-point number is neither float nor double");
	return true;
}

static bool string_attribute(
	struct tsdl_parser *p, const char *name, const struct tsdl_value *value, void *data)
{
	if (!is(name, "encoding"))
		return tsdl_fail(p, "a string's '%s' is not understood", name);
	return has_encoding(p, value, data);
}

static bool take_string(struct tsdl_parser *p, struct tsdl_type *type)
{
	*type = (struct tsdl_type){.kind = TSDL_STRING, .align = BYTE};
	return !tsdl_is_mark(p, '{') || tsdl_take_attributes(p, string_attribute, type);
}

/* ---- Structures and arrays ------------------------------------------------------------------- */

/* An underscore is only there so that the name is no word of the language. */
static const char *bare_name(const char *name)
{
	return name + (name[0] == '_');
}

/* Takes the "[...]" behind a name. */
static bool take_array(struct tsdl_parser *p, const struct tsdl_type **type)
{
	struct tsdl_type *array = tsdl_alloc(p, sizeof(*array));

	if (!array || !tsdl_take_mark(p, '['))
		return false;
	array->element = *type;
	array->align = (*type)->align;
	array->kind = p->token == TSDL_NUMBER ? TSDL_ARRAY : TSDL_SEQUENCE;
	array->length = p->number;
	*type = array;
	if (p->token == TSDL_NUMBER)
		return tsdl_next(p) && tsdl_take_mark(p, ']');
	if (!tsdl_take_name(p, &array->length_name))
		return false;
	array->length_name = bare_name(array->length_name);
	return tsdl_take_mark(p, ']');
}

static bool take_field(struct tsdl_parser *p, struct tsdl_field *field)
{
	const struct tsdl_type *type;

	if (!tsdl_take_type(p, &type) || !tsdl_take_name(p, &field->name))
		return false;
	field->name = bare_name(field->name);
	/* In several dimensions, the type would grow with each. */
	if (tsdl_is_mark(p, '[') && !take_array(p, &type))
		return false;
	field->type = type;
	return tsdl_take_mark(p, ';');
}

/* Fields are gathered in blocks that double, since how many there are is not known before. */
static bool add_field(struct tsdl_parser *p, struct tsdl_type *type, const struct tsdl_field *field)
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

static bool take_struct(struct tsdl_parser *p, struct tsdl_type *type)
{
	struct tsdl_type given = {.align = 1};
	struct tsdl_field field;
	struct tsdl_value value;
	uint64_t align;

	*type = (struct tsdl_type){.kind = TSDL_STRUCT, .align = 1};
	if (!tsdl_take_mark(p, '{'))
		return false;
	while (!tsdl_is_mark(p, '}'))
		if (!take_field(p, &field) || !add_field(p, type, &field))
			return false;
	if (!tsdl_next(p) || !tsdl_is_name(p, "align"))
		return !p->error;
	if (!tsdl_next(p) || !tsdl_take_mark(p, '(') || !tsdl_take_value(p, &value) ||
		!tsdl_number_of(p, &value, &align) || !set_align(p, align, &given) ||
		!tsdl_take_mark(p, ')'))
		return false;
	if (given.align > type->align)
		type->align = given.align;
	return true;
}

/* ---- All types --------------------------------------------------------------------------------
 */

static const struct tsdl_type *alias_of(const struct tsdl_parser *p, const char *name)
{
	for (size_t i = 0; i < p->alias_count; i++)
		if (is(p->aliases[i].name, name))
			return p->aliases[i].type;
	return NULL;
}

bool tsdl_take_type(struct tsdl_parser *p, const struct tsdl_type **ret)
{
	static const struct {
		const char *name;
		bool (*take)(struct tsdl_parser *p, struct tsdl_type *type);
	} kinds[] = {
		{"integer", take_integer},
		{"enum", take_enum},
		{"floating_point", take_float},
		{"string", take_string},
		{"struct", take_struct},
	};
	struct tsdl_type *type;
	const char *name;
	bool taken;

	if (!tsdl_take_name(p, &name))
		return false;
	*ret = alias_of(p, name);
	if (*ret)
		return true;
	if (p->depth == TSDL_DEPTH_MAX)
		return tsdl_fail(p, "types are nested too deeply");
	type = tsdl_alloc(p, sizeof(*type));
	*ret = type;
	for (size_t i = 0; type && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!is(kinds[i].name, name))
			continue;
		p->depth++;
		taken = kinds[i].take(p, type);
		p->depth--;
		return taken;
	}
	return tsdl_fail(p, "'%s' is no type that is understood", name);
}

bool tsdl_take_alias(struct tsdl_parser *p)
{
	const struct tsdl_type *type;
	const char *name;

	if (!tsdl_take_type(p, &type) || !tsdl_take(p, TSDL_DEFINE, ":=") ||
		!tsdl_take_name(p, &name) || !tsdl_take_mark(p, ';'))
		return false;
	if (alias_of(p, name))
		return tsdl_fail(p, "'%s' is defined twice", name);
	if (p->alias_count == TSDL_ALIASES_MAX)
		return tsdl_fail(p, "there are more than %d names of types", TSDL_ALIASES_MAX);
	p->aliases[p->alias_count++] = (struct tsdl_alias){name, type};
	return true;
}
