/* SPDX-License-Identifier: MIT */
/* Streams of the target of live.h. */
#ifndef UNIT_STREAM_LIVE_H
#define UNIT_STREAM_LIVE_H

#include "probe/stream.h"
#include "tests/unit/live.h"

static const struct timespec no_wait = {0}; /* for probe_stream_next() */

enum { EVENT_BYTES = 4096, TEST_RING_BYTES = 1 << 17 };

/* An event, and the memory that it points into. */
struct seen {
	struct probe_stream_event event;
	_Alignas(struct probe_value) char data[EVENT_BYTES];
};

/* Makes a stream of the probes that match, which is suspended. Fails the test on an error. */
struct probe_stream *stream_of(
	struct live *live, const char *pattern, const struct probe_stream_options *options);

/* Fails the test unless there is an error with this number, which is freed. */
void is_error(struct probe_error *error, int err);

/* The next event, without waiting; false: there is none. */
bool try_next(struct probe_stream *stream, struct seen *seen);
/* The same where there has to be one. */
void next_is(struct probe_stream *stream, struct seen *seen, uint32_t type);
void nothing_is_left(struct probe_stream *stream);

uint32_t type_of(struct probe_stream *stream, const char *name);
struct probe_stream_status status_of(struct probe_stream *stream);
/* A set of one type. */
struct probe_stream_set set_of(uint32_t type);

/* *state is a struct live; its stream, if there is one left, is a mistake of the test. */
#endif
