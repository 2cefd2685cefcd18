/* SPDX-License-Identifier: MIT */
/* How far the reading of a record is, on a terminal. */
#ifndef CLI_PRINT_READING_H
#define CLI_PRINT_READING_H

#include "cli/print/progress.h"
#include "probe/reader.h"

struct reading {
	struct progress progress;
	uint64_t events, begin_ns;
};

/* `is_shown`: false if the terminal shows something else. */
struct reading reading_begin(bool is_shown);
/* After each event. */
void reading_event(struct reading *reading, const struct probe_reader *reader);
/* Erases the line. */
void reading_end(struct reading *reading);

enum { READING_TEXT = 128 };
/* What is shown after `events` in `ns`, and so many bytes; total 0: not known. */
void reading_text(
	char text[READING_TEXT], uint64_t events, uint64_t ns, uint64_t bytes, uint64_t total);

#endif
