/* SPDX-License-Identifier: MIT */
/* Records, and frames that stubs pass to functions, read back as record_layout.c laid them out. */
#include <ctype.h>
#include <string.h>

#include "libprobe/expr/record_layout.h"

/* Where the bytes of a capture are, once their length is known. */
struct span {
	const uint8_t *bytes;
	size_t length;
	bool truncated, is_null;
};

static bool has_bytes(const struct arch_capture *c)
{
	uint32_t size = arch_capture_size(c);

	return c->is_string || c->has_length || !(size == 1 || size == 2 || size == 4 || size == 8);
}

size_t record_layout_bytes(const struct record_layout *layout)
{
	size_t bytes = sizeof(struct ring_record) + 8 * (layout->recorded + layout->checked);

	for (size_t i = 0; i < layout->recorded; i++)
		if (has_bytes(&layout->captures[i]))
			bytes += (layout->captures[i].bytes_max + 15) & ~7u;
	return bytes;
}

static uint64_t word_at(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
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

/* What was requested as a string, or as bytes. */
static void string_value(const struct arch_capture *capture, const struct record_layout_arg *arg,
	const struct span *span, struct probe_value *ret)
{
	const void *end = NULL;

	span_value(span, arg->is_bytes ? PROBE_VALUE_BYTES : PROBE_VALUE_STRING, ret);
	if (capture->has_length && !arg->is_bytes && !span->is_null)
		end = memchr(span->bytes, '\0', span->length);
	if (!end)
		return;
	ret->length = (size_t)((const uint8_t *)end - span->bytes);
	ret->truncated = false;
}

/* Integers of less than 64 bits in a vector register are not extended yet. */
static uint64_t extend(const struct record_layout_arg *arg, uint64_t word)
{
	unsigned int bits = arg->size * 8;

	if (bits == 0 || bits >= 64)
		return word;
	word &= (UINT64_C(1) << bits) - 1;
	return arg->is_signed && word >> (bits - 1) ? word | ~UINT64_C(0) << bits : word;
}

static void number_value(
	const struct record_layout_arg *arg, uint64_t word, struct probe_value *ret)
{
	float single;

	ret->kind = arg->is_signed ? PROBE_VALUE_SIGNED : PROBE_VALUE_UNSIGNED;
	ret->u = extend(arg, word);
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
	const uint8_t *words = record + sizeof(struct ring_record);
	size_t at = sizeof(struct ring_record) + 8 * (layout->recorded + layout->checked);
	size_t before = layout->stack - 1u; /* captures that come with it */

	if (!layout->stack)
		return false;
	/* It comes first among the variable captures. */
	*ret = (struct record_layout_stack){
		.bytes = record + at, .length = (uint32_t)word_at(words + 8 * before)};
	if (layout->captures[before].stack == ARCH_STACK_BYTES)
		ret->registers = (const uint64_t *)(const void *)words;
	else if (before)
		ret->caller = word_at(words);
	return true;
}

/* A variable capture's word holds its length. */
static struct span span_of(const uint8_t *bytes, uint64_t word)
{
	return (struct span){.bytes = bytes,
		.length = (uint32_t)word,
		.truncated = word >> RING_STRING_TRUNCATED_BIT & 1,
		.is_null = word >> RING_STRING_NULL_BIT & 1};
}

/* `words` has one u64 per capture; a bit in `valid` says that it could be read. */
static void read_values(const struct record_layout *layout, const uint8_t *words, uint64_t valid,
	const struct span *spans, struct probe_value *values)
{
	for (size_t i = 0; i < layout->arg_count; i++) {
		const struct record_layout_arg *arg = &layout->args[i];
		const struct span *string = arg->string >= 0 ? &spans[arg->string] : NULL;

		values[i] = (struct probe_value){.kind = PROBE_VALUE_NULL};
		if (arg->value >= 0 && valid >> arg->value & 1) {
			if (has_bytes(&layout->captures[arg->value]))
				span_value(&spans[arg->value], PROBE_VALUE_BYTES, &values[i]);
			else
				number_value(arg, word_at(words + 8 * arg->value), &values[i]);
		}
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
		if (has_bytes(&layout->captures[i]))
			spans[i] = span_of((const uint8_t *)(uintptr_t)pointers[i], frame[i]);
	read_values(layout, (const uint8_t *)frame, frame[layout->recorded], spans, values);
}

static bool is_plain(const struct record_layout *layout, const struct record_layout_arg *arg)
{
	if (arg->string >= 0)
		return !arg->is_guess && !layout->captures[arg->string].has_length;
	return arg->value >= 0 && !arg->is_float && !has_bytes(&layout->captures[arg->value]) &&
	       layout->captures[arg->value].arg.kind != ARCH_ARG_FP_REGISTER;
}

bool record_layout_is_plain(const struct record_layout *layout)
{
	for (size_t i = 0; i < layout->arg_count; i++)
		if (!is_plain(layout, &layout->args[i]))
			return false;
	return true;
}

size_t record_layout_read(const struct record_layout *layout, const uint8_t *record, size_t size,
	struct probe_value values[ARCH_ARGS_MAX])
{
	const uint8_t *words = record + sizeof(struct ring_record);
	size_t at = sizeof(struct ring_record) + 8 * (layout->recorded + layout->checked);
	uint64_t valid = ~UINT64_C(0);
	struct span spans[ARCH_ARGS_MAX]; /* of the variable captures */

	if (at > size)
		return 0;
	if (layout->checked)
		valid = word_at(words + 8 * layout->recorded);
	for (size_t i = 0; i < layout->recorded; i++) {
		const struct arch_capture *c = &layout->captures[i];
		uint64_t word = word_at(words + 8 * i);
		size_t length = (uint32_t)word;

		if (!has_bytes(c))
			continue;
		/* Untrusted: the target can write here. */
		if (length > (size_t)c->bytes_max + 8 || at + ((length + 7) & ~(size_t)7) > size)
			return 0;
		spans[i] = span_of(record + at, word);
		at += (length + 7) & ~(size_t)7;
	}
	read_values(layout, words, valid, spans, values);
	return at;
}

void record_layout_captures(const struct record_layout *layout, const uint8_t *record,
	struct record_layout_captured ret[ARCH_ARGS_MAX])
{
	const uint8_t *words = record + sizeof(struct ring_record);
	size_t at = sizeof(struct ring_record) + 8 * (layout->recorded + layout->checked);
	uint64_t valid = layout->checked ? word_at(words + 8 * layout->recorded) : ~UINT64_C(0);

	for (size_t i = 0; i < layout->recorded; i++) {
		uint64_t word = word_at(words + 8 * i);
		struct span span = span_of(record + at, word);

		ret[i] =
			(struct record_layout_captured){.word = word, .is_null = !(valid >> i & 1)};
		if (!has_bytes(&layout->captures[i]))
			continue;
		ret[i].bytes = span.bytes;
		ret[i].length = span.length;
		ret[i].is_null |= span.is_null;
		at += (span.length + 7) & ~(size_t)7;
	}
}
