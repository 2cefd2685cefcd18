/* SPDX-License-Identifier: MIT */
/*
 * Writes special texts into a buffer: text that may hold any bytes, and fields of JSON. Listing
 * a big library takes two milliseconds, mostly to start the process. printf(3) for each cell,
 * or a tree of JSON objects for each line, would double this time.
 */
#ifndef CLI_PRINT_OUT_H
#define CLI_PRINT_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/error.h"

/*
 * Adds a text that may hold any bytes, made safe for a terminal: control characters and bytes
 * that are not UTF-8 become C escapes ("\n", "\377"). Returns the width in terminal columns,
 * one per character.
 */
size_t out_printable(struct buffer *out, const char *text);

/*
 * Adds a JSON string with quotes, or null if `text` is NULL. Bytes that are not UTF-8 become
 * U+FFFD.
 */
void out_json(struct buffer *out, const char *text);

/* Each function adds one field of a JSON object. `key` includes all punctuation: ",\"name\":". */
void out_text_field(struct buffer *out, const char *key, const char *value);
void out_hex_field(struct buffer *out, const char *key, uint64_t value);
void out_number_field(struct buffer *out, const char *key, uint64_t value);
void out_boolean_field(struct buffer *out, const char *key, bool value);

/*
 * Call it after a failed write to a stream, while errno is still set. Drops the stream's
 * unwritten data. Returns the error, or NULL if the reader has closed its end of the pipe.
 */
PROBE_MUST_CHECK struct probe_error *out_failed(FILE *stream);

/* Writes the buffer to a stream and empties the buffer. main() flushes the stream. */
PROBE_MUST_CHECK struct probe_error *out_flush(struct buffer *out, FILE *stream);

#endif
