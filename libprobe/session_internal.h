/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SESSION_INTERNAL_H
#define LIBPROBE_SESSION_INTERNAL_H

#include "libprobe/children.h"
#include "libprobe/clock.h"
#include "libprobe/gate.h"
#include "libprobe/layout.h"
#include "libprobe/ring.h"
#include "probe/target.h"

/* A site as records name it, by its index. */
struct session_site {
	uint64_t pc;
	size_t probe; /* index of the session's probe */
	struct layout layout;
};

struct probe_session {
	struct probe_target *target; /* borrowed */
	struct probe_request request;
	struct probe_session_options options;
	const struct probe_pattern **patterns; /* a copy of the array; patterns are borrowed */
	bool *matched;
	uint32_t id;
	bool stopped;
	struct gate gate;
	struct probe_report report; /* of libraries that were opened later */
	struct clock clock;
	struct rings rings;
	struct children_cache processes; /* of threads, with follow_children */
	struct session_site *sites;
	size_t site_count;
	struct probe_session_probe *probes;
	uint32_t *slots;    /* of each probe */
	uint64_t *consumed; /* records handed over, of each probe */
	size_t probe_count;
	size_t record_max; /* bytes of the largest record of any site */
};

#endif
