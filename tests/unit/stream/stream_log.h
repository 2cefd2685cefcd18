/* SPDX-License-Identifier: MIT */
/* Streams of the target of live.h with a log, and their logs. */
#ifndef UNIT_STREAM_LOG_H
#define UNIT_STREAM_LOG_H

#include "tests/unit/stream/stream_live.h"

/* Where the log of each test is; it is empty at first. */
extern char log_folder[];

/* For tests; *state is a struct live. */
int log_setup(void **state);
int log_teardown(void **state);

/* A stream with this log, and with room for everything unless the options say how much. */
struct probe_stream *log_of(
	struct live *live, const char *pattern, struct probe_stream_options options);

/* The log as a pre-recorded stream. Skips the test where nothing reads records. */
struct probe_stream *log_reopen(void);
/* Its next event; false: that was the last one. */
bool log_next(struct probe_stream *stream, struct seen *seen);
/* The number of a name in a stream, from its list. */
uint32_t log_listed(struct probe_stream *stream, const char *wanted);

/* The bytes of its events on disk. */
uint64_t log_bytes(void);

#endif
