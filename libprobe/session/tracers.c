/* SPDX-License-Identifier: MIT */
/* Parses the tracers that users name, and sets their sessions' options. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/nearest.h"
#include "libprobe/session/session.h"

/* ==== Tracer stack ============================================================================ */

/*
 * `stack` counts hits by call stack: stubs copy stacks into records, and the controller unwinds
 * them; with `frames`, stubs follow frame pointers and count by return addresses. `heap` counts
 * memory by the stacks of allocations, always recorded. Tracers that hand over hits may add stacks.
 */

enum {
	BYTES_MIN = 512,
	RING_BYTES = 16 << 20 /* with a stack, a record is about a hundred times as long */
};

static const char bytes_prefix[] = "bytes=";

/* Parses bytes=N; `option` is the text before it on the command line. */
static struct probe_error *parse_bytes(
	const char *option, const char *text, size_t length, uint16_t *ret)
{
	char *end;
	unsigned long bytes;

	errno = 0;
	bytes = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || end != text + length || errno || bytes < BYTES_MIN ||
		bytes > ARCH_STACK_MAX)
		return probe_error_new(PROBE_ERROR_USAGE,
			"%sbytes=%.*s: between %d and %d bytes of each stack can be copied", option,
			(int)length, text, BYTES_MIN, ARCH_STACK_MAX);
	*ret = (uint16_t)bytes;
	return NULL;
}

static struct probe_error *tracer_stack_parse(
	const struct probe_tracer_spec *spec, struct tracer_stack_options *ret)
{
	const char *name = spec->kind->name, *operand = spec->operand;
	bool heap = spec->kind->output == PROBE_TRACER_HEAP;
	const struct {
		const char *word;
		bool *set;
	} words[] = {{"frames", &ret->frames}, {"folded", &ret->folded},
		{"flamegraph", &ret->flamegraph}, {"pprof", &ret->pprof}, {"live", &ret->live},
		{"total", &ret->total}};
	const size_t count = heap ? 6 : 4, prefix = sizeof(bytes_prefix) - 1;

	*ret = (struct tracer_stack_options){0};
	while (operand) {
		size_t length = strcspn(operand, ","), i = 0;
		struct probe_error *error;

		while (i < count &&
			(length != strlen(words[i].word) || memcmp(operand, words[i].word, length)))
			i++;
		if (i < count) {
			*words[i].set = true;
		} else if (length >= prefix && !memcmp(operand, bytes_prefix, prefix)) {
			error = parse_bytes(heap ? "-t heap," : "-t stack,", operand + prefix,
				length - prefix, &ret->bytes);
			if (error)
				return error;
		} else {
			return probe_error_new(PROBE_ERROR_USAGE,
				"tracer '%s' has no option '%.*s'; it has %sframes, bytes=N, "
				"folded, flamegraph and pprof",
				name, (int)length, operand, heap ? "live, total, " : "");
		}
		operand = operand[length] ? operand + length + 1 : NULL;
	}
	if (ret->frames && ret->bytes)
		return probe_error_new(PROBE_ERROR_USAGE,
			"-t %s: either frames, which copies no bytes, or bytes=N", name);
	if (ret->folded + ret->flamegraph + ret->pprof > 1)
		return probe_error_new(
			PROBE_ERROR_USAGE, "-t %s: one of folded, flamegraph and pprof", name);
	if (ret->live && ret->total)
		return probe_error_new(PROBE_ERROR_USAGE,
			"-t %s: either live, what is not freed, or total, all that was allocated",
			name);
	return NULL;
}

static void take_stacks(
	const struct tracer_stack_options *its, struct probe_session_options *options)
{
	options->stack = its->frames ? PROBE_STACK_FRAMES : PROBE_STACK_COPY;
	options->stack_bytes = its->bytes;
	if (!its->frames && !options->ring_bytes) {
		options->ring_bytes = RING_BYTES;
		options->may_shrink = true;
	}
}

struct probe_error *probe_tracer_take_stacks(const struct probe_tracer_spec *spec, const char *how,
	struct probe_session_options *options)
{
	enum probe_tracer_output output = probe_tracer_output(spec);
	const size_t prefix = sizeof(bytes_prefix) - 1;
	struct tracer_stack_options its;

