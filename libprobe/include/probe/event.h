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

#ifdef __cplusplus
}
#endif
#endif
