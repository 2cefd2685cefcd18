/* SPDX-License-Identifier: MIT */
/*
 * A parser of TSDL. Metadata has the blocks trace, env, clock, stream and event, which have values
 * (name = value;) and types (name := struct { ... };).
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/record/record.h"

/* ==== Lexer =================================================================================== */

/* ---- Errors and memory ----------------------------------------------------------------- */

/* Keeps the first error, after which all functions return false or NULL. */
static bool keep_error(struct tsdl_parser *p, struct probe_error *error)
{
	p->error = probe_error_first(
		p->error, p->error ? error : probe_error_prefix(error, "line %u", p->line));
	return false;
}

#define TSDL_FAIL(p, ...) keep_error(p, probe_error_new(PROBE_ERROR_FORMAT, __VA_ARGS__))

/* A result's memory: a list of blocks, from which pieces are allocated. */
enum { BLOCK_BYTES = 1 << 16, ALIGN = _Alignof(max_align_t) };
struct block {
	struct block *next;
	size_t left; /* number of free bytes, at the start of `bytes` */
	_Alignas(max_align_t) char bytes[];
};

/* Allocates zeroed memory that lives as long as the result. */
static void *tsdl_alloc(struct tsdl_parser *p, size_t size)
{
	struct block *block = p->tsdl->memory;
	size_t room = BLOCK_BYTES;
	char *piece;

	size = (size + ALIGN - 1) / ALIGN * ALIGN;
	if (p->error)
		return NULL;
	if (!block || block->left < size) {
		room = size > room ? size : room;
		block = calloc(1, sizeof(*block) + room);
		if (!block) {
			p->error = probe_error_no_memory();
			return NULL;
		}
		block->next = p->tsdl->memory;
		block->left = room;
		p->tsdl->memory = block;
	}
	/* Allocate from the end, so that `left` is the only state. */
	piece = block->bytes + block->left - size;
	block->left -= size;
	return piece;
}

void tsdl_free(struct tsdl *tsdl)
{
	struct block *block = tsdl->memory, *next;

	for (; block; block = next) {
		next = block->next;
		free(block);
	}
	*tsdl = (struct tsdl){0};
}

/* ---- Tokens ------------------------------------------------------------------------------- */

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       isdigit((unsigned char)c);
}

static bool is_ahead(const struct tsdl_parser *p, const char *what)
{
	size_t length = strlen(what);

	return (size_t)(p->end - p->at) >= length && memcmp(p->at, what, length) == 0;
}

static bool skip(struct tsdl_parser *p)
{
	const char *close;

	for (;;) {
		if (is_ahead(p, "//")) {
			while (p->at < p->end && *p->at != '\n')
				p->at++;
		} else if (is_ahead(p, "/*")) {
			close = memmem(p->at + 2, (size_t)(p->end - p->at - 2), "*/", 2);
			if (!close)
				return TSDL_FAIL(p, "a comment does not end");
			for (; p->at < close + 2; p->at++)
				p->line += *p->at == '\n';
		} else if (p->at < p->end && strchr(" \t\r\n", *p->at) && *p->at) {
			p->line += *p->at++ == '\n';
		} else {
			return true;
		}
	}
}

static bool take_word(struct tsdl_parser *p)
{
	const char *start = p->at;
	char *copy;

	while (p->at < p->end && (is_word(*p->at) || *p->at == '.'))
		p->at++;
	copy = tsdl_alloc(p, (size_t)(p->at - start) + 1);
	if (!copy)
		return false;
	memcpy(copy, start, (size_t)(p->at - start));
	p->text = copy;
	p->token = TSDL_NAME;
	return true;
}

static bool take_number(struct tsdl_parser *p)
{
	unsigned int base = 10;

	if (is_ahead(p, "0x") || is_ahead(p, "0X")) {
		base = 16;
		p->at += 2;
	} else if (*p->at == '0') {
		base = 8;
	}
	p->number = 0;
	for (; p->at < p->end && is_word(*p->at); p->at++) {
		char c = (char)(*p->at | 0x20); /* digits have this bit */
		unsigned int digit = isdigit((unsigned char)*p->at) ? (unsigned int)(c - '0')
				     : c >= 'a' && c <= 'f'	    ? (unsigned int)(c - 'a' + 10)
								    : 16;

		if (digit >= base || p->number > (UINT64_MAX - digit) / base)
			return TSDL_FAIL(p, "a number is malformed, or too large");
		p->number = p->number * base + digit;
	}
	p->token = TSDL_NUMBER;
	return true;
}

