/* SPDX-License-Identifier: MIT */
/*
 * Source lines of addresses, from DWARF by libdw, which is loaded at the first use, and
 * reads each file in a process of its own.
 */
#ifndef ELF_LINES_H
#define ELF_LINES_H

#include "object.h"

struct lines;

/*
 * Prepares for look-ups in one object. Succeeds also where the file has no
 * debug information: look-ups then find nothing. Looks for a separate debug
 * file by build id in /usr/lib/debug.
 *
 * Errors: PROBE_ERROR_UNSUPPORTED (libdw is not installed), PROBE_ERROR_MEMORY,
 * PROBE_ERROR_SYSTEM (no process).
 */
PROBE_MUST_CHECK struct probe_error *lines_open(struct object *object, struct lines **ret);
void lines_close(struct lines *lines);

/* The file and line of an address; false where unknown. *file_ret is owned by `lines`. */
bool lines_find(struct lines *lines, uint64_t address, const char **file_ret, int *line_ret);

#endif
