/* SPDX-License-Identifier: MIT */
/*
 * Writes buffers and tables to streams.
 *
 * Listing a big library takes two milliseconds, and most of this time is the start of the process.
 * With printf(3) for each cell it would take twice as long.
 */
#ifndef CLI_PRINT_OUT_H
#define CLI_PRINT_OUT_H

#include <stdio.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/error.h"
#include "libprobe/base/grid.h"

/*
 * Call it after a write to a stream has failed, while errno still has the reason. Drops the data
 * of the stream that was not written. Returns the error, or NULL if the reader has closed the
 * pipe.
 */
PROBE_MUST_CHECK struct probe_error *out_failed(FILE *stream);

/* Writes the buffer to a stream and empties the buffer. The stream is flushed later, by main(). */
PROBE_MUST_CHECK struct probe_error *out_flush(struct buffer *out, FILE *stream);

/* Prints a grid on standard output, as wide as the terminal. Prints nothing if it has no rows. */
PROBE_MUST_CHECK struct probe_error *out_grid(const struct grid *grid);

#endif