/* Parses an escape behind its backslash. */
static bool take_escape(struct tsdl_parser *p, char *ret)
{
	static const char letters[] = "abfnrtv\\\"'?", meant[] = "\a\b\f\n\r\t\v\\\"'?";
	const char *letter = *p->at ? strchr(letters, *p->at) : NULL;
	unsigned int code = 0, digits = 0;

	if (letter) {
		p->at++;
		*ret = meant[letter - letters];
		return true;
	}
	for (; digits < 3 && p->at < p->end && *p->at >= '0' && *p->at <= '7'; digits++)
		code = 8 * code + (unsigned int)(*p->at++ - '0');
	*ret = (char)code;
	return (digits && code) || TSDL_FAIL(p, "a string has an unknown escape");
}

static bool take_text(struct tsdl_parser *p)
{
	const char *close = ++p->at;
	char *copy;

	while (close < p->end && *close != '"' && *close != '\n')
		close += *close == '\\' && close + 1 < p->end ? 2 : 1;
	if (close >= p->end || *close != '"')
		return TSDL_FAIL(p, "a string does not end");
	copy = tsdl_alloc(p, (size_t)(close - p->at) + 1);
	p->text = copy;
	p->token = TSDL_TEXT;
	while (copy && p->at < close) {
		if (*p->at == '\\') {
			p->at++;
			if (!take_escape(p, copy++))
				return false;
		} else {
			*copy++ = *p->at++;
		}
	}
	p->at = close + 1;
	return copy != NULL;
}

static bool tsdl_next(struct tsdl_parser *p)
{
	if (p->error || !skip(p))
		return false;
	if (p->at == p->end) {
		p->token = TSDL_END;
	} else if (isdigit((unsigned char)*p->at)) {
		return take_number(p);
	} else if (is_word(*p->at)) {
		return take_word(p);
	} else if (*p->at == '"') {
		return take_text(p);
	} else if (is_ahead(p, ":=")) {
		p->token = TSDL_DEFINE;
		p->at += 2;
	} else if (*p->at == '=') {
		p->token = TSDL_ASSIGN;
		p->at++;
	} else if (*p->at && strchr("{}[]();:,-.", *p->at)) {
		p->token = TSDL_MARK;
		p->mark = *p->at++;
	} else {
		return TSDL_FAIL(p, "a character is none of the language");
	}
	return true;
}

static bool tsdl_is_mark(const struct tsdl_parser *p, char mark)
{
	return p->token == TSDL_MARK && p->mark == mark;
}

/* Consume a token of this sort. Other tokens are errors. */
static bool tsdl_take_mark(struct tsdl_parser *p, char mark)
{
	return tsdl_is_mark(p, mark) ? tsdl_next(p) : TSDL_FAIL(p, "there is no %c", mark);
}

static bool tsdl_take(struct tsdl_parser *p, enum tsdl_token token, const char *what)
{
	return p->token == token ? tsdl_next(p) : TSDL_FAIL(p, "there is no %s", what);
}

static bool tsdl_take_name(struct tsdl_parser *p, const char **ret)
{
	*ret = p->text;
	return tsdl_take(p, TSDL_NAME, "name");
}

/* ---- Attributes ----------------------------------------------------------------------------- */

static bool tsdl_take_value(struct tsdl_parser *p, struct tsdl_value *ret)
{
	*ret = (struct tsdl_value){.negative = tsdl_is_mark(p, '-')};
	if (ret->negative && !tsdl_next(p))
		return false;
	ret->token = p->token;
	ret->number = p->number;
	ret->text = p->text;
	if (p->token == TSDL_NUMBER ||
		(!ret->negative && (p->token == TSDL_NAME || p->token == TSDL_TEXT)))
		return tsdl_next(p);
	return TSDL_FAIL(p, "there is no value");
}

