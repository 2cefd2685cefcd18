/* SPDX-License-Identifier: MIT */
/*
 * The table of tracers. Deciding and acting, the two halves of erl_tracer's operations, are
 * both compiled into the stubs of a session; a row says what these gather, and how it is
 * shown.
 */
#include "libprobe/session/session.h"

const struct tracer_kind tracer_builtin[] = {
	/* Without keys it is the cheapest session of all; with keys, one row for each. */
	{
		.name = "count",
		.usage = "count",
		.help = "how often each probe was hit",
		.output = PROBE_TRACER_ROWS,
		.view = {.columns = PROBE_COLUMN_COUNT, .order = PROBE_ORDER_COUNT},
	},
	{
		.name = "sum",
		.usage = "sum,EXPR",
		.help = "the sum of a value",
		.output = PROBE_TRACER_ROWS,
		.needs_value = true,
		.gather = {.sum = true},
		.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_SUM,
			.order = PROBE_ORDER_SUM},
	},
	/* The stub keeps both extremes. */
	{
		.name = "min",
		.usage = "min,EXPR",
		.help = "the smallest value",
		.output = PROBE_TRACER_ROWS,
		.needs_value = true,
		.gather = {.extremes = true},
		.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_MIN,
			.order = PROBE_ORDER_MIN},
	},
	{
		.name = "max",
		.usage = "max,EXPR",
		.help = "the largest value",
		.output = PROBE_TRACER_ROWS,
		.needs_value = true,
		.gather = {.extremes = true},
		.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_MAX,
			.order = PROBE_ORDER_MAX},
	},
	{
		.name = "avg",
		.usage = "avg,EXPR",
		.help = "the average of a value",
		.output = PROBE_TRACER_ROWS,
		.needs_value = true,
		.gather = {.sum = true},
		.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_SUM | PROBE_COLUMN_AVERAGE,
			.order = PROBE_ORDER_AVERAGE},
	},
	/* Exact count, sum and extremes; buckets within 3 %. */
	{
		.name = "hist",
		.usage = "hist,EXPR",
		.help = "a histogram of a value, and its percentiles",
		.output = PROBE_TRACER_ROWS,
		.needs_value = true,
		.gather = {.sum = true, .extremes = true, .histogram = true},
		.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_SUM | PROBE_COLUMN_MIN |
				    PROBE_COLUMN_AVERAGE | PROBE_COLUMN_PERCENTILES |
				    PROBE_COLUMN_MAX | PROBE_COLUMN_BUCKETS,
			.chart = true,
			.order = PROBE_ORDER_COUNT},
	},
	/* Keys are sorted by their total time. */
	{
		.name = "latency",
		.usage = "latency",
		.help = "the time between two probes: a histogram, percentiles, how many are in "
			"flight",
		.output = PROBE_TRACER_ROWS,
		.has_pairs = true,
		.pairing = PROBE_PAIRING_LISTED,
		.gather = {.sum = true, .extremes = true, .histogram = true},
		.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_SUM | PROBE_COLUMN_MIN |
				    PROBE_COLUMN_AVERAGE | PROBE_COLUMN_PERCENTILES |
				    PROBE_COLUMN_MAX | PROBE_COLUMN_BUCKETS | PROBE_COLUMN_PAIRS,
			.chart = true,
			.times = true,
			.order = PROBE_ORDER_SUM},
	},
	/* The end's name says how it ended (table_name_aborts()), as in pmtracebegin(3). */
	{
		.name = "transaction",
		.usage = "transaction",
		.help = "the same, with ends that are done or aborted",
		.output = PROBE_TRACER_ROWS,
		.has_pairs = true,
		.pairing = PROBE_PAIRING_ONE,
		.gather = {.sum = true, .extremes = true, .histogram = true},
		.view = {.columns = PROBE_COLUMN_OUTCOME | PROBE_COLUMN_RATE | PROBE_COLUMN_COUNT |
				    PROBE_COLUMN_SUM | PROBE_COLUMN_MIN | PROBE_COLUMN_AVERAGE |
				    PROBE_COLUMN_PERCENTILES | PROBE_COLUMN_MAX |
				    PROBE_COLUMN_BUCKETS | PROBE_COLUMN_PAIRS,
			.times = true,
			.order = PROBE_ORDER_COUNT},
	},
	{
		.name = "point",
		.usage = "point",
		.help = "how often a point is passed, in total and per second",
		.output = PROBE_TRACER_ROWS,
		.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_RATE,
			.order = PROBE_ORDER_COUNT},
	},
	/* The last value, as in pmtraceobs(3). */
	{
		.name = "observe",
		.usage = "observe,EXPR",
		.help = "the last value, and its time",
		.output = PROBE_TRACER_ROWS,
		.needs_value = true,
		.gather = {.last = true},
		.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_LAST | PROBE_COLUMN_TIME,
			.order = PROBE_ORDER_LAST},
	},
	/* As in pmtracecounter(3). Its smallest value is its first one. */
	{
		.name = "counter",
		.usage = "counter,EXPR",
		.help = "a counter that only grows: its last value and its growth per second",
		.output = PROBE_TRACER_ROWS,
		.needs_value = true,
		.gather = {.last = true, .extremes = true},
		.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_LAST | PROBE_COLUMN_CHANGE,
			.order = PROBE_ORDER_LAST},
	},
	/* See libprobe/session/pmtrace.c. */
	{
		.name = "pmtrace",
		.usage = "pmtrace",
		.help = "all of the four before for the probes of pmtrace(3), with a row for each "
			"tag",
		.output = PROBE_TRACER_ROWS,
		.is_several = true,
	},
	{
		.name = "print",
		.usage = "print",
		.help = "each hit with its time, thread and arguments; what `trace` does without "
			"-t",
		.output = PROBE_TRACER_HITS,
	},
	{
		.name = "json",
		.usage = "json",
		.help = "the same as JSON, one object per line",
		.output = PROBE_TRACER_HITS_JSON,
	},
	/* As latency, with a record of each pair. */
	{
		.name = "span",
		.usage = "span",
		.help = "each time between two probes, with the arguments of both; --min leaves "
			"out short ones",
		.output = PROBE_TRACER_HITS,
		.has_pairs = true,
		.has_spans = true,
		.pairing = PROBE_PAIRING_LISTED,
	},
	/* Records overwrite the oldest ones, and are read on demand. */
	{
		.name = "ring",
		.usage = "ring",
		.help = "a flight recorder: the last hits, printed at the end, at SIGUSR1, or "
			"after a "
			"crash",
		.output = PROBE_TRACER_FLIGHT,
	},
	/* See libprobe/session/tracer_stack.c. */
	{
		.name = "stack",
		.usage = "stack[,frames|,bytes=N][,folded|,flamegraph|,pprof]",
		.help = "how often each call stack led to a probe: a tree, or lines for flame "
			"graphs",
		.output = PROBE_TRACER_STACKS,
		.view = {.columns = PROBE_COLUMN_COUNT, .order = PROBE_ORDER_COUNT},
	},
	/* Its pairs are an allocation and a free; without --pairs, by their names if one PROBE is
	 * given. */
	{
		.name = "heap",
		.usage = "heap[,live|,total][,frames|,bytes=N][,folded|,flamegraph|,pprof]",
		.help = "memory by the call stacks that allocated it: what is not freed, or all",
		.output = PROBE_TRACER_HEAP,
		.has_pairs = true,
		.pairing = PROBE_PAIRING_LISTED,
		.view = {.columns = PROBE_COLUMN_COUNT, .order = PROBE_ORDER_COUNT},
	},
	/* See libprobe/session/exported.c. */
	{
		.name = "pcp",
		.usage = "pcp[,TRACER]",
		.help = "what another tracer gathers (default: count), as metrics of "
			"Performance "
			"Co-Pilot",
		.output = PROBE_TRACER_PCP,
	},
	{
		.name = "metrics",
		.usage = "metrics[,TRACER]",
		.help = "the same for Prometheus (--listen) or OpenTelemetry (--otlp)",
		.output = PROBE_TRACER_METRICS,
	},
	/* A shared object; it has no name of its own. */
	{
		.usage = "PATH.so[,OPTIONS]",
		.help = "a tracer of your own (docs/tracers.md)",
		.output = PROBE_TRACER_LOADED,
	},
};
