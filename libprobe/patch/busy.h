/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PATCH_BUSY_H
#define LIBPROBE_PATCH_BUSY_H

#include "libprobe/patch/frames.h"
#include "libprobe/registry/change.h"

/* Parallel to the registry's arrays: where a thread is, or will come. */
struct busy {
	bool *sites; /* their tail or pun */
	bool *stubs;
	bool *calling; /* sessions: functions that their stubs called have not returned */
	bool any;
};

/* False without memory. */
bool busy_init(struct busy *busy, const struct registry *registry);
void busy_deinit(struct busy *busy);

/*
 * The code of the ending sites and stubs, without the addresses that functions of the program
 * return to: busy_look_at_calls() finds these threads. False without memory.
 */
bool busy_places(
	struct places *places, const struct change *change, const bool *sites, const bool *stubs);

/* Treats all of them as busy: it is unknown which threads are in them. */
void busy_all(
	struct busy *busy, const struct registry *registry, const bool *sites, const bool *stubs);

/*
 * While all threads are stopped: finds the stubs whose functions have been called and have not
 * returned. Such a thread may be anywhere, and will return to the stub.
 */
void busy_look_at_calls(struct busy *busy, const struct change *change);

/*
 * Finds which of the ending sites and stubs a thread is in, or will come to from
 * one that it is in: a stub leads to an older one or to the tail. `frames` were
 * read, and are sorted. As no thread comes to what has been undone, this stays true
 * of what is not busy.
 */
void busy_find(struct busy *busy, const struct change *change, const struct frames *frames,
	const bool *sites, const bool *stubs);

#endif
