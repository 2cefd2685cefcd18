/* SPDX-License-Identifier: MIT */
/* Which probes begin something, and which end it. */
#ifndef LIBPROBE_PAIRS_H
#define LIBPROBE_PAIRS_H

#include "libprobe/select.h"

enum pair_role { PAIR_NONE, PAIR_BEGIN, PAIR_END };

/* What a probe is to its pair. A pair may have several begins, and several ends. */
struct pair_part {
	enum pair_role role;
	uint32_t pair;
};

/*
 * Says of each probe of a selection what it is: parts[] has as many. Pairs that
 * are found by names are numbered from *pairs on, the others by their patterns;
 * *pairs becomes a number above all of them.
 *
 * By names, a probe without a partner is PAIR_NONE. Errors: PROBE_ERROR_USAGE (an
 * odd number of patterns, one that begins and ends), PROBE_ERROR_NOT_FOUND (no
 * names pair), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *pairs_assign(const struct selection *selection,
	const struct probe_pattern *const *patterns, enum probe_pairing pairing,
	struct pair_part *parts, uint32_t *pairs);

#endif
