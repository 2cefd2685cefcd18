/* SPDX-License-Identifier: MIT */
/*
 * Records in the Common Trace Format 1.8 (https://diamon.org/ctf/), which babeltrace2 and Trace
 * Compass read.
 *
 * A record is a folder with a file `metadata`, and a stream file for each session and ring. It can
 * be read at any time, even after the writing process was killed, because files hold only whole
 * packets, and `metadata` describes all of their events.
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

/*
 * Options of a record. 0 means no limit. With a limit, the record is split into parts, each of
 * which is a record: DIRECTORY/000001 and so on.
 */
struct probe_ctf_options {
	uint64_t rotate_bytes; /* begin a new part when the current one has this size */
	uint64_t rotate_ns; /* begin a new part this time after the first hit of the current one */
	/*
	 * The oldest possible time of a hit (CLOCK_REALTIME). 0 if no hit is older than an hour.
	 * (Older hits get the oldest possible time.)
	 */
	uint64_t oldest_ns;
	/*
	 * Hits have their call stacks (probe_session_options.stack), as addresses in the event
	 * context, like LTTng's callstack_user. An event probectl:frame names an address before its
	 * first use in a stream; probe_reader_next() does not return these events.
	 */
	bool stacks;
};

/*
 * Begins a record. The folder must be empty; if it is missing, it is created. `options` may be
 * NULL. New files have the mode 0600, and new folders 0700. Errors: PROBE_ERROR_STATE (the folder
 * is not empty), PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_create(
	const char *directory, const struct probe_ctf_options *options, struct probe_ctf **ret);
/* Frees a record. Hits that were not flushed are lost. NULL is allowed. */
void probe_ctf_free(struct probe_ctf *ctf);

/*
 * Adds a hit of probe_session_poll(). `comm` is the name of the thread, or NULL. Add the hits of a
 * session in the order in which they are polled. If the system's clock is set back, hits get the
 * time of the latest hit before them. The record identifies sessions by their addresses. So if hits
 * of a session were added, do not free the session before you have freed the record or called
 * probe_ctf_forget().
 *
 * Errors: PROBE_ERROR_SYSTEM (ENOSPC, EFBIG, EIO ...; hits written before stay readable, and
 * nothing more is added), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_hit(struct probe_ctf *ctf,
	const struct probe_session *session, const struct probe_hit *hit, const char *comm);

/* The function that probe_ctf_take() asks for names of threads. */
struct probe_ctf_names {
	/*
	 * Returns the name that a thread had at a time, valid until the next call; NULL if unknown.
	 */
	const char *(*comm)(void *data, pid_t pid, pid_t tid, uint64_t time_ns);
	void *data;
};

/* How much probe_ctf_take() moves. */
enum probe_ctf_amount {
	PROBE_CTF_MUCH, /* rings with enough hits for a large write; others keep their hits */
	PROBE_CTF_ALL,	/* everything; the call waits until it is written */
	PROBE_CTF_NOW	/* everything that can be written without waiting for the disk */
};

/* The result of probe_ctf_take(). */
struct probe_ctf_taken {
	bool can;    /* false if the session is not supported: add its hits by probe_ctf_hit() */
	bool active; /* the session had new hits since the last call */
	/* Hits of any session that are now in the record, and that no earlier call reported. */
	uint64_t hits;
	/*
	 * Call again within this time. At the end of this time, a quarter of a ring is full, or a
	 * part ends.
	 */
	uint64_t due_ns;
};

/*
 * Moves the hits in a session's rings into the record, without looking at each hit. This is many
 * times as fast as probe_session_poll() with probe_ctf_hit(). Events then have no process and no
 * name; events probectl:thread say to which thread they belong, and probe_reader_next() applies
 * these. A thread of the library writes large amounts, and a later call counts them.
 *
 * Call probe_ctf_take() at least once a second with PROBE_CTF_NOW or PROBE_CTF_ALL, and, after
 * probe_session_stop(), with PROBE_CTF_ALL until it moves nothing. It replaces calls of
 * probe_session_poll() with a visitor; calls of probe_session_poll() with visit == NULL are still
 * needed. `names` may be NULL.
 *
 * Sessions with call stacks, names of addresses (`sym()`), spans, values of filters, or rings that
 * are overwritten are not supported: ret->can is false, and nothing is moved. Errors: as
 * probe_ctf_hit().
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_take(struct probe_ctf *ctf,
	struct probe_session *session, enum probe_ctf_amount amount,
	const struct probe_ctf_names *names, struct probe_ctf_taken *ret);

/*
 * Records that `count` further hits of a session were lost. After an error, these hits are noted in
 * the part that was written before the error, if the file system allows it. Errors: as
 * probe_ctf_hit().
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_discarded(
	struct probe_ctf *ctf, const struct probe_session *session, uint64_t count);

/*
 * Tells the record that a session has ended and has no more hits. The session's pending hits are
 * written, and its memory in the record is freed. Errors: as probe_ctf_hit().
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_forget(
	struct probe_ctf *ctf, const struct probe_session *session);

/*
 * Writes the hits that probe_ctf_hit() added. Call it about once a second, and at the end. Errors:
 * as probe_ctf_hit().
 */
PROBE_MUST_CHECK struct probe_error *probe_ctf_flush(struct probe_ctf *ctf);

/* Returns how many bytes of hits were written so far, in all parts. */
uint64_t probe_ctf_bytes(const struct probe_ctf *ctf);

/*
 * Returns how many hits were taken or added before an error, and could not be written. The record
 * counts them as lost, if the file system allows it.
 */
uint64_t probe_ctf_unwritten(const struct probe_ctf *ctf);

#ifdef __cplusplus
}
#endif
#endif
