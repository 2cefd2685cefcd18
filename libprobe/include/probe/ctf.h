/* SPDX-License-Identifier: MIT */
/*
 * Records in the Common Trace Format 1.8 (https://diamon.org/ctf/), which
 * babeltrace2 and Trace Compass read.
 *
 * A record is a folder with a file `metadata`, and a stream file for each session and CPU. It can
 * be read at any time, even after this process was killed, because files hold only whole packets,
 * and metadata describes all of their events.
 */
#ifndef PROBE_CTF_H
#define PROBE_CTF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_ctf;

/* Limits of a part; 0: none. With a limit, each part is a record: DIRECTORY/000001 and so on. */
struct probe_ctf_options {
	uint64_t rotate_bytes; /* begin a new part when one has this size */
	uint64_t rotate_ns;    /* begin a new part after this time */
	/*
	 * CLOCK_REALTIME: no hit is older. 0: none is older than an hour. (Older ones get the
	 * time of the oldest possible.)
	 */
	uint64_t oldest_ns;
	/*
	 * Hits have their call stacks (probe_session_options.stack): addresses in the context, as
	 * LTTng's callstack_user; and an event probectl:frame names an address before its first use
	 * in a stream, which probe_reader_next() leaves out.
	 */
	bool stacks;
};

/*
 * Begins a record. The folder must be empty, or is created. `options` may be NULL.
 * Errors: PROBE_ERROR_STATE (the folder is not empty), PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_create(
	const char *directory, const struct probe_ctf_options *options, struct probe_ctf **ret);
/* Frees a record. What was not flushed is lost. NULL is allowed. */
void probe_ctf_free(struct probe_ctf *ctf);

/*
 * Adds a hit of probe_session_poll(). `comm` is the name of the thread, or NULL. Add the hits of
 * a session in the order in which they are polled. If the system's clock is set back, hits get
 * the time of the latest hit before them. A session that had a hit must be freed after the
 * record, which knows it by its address, or after probe_ctf_forget().
 *
 * Errors: PROBE_ERROR_SYSTEM (ENOSPC, EFBIG, EIO ...; what was written before stays readable, and
 * nothing more is added), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_hit(struct probe_ctf *ctf,
	const struct probe_session *session, const struct probe_hit *hit, const char *comm);

/*
 * Adds that `count` further hits of a session were lost, since the last such call. Errors: as
 * probe_ctf_hit().
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_discarded(
	struct probe_ctf *ctf, const struct probe_session *session, uint64_t count);

/*
 * Says that a session has ended, and has no more hits: what it has is written, and its memory is
 * given back. Errors: as probe_ctf_hit().
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_forget(
	struct probe_ctf *ctf, const struct probe_session *session);

/*
 * Writes everything that was added. Call it about once a second, and at the end. Errors: as
 * probe_ctf_hit().
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_flush(struct probe_ctf *ctf);

/* Returns the bytes of hits that were written so far, in all parts. */
uint64_t probe_ctf_bytes(const struct probe_ctf *ctf);

#ifdef __cplusplus
}
#endif
#endif
