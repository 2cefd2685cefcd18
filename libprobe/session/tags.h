/* SPDX-License-Identifier: MIT */
/* tag=TAG and tag=TAG@PROBE: which tag hits of a probe get in a loaded tracer. */
#ifndef LIBPROBE_SESSION_TAGS_H
#define LIBPROBE_SESSION_TAGS_H

#include "libprobe/base/error.h"
#include "probe/pattern.h"
#include "probe/tracer.h"

/* The last one that matches is the probe's. */
struct tag_rule {
	struct probe_pattern *pattern; /* NULL: all probes */
	enum probe_tracer_tag tag;
	bool applied; /* to a hit */
};

/* Initialise with {0}. */
struct tags {
	struct tag_rule *rules;
	size_t count;
};

/* Adds TAG or TAG@PROBE. Errors: PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *tags_add(struct tags *tags, const char *text);
/* The tag of a probe's hits; PROBE_TAG_POINT if nothing was said. */
enum probe_tracer_tag tags_find(struct tags *tags, const struct probe_session_probe *probe);
/* The pattern of a rule that was applied to no hit; or NULL. */
const char *tags_idle(const struct tags *tags);
void tags_deinit(struct tags *tags);

#endif