static bool tsdl_number_of(struct tsdl_parser *p, const struct tsdl_value *value, uint64_t *ret)
{
	*ret = value->number;
	return (value->token == TSDL_NUMBER && !value->negative) ||
	       TSDL_FAIL(p, "a value is no number");
}

/* Parses "{ name = value; ... }", with each() for each value. */
static bool tsdl_take_attributes(struct tsdl_parser *p,
	bool (*each)(struct tsdl_parser *p, const char *name, const struct tsdl_value *value,
		void *data),
	void *data)
{
	struct tsdl_value value;
	const char *name;

	if (!tsdl_take_mark(p, '{'))
		return false;
	while (!tsdl_is_mark(p, '}'))
		if (!tsdl_take_name(p, &name) || !tsdl_take(p, TSDL_ASSIGN, "=") ||
			!tsdl_take_value(p, &value) || !each(p, name, &value, data) ||
			!tsdl_take_mark(p, ';'))
			return false;
	return tsdl_next(p);
}

/* ==== Types =================================================================================== */

enum { BYTE = 8, SIZE_MAX_BITS = 64, SINGLE_BITS = 32, DOUBLE_BITS = 64 };

static bool word_is(const char *name, const char *wanted)
{
	return strcmp(name, wanted) == 0;
}

/* ---- Attributes of several types ---------------------------------------------------------- */

static bool is_little_endian(struct tsdl_parser *p, const struct tsdl_value *value)
{
	return (value->token == TSDL_NAME &&
		       (word_is(value->text, "le") || word_is(value->text, "native"))) ||
	       TSDL_FAIL(p, "only little-endian is understood");
}

static bool has_encoding(
	struct tsdl_parser *p, const struct tsdl_value *value, struct tsdl_type *type)
{
	if (value->token == TSDL_NUMBER)
		return TSDL_FAIL(p, "an encoding is no name");
	type->is_text = !word_is(value->text, "none");
	return true;
}

static bool set_align(struct tsdl_parser *p, uint64_t align, struct tsdl_type *type)
{
	if (!align || align > SIZE_MAX_BITS || (align & (align - 1)))
		return TSDL_FAIL(p, "an alignment is no power of two up to %d", SIZE_MAX_BITS);
	type->align = (uint32_t)align;
	return true;
}

/* ---- Integers and enumerations ------------------------------------------------------------- */

static bool integer_attribute(
	struct tsdl_parser *p, const char *name, const struct tsdl_value *value, void *data)
{
	static const char prefix[] = "clock.", suffix[] = ".value";
	struct tsdl_type *type = data;
	bool is_number;
	uint64_t number;
	size_t length;
	char *clock;

	if (word_is(name, "base"))
		return true;
	if (word_is(name, "byte_order"))
		return is_little_endian(p, value);
	if (word_is(name, "encoding"))
		return has_encoding(p, value, type);
	if (word_is(name, "signed")) {
		is_number = value->token == TSDL_NUMBER;
		type->is_signed =
			is_number ? value->number != 0
				  : word_is(value->text, "true") || word_is(value->text, "TRUE");
		return is_number || type->is_signed || word_is(value->text, "false") ||
		       word_is(value->text, "FALSE") ||
		       TSDL_FAIL(p, "'%s' is neither true nor false", value->text);
	}
	if (word_is(name, "map")) {
		length = value->token == TSDL_NAME ? strlen(value->text) : 0;
		if (length < sizeof(prefix) + sizeof(suffix) - 2 ||
			strncmp(value->text, prefix, sizeof(prefix) - 1) != 0 ||
			!word_is(value->text + length - (sizeof(suffix) - 1), suffix))
			return TSDL_FAIL(p, "an integer is mapped to no clock");
		length -= sizeof(prefix) + sizeof(suffix) - 2;
		clock = tsdl_alloc(p, length + 1);
		if (clock)
			memcpy(clock, value->text + sizeof(prefix) - 1, length);
		type->clock_name = clock;
		return clock != NULL;
	}
	if (!word_is(name, "size") && !word_is(name, "align"))
		return TSDL_FAIL(p, "an integer's '%s' is not understood", name);
	if (!tsdl_number_of(p, value, &number))
		return false;
	if (word_is(name, "align"))
		return set_align(p, number, type);
	type->size = number && number <= SIZE_MAX_BITS ? (uint32_t)number : 0;
	return type->size || TSDL_FAIL(p, "an integer has not 1 to %d bits", SIZE_MAX_BITS);
}

