/* SPDX-License-Identifier: MIT */
/* Events, as records and streams hold them: a hit, or the loss of hits. */
#ifndef PROBE_EVENT_H
#define PROBE_EVENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hit.h"

#ifdef __cplusplus
extern "C" {
#endif

enum probe_event_kind {
	PROBE_EVENT_HIT,
	PROBE_EVENT_LOST /* `lost` hits left no record */
};

/* Pointers are valid until the next event is read. */
struct probe_event {
	enum probe_event_kind kind;
	uint64_t time_ns; /* CLOCK_REALTIME; 0: not known */
	uint64_t lost;	  /* of PROBE_EVENT_LOST; otherwise 0 */
	/* Of a hit, never NULL. Of a loss, NULL if it is not known which probes were hit. */
	const char *provider, *name;

	/* Of a hit: */
	pid_t pid, tid;
	int cpu;	  /* -1: not known */
	uint64_t pc;	  /* run-time address of the site; 0: not known */
	const char *comm; /* name of the thread, or NULL */
	const struct probe_value *args;
	size_t arg_count;
	const struct probe_stack *stack; /* where they were recorded; else NULL */
	/*
	 * Of the end of a span that took duration_ns (`probectl trace -t span`), its begin, which
	 * is a hit without one of its own: it is no event by itself. Otherwise NULL.
	 */
	const struct probe_event *begin;
	uint64_t duration_ns;
	/*
	 * Not 0: provider, name and comm stay where they are, unchanged, as long as the reader's
	 * events have this number, and no other reader has it. So where two events have the same
	 * number and a text at the same address, it is the same text.
	 */
	uint64_t texts;
};

/*
 * Finds the value of the probe's argument with this number: `arg1` in `record 'PROBE(str(arg1))'`
 * is number 1, although it is the only one of the event. With `string`, it is the one that is a
 * string, since the argument may have been recorded as a number, too. NULL: the event has none.
 */
const struct probe_value *probe_event_arg(
	const struct probe_event *event, unsigned int number, bool string);

#ifdef __cplusplus
}
#endif
#endif
