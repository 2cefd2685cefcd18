/* SPDX-License-Identifier: MIT */
/* A format that writes nothing, for sinks whose owner fills the buffer. */
#include "libprobe/output/output.h"

static void silent_hit(struct format_context *context, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm)
{
	(void)context, (void)hit, (void)probe, (void)comm;
}

static void silent_lost(
	struct format_context *context, const struct probe_session_probe *probe, uint64_t lost)
{
	(void)context, (void)probe, (void)lost;
}

static void silent_table(struct format_context *context, const struct probe_table *table,
	const struct probe_view *view)
{
	(void)context, (void)table, (void)view;
}

static void silent_stacks(struct format_context *context, const struct probe_stacks_row *rows,
	size_t count, const struct probe_view *view)
{
	(void)context, (void)rows, (void)count, (void)view;
}

const struct format format_silent = {
	.hit = silent_hit,
	.lost = silent_lost,
	.table = silent_table,
	.stacks = silent_stacks,
};
