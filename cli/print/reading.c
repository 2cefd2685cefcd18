/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "cli/print/reading.h"

struct reading reading_begin(bool is_shown)
{
	return (struct reading){.progress = progress_every(is_shown ? PROGRESS_NS : 0),
		.begin_ns = clock_ns(CLOCK_MONOTONIC)};
}

void reading_text(
	char text[READING_TEXT], uint64_t events, uint64_t ns, uint64_t bytes, uint64_t total)
{
	double rate = ns ? (double)events * 1e9 / (double)ns : 0;

	if (!total || bytes > total)
		snprintf(text, READING_TEXT, "%" PRIu64 " events read, %.1f million a second",
			events, rate / 1e6);
	else
		snprintf(text, READING_TEXT,
			"%.0f of %.0f MB read, %.0f %%, %.1f million events a second",
			(double)bytes / 1e6, (double)total / 1e6,
			100.0 * (double)bytes / (double)total, rate / 1e6);
}

void reading_look(struct reading *reading, const struct probe_reader *reader)
{
	char text[READING_TEXT];
	uint64_t bytes, total;

	if (!progress_due(&reading->progress))
		return;
	bytes = probe_reader_progress(reader, &total);
	reading_text(
		text, reading->events, clock_ns(CLOCK_MONOTONIC) - reading->begin_ns, bytes, total);
	progress_show(&reading->progress, "%s", text);
}

void reading_end(struct reading *reading)
{
	progress_end(&reading->progress);
}
