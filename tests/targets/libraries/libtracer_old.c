/* SPDX-License-Identifier: MIT */
/* flags: -Ilibprobe/include */
/* A tracer built for another version of the header. */
#include <probe/tracer.h>

const struct probe_tracer_ops probe_tracer = {
	.abi = PROBE_TRACER_ABI + 1,
	.size = sizeof(struct probe_tracer_ops),
};