	if (output == PROBE_TRACER_LOADED)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--stack: tracer %s gets no stacks; -t print and -t json show those of "
			"hits",
			spec->name);
	if (tracer_has_stacks(spec->kind))
		return probe_error_new(PROBE_ERROR_USAGE,
			"--stack: tracer '%s' takes stacks by itself", spec->name);
	if (output != PROBE_TRACER_HITS && output != PROBE_TRACER_HITS_JSON &&
		output != PROBE_TRACER_FLIGHT)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--stack: tracer '%s' prints no hits; -t %s", spec->name,
			spec->kind->has_pairs ? "span prints each pair with the stack of its end"
					      : "stack counts hits by their stacks");
	its = (struct tracer_stack_options){.frames = !strcmp(how, "frames")};
	if (!strncmp(how, bytes_prefix, prefix)) {
		struct probe_error *error =
			parse_bytes("--stack=", how + prefix, strlen(how) - prefix, &its.bytes);

		if (error)
			return error;
	} else if (*how && !its.frames) {
		return probe_error_new(PROBE_ERROR_USAGE,
			"--stack=%s: use --stack, --stack=frames or --stack=bytes=N", how);
	}
	take_stacks(&its, options);
	return NULL;
}

/* ==== Exported ================================================================================ */

/*
 * `pcp` and `metrics` export another tracer's rows as metrics (probe/pcp.h, probe/metrics.h). Their
 * sessions are its own.
 */

/* Turns such a spec into that of the tracer after it. Errors: PROBE_ERROR_USAGE. */
static struct probe_error *tracer_exported_parse(struct probe_tracer_spec *spec)
{
	static char count[] = "count";
	char *comma;

	spec->exporter = spec->kind;
	spec->name = spec->operand ? spec->operand : count;
	comma = strchr(spec->name, ',');
	spec->operand = comma ? comma + 1 : NULL;
	if (comma)
		*comma = '\0';
	spec->kind = tracer_find(spec->name);
	if (!spec->kind || spec->kind->output == PROBE_TRACER_ROWS)
		return NULL;
	return probe_error_new(PROBE_ERROR_USAGE,
		"-t %s,%s: metrics need a tracer that gathers: -t %s,latency, or any other "
		"tracer that makes tables",
		spec->exporter->name, spec->name, spec->exporter->name);
}

/* ==== Spec ==================================================================================== */

/* ---- Parsing ---------------------------------------------------------------------- */

/* Shared objects are the last kind, which has no name. */
static const struct tracer_kind *tracer_of_objects(void)
{
	const struct tracer_kind *kind = tracer_builtin;

	while (kind->name)
		kind++;
	return kind;
}

const struct tracer_kind *tracer_find(const char *name)
{
	for (const struct tracer_kind *kind = tracer_builtin; kind->name; kind++)
		if (strcmp(kind->name, name) == 0)
			return kind;
	return NULL;
}

static struct probe_error *check_operand(const struct probe_tracer_spec *spec)
{
	const struct tracer_kind *kind = spec->kind;
	struct tracer_stack_options stack;

	if (kind->is_several)
		return probe_error_new(PROBE_ERROR_USAGE,
			"tracer '%s' is a group of tracers%s; only `probectl trace -t %s` runs "
			"all of them",
			kind->name, spec->operand ? " and takes no value" : "", kind->name);
	if (kind->output == PROBE_TRACER_LOADED)
		return NULL;
	if (tracer_has_stacks(kind))
		return tracer_stack_parse(spec, &stack);
	if (kind->needs_value && (!spec->operand || !*spec->operand))
		return probe_error_new(PROBE_ERROR_USAGE,
			"tracer '%s' needs a value: -t %s,arg0, or any other expression",
			kind->name, kind->name);
	if (!kind->needs_value && spec->operand)
		return probe_error_new(PROBE_ERROR_USAGE, "tracer '%s' takes no value ('%s')%s",
			kind->name, spec->operand,
			kind->has_pairs ? "; what it measures is time"
			: kind->output == PROBE_TRACER_ROWS
				? "; -t sum,EXPR adds up, -k EXPR counts by value"
				: "");
	return NULL;
}

struct probe_error *probe_tracer_parse(const char *text, struct probe_tracer_spec **ret)
{
	struct probe_tracer_spec *spec = calloc(1, sizeof(*spec));
	struct probe_error *error = NULL;
	struct nearest nearest = {0};
	size_t length;
	char *comma;