static bool take_integer(struct tsdl_parser *p, struct tsdl_type *type)
{
	type->kind = TSDL_INTEGER;
	if (!tsdl_take_attributes(p, integer_attribute, type))
		return false;
	if (!type->size)
		return TSDL_FAIL(p, "an integer has no size");
	if (!type->align)
		type->align = type->size % BYTE ? 1 : BYTE;
	return true;
}

/* Parses an enumeration's label, with its number or range, if any. */
static bool take_label(struct tsdl_parser *p, const char **ret)
{
	struct tsdl_value value;

	*ret = p->text;
	if (p->token != TSDL_NAME && p->token != TSDL_TEXT)
		return TSDL_FAIL(p, "an enumeration has no label");
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

static bool tsdl_take_type(struct tsdl_parser *p, const struct tsdl_type **ret);

/* Parses an enumeration: its integer type, and whether "unreadable" is its only label. */
static bool take_enum(struct tsdl_parser *p, struct tsdl_type *type)
{
	const struct tsdl_type *integer;
	const char *label;
	bool is_first = true;

	if (!tsdl_take_mark(p, ':') || !tsdl_take_type(p, &integer))
		return false;
	if (integer->kind != TSDL_INTEGER)
		return TSDL_FAIL(p, "an enumeration is not of integers");
	*type = *integer;
	type->is_unreadable = false;
	if (!tsdl_take_mark(p, '{'))
		return false;
	while (!tsdl_is_mark(p, '}')) {
		if (!take_label(p, &label))
			return false;
		type->is_unreadable = is_first && word_is(label, "unreadable");
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

	if (word_is(name, "byte_order"))
		return is_little_endian(p, value);
	if (!word_is(name, "exp_dig") && !word_is(name, "mant_dig") && !word_is(name, "align"))
		return TSDL_FAIL(p, "a floating-point number's '%s' is not understood", name);
	if (!tsdl_number_of(p, value, &number))
		return false;
	if (word_is(name, "align"))
		return set_align(p, number, attributes->type);
	*(word_is(name, "exp_dig") ? &attributes->exponent : &attributes->mantissa) = number;
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
		return TSDL_FAIL(p, "a floating-point number is neither float nor double");
	return true;
}

static bool string_attribute(
	struct tsdl_parser *p, const char *name, const struct tsdl_value *value, void *data)
{
	if (!word_is(name, "encoding"))
		return TSDL_FAIL(p, "a string's '%s' is not understood", name);
	return has_encoding(p, value, data);
}

static bool take_string(struct tsdl_parser *p, struct tsdl_type *type)
{
	*type = (struct tsdl_type){.kind = TSDL_STRING, .align = BYTE};
	return !tsdl_is_mark(p, '{') || tsdl_take_attributes(p, string_attribute, type);
}

/* ---- Structures and arrays ------------------------------------------------------------------- */

/* Returns the name without the underscore that distinguishes it from keywords. */
static const char *bare_name(const char *name)
{
	return name + (name[0] == '_');
}

/* Parses the "[...]" after a name. */
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

static bool take_struct(struct tsdl_parser *p, struct tsdl_type *type)
{
	struct tsdl_type given = {.align = 1};
	const struct tsdl_type *of;
	struct tsdl_field *fields;
	struct tsdl_value value;
	const char *name;
	uint64_t align;

	*type = (struct tsdl_type){.kind = TSDL_STRUCT, .align = 1};
	if (!tsdl_take_mark(p, '{'))
		return false;
	while (!tsdl_is_mark(p, '}')) {
		size_t count = type->field_count;

		/* Arrays of arrays are not supported: types could grow without limit. */
		if (!tsdl_take_type(p, &of) || !tsdl_take_name(p, &name) ||
			(tsdl_is_mark(p, '[') && !take_array(p, &of)) || !tsdl_take_mark(p, ';'))
			return false;
		if (!(count & (count - 1))) {
			fields = tsdl_alloc(p, 2 * (count + 1) * sizeof(*fields));
			if (!fields)
				return false;
			if (count)
				memcpy(fields, type->fields, count * sizeof(*fields));
			type->fields = fields;
		}
		type->fields[type->field_count++] = (struct tsdl_field){bare_name(name), of};
		type->align = of->align > type->align ? of->align : type->align;
	}
	if (!tsdl_next(p) || p->token != TSDL_NAME || !word_is(p->text, "align"))
		return !p->error;
	if (!tsdl_next(p) || !tsdl_take_mark(p, '(') || !tsdl_take_value(p, &value) ||
		!tsdl_number_of(p, &value, &align) || !set_align(p, align, &given) ||
		!tsdl_take_mark(p, ')'))
		return false;
	if (given.align > type->align)
		type->align = given.align;
	return true;
}

/* ---- All types ------------------------------------------------------------------------------- */

static const struct tsdl_type *alias_of(const struct tsdl_parser *p, const char *name)
{
	for (size_t i = 0; i < p->alias_count; i++)
		if (word_is(p->aliases[i].name, name))
			return p->aliases[i].type;
	return NULL;
}

static bool tsdl_take_type(struct tsdl_parser *p, const struct tsdl_type **ret)
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
		return TSDL_FAIL(p, "types are nested too deeply");
	type = tsdl_alloc(p, sizeof(*type));
	*ret = type;
	for (size_t i = 0; type && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!word_is(kinds[i].name, name))
			continue;
		p->depth++;
		taken = kinds[i].take(p, type);
		p->depth--;
		return taken;
	}
	return TSDL_FAIL(p, "'%s' is no type that is understood", name);
}

