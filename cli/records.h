/* SPDX-License-Identifier: MIT */
/* Declarations for the commands that read recordings (export, report). */
#ifndef CLI_RECORDS_H
#define CLI_RECORDS_H

#include "probe/reader.h"

/*
 * Opens the operand of a command: the folder of a recording, or "-" for hits as JSON on
 * standard input. With "-", Ctrl-C ends the writer of the JSON, and so this command.
 */
PROBE_MUST_CHECK struct probe_error *records_open(const char *operand, struct probe_reader **ret);

#endif