	if (!spec)
		return probe_error_no_memory();
	spec->text = strdup(text);
	if (!spec->text) {
		probe_tracer_free(spec);
		return probe_error_no_memory();
	}
	spec->name = spec->text;
	comma = strchr(spec->text, ',');
	if (comma) {
		*comma = '\0';
		spec->operand = comma + 1;
	}
	length = strlen(spec->name);
	if (strchr(spec->name, '/') || (length > 3 && !strcmp(spec->name + length - 3, ".so")))
		spec->kind = tracer_of_objects();
	else
		spec->kind = tracer_find(spec->name);
	if (spec->kind && (spec->kind->output == PROBE_TRACER_PCP ||
				  spec->kind->output == PROBE_TRACER_METRICS))
		error = tracer_exported_parse(spec);
	if (!error && spec->kind) {
		error = check_operand(spec);
	} else if (!error) {
		for (const struct tracer_kind *kind = tracer_builtin; kind->name; kind++)
			nearest_consider(&nearest, spec->name, kind->name);
		error = nearest.name
				? probe_error_new(PROBE_ERROR_USAGE,
					  "there is no tracer '%s'; the nearest is '%s'",
					  spec->name, nearest.name)
				: probe_error_new(PROBE_ERROR_USAGE,
					  "there is no tracer '%s'; probectl-trace(1) names them, "
					  "and a tracer of your own is the path of a shared object "
					  "(./%s.so)",
					  spec->name, spec->name);
	}
	if (error)
		probe_tracer_free(spec);
	else
		*ret = spec;
	return error;
}

void probe_tracer_free(struct probe_tracer_spec *spec)
{
	if (!spec)
		return;
	free(spec->text);
	free(spec);
}

const char *probe_tracer_name(const struct probe_tracer_spec *spec)
{
	return spec->name;
}

enum probe_tracer_output probe_tracer_output(const struct probe_tracer_spec *spec)
{
	return spec->exporter ? spec->exporter->output : spec->kind->output;
}

bool probe_tracer_pairs(const struct probe_tracer_spec *spec)
{
	return spec->kind->has_pairs;
}

bool probe_tracer_spans(const struct probe_tracer_spec *spec)
{
	return spec->kind->has_spans;
}

bool probe_tracer_info(size_t index, struct probe_tracer_info *ret)
{
	if (index > (size_t)(tracer_of_objects() - tracer_builtin))
		return false;
	*ret = (struct probe_tracer_info){tracer_builtin[index].usage ? tracer_builtin[index].usage
								      : tracer_builtin[index].name,
		tracer_builtin[index].help};
	return true;
}

/* ---- Sessions --------------------------------------------------------------------- */

/* Sets how probes pair: as the user says, or the tracer's default. */
static struct probe_error *configure_pairs(
	const struct probe_tracer_spec *spec, size_t pattern_count, struct probe_gather *gather)
{
	if (gather->pairing == PROBE_PAIRING_NONE)
		gather->pairing = spec->kind->output == PROBE_TRACER_HEAP && pattern_count == 1
					  ? PROBE_PAIRING_NAMES
					  : spec->kind->pairing;
	if (gather->pairing == PROBE_PAIRING_NAMES)
		return NULL;
	if (pattern_count < 2)
		return probe_error_new(PROBE_ERROR_USAGE,
			"tracer '%s' takes the time from one PROBE to another: name both, the "
			"begin first, or add --pairs auto, which finds pairs by their names "
			"(X__start and X__done)",
			spec->name);
	if (gather->pairing == PROBE_PAIRING_LISTED && pattern_count % 2)
		return probe_error_new(PROBE_ERROR_USAGE,
			"%zu PROBEs are not pairs: a begin and its end, the next begin and its "
			"end; --pairs auto finds them by their names",
			pattern_count);
	return NULL;
}

