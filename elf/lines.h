/* SPDX-License-Identifier: MIT */
/* Source lines of addresses, from DWARF. A child process reads the files with libdw. */
#pragma once

#include "object.h"

struct lines;

/*
 * Prepares look-ups in an object, which find nothing if neither the object nor /usr/lib/debug (by
 * build id) has debug information. Errors: PROBE_ERROR_UNSUPPORTED (libdw is not installed),
 * PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM (no child process).
 */
PROBE_MUST_CHECK struct probe_error *lines_open(struct object *object, struct lines **ret);
void lines_close(struct lines *lines);

enum { LINES_AT_ONCE = 64 };

struct line {
	const char *file; /* borrowed from `lines`; NULL if the line is unknown */
	int number;
};

/*
 * Finds the lines of up to LINES_AT_ONCE addresses. Each call waits for the child, so ask for many
 * at once.
 */
void lines_find(struct lines *lines, const uint64_t *addresses, size_t count, struct line *ret);

/* Returns false if neither the object nor a separate debug file has a line table. */
bool lines_exist(struct object *object);

enum { LINES_BREAKS_BYTES = 64 };

/* A function. Addresses are link-time. */
struct lines_function {
	struct object_range range;
	uint64_t by_code; /* behind the prologue, as far as its instructions tell it; or 0 */
};

/*
 * Finds where debuggers may put the breakpoint of `break FUNCTION` by the line table, behind the
 * entry: bit i of *ret is set for start + i, below LINES_BREAKS_BYTES. Returns false, and 0, if the
 * child has ended.
 */
bool lines_breaks(struct lines *lines, const struct lines_function *function, uint64_t *ret);
