/* SPDX-License-Identifier: MIT */
/*
 * Records in the Common Trace Format 1.8 (https://diamon.org/ctf/), which babeltrace2 and Trace
 * Compass read.
 *
 * A record is a folder with a file `metadata`, and a stream file for each session and ring. It can
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
	uint64_t rotate_ns;    /* begin a new part this time after the first hit of one */
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
 * Begins a record. The folder must be empty; if it is missing, it is created. `options` may be
 * NULL. Files and folders that it creates have the modes 0600 and 0700. Errors: PROBE_ERROR_STATE
 * (the folder is not empty), PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
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

/* Whom probe_ctf_take() asks. */
struct probe_ctf_names {
	/* The name of a thread at a time, valid until the next call; NULL: unknown. */
	const char *(*comm)(void *data, pid_t pid, pid_t tid, uint64_t time_ns);
	void *data;
};

/* How much probe_ctf_take() moves. */
enum probe_ctf_amount {
	PROBE_CTF_MUCH, /* what is worth a write; the rest stays in the rings */
	PROBE_CTF_ALL,	/* everything, and waits until it is written */
	PROBE_CTF_NOW	/* everything that can be written without waiting for the disk */
};

/* What came of it. */
struct probe_ctf_taken {
	bool can;	 /* false: the session's hits have to be added by probe_ctf_hit() */
	bool active;	 /* there were new hits since the last call */
	uint64_t hits;	 /* that are in the record now, of any session, and no call told so */
	uint64_t due_ns; /* a ring is filled by a quarter, or a part is over, in so long */
};

/*
 * Moves what the rings of a session hold into the record, without looking at each hit: many times
 * as fast as probe_session_poll() with probe_ctf_hit(). Events then have no process and no name;
 * events probectl:thread say whose they are, which probe_reader_next() heeds. Much at once is
 * written by a thread, and counted by a later call. Call it instead of probe_session_poll() with a
 * function, but also call that without one; at least once a second with PROBE_CTF_NOW or
 * PROBE_CTF_ALL; and, after probe_session_stop(), with PROBE_CTF_ALL until it moves nothing.
 * `names` may be NULL.
 *
 * It cannot be done (ret->can is false, and nothing was moved) for sessions with call stacks, names
 * of addresses (`sym()`), spans, values of filters, or rings that are overwritten. Errors: as
 * probe_ctf_hit().
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_take(struct probe_ctf *ctf,
	struct probe_session *session, enum probe_ctf_amount amount,
	const struct probe_ctf_names *names, struct probe_ctf_taken *ret);

/*
 * Adds that `count` further hits of a session were lost, since the last such call. After an error,
 * it does so in what was written before, as far as the file system lets it. Errors: as
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
 * Writes the hits that were added one by one. Call it about once a second, and at the end. Errors:
 * as probe_ctf_hit().
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_flush(struct probe_ctf *ctf);

/* Returns the bytes of hits that were written so far, in all parts. */
uint64_t probe_ctf_bytes(const struct probe_ctf *ctf);

/*
 * Returns the hits that were taken or added before an error, and could not be written. The record
 * counts them as lost, as far as the file system lets it.
 */
uint64_t probe_ctf_unwritten(const struct probe_ctf *ctf);

#ifdef __cplusplus
}
#endif
#endif
