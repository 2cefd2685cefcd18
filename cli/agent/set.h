/* SPDX-License-Identifier: MIT */
/*
 * The file that `probectl agent` reads: which sessions there are to be.
 *
 *	# ...                    ignored, as empty lines are
 *	[NAME]                   a session: letters, digits, '-', '_' and '.'
 *	command = WORD...        the words of a trace or record command, without "probectl"
 *	output = FILE            where what it prints is appended; else to what the agent prints
 *
 * Words are quoted as for a shell: '...', "..." and backslashes. What a shell would expand or act
 * on ($, `, |, &, ;, <, >) is refused unless it is quoted. A backslash at the end of a line
 * continues it.
 */
#ifndef CLI_AGENT_SET_H
#define CLI_AGENT_SET_H

#include <stdbool.h>
#include <stddef.h>

#include "libprobe/base/error.h"

enum { SET_NAME_BYTES = 64, SET_SESSIONS = 128, SET_FILE_BYTES = 1 << 20 };

/* A session, as the file has it; all of it is owned. */
struct set_entry {
	char *name;
	char **words; /* ends with NULL */
	size_t word_count;
	char *output; /* absolute; or NULL */
};

struct agent_set {
	struct set_entry *items;
	size_t count;
};

/*
 * Parses a file's bytes; `path` is for errors. Initialise the result with {0}; it is the caller's
 * also if this fails. Errors: PROBE_ERROR_FORMAT with the line, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *set_parse(
	const char *path, const char *text, size_t length, struct agent_set *ret);

/*
 * Reads and parses a file. It decides what is executed, so it must belong to root or to us, and
 * nobody else may be able to write to it. Errors: also PROBE_ERROR_SYSTEM, PROBE_ERROR_PERMISSION.
 */
PROBE_MUST_CHECK struct probe_error *set_read(const char *path, struct agent_set *ret);

void set_deinit(struct agent_set *set);
void set_entry_deinit(struct set_entry *entry);

/* Do both have the same words and the same output? */
bool set_entry_same(const struct set_entry *one, const struct set_entry *other);

#endif
