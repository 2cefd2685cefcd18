/* SPDX-License-Identifier: MIT */
/* Values of hits and keys, compared and as numbers. */
#ifndef LIBPROBE_BASE_VALUE_H
#define LIBPROBE_BASE_VALUE_H

#include <stdbool.h>

#include "libprobe/base/buffer.h"
#include "probe/hit.h"

/* Whether it has `bytes`. */
static inline bool value_has_bytes(const struct probe_value *value)
{
	return value->kind == PROBE_VALUE_STRING || value->kind == PROBE_VALUE_TEXT ||
	       value->kind == PROBE_VALUE_BYTES || value->kind == PROBE_VALUE_STACK ||
	       value->kind == PROBE_VALUE_OTHER;
}

/* The key of a row of all keys that found no room. */
static inline struct probe_value value_other(void)
{
	static const char text[] = "(other)";

	return (struct probe_value){
		.kind = PROBE_VALUE_OTHER, .bytes = text, .length = sizeof(text) - 1};
}

/* Are these the keys of that row? */
static inline bool value_keys_are_other(const struct probe_value *keys, size_t key_count)
{
	return key_count && keys[0].kind == PROBE_VALUE_OTHER;
}

/* A number with the text of a string that the catalogue knows. */
static inline bool value_has_known_text(const struct probe_value *value)
{
	return value->kind == PROBE_VALUE_TEXT && value->known;
}

/* Appends a number in decimal; false if the value is not one. */
bool value_add_number(struct buffer *out, const struct probe_value *value);

/* Of a call stack: how long the line is that begins at `start`. */
size_t value_stack_line(const struct probe_value *stack, size_t start);
/* Adds a call stack as one line: "innermost < ... < outermost". */
void value_add_stack(struct buffer *out, const struct probe_value *stack);

/* The value as a number; if it is not one, returns false and leaves *ret unchanged. */
bool value_number(const struct probe_value *value, double *ret);

/*
 * Returns <, = or > 0 like strcmp(3): null, then numbers, then NaN, then strings, then "(other)". A
 * truncated string differs from a complete one with the same text.
 */
int value_compare(const struct probe_value *a, const struct probe_value *b);

#endif
