/* SPDX-License-Identifier: MIT */
/*
 * Reads a record (probe/ctf.h, `probectl record`) event by event, oldest first, or the hits that
 * `probectl trace --json` has printed.
 *
 * Input is not trusted, and may be cut off anywhere. Records that probectl has made are read by the
 * library itself. Records of other tools in the Common Trace Format 1.8, such as LTTng's, are read
 * by libbabeltrace2, and JSON by json-c, each in a child process of the caller. It ends with the
 * reader, or with the thread that has opened the reader (PR_SET_PDEATHSIG), so that thread must
 * exist as long as the reader is used.
 *
 * Of records of other tools, the name of an event is divided at the first colon (the provider may
 * be empty). The fields pid or vpid, tid or vtid, comm or procname, and ip of its context name the
 * thread and the address, and callstack_user is its stack. Its other fields are the arguments; a
 * field that struct probe_value cannot represent is PROBE_VALUE_NULL.
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
 * PROBE_ERROR_NOT_FOUND (no such folder, or no record in it), PROBE_ERROR_FORMAT (not a record, or
 * one of a later probectl), PROBE_ERROR_UNSUPPORTED (another tool's, and libbabeltrace2 is not
 * installed), PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_reader_open(const char *path, struct probe_reader **ret);

/*
 * Opens hits, spans and losses as `probectl trace --json` prints them: one object a line. The
 * caller closes the descriptor. `name` is what messages call the input ("standard input"), and is
 * copied. JSON does not have all types: an integer is PROBE_VALUE_SIGNED if a signed 64-bit
 * integer can hold it, and an aggregate is a string, as it was printed. A number with a text in
 * `named` is PROBE_VALUE_TEXT. Errors:
 * PROBE_ERROR_UNSUPPORTED (json-c is not installed), PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_reader_open_json(
	int fd, const char *name, struct probe_reader **ret);

/* Closes a reader. NULL is allowed. */
void probe_reader_close(struct probe_reader *reader);

/*
 * Reads the next event. After the last one, *there_ret is false and *ret unchanged.
 * Errors: PROBE_ERROR_FORMAT (something cannot be read), PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 *
 * What cannot be read of a record that probectl has made is a loss (PROBE_EVENT_LOST) where it is;
 * the events behind it are read, and the error comes after the last of them. In other records it
 * ends the reading: the error comes at once, and all events before it were returned, except up to
 * some hundred if libbabeltrace2 aborts.
 */
PROBE_MUST_CHECK struct probe_error *probe_reader_next(
	struct probe_reader *reader, struct probe_event *ret, bool *there_ret);

/*
 * Tells how far a reader is: returns how many bytes have been read, and sets *total_ret to how many
 * there are, both of records that probectl has made. 0: not known.
 */
uint64_t probe_reader_progress(const struct probe_reader *reader, uint64_t *total_ret);
/*
 * Returns a number of arguments that no hit of the record exceeds, as soon as it is open; SIZE_MAX
 * if only reading it tells: of records in parts, of those of other tools, and of JSON.
 */
size_t probe_reader_args_max(const struct probe_reader *reader);

#ifdef __cplusplus
}
#endif
#endif
