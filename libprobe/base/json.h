/* SPDX-License-Identifier: MIT */
/*
 * Writes JSON (RFC 8259) without blanks. Commas are written automatically: a value gets one in
 * front of it unless it follows an opening bracket, the name of its field, or the end of a line.
 *
 * A target may hit millions of times a second, so there is no tree of objects, and no state besides
 * the buffer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/buffer.h"

/*
 * In these functions, `name` is the name of a field, at most 64 bytes, which is not escaped. It is
 * NULL for values that are not fields.
 */

/* Opens an object or an array: `bracket` is { or [. json_close() takes } or ]. */
void json_open(struct buffer *out, const char *name, char bracket);
void json_close(struct buffer *out, char bracket);
/*
 * Ends an object and its line. Adds the version of the format, which says what the fields mean. A
 * new field does not change the version.
 */
enum { PROBE_JSON_SCHEMA = 1 };
void json_end_line(struct buffer *out);

/* Begins a value that the caller writes. */
void json_begin(struct buffer *out, const char *name);

void json_null(struct buffer *out, const char *name);
void json_boolean(struct buffer *out, const char *name, bool value);
void json_unsigned(struct buffer *out, const char *name, uint64_t value);
void json_signed(struct buffer *out, const char *name, int64_t value);
/* Writes an integer if the number is whole and fits 64 bits; null if it is not finite. */
void json_number(struct buffer *out, const char *name, long double value);
/* Write strings. Bytes that are not UTF-8 become U+FFFD. A `text` of NULL is null. */
void json_text(struct buffer *out, const char *name, const char *text);
void json_bytes(struct buffer *out, const char *name, const char *text, size_t length);
/* Writes a string such as "0x1f". */
void json_hex(struct buffer *out, const char *name, uint64_t value);
/* Writes a string with two hexadecimal digits for each byte. */
void json_hex_bytes(struct buffer *out, const char *name, const void *bytes, size_t length);
