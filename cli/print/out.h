/* SPDX-License-Identifier: MIT */
/*
 * What the commands put into a buffer beside plain text and numbers: text that may hold any
 * byte, fields of JSON. Listing a big library takes two milliseconds, most of them the start of
 * the process: printf(3) for each cell, or a tree of JSON objects for each line, would double
 * that.
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
 * Text that may hold any byte, made safe for a terminal: control characters and
 * bytes that are no UTF-8 become C escapes ("\n", "\377"). Returns how many
 * columns of a terminal it takes, one for each character.
 */
size_t out_printable(struct buffer *out, const char *text);

/* A JSON string with its quotes; bytes that are no UTF-8 become U+FFFD. NULL: null. */
void out_json(struct buffer *out, const char *text);

/* One field of a JSON object. `key` has all its punctuation: ",\"name\":". */
void out_text_field(struct buffer *out, const char *key, const char *value);
void out_hex_field(struct buffer *out, const char *key, uint64_t value);
void out_number_field(struct buffer *out, const char *key, uint64_t value);
void out_boolean_field(struct buffer *out, const char *key, bool value);

/*
 * After a write to a stream has failed, while errno says why: drops what it has not written, and
 * returns the error. NULL: its reader has seen enough, and left.
 */
PROBE_MUST_CHECK struct probe_error *out_failed(FILE *stream);

/* Writes all to a stream and empties the buffer. What the stream keeps, main() writes. */
PROBE_MUST_CHECK struct probe_error *out_flush(struct buffer *out, FILE *stream);

#endif
