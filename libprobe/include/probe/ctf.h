/* SPDX-License-Identifier: MIT */
/*
 * Records in the Common Trace Format 1.8 (https://diamon.org/ctf/), which
 * babeltrace2 and Trace Compass read.
 *
 * A record is a folder: `metadata`, and a stream file for each session and CPU.
 * It can be read at any time, also after this process was killed: files hold
 * whole packets only, and metadata describes all events of them.
 */
#ifndef PROBE_CTF_H
#define PROBE_CTF_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_ctf;

/* Zero is no limit; with any, each part is a record of its own, DIRECTORY/000001 and so on. */
struct probe_ctf_options {
	uint64_t rotate_bytes; /* a new part once there is so much in one */
	uint64_t rotate_ns;    /* or after so long */
};

/*
 * Begins a record in a folder that is empty or not there yet. `options` may be NULL.
 * Errors: PROBE_ERROR_STATE (there is something in it), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_create(
	const char *directory, const struct probe_ctf_options *options, struct probe_ctf **ret);
/* Frees a record, and discards what was not flushed. NULL is allowed. */
void probe_ctf_free(struct probe_ctf *ctf);

/*
 * Adds a hit that probe_session_poll() hands over. `comm` is the thread's name, or
 * NULL. Hits of one session and CPU come in order of time; where the system's clock
 * was set back meanwhile, they have the time of the latest one. Sessions are told
 * apart by their addresses: none that had a hit is freed before the record.
 *
 * Errors: PROBE_ERROR_SYSTEM (ENOSPC, EFBIG, EIO ...: what was written stays
 * readable, and nothing more is added), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_hit(struct probe_ctf *ctf,
	const struct probe_session *session, const struct probe_hit *hit, const char *comm);

/* Adds that so many hits of a session left no record since this was last said. Errors as above. */
PROBE_MUST_CHECK struct probe_error *probe_ctf_discarded(
	struct probe_ctf *ctf, const struct probe_session *session, uint64_t count);

/*
 * Writes everything that was added. To be called about once a second, and at the end. Errors as
 * above.
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_flush(struct probe_ctf *ctf);

#ifdef __cplusplus
}
#endif
#endif
