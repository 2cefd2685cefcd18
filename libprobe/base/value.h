/* SPDX-License-Identifier: MIT */
/* Values of hits and keys: comparing them, and converting them to numbers. */
#ifndef LIBPROBE_BASE_VALUE_H
#define LIBPROBE_BASE_VALUE_H

#include <stdbool.h>

#include "libprobe/base/buffer.h"
#include "probe/hit.h"

/* Returns true if the value uses the member `bytes`. */
static inline bool value_has_bytes(const struct probe_value *value)
{
	return value->kind == PROBE_VALUE_STRING || value->kind == PROBE_VALUE_TEXT ||
	       value->kind == PROBE_VALUE_BYTES || value->kind == PROBE_VALUE_STACK ||
	       value->kind == PROBE_VALUE_OTHER;
}

/*
 * Returns the key "(other)", the key of the row that collects all keys for which a table had no
 * room.
 */
static inline struct probe_value value_other(void)
{
	static const char text[] = "(other)";

	return (struct probe_value){
		.kind = PROBE_VALUE_OTHER, .bytes = text, .length = sizeof(text) - 1};
}

/* Returns true if these are the keys of the row "(other)". */
static inline bool value_keys_are_other(const struct probe_value *keys, size_t key_count)
{
	return key_count && keys[0].kind == PROBE_VALUE_OTHER;
}

/* Returns true if the value is a number for which the catalogue has a text. */
static inline bool value_has_known_text(const struct probe_value *value)
{
	return value->kind == PROBE_VALUE_TEXT && value->known;
}

/* Appends a number in decimal. Returns false if the value is not a number. */
bool value_add_number(struct buffer *out, const struct probe_value *value);

/* Returns the length of the line that begins at `start` in a call stack's text. */
size_t value_stack_line(const struct probe_value *stack, size_t start);
/* Appends a call stack as one line: "innermost < ... < outermost". */
void value_add_stack(struct buffer *out, const struct probe_value *stack);

/* Converts the value to a number. If the value is not a number, returns false and leaves *ret. */
bool value_number(const struct probe_value *value, double *ret);

/*
 * Returns a number below, equal to or above 0, like strcmp(3). The order is null, numbers, NaN,
 * strings, "(other)". A truncated string differs from a complete one with the same text.
 */
int value_compare(const struct probe_value *a, const struct probe_value *b);

#endif
