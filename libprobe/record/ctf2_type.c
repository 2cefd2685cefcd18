/* SPDX-License-Identifier: MIT */
/*
 * Field classes of CTF 2: what probectl writes (ctf2_write.c). Others are not understood. What a
 * class has beyond what is looked at here says nothing about its bytes, but for extensions, which
 * the preamble would have declared.
 */
#include <string.h>

#include "libprobe/record/ctf2_type.h"

enum { BYTE = 8, HEX = 16, SINGLE_BITS = 32, DOUBLE_BITS = 64 };

/* Where a class is, and whose times it may have. */
struct where {
	enum ctf2_place place;
	const char *clock;
};

static bool is(const char *text, const char *wanted)
{
	return text && strcmp(text, wanted) == 0;
}

bool ctf2_take_number(
	struct tsdl_parser *p, const struct json *object, const char *name, uint64_t *ret)
{
	const struct json *number = json_member(object, name);

	if (!number)
		return true;
	if (number->kind != JSON_INTEGER || (number->is_negative && number->number))
		return tsdl_fail(p, "'%s' is no number", name);
	*ret = number->number;
	return true;
}

/* ---- Numbers -------------------------------------------------------------------------------- */

static bool take_bits(struct tsdl_parser *p, const struct json *class, struct tsdl_type *type)
{
	const struct json *order = json_member(class, "bit-order");
	uint64_t align = 1, length = 0;

	if (!is(json_text(class, "byte-order"), "little-endian") ||
		(order && !is(json_text(class, "bit-order"), "first-to-last")))
		return tsdl_fail(p, "only little-endian is understood");
	return ctf2_take_number(p, class, "length", &length) &&
	       ctf2_take_number(p, class, "alignment", &align) && tsdl_set_size(p, length, type) &&
	       tsdl_set_align(p, align, type);
}

static int64_t signed_of(const struct json *number)
{
	return (int64_t)(number->is_negative ? -number->number : number->number);
}

/* One label for each range that it has. */
static bool take_label(struct tsdl_parser *p, const struct json *mapping, struct tsdl_type *type)
{
	const struct json *range = mapping->kind == JSON_ARRAY ? mapping->first : NULL;

	if (!range)
		return tsdl_fail(p, "the mapping '%s' has no range", mapping->name);
	for (; range; range = range->next) {
		const struct json *first = range->kind == JSON_ARRAY ? range->first : NULL;
		const struct json *last = first ? first->next : NULL;

		if (!last || last->next || first->kind != JSON_INTEGER ||
			last->kind != JSON_INTEGER)
			return tsdl_fail(p, "a range is not of two numbers");
		if (!tsdl_add_label(p, type,
			    &(struct tsdl_label){.name = mapping->name,
				    .first = signed_of(first),
				    .last = signed_of(last)}))
			return false;
	}
	return true;
}

static bool take_integer(struct tsdl_parser *p, const struct json *class, struct tsdl_type *type)
{
	const struct json *mappings = json_member_of(class, "mappings", JSON_OBJECT);
	uint64_t base = 0;

	type->kind = TSDL_INTEGER;
	if (!take_bits(p, class, type) ||
		!ctf2_take_number(p, class, "preferred-display-base", &base))
		return false;
	type->is_hex = base == HEX;
	for (const struct json *each = mappings ? mappings->first : NULL; each; each = each->next)
		if (!take_label(p, each, type))
			return false;
	return true;
}

static bool take_unsigned(struct tsdl_parser *p, const struct json *class,
	const struct where *where, struct tsdl_type *type)
{
	(void)where;
	return take_integer(p, class, type);
}

static bool take_signed(struct tsdl_parser *p, const struct json *class, const struct where *where,
	struct tsdl_type *type)
{
	(void)where;
	type->is_signed = true;
	return take_integer(p, class, type);
}

static bool take_float(struct tsdl_parser *p, const struct json *class, const struct where *where,
	struct tsdl_type *type)
{
	(void)where;
	type->kind = TSDL_FLOAT;
	if (!take_bits(p, class, type))
		return false;
	return type->size == SINGLE_BITS || type->size == DOUBLE_BITS ||
	       tsdl_fail(p, "a floating-point number is neither float nor double");
}

/* ---- Strings and arrays --------------------------------------------------------------------- */

static bool check_encoding(struct tsdl_parser *p, const struct json *class)
{
	return !json_member(class, "encoding") || is(json_text(class, "encoding"), "utf-8") ||
	       tsdl_fail(p, "a string is not in UTF-8");
}

static bool take_string(struct tsdl_parser *p, const struct json *class, const struct where *where,
	struct tsdl_type *type)
{
	(void)where;
	type->kind = TSDL_STRING;
	type->align = BYTE;
	return check_encoding(p, class);
}

/* The name of a length, which is a field of the same structure. */
static bool take_location(struct tsdl_parser *p, const struct json *class,
	const struct where *where, struct tsdl_type *type)
{
	const struct json *location = json_member(class, "length-field-location");
	const struct json *path = json_member_of(location, "path", JSON_ARRAY);
	const struct json *name = path ? path->first : NULL;

	if (!name || name->next || name->kind != JSON_STRING ||
		(json_member(location, "origin") &&
			!is(json_text(location, "origin"), ctf2_origin(where->place))))
		return tsdl_fail(p, "a length is not where it is understood");
	type->length_name = name->text;
	return true;
}

