/* SPDX-License-Identifier: MIT */
/*
 * A growing buffer that output is put together in. Listing a big library takes
 * two milliseconds, most of them the start of the process: printf(3) for each
 * cell, or a tree of JSON objects for each line, would double that.
 */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "libprobe/base/error.h"

/* Initialise with {0}. */
struct out {
	char *data; /* not terminated; NULL while empty */
	size_t length, room;
	bool no_memory; /* something is missing for want of memory */
};

void out_deinit(struct out *out);

void out_bytes(struct out *out, const char *bytes, size_t length);
void out_text(struct out *out, const char *text);
void out_char(struct out *out, char c);
void out_blanks(struct out *out, size_t count);
void out_unsigned(struct out *out, uint64_t value);
/* "0x" and lower-case digits without leading zeros. */
void out_hex(struct out *out, uint64_t value);
/* Two digits a byte. */
void out_hex_byte(struct out *out, uint8_t byte);

/*
 * Text that may hold any byte, made safe for a terminal: control characters and
 * bytes that are no UTF-8 become C escapes ("\n", "\377"). Returns how many
 * columns of a terminal it takes, one for each character.
 */
size_t out_printable(struct out *out, const char *text);

/* A JSON string with its quotes; bytes that are no UTF-8 become U+FFFD. NULL: null. */
void out_json(struct out *out, const char *text);

/* One field of a JSON object. `key` has all its punctuation: ",\"name\":". */
void out_text_field(struct out *out, const char *key, const char *value);
void out_hex_field(struct out *out, const char *key, uint64_t value);
void out_number_field(struct out *out, const char *key, uint64_t value);
void out_boolean_field(struct out *out, const char *key, bool value);

/* Writes all to a stream and empties the buffer. What the stream says is its owner's to check. */
PROBE_MUST_CHECK struct probe_error *out_flush(struct out *out, FILE *stream);

#endif
