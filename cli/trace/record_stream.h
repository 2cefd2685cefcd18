/* SPDX-License-Identifier: MIT */
/*
 * probectl record --full=loop and --full=stop: hits stay in the rings until the user requests
 * them, or until the recording ends.
 */
#ifndef CLI_TRACE_RECORD_STREAM_H
#define CLI_TRACE_RECORD_STREAM_H

#include "cli/trace/options.h"

#endif
