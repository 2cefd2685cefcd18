/* SPDX-License-Identifier: MIT */
/* Records, and frames that stubs pass to functions, read back as record_layout.c laid them out. */
#include <ctype.h>
#include <string.h>

#include "libprobe/query/query.h"

/* Where the bytes of a capture are, once their length is known. */
struct span {
	const uint8_t *bytes;
	size_t length;
	bool truncated, is_null;
};

/* Where captures have their fixed places, up to `count`: the offset of the next one. */
static size_t fixed_place(const struct record_layout *layout, size_t count)
{
	size_t at = sizeof(struct ring_record);

	for (size_t i = 0; i < count; i++)
		at += arch_capture_fixed(&layout->captures[i]);
	return at;
}

/* The length of a record without the bytes of strings and aggregates. */
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

/* A number of 1, 2, 4 or 8 bytes. */
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

/* Whether all bytes are readable text; UTF-8 is left to the output. */
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

/* Reads an argument as a string, because the user or the catalogue says that it is one. */
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

/* The lower bytes, extended to 64 bits. */
static uint64_t extend(uint64_t word, unsigned int bytes, bool is_signed)
{
	unsigned int bits = bytes * 8;

	if (bits == 0 || bits >= 64)
		return word;
	word &= (UINT64_C(1) << bits) - 1;
	return is_signed && word >> (bits - 1) ? word | ~UINT64_C(0) << bits : word;
}

/* As the stub has the number of a capture for expressions. */
static uint64_t extended(const struct arch_capture *c, uint64_t number)
{
	bool is_signed =
		c->arg.is_signed && !c->arg.is_float && c->arg.kind != ARCH_ARG_FP_REGISTER;

	if (c->step_count)
		is_signed = c->steps[c->step_count - 1].is_signed;
	return extend(number, arch_capture_size(c), is_signed);
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
	size_t before = layout->stack - 1u; /* captures that come with it */
	uint64_t word;

	if (!layout->stack)
		return false;
	word = number_at(record + fixed_place(layout, before), sizeof(uint32_t));
	/* It comes first among the variable captures. */
	*ret = (struct record_layout_stack){
		.bytes = record + fixed_bytes(layout), .length = ring_string_length(word)};
	if (layout->captures[before].stack == ARCH_STACK_BYTES)
		ret->registers = first;
	else if (before)
		ret->caller = number_at(first, sizeof(uint64_t));
	return true;
}

/* A variable capture's word holds its length. */
static struct span span_of(const uint8_t *bytes, uint64_t word)
{
	return (struct span){.bytes = bytes,
		.length = ring_string_length(word),
		.truncated = word >> RING_STRING_TRUNCATED_BIT & 1,
		.is_null = word >> RING_STRING_NULL_BIT & 1};
}

/* `words` has one number per capture; a bit in `valid` says that it could be read. */
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
		/* Without its text, the number is there all the same. */
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

static bool is_plain(const struct record_layout *layout, const struct record_layout_arg *arg)
{
	if (arg->string >= 0)
		return !arg->is_guess && !arg->is_known &&
		       !layout->captures[arg->string].has_length;
	return arg->value >= 0 && !arg->is_float &&
	       !arch_capture_has_bytes(&layout->captures[arg->value]) &&
	       layout->captures[arg->value].arg.kind != ARCH_ARG_FP_REGISTER;
}

bool record_layout_is_plain(const struct record_layout *layout)
{
	for (size_t i = 0; i < layout->arg_count; i++)
		if (!is_plain(layout, &layout->args[i]))
			return false;
	return true;
}

/* What a record holds of its captures. */
struct found {
	uint64_t words[ARCH_ARGS_MAX];	  /* numbers, not extended; or those of the bytes */
	struct span spans[ARCH_ARGS_MAX]; /* of the captures with bytes */
	uint64_t valid;			  /* a bit for each capture that could be read */
};

/* Finds the numbers, and `valid`. Returns where the bytes begin, or NULL as find_captures(). */
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
 * Finds the captures of a record. Returns its length, or 0 if it is longer than `size`, or has more
 * bytes of a capture than a stub writes: the target can write here.
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

void record_layout_captures(const struct record_layout *layout, const uint8_t *record,
	struct record_layout_captured ret[ARCH_ARGS_MAX])
{
	struct found found = {0};

	find_captures(layout, record, SIZE_MAX, &found);
	for (size_t i = 0; i < layout->recorded; i++) {
		const struct arch_capture *c = &layout->captures[i];

		ret[i] = (struct record_layout_captured){.is_null = !(found.valid >> i & 1)};
		if (arch_capture_has_bytes(c)) {
			ret[i].bytes = found.spans[i].bytes;
			ret[i].length = found.spans[i].length;
			ret[i].is_null |= found.spans[i].is_null;
		} else {
			ret[i].word = extended(c, found.words[i]);
		}
	}
}
