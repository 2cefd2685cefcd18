/* SPDX-License-Identifier: MIT */
/*
 * Shows the progress of a command on a terminal: one line on standard error, which is overwritten
 * again and again. The cursor stays at the start of the line, so that the next output replaces it.
 */
#ifndef CLI_PRINT_PROGRESS_H
#define CLI_PRINT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/timer.h"

enum { PROGRESS_NS = 200 * NSEC_PER_MSEC }; /* default time between two updates of the line */

struct progress {
	/* Tells when to update the line; never, if standard error is not a terminal. */
	struct timer timer;
	bool shown;
};

/* Starts showing progress. `ns` is the minimum time between two updates of the line. */
struct progress progress_every(uint64_t ns);
/* Returns true if it is time to update the line. */
bool progress_due(struct progress *progress);
/* Replaces the line by a new one. */
void progress_show(struct progress *progress, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Erases the line. */
void progress_end(struct progress *progress);

#endif
