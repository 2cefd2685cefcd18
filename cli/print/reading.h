/* SPDX-License-Identifier: MIT */
/* Shows on a terminal how much of a recording has been read. */
#ifndef CLI_PRINT_READING_H
#define CLI_PRINT_READING_H

#include "cli/print/progress.h"
#include "probe/reader.h"

struct reading {
	struct progress progress;
	uint64_t events, begin_ns;
};

/* Starts showing progress. Set `is_shown` to false if other output goes to the terminal. */
struct reading reading_begin(bool is_shown);
/* After this number of events, we check whether the line must be updated. */
enum { READING_EVENTS = 4096 };
/* Updates the progress line if it is time to do so. */
void reading_look(struct reading *reading, const struct probe_reader *reader);
/* Call it after each event that was read. */
static inline void reading_event(struct reading *reading, const struct probe_reader *reader)
{
	if (++reading->events % READING_EVENTS == 0)
		reading_look(reading, reader);
}
/* Erases the progress line. */
void reading_end(struct reading *reading);

enum { READING_TEXT = 128 };

#endif
