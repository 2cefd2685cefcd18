/* SPDX-License-Identifier: MIT */
/*
 * Attempts to probe a target. Some facts about its threads are known only once all of them are
 * stopped, when everything has been built for threads as they usually are. If that was wrong, the
 * attempt fails and is undone, and the next one knows better.
 */
#ifndef LIBPROBE_PATCH_ATTEMPT_H
#define LIBPROBE_PATCH_ATTEMPT_H

#include "libprobe/registry/target.h"

struct attempt {
	const struct probe_target *target;
	struct probe_report *report;
	unsigned int lessons; /* of the target, when the attempt began */
	size_t refusals;      /* in the report before the first attempt */
	bool is_made;
	struct probe_error *error; /* of the last attempt; set by the caller, who owns it */
};

/* The target and the report are the caller's, and outlive it. */
struct attempt attempt_begin(const struct probe_target *target, struct probe_report *report);
/*
 * Must an attempt be made: the first one, or another because the last one failed on a fact that it
 * has revealed? The error and the report of the last one are then forgotten.
 *
 *	while (attempt_next(&attempt))
 *		attempt.error = enable_once(target, request, report);
 *	return attempt.error;
 */
bool attempt_next(struct attempt *attempt);

#endif
