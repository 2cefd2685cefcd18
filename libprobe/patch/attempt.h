/* SPDX-License-Identifier: MIT */
/*
 * Attempts to probe a target. Some things about its threads can only be known once all
 * stand still, when everything has been made for threads as they mostly are. Then the
 * attempt fails, what was made is taken back, and the next one knows better.
 */
#ifndef LIBPROBE_PATCH_ATTEMPT_H
#define LIBPROBE_PATCH_ATTEMPT_H

#include "libprobe/target/target.h"

struct attempt {
	const struct probe_target *target;
	struct probe_report *report;
	unsigned int lessons; /* of the target, when it began */
	size_t refusals;      /* in the report then */
};

/* The target and the report are the caller's, and outlive it. */
struct attempt attempt_begin(const struct probe_target *target, struct probe_report *report);
/*
 * Did it fail for what it has taught? Then its error, which is freed, and what it has
 * reported are forgotten, and it is to be made again.
 */
bool attempt_again(struct attempt *attempt, struct probe_error **error);

#endif
