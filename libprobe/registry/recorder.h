/* SPDX-License-Identifier: MIT */
/* Reading rings that are overwritten: flight recorders (arch/layout.h). */
#ifndef LIBPROBE_REGISTRY_RECORDER_H
#define LIBPROBE_REGISTRY_RECORDER_H

#include "libprobe/registry/snapshot.h"
#include "libprobe/base/error.h"

/* One record: where its copy is, and which ring it was in. */
struct recorded {
	uint64_t time;
	size_t offset, size; /* in recording.bytes */
	uint32_t ring;
};

struct recording {
	struct recorded *records; /* the oldest first */
	size_t count;
	uint8_t *bytes;
	/*
	 * How many records that had not been read were written over; before this time (of the
	 * processor's counter) others may be missing.
	 */
	uint64_t overwritten;
	uint64_t whole_from;
};

/* Up to where a ring has been read: bytes ever written, and records. All zero at first. */
struct ring_since {
	uint64_t place, count;
};

/*
 * Copies the records that are in the rings now, while the target may be writing.
 * `record_max` is the length of the longest that it writes. What they hold is
 * for the caller to check.
 *
 * `since` may be NULL; else it has one for each ring, and each record is copied once.
 *
 * Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *recording_read(
	struct snapshot *view, size_t record_max, struct ring_since *since, struct recording *ret);
/* How many records have ever been written to the rings. */
uint64_t recording_total(struct snapshot *view);
void recording_deinit(struct recording *recording);

#endif