/* Checks options that only some tracers have. */
static struct probe_error *check_options(
	const struct probe_tracer_spec *spec, const struct probe_session_options *options)
{
	const struct probe_gather *gather = &options->gather;
	const struct tracer_kind *kind = spec->kind;

	if (gather->key_count && kind->output != PROBE_TRACER_ROWS)
		return probe_error_new(PROBE_ERROR_USAGE,
			"-k makes a row for each key; tracer '%s' has no rows: %s", spec->name,
			kind->output == PROBE_TRACER_STACKS
				? "-c -k ustack counts by stack, with other keys, too"
				: "-c counts by key, -t latency times pairs by key");
	if (gather->pairing != PROBE_PAIRING_NONE && !kind->has_pairs &&
		kind->output != PROBE_TRACER_LOADED)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--pairs is for the tracers latency, transaction and span, and for your "
			"own; '%s' looks at each hit by itself%s%s%s",
			spec->name, spec->exporter ? " (-t " : "",
			spec->exporter ? spec->exporter->name : "",
			spec->exporter ? ",latency)" : "");
	if (gather->match && !kind->has_pairs)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--match says which end belongs to which begin; tracer '%s' has no pairs",
			spec->name);
	if (options->span_min_ns && !kind->has_spans)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--min is for tracer span; '%s' prints no pairs", spec->name);
	return NULL;
}

/* Sets the session's options for a tracer with stacks. */
static struct probe_error *configure_stacks(
	const struct probe_tracer_spec *spec, struct probe_session_options *options)
{
	bool heap = spec->kind->output == PROBE_TRACER_HEAP;
	struct tracer_stack_options its;
	struct probe_error *error = tracer_stack_parse(spec, &its);

	if (error)
		return error;
	/* Hits that free memory need no stack, but none may be missing. */
	if (heap && options->filter)
		return probe_error_new(PROBE_ERROR_USAGE,
			"-f: tracer 'heap' needs each free of what it has seen allocated; a filter "
			"would leave some out");
	if (heap && options->gather.match)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--match: tracer 'heap' matches a free with its allocation by the pointer");
	options->kind = its.frames && !heap ? PROBE_SESSION_GATHER : PROBE_SESSION_RECORD;
	options->begin_stacks |= heap;
	take_stacks(&its, options);
	return NULL;
}

/* Sets the session's options for tracer self, which needs each begin and each end. */
static struct probe_error *configure_calls(struct probe_session_options *options)
{
	if (options->filter || options->gather.match || options->sample_every > 1 ||
		options->sample_rate)
		return probe_error_new(PROBE_ERROR_USAGE,
			"tracer 'self' needs each begin and end of a thread: without -f, --match, "
			"--every and --rate");
	options->kind = PROBE_SESSION_RECORD;
	options->described = true;
	if (!options->ring_bytes) {
		options->ring_bytes = RING_BYTES;
		options->may_shrink = true;
	}
	return NULL;
}

struct probe_error *probe_tracer_configure(const struct probe_tracer_spec *spec,
	size_t pattern_count, struct probe_session_options *options)
{
	const struct tracer_kind *kind = spec->kind;
	struct probe_gather *gather = &options->gather;
	struct probe_error *error = check_options(spec, options);

	if (!error && kind->has_pairs)
		error = configure_pairs(spec, pattern_count, gather);
	if (error)
		return error;
	options->overwrite = kind->output == PROBE_TRACER_FLIGHT;
	options->spans = kind->has_spans;
	if (tracer_has_stacks(kind))
		return configure_stacks(spec, options);
	if (kind->output == PROBE_TRACER_CALLS)
		return configure_calls(options);
	/* A loaded tracer gets the filter's value. */
	options->filter_value = kind->output == PROBE_TRACER_LOADED && options->filter;
	if (kind->output != PROBE_TRACER_ROWS) {
		options->kind = PROBE_SESSION_RECORD;
		return NULL;
	}
	gather->sum = kind->gather.sum;
	gather->extremes = kind->gather.extremes;
	gather->last = kind->gather.last;
	gather->histogram = kind->gather.histogram;
	gather->value = kind->needs_value ? spec->operand : NULL;
	/* Counts alone need no cells. */
	options->kind = gather->key_count || kind->has_pairs || gather->value ? PROBE_SESSION_GATHER
									      : PROBE_SESSION_COUNT;
	return NULL;
}

void probe_tracer_view(const struct probe_tracer_spec *spec,
	const struct probe_session_options *options, struct probe_view *ret)
{
	struct tracer_stack_options stack = {0};

	if (tracer_has_stacks(spec->kind))
		probe_error_free(tracer_stack_parse(spec, &stack));
	*ret = spec->kind->view;
	ret->tracer = spec->name;
	ret->folded = stack.folded || stack.flamegraph || stack.pprof;
	ret->flamegraph = stack.flamegraph;
	ret->pprof = stack.pprof;
	ret->heap = spec->kind->output == PROBE_TRACER_HEAP;
	ret->live = ret->heap && !stack.total;
	ret->value = options->gather.value;
	ret->key_names = options->gather.keys;
	ret->catalogue = options->catalogue;
}

