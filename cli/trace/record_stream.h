/* SPDX-License-Identifier: MIT */
/*
 * probectl record --full=loop and --full=stop: hits stay in the rings until they are asked for, or
 * the record ends.
 */
#ifndef CLI_TRACE_RECORD_STREAM_H
#define CLI_TRACE_RECORD_STREAM_H

#include "cli/trace/options.h"

#endif
