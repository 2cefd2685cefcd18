/* SPDX-License-Identifier: MIT */
/* What flight recorders hold, as text, JSON or a record; of processes, and of dead ones. */
#ifndef CLI_FLIGHT_H
#define CLI_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/ctf.h"
#include "probe/sink.h"

/* Where hits go, and which. Initialise with {0}. */
struct flight_output {
	struct probe_sink *sink;
	const char *directory; /* of the record that takes the hits instead; or NULL */
	uint64_t last_ns;      /* only hits that are no older than that before the last; 0: all */
	struct probe_ctf *record; /* begun with the first session */
	/* Says what a thread is called; NULL: nothing is known. */
	const char *(*comm)(void *data, const struct probe_hit *hit);
	void *comm_data;
	uint64_t hits;
};

/*
 * Writes the hits of flight recorders; with last_ns, the last hit of all of them counts. Errors:
 * as probe_session_snapshot() and probe_ctf_create().
 */
PROBE_MUST_CHECK struct probe_error *flight_write(
	struct flight_output *output, struct probe_session *const *sessions, size_t count);
/* Ends the record; before the sessions are freed, and whatever happened before. */
PROBE_MUST_CHECK struct probe_error *flight_end(struct flight_output *output);

/*
 * Reads the recorders in a file: `probectl read --from`. *sound_ret: whether all of them are
 * undamaged. Errors: as probe_remains_open() and flight_write().
 */
PROBE_MUST_CHECK struct probe_error *flight_read_file(
	struct flight_output *output, const char *path, bool *sound_ret);

#endif
