/* SPDX-License-Identifier: MIT */
/* Reads records, and stubs' frames for functions, in the layout of record_layout.c. */
#include <ctype.h>
#include <string.h>

#include "libprobe/query/query.h"

/* The bytes of a capture of variable length. */
struct span {
	const uint8_t *bytes;
	size_t length;
	bool truncated, is_null;
};

/*
 * Returns the offset in a record of capture `count`'s fixed part, behind those of earlier captures.
 */
static size_t fixed_place(const struct record_layout *layout, size_t count)
{
	size_t at = sizeof(struct ring_record);

	for (size_t i = 0; i < count; i++)
		at += arch_capture_fixed(&layout->captures[i]);
	return at;
}

/* Returns a record's length without the bytes of strings and aggregates. */
static size_t fixed_bytes(const struct record_layout *layout)
{
	return fixed_place(layout, layout->recorded) +
	       (layout->checked ? ring_mask_bytes(layout->recorded) : 0);
}

size_t record_layout_bytes(const struct record_layout *layout)
{
	size_t bytes = fixed_bytes(layout);

	for (size_t i = 0; i < layout->recorded; i++)
		if (arch_capture_has_bytes(&layout->captures[i]))
			bytes += layout->captures[i].bytes_max;
	return ring_padded(bytes, RING_ALIGN);
}

/* Reads a number of 1, 2, 4 or 8 bytes. */
static uint64_t number_at(const uint8_t *at, uint32_t bytes)
{
	uint64_t eight;
	uint32_t four;
	uint16_t two;

	switch (bytes) {
	case 8:
		memcpy(&eight, at, sizeof(eight));
		return eight;
	case 4:
		memcpy(&four, at, sizeof(four));
		return four;
	case 2:
		memcpy(&two, at, sizeof(two));
		return two;
	default:
		return *at;
	}
}

/* Returns true if all bytes are printable. UTF-8 is checked in the output. */
static bool is_text(const struct span *span)
{
	if (!span->length)
		return false;
	for (size_t i = 0; i < span->length; i++)
		if (span->bytes[i] < 0x80 && !isprint(span->bytes[i]) && !isspace(span->bytes[i]))
			return false;
	return true;
}

static void span_value(const struct span *span, enum probe_value_kind kind, struct probe_value *ret)
{
	ret->kind = span->is_null ? PROBE_VALUE_NULL : kind;
	ret->truncated = span->truncated;
	ret->bytes = (const char *)span->bytes;
	ret->length = span->length;
}

/* The user or the catalogue has said that this argument is a string. */
static void string_value(const struct arch_capture *capture, const struct record_layout_arg *arg,
	const struct span *span, struct probe_value *ret)
{
	const void *end = NULL;

	span_value(span,
		arg->is_known	? PROBE_VALUE_TEXT
		: arg->is_bytes ? PROBE_VALUE_BYTES
				: PROBE_VALUE_STRING,
		ret);
	ret->known = arg->is_known;
	if (capture->has_length && !arg->is_bytes && !span->is_null)
		end = memchr(span->bytes, '\0', span->length);
	if (!end)
		return;
	ret->length = (size_t)((const uint8_t *)end - span->bytes);
	ret->truncated = false;
}

/* Extends the lower `bytes` of a word to 64 bits. */
static uint64_t extend(uint64_t word, unsigned int bytes, bool is_signed)
{
	unsigned int bits = bytes * 8;

	if (bits == 0 || bits >= 64)
		return word;
	word &= (UINT64_C(1) << bits) - 1;
	return is_signed && word >> (bits - 1) ? word | ~UINT64_C(0) << bits : word;
}

static void number_value(
	const struct record_layout_arg *arg, uint64_t word, struct probe_value *ret)
{
	float single;

	ret->kind = arg->is_signed ? PROBE_VALUE_SIGNED : PROBE_VALUE_UNSIGNED;
	ret->u = extend(word, arg->size, arg->is_signed);
	if (!arg->is_float)
		return;
	ret->kind = PROBE_VALUE_FLOAT;
	if (arg->size == 4) {
		memcpy(&single, &word, sizeof(single));
		ret->f = single;
	} else {
		memcpy(&ret->f, &word, sizeof(ret->f));
	}
}