/* ==== Builtin ================================================================================= */

/*
 * A row says what a session's stubs gather, and how it is shown. (Erlang's erl_tracer has
 * operations that decide and operations that act. Here, both are compiled into the stubs.)
 */

#define DISTRIBUTION                                                                               \
	(PROBE_COLUMN_COUNT | PROBE_COLUMN_SUM | PROBE_COLUMN_MIN | PROBE_COLUMN_AVERAGE |         \
		PROBE_COLUMN_PERCENTILES | PROBE_COLUMN_MAX | PROBE_COLUMN_BUCKETS)

const struct tracer_kind tracer_builtin[] = {
	/* The cheapest session; with keys, a row for each. */
	{
		.name = "count",
		.help = "how often each probe was hit",
		.output = PROBE_TRACER_ROWS,
		.view = {.columns = PROBE_COLUMN_COUNT, .order = PROBE_ORDER_COUNT},
		.pcp = 1,
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
		.pcp = 3,
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
		.pcp = 4,
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
		.pcp = 5,
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
		.pcp = 6,
	},
	/* Count, sum and extremes are exact; buckets are within 3 %. */
	{
		.name = "hist",
		.usage = "hist,EXPR",
		.help = "a histogram of a value, and its percentiles",
		.output = PROBE_TRACER_ROWS,
		.needs_value = true,
		.gather = {.sum = true, .extremes = true, .histogram = true},
		.view = {.columns = DISTRIBUTION, .chart = true, .order = PROBE_ORDER_COUNT},
		.pcp = 7,
	},
	/* Keys are sorted by their total time. */
	{
		.name = "latency",
		.help = "the time between two probes: a histogram, percentiles, how many are in "
			"flight",
		.output = PROBE_TRACER_ROWS,
		.has_pairs = true,
		.pairing = PROBE_PAIRING_LISTED,
		.gather = {.sum = true, .extremes = true, .histogram = true},
		.view = {.columns = DISTRIBUTION | PROBE_COLUMN_PAIRS,
			.chart = true,
			.times = true,
			.order = PROBE_ORDER_SUM},
		.pcp = 8,
	},
	/* The end event's name tells how it ended (table_name_aborts()), as in pmtracebegin(3). */
	{
		.name = "transaction",
		.help = "the same, with ends that are done or aborted",
		.output = PROBE_TRACER_ROWS,
		.has_pairs = true,
		.pairing = PROBE_PAIRING_ONE,
		.gather = {.sum = true, .extremes = true, .histogram = true},
		.view = {.columns = PROBE_COLUMN_OUTCOME | PROBE_COLUMN_RATE | DISTRIBUTION |
				    PROBE_COLUMN_PAIRS,
			.times = true,
			.order = PROBE_ORDER_COUNT},
		.pcp = 9,
		.pcp_tags = 12,
		.pcp_tags_name = "transact",
	},
	{
		.name = "point",
		.help = "how often a point is passed, in total and per second",
		.output = PROBE_TRACER_ROWS,
		.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_RATE,
			.order = PROBE_ORDER_COUNT},
		.pcp = 2,
		.pcp_tags = 13,
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
		.pcp = 10,
		.pcp_tags = 14,
	},
	/* As in pmtracecounter(3). The smallest value of a counter is its first one. */
	{
		.name = "counter",
		.usage = "counter,EXPR",
		.help = "a counter that only grows: its last value and its growth per second",
		.output = PROBE_TRACER_ROWS,
		.needs_value = true,
		.gather = {.last = true, .extremes = true},
		.view = {.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_LAST | PROBE_COLUMN_CHANGE,
			.order = PROBE_ORDER_LAST},
		.pcp = 11,
		.pcp_tags = 15,
	},
	/* See "pmtrace" in this file. */
	{
		.name = "pmtrace",
		.help = "all of the four before for the probes of pmtrace(3), with a row for each "
			"tag",
		.output = PROBE_TRACER_ROWS,
		.is_several = true,
	},
	{
		.name = "print",
		.help = "each hit with its time, thread and arguments; what `trace` does without "
			"-t",
		.output = PROBE_TRACER_HITS,
	},
	{
		.name = "json",
		.help = "the same as JSON, one object per line",
		.output = PROBE_TRACER_HITS_JSON,
	},
	/* Like latency, with a record of each pair. */
	{
		.name = "span",
		.help = "each time between two probes, with the arguments of both; --min leaves "
			"out short ones",
		.output = PROBE_TRACER_HITS,
		.has_pairs = true,
		.has_spans = true,
		.pairing = PROBE_PAIRING_LISTED,
	},
	/* Each entry and exit is a record. */
	{
		.name = "self",
		.help = "the time of functions with and without what they call; -v adds callers "
			"and callees",
		.output = PROBE_TRACER_CALLS,
		.has_pairs = true,
		.pairing = PROBE_PAIRING_NAMES,
		.view = {.columns = PROBE_COLUMN_COUNT, .order = PROBE_ORDER_COUNT},
	},
	/* New records overwrite the oldest ones. They are read on demand. */
	{
		.name = "ring",
		.help = "a flight recorder: the last hits, printed at the end, at SIGUSR1, or "
			"after a "
			"crash",
		.output = PROBE_TRACER_FLIGHT,
	},
	/* See "Tracer stack" in this file. */
	{
		.name = "stack",
		.usage = "stack[,frames|,bytes=N][,folded|,flamegraph|,pprof]",
		.help = "how often each call stack led to a probe: a tree, or lines for flame "
			"graphs",
		.output = PROBE_TRACER_STACKS,
		.view = {.columns = PROBE_COLUMN_COUNT, .order = PROBE_ORDER_COUNT},
	},
	/* A pair is an allocation and a free. Without --pairs, a single PROBE pairs by name. */
	{
		.name = "heap",
		.usage = "heap[,live|,total][,frames|,bytes=N][,folded|,flamegraph|,pprof]",
		.help = "memory by the call stacks that allocated it: what is not freed, or all",
		.output = PROBE_TRACER_HEAP,
		.has_pairs = true,
		.pairing = PROBE_PAIRING_LISTED,
		.view = {.columns = PROBE_COLUMN_COUNT, .order = PROBE_ORDER_COUNT},
	},
	/* See "Exported" in this file. */
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
	/* A shared object, which has no name of its own. */
	{
		.usage = "PATH.so[,OPTIONS]",
		.help = "a tracer of your own (docs/tracers.md)",
		.output = PROBE_TRACER_LOADED,
	},
};

