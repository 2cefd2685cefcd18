/* SPDX-License-Identifier: MIT */
/*
 * How far a command is, on a terminal: one line on standard error, which is written over. The
 * cursor stays at its beginning, so that whatever is printed next takes its place.
 */
#ifndef CLI_PRINT_PROGRESS_H
#define CLI_PRINT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/timer.h"

enum { PROGRESS_NS = 200 * NSEC_PER_MSEC }; /* how often, where nothing else is said */

struct progress {
	struct timer timer; /* never due where standard error is no terminal */
	bool shown;
};

/* Shown at most so often. */
struct progress progress_every(uint64_t ns);
/* Is it time to show a line? */
bool progress_due(struct progress *progress);
/* Shows a line in place of the last one. */
void progress_show(struct progress *progress, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Erases the line. */
void progress_end(struct progress *progress);

#endif
