/* SPDX-License-Identifier: MIT */
/* The consumer's side of a session's data: counters and rings (arch/layout.h). */
#ifndef LIBPROBE_REGISTRY_RING_H
#define LIBPROBE_REGISTRY_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/layout.h"
#include "libprobe/registry/registry.h"
#include "libprobe/base/error.h"

/* One ring as it is being read. */
struct ring {
	struct ring_header *header; /* shared with the target, which may write anything */
	const uint8_t *data;
	uint64_t tail;		 /* next to be read; written to the target now and then */
	uint64_t told;		 /* what header->tail is */
	uint64_t head;		 /* as of this round */
	uint64_t newest;	 /* the greatest time stamp that was read */
	uint64_t damaged;	 /* how often its contents made no sense and were discarded */
	struct probe_room *room; /* where hits wait for room; NULL: they do not */
};

struct rings {
	uint8_t *base; /* of the session's data in this process */
	size_t size;
	struct reg_session layout; /* as the registry has it: trusted */
	struct ring *rings;
	size_t count;
	uint64_t damaged; /* of rings whose memory was given back */
	uint8_t *record;  /* a private copy of the record at hand */
};

/* Maps the data of a descriptor (which may be closed then). */
PROBE_MUST_CHECK struct probe_error *rings_open(
	int fd, const struct reg_session *session, struct rings *ret);
void rings_close(struct rings *rings);

/* From now on, wakes who waits for room there, in the memory that was mapped. */
void rings_tell(struct rings *rings, struct probe_room *room);

/*
 * Gives back the memory of the rings, not that of the counters: nothing writes records
 * there any more, and all have been read.
 */
void rings_discharge(struct rings *rings);

/*
 * How often a ring's contents made no sense and were dropped: it is unknown how
 * many hits that were. The target wrote there, or two threads at once (docs/ring.md).
 */
uint64_t rings_damaged(const struct rings *rings);

/* Where the target is in a ring now. */
uint64_t rings_head(const struct ring *ring);
/* Where the first record is that has not been consumed: in the ring, so the target may change it.
 */
const uint8_t *rings_first(const struct rings *rings, const struct ring *ring);

/* Begins a round: what is published now will be read in it. */
void rings_begin(struct rings *rings);

/*
 * The oldest record that is stamped before `until`: a private copy of its
 * first bytes, `most` of them at most (up to RING_RECORD_MAX). *size_ret is how
 * many there are. NULL: there is none. rings_consume() continues after it.
 */
const struct ring_record *rings_next(
	struct rings *rings, size_t most, uint64_t until, struct ring **ring_ret, size_t *size_ret);

/* Removes `length` bytes from a ring; 0: they make no sense, and all that is there is discarded. */
void rings_consume(struct ring *ring, size_t length);

/*
 * Discards what is left, once no stub runs any more and there is nothing to read: it is no whole
 * record, or was never stamped.
 */
void rings_discard(struct rings *rings);

/* Discards what is there; by itself, not in a round. */
void rings_clear(struct rings *rings);

/* Ends a round: tells the target what is free. */
void rings_end(struct rings *rings);

#endif
