/* SPDX-License-Identifier: MIT */
/* The progress of reading a recording, on a terminal. */
#ifndef CLI_PRINT_READING_H
#define CLI_PRINT_READING_H

#include "cli/print/progress.h"
#include "probe/reader.h"

struct reading {
	struct progress progress;
	uint64_t events, begin_ns;
};

/* Set `is_shown` to false if the terminal is used for other output. */
struct reading reading_begin(bool is_shown);
enum { READING_EVENTS = 4096 }; /* number of events between two looks at the clock */
/* Shows the progress if it is time to. */
void reading_look(struct reading *reading, const struct probe_reader *reader);
/* Call it after each event. */
static inline void reading_event(struct reading *reading, const struct probe_reader *reader)
{
	if (++reading->events % READING_EVENTS == 0)
		reading_look(reading, reader);
}
/* Erases the progress line. */
void reading_end(struct reading *reading);

enum { READING_TEXT = 128 };

#endif
