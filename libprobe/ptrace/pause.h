/* SPDX-License-Identifier: MIT */
/* How long a stop keeps a thread from running. */
#ifndef LIBPROBE_PTRACE_PAUSE_H
#define LIBPROBE_PTRACE_PAUSE_H

#include <stdint.h>
#include <sys/types.h>

#define PAUSE_UNKNOWN UINT64_MAX

/* The pause of a thread; times of CLOCK_MONOTONIC. */
struct pause {
	uint64_t waited_ns; /* how long it had waited for a processor before the stop */
	uint64_t asked_ns;  /* when it was asked to stop */
	uint64_t let_ns;    /* how long we let it run since, as far as it may have waited then */
	uint64_t ended_ns;  /* when it went on; 0: not yet */
};

struct control;

/* Call this before the threads are asked to stop. */
void pause_look(struct control *control);

/* We let the thread run from `begun_ns` to now, to stop or to make a call. */
void pause_let(struct pause *pause, uint64_t begun_ns);

/* Call this right after the threads went on. Returns the longest of their pauses, in ns. */
uint64_t pause_longest(struct control *control);

/*
 * How long a thread was paused, in ns. `waited_ns`: how long it had waited for a processor by the
 * end, in its whole life; `own_ns`: how long the calling thread waited for one during the stop.
 * Both may be PAUSE_UNKNOWN.
 */
uint64_t pause_ns(const struct pause *pause, uint64_t waited_ns, uint64_t own_ns);

#endif
