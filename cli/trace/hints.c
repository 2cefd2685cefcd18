/* SPDX-License-Identifier: MIT */
/*
 * Why probes may have no hits: some programs pass some of their probes only if they are asked to
 * (-XX:+DTraceMethodProbes of OpenJDK). The catalogue says so; here it is said at the end of a
 * trace, if nothing tells that the condition was met.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/print/print.h"
#include "cli/trace/trace.h"
#include "libprobe/base/array.h"
#include "probe/catalogue.h"

/* Which hits are missing if a condition is not met. */
enum missing { MISSING_HITS, MISSING_BEGINS, MISSING_ENDS };

/* A condition, and the first of the probes that seem to lack it. */
struct hint {
	const struct probe_meaning *meaning; /* has the condition */
	const struct probe_session_probe *probe;
	const void *process; /* which tells the probe's target from others */
	size_t others;
	enum missing missing;
	bool is_met; /* a probe with the same condition was hit */
};

struct hints {
	struct hint *items;
	size_t count;
};

/* What is known of a probe that has a condition; else NULL. */
static const struct probe_meaning *conditional(
	const struct trace_tracer *tracer, const struct probe_session_probe *probe)
{
	const struct probe_meaning *meaning = probe_catalogue_find(
		tracer->options.catalogue, probe->provider, probe->name, SIZE_MAX);

	return meaning && meaning->needs ? meaning : NULL;
}

static void add_hint(struct hints *hints, const struct hint *hint)
{
	for (size_t i = 0; i < hints->count; i++) {
		struct hint *other = &hints->items[i];

		if (strcmp(other->meaning->needs, hint->meaning->needs) != 0)
			continue;
		other->is_met |= hint->is_met;
		/* Other processes and tracers have the same probes. */
		other->others += other->process == hint->process;
		return;
	}
	/* Without memory, it is not said. */
	if (ARRAY_ROOM(hints->items, hints->count))
		hints->items[hints->count++] = *hint;
}

/* The probes of a process, or of all that have ended. */
struct probes {
	const struct trace_tracer *tracer;
	const void *process;
	const struct probe_session_probe *items;
	size_t count;
};

/* The begins of an end's pair. If most ends lack theirs, the begins are not passed. */
static void look_at_begins(
	struct hints *hints, const struct probes *probes, const struct probe_session_probe *end)
{
	for (size_t i = 0; i < probes->count; i++) {
		const struct probe_session_probe *probe = &probes->items[i];
		struct hint hint = {
			.probe = probe, .process = probes->process, .missing = MISSING_BEGINS};

		if (probe->role != PROBE_ROLE_BEGIN || probe->pair != end->pair)
			continue;
		hint.meaning = conditional(probes->tracer, probe);
		if (!hint.meaning)
			continue;
		/* Many begins without an end were passed nevertheless. */
		hint.is_met = end->hits + end->in_flight >= end->unmatched;
		add_hint(hints, &hint);
	}
}

/* Hits that a filter or a sample leaves out are not counted; nor those after the last (-n). */
static bool counts_all(const struct trace *trace, const struct trace_tracer *tracer)
{
	const struct probe_session_options *options = &tracer->options;

	return !trace_is_full(trace) && !options->filter && !options->span_min_ns &&
	       options->sample_every < 2 && !options->sample_rate;
}

static void look_at_probe(struct hints *hints, const struct trace *trace,
	const struct probes *probes, const struct probe_session_probe *probe)
{
	struct hint hint = {.probe = probe,
		.process = probes->process,
		.meaning = conditional(probes->tracer, probe)};
	bool is_passed = probe->hits || probe->lost || probe->unmatched;

	if (probe->role == PROBE_ROLE_END && probe->unmatched)
		look_at_begins(hints, probes, probe);
	/* Of a begin, hits are not counted. */
	if (!hint.meaning || probe->role == PROBE_ROLE_BEGIN ||
		probe_coverage_is_none(&probe->coverage))
		return;
	if (!is_passed && !counts_all(trace, probes->tracer))
		return;
	hint.is_met = is_passed;
	if (probe->role == PROBE_ROLE_END && probe->in_flight > probe->hits + probe->unmatched) {
		hint.missing = MISSING_ENDS;
		hint.is_met = false;
	}
	add_hint(hints, &hint);
}

static void print_hint(const struct hint *hint)
{
	static const char *const texts[][2] = {
		[MISSING_HITS] = {"no hits", ""},
		[MISSING_BEGINS] = {"most begins", " are missing"},
		[MISSING_ENDS] = {"most ends", " are missing"},
	};

	fprintf(stderr, "probectl: %s of ", texts[hint->missing][0]);
	print_printable(stderr, hint->probe->provider);
	putc(':', stderr);
	print_printable(stderr, hint->probe->name);
	if (hint->others)
		fprintf(stderr, " and %zu other%s", COUNTED(hint->others));
	fprintf(stderr, "%s: ", texts[hint->missing][1]);
	print_printable(stderr, hint->meaning->needs);
	putc('\n', stderr);
}

/* Pairs have numbers of their session, so begins of those that have ended are not looked for. */
static void look_at_ended(struct hints *hints, const struct trace *trace)
{
	for (size_t i = 0; i < trace->gone_count; i++) {
		const struct trace_gone *gone = &trace->gones[i];
		const struct probes probes = {gone->tracer, trace->gones, &gone->probe, 1};

		look_at_probe(hints, trace, &probes, &gone->probe);
	}
}

void trace_report_hints(const struct trace *trace)
{
	struct hints hints = {0};

	for (size_t i = 0; i < trace->target_count; i++) {
		const struct trace_target *target = &trace->targets[i];
		struct probes probes = {.tracer = target->tracer, .process = target};

		if (!target->session)
			continue;
		probes.items = probe_session_probes(target->session, &probes.count);
		for (size_t k = 0; k < probes.count; k++)
			look_at_probe(&hints, trace, &probes, &probes.items[k]);
	}
	look_at_ended(&hints, trace);
	for (size_t i = 0; i < hints.count; i++)
		if (!hints.items[i].is_met)
			print_hint(&hints.items[i]);
	free(hints.items);
}