bool record_layout_read_stack(
	const struct record_layout *layout, const uint8_t *record, struct record_layout_stack *ret)
{
	const uint8_t *first = record + sizeof(struct ring_record);
	size_t before = layout->stack - 1u; /* number of captures before the stack */
	uint64_t word;

	if (!layout->stack)
		return false;
	word = number_at(record + fixed_place(layout, before), sizeof(uint32_t));
	/* The stack is the first capture of variable length. */
	*ret = (struct record_layout_stack){
		.bytes = record + fixed_bytes(layout), .length = ring_string_length(word)};
	if (layout->captures[before].stack == ARCH_STACK_BYTES)
		ret->registers = first;
	else if (before)
		ret->caller = number_at(first, sizeof(uint64_t));
	return true;
}

/* Returns a capture's bytes. `word` has their length and flags. */
static struct span span_of(const uint8_t *bytes, uint64_t word)
{
	return (struct span){.bytes = bytes,
		.length = ring_string_length(word),
		.truncated = word >> RING_STRING_TRUNCATED_BIT & 1,
		.is_null = word >> RING_STRING_NULL_BIT & 1};
}

/* Sets all arguments' values: words[i] is capture i, readable if bit i of `valid` is set. */
static void read_values(const struct record_layout *layout, const uint64_t *words, uint64_t valid,
	const struct span *spans, struct probe_value *values)
{
	for (size_t i = 0; i < layout->arg_count; i++) {
		const struct record_layout_arg *arg = &layout->args[i];
		const struct span *string = arg->string >= 0 ? &spans[arg->string] : NULL;

		values[i] = (struct probe_value){.kind = PROBE_VALUE_NULL};
		if (arg->value >= 0 && valid >> arg->value & 1) {
			if (arch_capture_has_bytes(&layout->captures[arg->value]))
				span_value(&spans[arg->value], PROBE_VALUE_BYTES, &values[i]);
			else
				number_value(arg, words[arg->value], &values[i]);
		}
		/* For an unreadable string, show only the number. */
		if (string && arg->is_known &&
			(string->is_null || values[i].kind == PROBE_VALUE_NULL))
			continue;
		if (string && !arg->is_guess)
			string_value(&layout->captures[arg->string], arg, string, &values[i]);
		else if (string && !string->is_null && is_text(string))
			span_value(string, PROBE_VALUE_TEXT, &values[i]);
	}
}

void record_layout_read_frame(const struct record_layout *layout, const uint64_t *frame,
	struct probe_value values[ARCH_ARGS_MAX])
{
	const uint64_t *pointers = frame + layout->recorded + 1;
	struct span spans[ARCH_ARGS_MAX];

	for (size_t i = 0; i < layout->recorded; i++)
		if (arch_capture_has_bytes(&layout->captures[i]))
			spans[i] = span_of((const uint8_t *)(uintptr_t)pointers[i], frame[i]);
	read_values(layout, frame, frame[layout->recorded], spans, values);
}

bool record_layout_is_plain(const struct record_layout *layout)
{
	for (size_t i = 0; i < layout->arg_count; i++) {
		const struct record_layout_arg *arg = &layout->args[i];
		const struct arch_capture *value =
			&layout->captures[arg->value < 0 ? 0 : arg->value];

		if (arg->string >= 0 ? arg->is_guess || arg->is_known ||
					       layout->captures[arg->string].has_length
				     : arg->value < 0 || arg->is_float ||
					       arch_capture_has_bytes(value) ||
					       value->arg.kind == ARCH_ARG_FP_REGISTER)
			return false;
	}
	return true;
}

struct found {
	/* Numbers that are not yet extended; for strings and aggregates, length and flags. */
	uint64_t words[ARCH_ARGS_MAX];
	struct span spans[ARCH_ARGS_MAX]; /* bytes of each string or aggregate */
	uint64_t valid;			  /* bit i is set if capture i was readable */
};

