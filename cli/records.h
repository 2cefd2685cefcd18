/* SPDX-License-Identifier: MIT */
/* What commands that read records (export, report) share. */
#ifndef CLI_RECORDS_H
#define CLI_RECORDS_H

#include "probe/reader.h"

/*
 * Opens what the one operand of a command names: a folder, or "-", the hits as
 * JSON on standard input. Then Ctrl-C is for their writer: it ends, and so do we.
 */
PROBE_MUST_CHECK struct probe_error *records_open(const char *operand, struct probe_reader **ret);

#endif
