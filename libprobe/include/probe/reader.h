/* SPDX-License-Identifier: MIT */
/*
 * Reads a record (probe/ctf.h, `probectl record`) event by event, oldest first, or the hits that
 * `probectl trace --json` has printed.
 *
 * Input is not trusted, and may be cut off anywhere. Only records that probectl has made are read;
 * babeltrace2 reads those of other tools.
 */
#ifndef PROBE_READER_H
#define PROBE_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "event.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_reader;

/*
 * Opens the record in a folder. The parts of a record (`--rotate`) are read one after the other.
 * If the folder has several records, their events are merged by time. Errors:
 * PROBE_ERROR_NOT_FOUND (no such folder, or no record in it), PROBE_ERROR_FORMAT (not a record,
 * another tool's, or one of a later probectl), PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_reader_open(const char *path, struct probe_reader **ret);

/*
 * Opens hits, spans and losses as `probectl trace --json` prints them: one object a line. The
 * caller closes the descriptor, after the reader. `name` is what messages call the input ("standard
 * input"), and is copied. JSON does not have all types: an integer is PROBE_VALUE_SIGNED if a
 * signed 64-bit integer can hold it, and an aggregate is a string, as it was printed. A number with
 * a text in `named` is PROBE_VALUE_TEXT. Error: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_reader_open_json(
	int fd, const char *name, struct probe_reader **ret);

/* Closes a reader. NULL is allowed. */
void probe_reader_close(struct probe_reader *reader);

/*
 * Reads the next event. After the last one, *there_ret is false and *ret unchanged.
 * Errors: PROBE_ERROR_FORMAT (something cannot be read), PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 *
 * A part of a record that cannot be read becomes a loss (PROBE_EVENT_LOST) in its place. The reader
 * returns the events behind it, and the error after the last of them. A line of JSON that cannot be
 * read ends the reading: the reader returns the events before it, then the error.
 */
PROBE_MUST_CHECK struct probe_error *probe_reader_next(
	struct probe_reader *reader, struct probe_event *ret, bool *there_ret);

/*
 * Tells how far a reader is: returns how many bytes have been read, and sets *total_ret to how many
 * there are, both of a record. 0: not known.
 */
uint64_t probe_reader_progress(const struct probe_reader *reader, uint64_t *total_ret);
/*
 * Returns a number of arguments that no hit of the record exceeds, as soon as it is open; SIZE_MAX
 * if only reading it tells: of records in parts, and of JSON.
 */
size_t probe_reader_args_max(const struct probe_reader *reader);

#ifdef __cplusplus
}
#endif
#endif
