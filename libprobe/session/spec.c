/* SPDX-License-Identifier: MIT */
/* Parses tracers as users name them, and configures their sessions. */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/nearest.h"
#include "libprobe/session/session.h"

/* ---- Parsing ---------------------------------------------------------------------- */

const struct tracer_kind *tracer_find(const char *name)
{
	for (const struct tracer_kind *kind = tracer_builtin; kind->name; kind++)
		if (strcmp(kind->name, name) == 0)
			return kind;
	return NULL;
}

static const struct tracer_kind *tracer_of_objects(void)
{
	const struct tracer_kind *kind = tracer_builtin;

	while (kind->name)
		kind++;
	return kind;
}

static struct probe_error *no_tracer(const char *name)
{
	struct nearest nearest = {0};

	for (const struct tracer_kind *kind = tracer_builtin; kind->name; kind++)
		nearest_consider(&nearest, name, kind->name);
	if (nearest.name)
		return probe_error_new(PROBE_ERROR_USAGE,
			"there is no tracer '%s'; the nearest is '%s'", name, nearest.name);
	return probe_error_new(PROBE_ERROR_USAGE,
		"there is no tracer '%s'; probectl-trace(1) names them, and a tracer of your own "
		"is the path of a shared object (./%s.so)",
		name, name);
}

/* Whether it is a path rather than a name: it has a slash, or ends like a shared object. */
static bool is_path(const char *name)
{
	size_t length = strlen(name);

	return strchr(name, '/') || (length > 3 && !strcmp(name + length - 3, ".so"));
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
	spec->kind = is_path(spec->name) ? tracer_of_objects() : tracer_find(spec->name);
	if (spec->kind && (spec->kind->output == PROBE_TRACER_PCP ||
				  spec->kind->output == PROBE_TRACER_METRICS))
		error = tracer_exported_parse(spec);
	if (!error)
		error = spec->kind ? check_operand(spec) : no_tracer(spec->name);
	if (error) {
		probe_tracer_free(spec);
		return error;
	}
	*ret = spec;
	return NULL;
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
	*ret = (struct probe_tracer_info){tracer_builtin[index].usage, tracer_builtin[index].help};
	return true;
}

/* ---- Sessions --------------------------------------------------------------------- */

/* Begins and ends: as the user says, or by the tracer's default. */
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

static struct probe_error *check_spans(
	const struct probe_tracer_spec *spec, const struct probe_session_options *options)
{
	if (!options->span_min_ns || spec->kind->has_spans)
		return NULL;
	return probe_error_new(
		PROBE_ERROR_USAGE, "--min is for tracer span; '%s' prints no pairs", spec->name);
}

static struct probe_error *check_gather(
	const struct probe_tracer_spec *spec, const struct probe_gather *gather)
{
	bool loaded = spec->kind->output == PROBE_TRACER_LOADED;

	if (gather->key_count && spec->kind->output != PROBE_TRACER_ROWS)
		return probe_error_new(PROBE_ERROR_USAGE,
			"-k makes a row for each key; tracer '%s' has no rows: %s", spec->name,
			spec->kind->output == PROBE_TRACER_STACKS
				? "-c -k ustack counts by stack, with other keys, too"
				: "-c counts by key, -t latency times pairs by key");
	if (gather->pairing != PROBE_PAIRING_NONE && !spec->kind->has_pairs && !loaded)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--pairs is for the tracers latency, transaction and span, and for your "
			"own; "
			"'%s' looks at each hit by itself%s%s%s",
			spec->name, spec->exporter ? " (-t " : "",
			spec->exporter ? spec->exporter->name : "",
			spec->exporter ? ",latency)" : "");
	if (gather->match && !spec->kind->has_pairs)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--match says which end belongs to which begin; tracer '%s' has no pairs",
			spec->name);
	return NULL;
}

struct probe_error *probe_tracer_configure(const struct probe_tracer_spec *spec,
	size_t pattern_count, struct probe_session_options *options)
{
	const struct tracer_kind *kind = spec->kind;
	struct probe_gather *gather = &options->gather;
	struct probe_error *error = check_gather(spec, gather);

	if (!error)
		error = check_spans(spec, options);
	if (!error && kind->has_pairs)
		error = configure_pairs(spec, pattern_count, gather);
	if (error)
		return error;
	options->overwrite = kind->output == PROBE_TRACER_FLIGHT;
	options->spans = kind->has_spans;
	if (tracer_has_stacks(kind))
		return tracer_stack_configure(spec, options);
	/* A tracer of the user's own gets the filter's value. */
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
