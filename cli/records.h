/* SPDX-License-Identifier: MIT */
/* Declarations for the commands that read recordings (export, report). */
#ifndef CLI_RECORDS_H
#define CLI_RECORDS_H

#include "probe/reader.h"

/*
 * Opens a recording's folder, or with "-" standard input, from which hits are read as JSON. With
 * "-", Ctrl-C is left to the program that writes the JSON, whose end also ends the command.
 */
PROBE_MUST_CHECK struct probe_error *records_open(const char *operand, struct probe_reader **ret);

#endif
