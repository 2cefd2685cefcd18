/* SPDX-License-Identifier: MIT */
/* Contexts that were found below a thread's stack pointer: will a thread resume them? */
#ifndef LIBPROBE_PATCH_DOUBTS_H
#define LIBPROBE_PATCH_DOUBTS_H

#include "libprobe/patch/frames.h"
#include "libprobe/patch/search.h"
#include "libprobe/ptrace/control.h"

/* One of them, and what is known of it. */
struct doubt {
	uint64_t at, word, frame, frame_end; /* as of the find */
	bool settled, is_held;		     /* something refers to it */
};

/* Initialise with {0}. */
struct doubts {
	struct doubt *items;
	size_t count;
	bool any;	/* some are not settled */
	uint64_t guard; /* of the process's pointers, see libprobe/patch/places.h */
	size_t searches;
};

/* With all threads stopped, before doubts_are_live(). */
void doubts_begin(struct doubts *doubts, const struct control *control);

/*
 * With all threads stopped, and `frames` read: will a thread resume a context? True if that is
 * unknown; if it can be settled later, it is noted.
 */
bool doubts_are_live(struct doubts *doubts, const struct frames *frames,
	const struct search *search, const struct search_find *find);

/*
 * Settles those that were noted; the process may run. `search` has been made. False where that
 * cannot be done, or none was left. Errors: those of search_words().
 */
PROBE_MUST_CHECK struct probe_error *doubts_settle(
	struct doubts *doubts, struct search *search, bool *settled_ret);
void doubts_deinit(struct doubts *doubts);

#endif
