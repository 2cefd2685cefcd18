/* SPDX-License-Identifier: MIT */
/* Writes hits in flight recorders of running or dead processes as text, JSON or a recording. */
#ifndef CLI_FLIGHT_H
#define CLI_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/ctf.h"
#include "probe/sink.h"

/* The destination and the limits of the output of flight recorders. Initialise with {0}. */
struct flight_output {
	struct probe_sink *sink;
	const char *directory; /* directory of a recording to write instead of text, or NULL */
	/* Write only hits that are at most this much older than the last hit. 0 means all hits. */
	uint64_t last_ns;
	/* The recording; it is created when the first session is written. */
	struct probe_ctf *record;
	/* Returns the name of a hit's thread. It is NULL if names are not known. */
	const char *(*comm)(void *data, const struct probe_hit *hit);
	void *comm_data;
	uint64_t hits;
};

/*
 * Writes the hits of several flight recorders. last_ns is measured back from the last of all hits.
 * Errors: as probe_session_snapshot() and probe_ctf_create().
 */
PROBE_MUST_CHECK struct probe_error *flight_write(
	struct flight_output *output, struct probe_session *const *sessions, size_t count);
/* Completes the recording. Call it before the sessions are freed, also after an error. */
PROBE_MUST_CHECK struct probe_error *flight_end(struct flight_output *output);

/*
 * Writes the hits of the flight recorders in a file (`probectl read --from`). *sound_ret: no
 * recorder is damaged. Errors: as probe_remains_open() and flight_write().
 */
PROBE_MUST_CHECK struct probe_error *flight_read_file(
	struct flight_output *output, const char *path, bool *sound_ret);

#endif
