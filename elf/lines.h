/* SPDX-License-Identifier: MIT */
/*
 * Source lines of addresses, from DWARF. libdw reads each file in a child process; it is loaded
 * at the first use.
 */
#ifndef ELF_LINES_H
#define ELF_LINES_H

#include "object.h"

struct lines;

/*
 * Prepares look-ups in one object. Succeeds even if the file has no debug information: look-ups
 * then find nothing. A separate debug file is looked up by build id in /usr/lib/debug.
 *
 * Errors: PROBE_ERROR_UNSUPPORTED (libdw is not installed), PROBE_ERROR_MEMORY,
 * PROBE_ERROR_SYSTEM (no child process).
 */
PROBE_MUST_CHECK struct probe_error *lines_open(struct object *object, struct lines **ret);
void lines_close(struct lines *lines);

enum { LINES_AT_ONCE = 64 };

struct line {
	const char *file; /* borrowed from `lines`; NULL: unknown */
	int number;
};

/*
 * The lines of up to LINES_AT_ONCE addresses. Many at once are cheaper than one by one, each of
 * which has to wait for the child.
 */
void lines_find(struct lines *lines, const uint64_t *addresses, size_t count, struct line *ret);

#endif
