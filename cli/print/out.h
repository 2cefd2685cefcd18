/* SPDX-License-Identifier: MIT */
/*
 * Writes text that may hold any bytes into a buffer, and buffers to streams.
 *
 * Listing a big library takes two milliseconds, and most of this time is the start of the process.
 * With printf(3) for each cell it would take twice as long.
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
 * Adds a text that may hold any bytes, made safe for a terminal. Control characters, and bytes
 * that are not UTF-8, become C escapes ("\n", "\377"). Returns the width in terminal columns,
 * where each character counts as one column.
 */
size_t out_printable(struct buffer *out, const char *text);

/*
 * Call it after a write to a stream has failed, while errno still has the reason. Drops the data
 * of the stream that was not written. Returns the error, or NULL if the reader has closed the
 * pipe.
 */
PROBE_MUST_CHECK struct probe_error *out_failed(FILE *stream);

/* Writes the buffer to a stream and empties the buffer. The stream is flushed later, by main(). */
PROBE_MUST_CHECK struct probe_error *out_flush(struct buffer *out, FILE *stream);

#endif
