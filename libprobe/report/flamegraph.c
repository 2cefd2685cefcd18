/* SPDX-License-Identifier: MIT */
/* The stacks of folded.c, drawn as a flame graph. */
#include <stdlib.h>

#include "libprobe/report/report.h"

struct flamegraph {
	struct buffer *out;
	bool hits;
	void *folded;
};

static void flamegraph_free(void *state)
{
	struct flamegraph *graph = state;

	if (graph)
		folded_free(graph->folded);
	free(graph);
}

static struct probe_error *flamegraph_create(
	const struct export_settings *settings, struct buffer *out, void **ret)
{
	struct flamegraph *graph = calloc(1, sizeof(*graph));
	struct probe_error *error;

	if (!graph)
		return probe_error_no_memory();
	graph->out = out;
	graph->hits = settings->options->hits;
	error = folded_create(settings, out, &graph->folded);
	if (error) {
		flamegraph_free(graph);
		return error;
	}
	*ret = graph;
	return NULL;
}

static struct probe_error *flamegraph_event(void *state, const struct probe_event *event)
{
	struct flamegraph *graph = state;

	return folded_event(graph->folded, event);
}

static struct probe_error *flamegraph_finish(void *state, bool *done_ret)
{
	struct flamegraph *graph = state;
	struct flame_stack *stacks = NULL;
	size_t count = 0;
	struct probe_error *error = folded_sums(graph->folded, &stacks, &count);

	*done_ret = true;
	if (!error)
		flame_graph(graph->out, stacks, count, graph->hits ? FLAME_HITS : FLAME_TIME);
	return error;
}

const struct export_format export_flamegraph = {
	.names = {"flamegraph", "svg"},
	.create = flamegraph_create,
	.free = flamegraph_free,
	.event = flamegraph_event,
	.finish = flamegraph_finish,
};
