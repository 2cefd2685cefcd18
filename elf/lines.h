/* SPDX-License-Identifier: MIT */
/*
 * Source lines of addresses, from DWARF. libdw, loaded at its first use, reads each file in a child
 * process.
 */
#ifndef ELF_LINES_H
#define ELF_LINES_H

#include "object.h"

struct lines;

/*
 * Prepares look-ups in one object. Succeeds even if the file has no debug information; look-ups
 * then find nothing. A separate debug file is searched by build id in /usr/lib/debug.
 *
 * Errors: PROBE_ERROR_UNSUPPORTED (libdw is not installed), PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM
 * (no child process).
 */
PROBE_MUST_CHECK struct probe_error *lines_open(struct object *object, struct lines **ret);
void lines_close(struct lines *lines);

enum { LINES_AT_ONCE = 64 };

struct line {
	const char *file; /* borrowed from `lines`; NULL if the line is unknown */
	int number;
};

/*
 * Finds the source lines of up to LINES_AT_ONCE addresses. One call for many addresses is cheaper
 * than many calls, each of which waits for the child.
 */
void lines_find(struct lines *lines, const uint64_t *addresses, size_t count, struct line *ret);

#endif