/* Finds numbers and mask. Returns the start of the strings; NULL if the record is too short. */
static const uint8_t *find_numbers(
	const struct record_layout *layout, const uint8_t *record, size_t size, struct found *ret)
{
	const uint8_t *at = record + sizeof(struct ring_record);
	size_t left = size - sizeof(struct ring_record);
	uint32_t mask = layout->checked ? ring_mask_bytes(layout->recorded) : 0;

	if (size < sizeof(struct ring_record))
		return NULL;
	for (size_t i = 0; i < layout->recorded; i++) {
		uint32_t fixed = arch_capture_fixed(&layout->captures[i]);

		if (fixed > left)
			return NULL;
		ret->words[i] = number_at(at, fixed);
		at += fixed;
		left -= fixed;
	}
	if (mask > left)
		return NULL;
	ret->valid = mask ? number_at(at, mask) : ~UINT64_C(0);
	return at + mask;
}

/*
 * Finds a record's captures. Returns its length, or 0 if that exceeds `size` or a capture is longer
 * than stubs write, because the target may have written to the ring.
 */
static size_t find_captures(
	const struct record_layout *layout, const uint8_t *record, size_t size, struct found *ret)
{
	const uint8_t *bytes = find_numbers(layout, record, size, ret);
	size_t at;

	if (!bytes)
		return 0;
	at = (size_t)(bytes - record);
	for (size_t i = 0; i < layout->recorded; i++) {
		const struct arch_capture *c = &layout->captures[i];
		struct span *span = &ret->spans[i];

		if (!arch_capture_has_bytes(c))
			continue;
		*span = span_of(record + at, ret->words[i]);
		if (span->length > c->bytes_max || span->length > size - at)
			return 0;
		at += span->length;
	}
	at = ring_padded(at, RING_ALIGN);
	return at <= size ? at : 0;
}

size_t record_layout_read(const struct record_layout *layout, const uint8_t *record, size_t size,
	struct probe_value values[ARCH_ARGS_MAX])
{
	struct found found;
	size_t length = find_captures(layout, record, size, &found);

	if (length)
		read_values(layout, found.words, found.valid, found.spans, values);
	return length;
}

struct probe_value expr_record_value(const struct arch_expr *expr,
	const struct record_layout *layout, const uint8_t *record, int32_t tid, int32_t pid,
	int32_t cpu)
{
	const struct arch_expr_node *last = &expr->nodes[expr->count - 1];
	struct expr_string strings[ARCH_ARGS_MAX] = {0};
	struct found found = {0};
	struct expr_input input = {
		.words = found.words, .strings = strings, .tid = tid, .pid = pid, .cpu = cpu};
	uint64_t value;

	find_captures(layout, record, SIZE_MAX, &found);
	input.unreadable = ~found.valid;
	for (size_t i = 0; i < layout->recorded; i++) {
		const struct arch_capture *c = &layout->captures[i];
		const struct span *span = &found.spans[i];

		if (!arch_capture_has_bytes(c)) {
			/* Stubs extend numbers in the same way. */
			bool is_signed = c->step_count
						 ? c->steps[c->step_count - 1].is_signed
						 : c->arg.is_signed && !c->arg.is_float &&
							   c->arg.kind != ARCH_ARG_FP_REGISTER;

			found.words[i] = extend(found.words[i], arch_capture_size(c), is_signed);
			continue;
		}
		strings[i] = (struct expr_string){(const char *)span->bytes, span->length};
		input.unreadable |= (uint64_t)span->is_null << i;
	}
	if (!expr_evaluate(expr, &input, &value))
		return (struct probe_value){.kind = PROBE_VALUE_NULL};
	return (struct probe_value){
		.kind = expr_is_signed(last) ? PROBE_VALUE_SIGNED : PROBE_VALUE_UNSIGNED,
		.u = value};
}
