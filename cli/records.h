/* SPDX-License-Identifier: MIT */
/* The reading of recordings (export, report), and the catalogue of known probes. */
#pragma once

#include "cli/print/print.h"
#include "probe/catalogue.h"
#include "probe/reader.h"

/*
 * Opens a recording's folder, or with "-" standard input, from which hits are read as JSON. With
 * "-", Ctrl-C is left to the program that writes the JSON, whose end also ends the command.
 */
PROBE_MUST_CHECK struct probe_error *records_open(const char *operand, struct probe_reader **ret);

/* Shows on a terminal how much of a recording has been read. */
struct reading {
	struct progress progress;
	uint64_t events, begin_ns;
};

/* Starts showing progress. Set `is_shown` to false if other output goes to the terminal. */
struct reading reading_begin(bool is_shown);
/* Call this after each event that was read. At intervals, it updates the line; progress_end()
 * erases it. */
void reading_event(struct reading *reading, const struct probe_reader *reader);

/*
 * Creates the library's catalogue, and adds the files NAME.probes in
 * $XDG_CONFIG_HOME/probectl/probes.d (default: ~/.config/probectl/probes.d), sorted by name, and
 * what the folder `record`, unless it is NULL, says about functions. Warns about unusable files.
 */
PROBE_MUST_CHECK struct probe_error *catalogue_open(
	const char *record, struct probe_catalogue **ret);
