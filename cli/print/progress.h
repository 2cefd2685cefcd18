/* SPDX-License-Identifier: MIT */
/*
 * The progress of a command on a terminal: one line on standard error, which is overwritten.
 * The cursor stays at the start of the line, so that the next output replaces the line.
 */
#ifndef CLI_PRINT_PROGRESS_H
#define CLI_PRINT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/timer.h"

enum { PROGRESS_NS = 200 * NSEC_PER_MSEC }; /* default interval between two updates of the line */

struct progress {
	struct timer timer; /* time of the next update; never if standard error is not a terminal */
	bool shown;
};

/* `ns` is the minimum time between two updates of the line. */
struct progress progress_every(uint64_t ns);
/* Whether it is time to show a line. */
bool progress_due(struct progress *progress);
/* Shows a line in place of the last line. */
void progress_show(struct progress *progress, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Erases the line. */
void progress_end(struct progress *progress);

#endif
