/* SPDX-License-Identifier: MIT */
/*
 * Reading a record (probe/ctf.h, `probectl record`), event by event, oldest first,
 * or the hits that `probectl trace --json` prints.
 *
 * Records are read with libbabeltrace2, JSON with json-c; each is loaded when it is
 * first needed. Everything read is untrusted; a record may be cut off anywhere. So
 * libbabeltrace2 works in a process of its own, a child of the caller's, which ends
 * with the reader, or with the thread that has opened it (PR_SET_PDEATHSIG): that one has to
 * last as long as the reader is used.
 *
 * Other tools' records in the Common Trace Format 1.8 are read as well (LTTng's,
 * for one): names are divided at the first colon (a provider may be empty), the
 * context's fields pid or vpid, tid or vtid, comm or procname, and ip say who it
 * was, and the fields are the arguments; those that struct probe_value has no kind
 * for are PROBE_VALUE_NULL.
 */
#ifndef PROBE_READER_H
#define PROBE_READER_H

#include <stdbool.h>

#include "error.h"
#include "event.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_reader;

/*
 * Opens the record in a folder; of one with parts (`--rotate`), all of them, one
 * after the other; of one with several records below it, all of them at once.
 * Errors: PROBE_ERROR_NOT_FOUND (no such folder, no record in it),
 * PROBE_ERROR_FORMAT (not a record), PROBE_ERROR_UNSUPPORTED (libbabeltrace2 is
 * not installed), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_reader_open(const char *path, struct probe_reader **ret);

/*
 * Reads the hits and losses that `probectl trace --json` prints, one object a line.
 * The descriptor stays the caller's; `name` is used in messages ("standard input")
 * and is copied. What JSON does not tell: integers are PROBE_VALUE_SIGNED where
 * 64 bits with a sign hold them; aggregates are strings, as they were printed.
 * Errors: PROBE_ERROR_UNSUPPORTED (json-c is not installed).
 */
PROBE_MUST_CHECK struct probe_error *probe_reader_open_json(
	int fd, const char *name, struct probe_reader **ret);

/* Closes a record. NULL is allowed. */
void probe_reader_close(struct probe_reader *reader);

/*
 * Reads the next event; *there_ret is false, and *ret unchanged, behind the last one.
 * Errors: PROBE_ERROR_FORMAT (what is left of the record cannot be read; all
 * before it has been handed over, but for some hundred where libbabeltrace2 aborts),
 * PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_reader_next(
	struct probe_reader *reader, struct probe_event *ret, bool *there_ret);

#ifdef __cplusplus
}
#endif
#endif
