/* SPDX-License-Identifier: MIT */
/*
 * Reads a record (probe/ctf.h, `probectl record`) event by event, oldest first, or the hits that
 * `probectl trace --json` has printed.
 *
 * The input is not trusted, and may be cut off anywhere. Only records that probectl has made can be
 * read; babeltrace2 reads records of other tools.
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
 * Opens the record in a folder. The parts of a record (`--rotate`) are read one after the other. If
 * the folder has several records, their events are merged by time. Errors: PROBE_ERROR_NOT_FOUND
 * (no such folder, or no record in it), PROBE_ERROR_FORMAT (not a record, or a record of another
 * tool or of a later probectl), PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_reader_open(const char *path, struct probe_reader **ret);

/*
 * Opens hits, spans and losses as `probectl trace --json` prints them: one object a line. The
 * caller closes the descriptor, after it has closed the reader. `name` is what messages call the
 * input ("standard input"), and is copied. JSON lacks some types: an integer is PROBE_VALUE_SIGNED
 * if a signed 64-bit integer can hold it, and an aggregate is the string that was printed. A number
 * is PROBE_VALUE_TEXT if the member `named` of its object has a text for it. Error:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_reader_open_json(
	int fd, const char *name, struct probe_reader **ret);

/* Closes a reader. NULL is allowed. */
void probe_reader_close(struct probe_reader *reader);

/*
 * Reads the next event. After the last event, *there_ret is false, and *ret is unchanged. Errors:
 * PROBE_ERROR_FORMAT (the input is malformed), PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 *
 * A malformed part of a record becomes a loss (PROBE_EVENT_LOST) in its place. The reader returns
 * the events after it, and returns the error after the last event. A malformed line of JSON ends
 * the reading: the reader returns the events before it, then the error.
 */
PROBE_MUST_CHECK struct probe_error *probe_reader_next(
	struct probe_reader *reader, struct probe_event *ret, bool *there_ret);

/*
 * Tells how far a reader is: returns how many bytes of the record have been read, and sets
 * *total_ret to the size of the record in bytes. Both are 0 if unknown, as for JSON.
 */
uint64_t probe_reader_progress(const struct probe_reader *reader, uint64_t *total_ret);
/*
 * Returns a number of arguments that no hit of the record exceeds. The number is known as soon as
 * the record is open. Returns SIZE_MAX for records in parts and for JSON: their maximum is unknown
 * until all events are read.
 */
size_t probe_reader_args_max(const struct probe_reader *reader);

#ifdef __cplusplus
}
#endif
#endif
