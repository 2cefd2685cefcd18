/* SPDX-License-Identifier: MIT */
/* Events of records and streams: a hit, or the loss of hits. */
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
	uint64_t time_ns; /* CLOCK_REALTIME; 0 if unknown */
	uint64_t lost;	  /* number of lost hits, for PROBE_EVENT_LOST; otherwise 0 */
	/*
	 * The probe. Never NULL for a hit. NULL for a loss if the probes that were hit are unknown.
	 */
	const char *provider, *name;

	/* The following members are for hits only. */
	pid_t pid, tid;
	int cpu;	  /* -1 if unknown */
	uint64_t pc;	  /* run-time address of the site; 0 if unknown */
	const char *comm; /* name of the thread, or NULL */
	const struct probe_value *args;
	size_t arg_count;
	const struct probe_stack *stack; /* NULL if call stacks were not recorded */
	/*
	 * If this event ends a span (`probectl trace -t span`): the hit that started the span, and
	 * the time between them. The reader does not return the start event by itself. NULL for all
	 * other events.
	 */
	const struct probe_event *begin;
	uint64_t duration_ns;
	/*
	 * A number for the strings provider, name and comm. As long as the events of a reader have
	 * the same number, these strings stay unchanged at their addresses, and no other reader
	 * uses the number. So two events with the same number and the same address of a string have
	 * the same string. 0 if this is not guaranteed.
	 */
	uint64_t texts;
	/*
	 * Names of members of structures, by index in args[], in identifiers: "order_id" for
	 * order->id; NULL for the other values. NULL if the event has none.
	 */
	const char *const *labels;
	uint64_t frame; /* as in struct probe_hit */
};

struct probe_session_probe;

/* Returns a hit as an event, which points to the hit's, the probe's and comm's memory. */
struct probe_event probe_event_of_hit(
	const struct probe_hit *hit, const struct probe_session_probe *probe, const char *comm);

/*
 * Finds the value of the probe's argument with this number: `arg1` in `record 'PROBE(str(arg1))'`
 * is number 1, although it is the only argument of the event. An argument may have been recorded
 * both as a number and as a string: with `string`, the string is returned. Returns NULL if the
 * event has no such value.
 */
const struct probe_value *probe_event_arg(
	const struct probe_event *event, unsigned int number, bool string);

#ifdef __cplusplus
}
#endif
#endif