static bool tsdl_take_alias(struct tsdl_parser *p)
{
	const struct tsdl_type *type;
	const char *name;

	if (!tsdl_take_type(p, &type) || !tsdl_take(p, TSDL_DEFINE, ":=") ||
		!tsdl_take_name(p, &name) || !tsdl_take_mark(p, ';'))
		return false;
	if (alias_of(p, name))
		return TSDL_FAIL(p, "'%s' is defined twice", name);
	if (p->alias_count == TSDL_ALIASES_MAX)
		return TSDL_FAIL(p, "there are more than %d names of types", TSDL_ALIASES_MAX);
	p->aliases[p->alias_count++] = (struct tsdl_alias){name, type};
	return true;
}

/* ==== Blocks ================================================================================== */

/* The names that a kind of block may contain. `value` fails at a name it does not know. */
struct block_kind {
	bool (*value)(struct tsdl_parser *p, const char *name, const struct tsdl_value *value,
		void *data);
	const char *const *type_names; /* names of the block's types, up to NULL */
	const size_t *type_offsets;    /* offset of the struct tsdl_type * for each name */
};

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
			const struct tsdl_type **place = NULL;

			for (size_t i = 0; kind->type_names[i]; i++)
				if (word_is(kind->type_names[i], name))
					place = (const struct tsdl_type **)((char *)data +
									    kind->type_offsets[i]);
			if (!tsdl_next(p))
				return false;
			if (!place)
				return TSDL_FAIL(p, "'%s' is not understood", name);
			if (!tsdl_take_type(p, place))
				return false;
			if ((*place)->kind != TSDL_STRUCT)
				return TSDL_FAIL(p, "'%s' is no structure", name);
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
			return TSDL_FAIL(p, "the uuid is malformed");
		p->tsdl->uuid[count / 2] =
			(uint8_t)(p->tsdl->uuid[count / 2] << 4 | (digit - digits));
		count++;
	}
	p->tsdl->has_uuid = true;
	return count == 2 * TSDL_UUID_BYTES || TSDL_FAIL(p, "the uuid is malformed");
}

static bool trace_value(
	struct tsdl_parser *p, const char *name, const struct tsdl_value *value, void *data)
{
	uint64_t number;

	(void)data;
	if (word_is(name, "uuid"))
		return take_uuid(p, value);
	if (word_is(name, "byte_order"))
		return (value->token == TSDL_NAME && word_is(value->text, "le")) ||
		       TSDL_FAIL(p, "only little-endian is understood");
	if (!word_is(name, "major") && !word_is(name, "minor"))
		return TSDL_FAIL(p, "the trace's '%s' is not understood", name);
	if (!tsdl_number_of(p, value, &number))
		return false;
	return number == (word_is(name, "major") ? 1 : 8) ||
	       TSDL_FAIL(p, "it is not of version 1.8 of the Common Trace Format");
}

