/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/print/progress.h"

struct progress progress_every(uint64_t ns)
{
	return (struct progress){.timer = timer_every(isatty(STDERR_FILENO) ? ns : 0)};
}

bool progress_due(struct progress *progress)
{
	return timer_due(&progress->timer, clock_ns(CLOCK_MONOTONIC));
}

void progress_show(struct progress *progress, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	fputs("probectl: ", stderr);
	vfprintf(stderr, format, values);
	fputs("\033[K\r", stderr);
	va_end(values);
	progress->shown = true;
}

void progress_end(struct progress *progress)
{
	if (progress->shown)
		fputs("\033[K", stderr);
	progress->shown = false;
}
