/* SPDX-License-Identifier: MIT */
/* A loaded tracer that wants no hit: by its operation (enabled), by its filter, or neither (user).
 */
#include <string.h>

#include <probe/tracer.h>

static const char *create(const char *options, void **state_ret)
{
	static char how[16];

	*state_ret = strncpy(how, options, sizeof(how) - 1);
	return NULL;
}

static const char *filter(enum probe_tracer_tag tag, const char *name, void *state)
{
	(void)tag, (void)name;
	return strcmp(state, "filter") ? NULL : "arg0 > 1000000000000";
}

static enum probe_tracer_verdict enabled(enum probe_tracer_tag tag, void *state,
	const struct probe_tracee *tracee, const struct probe_tracer_term *term)
{
	(void)state, (void)tracee, (void)term;
	return tag == PROBE_TAG_STATUS ? PROBE_TRACER_TRACE : PROBE_TRACER_DISCARD;
}

static enum probe_tracer_verdict trace(enum probe_tracer_tag tag, void *state,
	const struct probe_tracee *tracee, const struct probe_tracer_term *term,
	const struct probe_tracer_options *options)
{
	(void)tag, (void)state, (void)tracee, (void)term, (void)options;
	return PROBE_TRACER_TRACE;
}

const struct probe_tracer_ops probe_tracer = {
	.abi = PROBE_TRACER_ABI,
	.size = sizeof(struct probe_tracer_ops),
	.create = create,
	.filter = filter,
	.enabled = enabled,
	.trace = trace,
};
