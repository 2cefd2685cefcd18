/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/map.h"
#include "probe/hit.h"

static inline bool value_has_bytes(const struct probe_value *value)
{
	return value->kind == PROBE_VALUE_STRING || value->kind == PROBE_VALUE_TEXT ||
	       value->kind == PROBE_VALUE_BYTES || value->kind == PROBE_VALUE_STACK ||
	       value->kind == PROBE_VALUE_OTHER;
}

/* Returns the key "(other)", of the row for all keys that a table had no room for. */
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

/* Appends a decimal number. Returns false for other values. */
bool value_add_number(struct buffer *out, const struct probe_value *value);

/* Returns the length of the line that begins at `start` in a stack's text. */
size_t value_stack_line(const struct probe_value *stack, size_t start);
/* Appends a stack in one line: "innermost < ... < outermost". */
void value_add_stack(struct buffer *out, const struct probe_value *stack);
/* Appends a value as people read it: hexadecimal if it may be an address, strings in quotes. */
void value_add_text(struct buffer *out, const struct probe_value *value);

/*
 * Returns the part of a key (base/map.h) by which a value is found; the other function returns a
 * word that also belongs to the key. Equal numbers of different kinds have the same key if they
 * have the same bits.
 */
struct map_part value_part(const struct probe_value *value);
uint64_t value_class(const struct probe_value *value);

/* Converts a number; returns false for other values. */
bool value_number(const struct probe_value *value, double *ret);

/*
 * Compares like strcmp(3): null, numbers, NaN, strings, "(other)". A truncated string differs from
 * a complete one.
 */
int value_compare(const struct probe_value *a, const struct probe_value *b);
