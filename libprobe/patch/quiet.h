/* SPDX-License-Identifier: MIT */
/* Waiting until no thread is in stubs that are no longer used, or returns to them. */
#ifndef LIBPROBE_PATCH_QUIET_H
#define LIBPROBE_PATCH_QUIET_H

#include "libprobe/patch/busy.h"
#include "libprobe/patch/doubts.h"
#include "libprobe/patch/frames.h"
#include "libprobe/patch/search.h"
#include "libprobe/registry/change.h"

struct quiet {
	const bool *sites, *stubs; /* beside the registry's arrays: what has ended; borrowed */
	struct places places;	   /* their code */
	struct frames frames;
	struct search search;
	struct doubts doubts;
	bool searched; /* and what was found was judged since */
	bool moved;    /* some of what was found is gone */
};

/* Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY. After an error call only quiet_close(). */
PROBE_MUST_CHECK struct probe_error *quiet_open(
	const struct change *change, const bool *sites, const bool *stubs, struct quiet *ret);
void quiet_close(struct quiet *quiet);

/* While all threads are stopped: collects where they are, and judges what was found before. */
PROBE_MUST_CHECK struct probe_error *quiet_look(
	struct quiet *quiet, const struct change *change, struct busy *busy);

/*
 * Looks until no thread is there, for a while if `wait`, and finds out what is busy then.
 * `look` stops the target, calls quiet_look(), and lets it go; `first` is true once.
 */
PROBE_MUST_CHECK struct probe_error *quiet_wait(struct quiet *quiet, struct change *change,
	struct busy *busy, bool wait,
	struct probe_error *(*look)(void *data, struct change *change, bool first), void *data);

#endif