/* ==== pmtrace ================================================================================= */

/*
 * The tracer pmtrace: the data of Performance Co-Pilot's trace agent, by the tags of pmtrace(3).
 * Each kind of call has its own tracer, with probes of libprobe_pmtrace.
 */

/* Without a prefix, pmtrace makes tables; with a prefix, it exports the data. */
static const char *const prefixes[] = {"", "pcp,", "metrics,"};
enum { PREFIXES = sizeof(prefixes) / sizeof(prefixes[0]) };
#define FORMS(tracer)                                                                              \
	{                                                                                          \
		tracer, "pcp," tracer, "metrics," tracer                                           \
	}

/* clang-format off */
static const struct {
	const char *forms[PREFIXES];
	struct probe_tracer_part part;
} parts[] = {
	{FORMS("transaction"), {.key = "str(arg0)", .match = "arg1",
		.probes = {"pmtrace:begin", "pmtrace:end", "pmtrace:abort"}, .probe_count = 3}},
	{FORMS("point"), {.key = "str(arg0)", .probes = {"pmtrace:point"}, .probe_count = 1}},
	{FORMS("observe,arg1"), {.key = "str(arg0)", .probes = {"pmtrace:obs"}, .probe_count = 1}},
	{FORMS("counter,arg1"), {.key = "str(arg0)", .probes = {"pmtrace:counter"}, .probe_count = 1}},
};
/* clang-format on */

bool probe_tracer_part(const char *text, size_t index, struct probe_tracer_part *ret)
{
	if (index >= sizeof(parts) / sizeof(parts[0]))
		return false;
	for (size_t i = 0; i < PREFIXES; i++) {
		size_t length = strlen(prefixes[i]);

		if (strncmp(text, prefixes[i], length) || strcmp(text + length, "pmtrace"))
			continue;
		*ret = parts[index].part;
		ret->tracer = parts[index].forms[i];
		return true;
	}
	return false;
}
