/* SPDX-License-Identifier: MIT */
/* Finding processes that are wanted, whoever has started them, without tracing anybody. */
#ifndef LIBPROBE_FOLLOW_SEEK_H
#define LIBPROBE_FOLLOW_SEEK_H

#include <sys/types.h>

#include "libprobe/follow/guardian.h"
#include "probe/watch.h"

struct seek;

/* Begins. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM. */
PROBE_MUST_CHECK struct probe_error *seek_create(
	const struct probe_newcomers *newcomers, struct seek **ret);
void seek_free(struct seek *seek);

/* Readable when a program has been opened that a wanted process may be about to run; or -1. */
int seek_fd(const struct seek *seek);

/* Nobody is held from now on. */
void seek_hold_none(struct seek *seek);

/* Who holds those that execute one of the files; NULL: nobody can, or he has gone. */
struct guardian *seek_guardian(const struct seek *seek);

/*
 * Looks, if it is time to. `is_known` leaves processes out, before they are asked for; `take` gets
 * the others that are wanted, and when they were not there yet (CLOCK_MONOTONIC); false ends the
 * look. Returns whether another look should follow at once, as somebody is on the way.
 */
struct seek_visitor {
	bool (*is_known)(void *data, pid_t pid);
	bool (*take)(void *data, pid_t pid, uint64_t since_ns);
	void *data;
};
bool seek_look(struct seek *seek, const struct seek_visitor *visitor);

/* Soon there is to be a look: what a process has forked before it was found is wanted, too. */
void seek_hurry(struct seek *seek);

#endif
