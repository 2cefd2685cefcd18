/* SPDX-License-Identifier: MIT */
/* One event: what a record or a stream holds of a hit, or of hits that were lost. */
#ifndef PROBE_EVENT_H
#define PROBE_EVENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

enum probe_event_kind {
	PROBE_EVENT_HIT,
	PROBE_EVENT_LOST /* `lost` hits left no record */
};

/* All that it points to is valid until the next event is asked for; to keep one, pack it. */
struct probe_event {
	enum probe_event_kind kind;
	uint64_t time_ns; /* CLOCK_REALTIME; 0: not known */
	uint64_t lost;	  /* of PROBE_EVENT_LOST, else 0 */
	/* Never NULL, of a hit; of a loss, NULL where nobody knows whose hits they were. */
	const char *provider, *name;

	/* Of a hit: */
	pid_t pid, tid;
	int cpu;	  /* -1: not known */
	uint64_t pc;	  /* run-time address of the site; 0: not known */
	const char *comm; /* the thread's name, or NULL */
	const struct probe_value *args;
	size_t arg_count;
};

/*
 * A packed event owns what it points to, in one block: the event, its values, their bytes, and
 * its texts. In place of a pointer there is an offset, so a block may be moved, or sent to
 * another process. It is aligned as the struct is, and so is its end: one may stand behind
 * another.
 */
size_t probe_event_packed_size(const struct probe_event *event);
/* Packs an event into a block of that size. */
void probe_event_pack(const struct probe_event *event, void *block);
/*
 * Makes pointers of the offsets of a block, and returns the event, which lies in it. NULL where
 * an offset leads out of it: nothing in a block is trusted. It can be unpacked once.
 */
struct probe_event *probe_event_unpack(void *block, size_t size);

#ifdef __cplusplus
}
#endif
#endif