static bool take_array(struct tsdl_parser *p, const struct json *class, const struct where *where,
	const struct tsdl_type *element, struct tsdl_type *type)
{
	uint64_t align = 1;

	type->element = element;
	if (!ctf2_take_number(p, class, "minimum-alignment", &align) ||
		!tsdl_set_align(p, align > element->align ? align : element->align, type))
		return false;
	if (strncmp(json_text(class, "type"), "dynamic-", strlen("dynamic-")) == 0) {
		type->kind = TSDL_SEQUENCE;
		return take_location(p, class, where, type);
	}
	type->kind = TSDL_ARRAY;
	type->length = UINT64_MAX;
	return ctf2_take_number(p, class, "length", &type->length);
}

static bool take_chars(struct tsdl_parser *p, const struct json *class, const struct where *where,
	struct tsdl_type *type)
{
	static const struct tsdl_type character = {
		.kind = TSDL_INTEGER, .size = BYTE, .align = BYTE, .is_text = true};

	return check_encoding(p, class) && take_array(p, class, where, &character, type);
}

static bool take_blob(struct tsdl_parser *p, const struct json *class, const struct where *where,
	struct tsdl_type *type)
{
	static const struct tsdl_type byte = {
		.kind = TSDL_INTEGER, .size = BYTE, .align = BYTE, .is_hex = true};

	return take_array(p, class, where, &byte, type);
}

static bool take_elements(struct tsdl_parser *p, const struct json *class,
	const struct where *where, struct tsdl_type *type)
{
	const struct json *element = json_member(class, "element-field-class");
	struct tsdl_type *its = tsdl_alloc(p, sizeof(*its));

	if (!its || !is(json_text(element, "type"), "fixed-length-unsigned-integer"))
		return tsdl_fail(p, "an array is not of numbers");
	return take_integer(p, element, its) && take_array(p, class, where, its, type);
}

/* ---- Structures ----------------------------------------------------------------------------- */

static bool take_nothing(struct tsdl_parser *p, const struct json *class, const struct where *where,
	struct tsdl_type *type)
{
	const struct json *members = json_member(class, "member-classes");

	(void)where;
	type->kind = TSDL_STRUCT;
	type->align = 1;
	return (!members || (members->kind == JSON_ARRAY && !members->first)) ||
	       tsdl_fail(p, "structures in structures are not understood");
}

static const struct {
	const char *name;
	bool (*take)(struct tsdl_parser *p, const struct json *class, const struct where *where,
		struct tsdl_type *type);
} kinds[] = {
	{"fixed-length-unsigned-integer", take_unsigned},
	{"fixed-length-signed-integer", take_signed},
	{"fixed-length-floating-point-number", take_float},
	{"null-terminated-string", take_string},
	{"static-length-string", take_chars},
	{"dynamic-length-string", take_chars},
	{"static-length-blob", take_blob},
	{"dynamic-length-blob", take_blob},
	{"static-length-array", take_elements},
	{"dynamic-length-array", take_elements},
	{"structure", take_nothing},
};

static bool take_type(struct tsdl_parser *p, const struct json *class, const struct where *where,
	struct tsdl_type *type)
{
	const char *name = json_text(class, "type");

	for (size_t i = 0; name && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (is(kinds[i].name, name))
			return kinds[i].take(p, class, where, type);
	return tsdl_fail(p, "'%s' is no type that is understood", name ? name : "");
}

/* The name of a field is that of its role, if it has one. */
static const char *name_of(
	const struct json *member, const struct json *class, enum ctf2_place place)
{
	const struct json *roles = json_member_of(class, "roles", JSON_ARRAY);

	for (const struct json *role = roles ? roles->first : NULL; role; role = role->next) {
		const char *name = role->kind == JSON_STRING ? ctf2_name(place, role->text) : NULL;

		if (name)
			return name;
	}
	return json_text(member, "name");
}

static bool is_time(const char *name)
{
	return is(name, "timestamp") || is(name, "timestamp_begin") || is(name, "timestamp_end");
}

static bool take_field(struct tsdl_parser *p, const struct json *member, const struct where *where,
	struct tsdl_type *structure)
{
	const struct json *class = json_member(member, "field-class");
	struct tsdl_type *type = tsdl_alloc(p, sizeof(*type));
	struct tsdl_field field = {.name = name_of(member, class, where->place), .type = type};

	if (!field.name)
		return tsdl_fail(p, "a field has no name");
	if (!type || !take_type(p, class, where, type))
		return false;
	if (is_time(field.name) &&
		(where->place == CTF2_PACKET_CONTEXT || where->place == CTF2_EVENT_HEADER))
		type->clock_name = where->clock;
	return tsdl_add_field(p, structure, &field);
}

bool ctf2_take_structure(struct tsdl_parser *p, const struct json *fragment, const char *name,
	enum ctf2_place place, const char *clock, const struct tsdl_type **ret)
{
	const struct where where = {place, clock};
	const struct json *class = json_member(fragment, name);
	const struct json *members = json_member_of(class, "member-classes", JSON_ARRAY);
	struct tsdl_type *type;
	uint64_t align = 1;

	if (!class)
		return true;
	if (!is(json_text(class, "type"), "structure"))
		return tsdl_fail(p, "'%s' is no structure", name);
	type = tsdl_alloc(p, sizeof(*type));
	*ret = type;
	if (!type || !ctf2_take_number(p, class, "minimum-alignment", &align) ||
		!tsdl_set_align(p, align, type))
		return false;
	type->kind = TSDL_STRUCT;
	for (const struct json *each = members ? members->first : NULL; each; each = each->next)
		if (!take_field(p, each, &where, type))
			return false;
	return true;
}
