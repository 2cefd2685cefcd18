/* SPDX-License-Identifier: MIT */
/* flags: -Ilibprobe/include */
/* A tracer that lacks an operation. */
#include <probe/tracer.h>

static enum probe_tracer_verdict enabled(enum probe_tracer_tag tag, void *state,
	const struct probe_tracee *tracee, const struct probe_tracer_term *term)
{
	(void)tag, (void)state, (void)tracee, (void)term;
	return PROBE_TRACER_TRACE;
}

const struct probe_tracer_ops probe_tracer = {
	.abi = PROBE_TRACER_ABI,
	.size = sizeof(struct probe_tracer_ops),
	.enabled = enabled,
};