static bool take_trace(struct tsdl_parser *p)
{
	static const char *const names[] = {"packet.header", NULL};
	static const size_t offsets[] = {offsetof(struct tsdl, packet_header)};
	static const struct block_kind kind = {trace_value, names, offsets};

	return take_block(p, &kind, p->tsdl);
}

/* Any value of "env" is allowed. */
static bool env_value(
	struct tsdl_parser *p, const char *name, const struct tsdl_value *value, void *data)
{
	(void)data;
	if (value->token == TSDL_TEXT && word_is(name, "tracer_version"))
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

	if (word_is(name, "name")) {
		if (value->token == TSDL_NUMBER)
			return TSDL_FAIL(p, "a clock's name is none");
		clock->name = value->text;
		return true;
	}
	if (word_is(name, "description") || word_is(name, "precision") ||
		word_is(name, "absolute") || word_is(name, "uuid"))
		return true;
	if (word_is(name, "freq"))
		return tsdl_number_of(p, value, &clock->freq);
	if (word_is(name, "offset"))
		return tsdl_number_of(p, value, &clock->offset);
	if (!word_is(name, "offset_s"))
		return TSDL_FAIL(p, "a clock's '%s' is not understood", name);
	if (value->token != TSDL_NUMBER || value->number > INT64_MAX)
		return TSDL_FAIL(p, "a clock's offset is no number");
	clock->offset_s = value->negative ? -(int64_t)value->number : (int64_t)value->number;
	return true;
}

static bool take_clock(struct tsdl_parser *p)
{
	static const struct block_kind kind = {clock_value, no_names, NULL};
	struct tsdl_clock *clock = tsdl_alloc(p, sizeof(*clock));

	if (clock)
		clock->freq = 1000000000; /* default frequency of TSDL, in cycles per second */
	if (!take_block(p, &kind, clock))
		return false;
	if (!clock->name || !clock->freq)
		return TSDL_FAIL(p, "a clock has no %s", clock->name ? "frequency" : "name");
	if (p->clock_count++ == TSDL_CLOCKS_MAX)
		return TSDL_FAIL(p, "there are more than %d clocks", TSDL_CLOCKS_MAX);
	*p->ends.clocks = clock;
	p->ends.clocks = &clock->next;
	return true;
}

/* ---- stream and event ------------------------------------------------------------------------ */

static bool stream_value(
	struct tsdl_parser *p, const char *name, const struct tsdl_value *value, void *data)
{
	struct tsdl_stream *stream = data;

	return word_is(name, "id") ? tsdl_number_of(p, value, &stream->id)
				   : TSDL_FAIL(p, "a stream's '%s' is not understood", name);
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

	if (word_is(name, "id"))
		return tsdl_number_of(p, value, &event->id);
	if (word_is(name, "stream_id"))
		return tsdl_number_of(p, value, &event->stream_id);
	if (word_is(name, "name")) {
		event->name = value->text;
		return value->token != TSDL_NUMBER || TSDL_FAIL(p, "an event's name is none");
	}
	/* These attributes do not affect events' bytes. */
	return word_is(name, "model.emf.uri") || word_is(name, "loglevel") ||
	       TSDL_FAIL(p, "an event's '%s' is not understood", name);
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

/* ---- The metadata ---------------------------------------------------------------------------- */

struct probe_error *tsdl_parse(const char *text, size_t length, struct tsdl *ret)
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
	enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
	struct tsdl_parser p = {.tsdl = ret,
		.at = text,
		.end = text + length,
		.line = 1,
		.ends = {&ret->clocks, &ret->streams, &ret->events}};

	const char *name;

	*ret = (struct tsdl){0};
	tsdl_next(&p);
	while (!p.error && p.token != TSDL_END && tsdl_take_name(&p, &name)) {
		size_t i = 0;

		while (i < KINDS && !word_is(kinds[i].name, name))
			i++;
		if (i < KINDS)
			kinds[i].take(&p);
		else
			TSDL_FAIL(&p, "'%s' is not understood", name);
	}
	return p.error;
}
