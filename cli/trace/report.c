/* SPDX-License-Identifier: MIT */
/* The reports of a trace: failures, losses, the summary, and hints why probes may have no hits. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/print/print.h"
#include "cli/trace/trace.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "probe/catalogue.h"

/* ==== Failures ================================================================================ */

void trace_fail(struct trace *trace, struct probe_error *error)
{
	if (!error)
		return;
	report_error(error);
	trace->failed = true;
}

void output_check(struct trace *trace, struct probe_error *error)
{
	if (!error)
		return;
	trace->gone = trace->loop.over = true;
	/* EPIPE (`| head`) is no error: the reader wants no more output. */
	if (error->code == PROBE_ERROR_SYSTEM && error->err == EPIPE) {
		probe_error_free(error);
		return;
	}
	trace->cut_off = true;
	trace_fail(trace, error);
}

/* ==== Report ================================================================================== */

/* If more probes than this have no hits, only their number is printed. */
enum { SILENT_ROWS_MAX = 50 };

/*
 * A row of the summary: one probe, summed over modules and targets. All tracers see the same hits,
 * but some filter them, so it shows the tracer with the most. The sessions own the strings.
 */
struct row {
	const char *provider, *name;
	const struct trace_tracer *tracer;
	uint64_t hits, lost;
	struct probe_coverage coverage;
	enum probe_role role; /* role of the probe in its pair, for tracers of spans */
	uint64_t in_flight, unmatched;
};

struct rows {
	struct row *rows;
	size_t count;
};

static int row_compare_names(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	return strcmp(left->provider, right->provider) ?: strcmp(left->name, right->name);
}

static int row_compare_tracers(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	return row_compare_names(a, b) ?: ORDER(left->tracer, right->tracer);
}

/* Returns true if hits of a probe are missing, because a site was refused or overwritten. */
static bool is_incomplete(const struct row *row)
{
	return row->coverage.refused || row->coverage.overwritten;
}

/* Orders rows by hits, highest first, then by name. Probes that certainly have no hits are last. */
static int row_compare_hits(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	return ORDER(right->hits, left->hits) ?: is_incomplete(right) - is_incomplete(left)
		?: row_compare_names(a, b);
}

/*
 * Merges neighbouring rows: with `tracers`, adds up those of one probe and tracer; otherwise keeps,
 * for each probe, the row with the most hits.
 */
static void rows_merge(struct rows *rows, bool tracers)
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct row *row = &rows->rows[i];
		struct row *last = &rows->rows[kept ? kept - 1 : 0];

		if (!kept || (tracers ? row_compare_tracers : row_compare_names)(last, row)) {
			rows->rows[kept++] = *row;
		} else if (tracers) {
			last->hits += row->hits;
			last->lost += row->lost;
			last->in_flight += row->in_flight;
			last->unmatched += row->unmatched;
			probe_coverage_add(&last->coverage, &row->coverage);
		} else if (row->hits > last->hits ||
			   (row->hits == last->hits && row->lost > last->lost)) {
			*last = *row;
		}
	}
	rows->count = kept;
}

/* Makes the sorted rows of all probes whose hits are printed. Returns false on lack of memory. */
static bool rows_init(struct rows *rows, const struct trace *trace)
{
	size_t count;
	AUTO_FREE struct probe_trace_probe *all = probe_trace_probes(trace->set, &count);

	*rows = (struct rows){.rows = calloc(count + 1, sizeof(struct row))};
	for (size_t i = 0; rows->rows && i < count; i++) {
		const struct trace_tracer *tracer = &trace->tracers[all[i].tracer];
		const struct probe_session_probe *probe = all[i].probe;
		struct row row = {.provider = probe->provider,
			.name = probe->name,
			.tracer = tracer,
			.hits = probe->hits,
			.lost = probe->lost,
			.coverage = probe->coverage};

		/* A tracer that does not take each hit by itself has a report of its own. */
		if (tracer->output == PROBE_TRACER_ROWS || tracer_is_exported(tracer) ||
			tracer->output == PROBE_TRACER_FLIGHT)
			continue;
		if (tracer->options.spans)
			row.role = probe->role;
		if (trace_is_full(trace)) {
			row.lost = all[i].tally.lost;
			row.hits = row.lost + all[i].tally.hits;
		} else if (tracer->options.spans) {
			row.in_flight = probe->in_flight;
			row.unmatched = probe->unmatched;
		}
		/* A probe that begins spans has a row only if hits are missing. */
		if (row.role != PROBE_ROLE_BEGIN || row.lost || is_incomplete(&row))
			rows->rows[rows->count++] = row;
	}
	if (!rows->rows)
		return false;
	qsort(rows->rows, rows->count, sizeof(*rows->rows), row_compare_tracers);
	rows_merge(rows, true);
	rows_merge(rows, false);
	qsort(rows->rows, rows->count, sizeof(*rows->rows), row_compare_hits);
	return true;
}

/* ---- Losses ----------------------------------------------------------------- */

bool trace_is_full(const struct trace *trace)
{
	return trace->settings.hits_max && trace->hits >= trace->settings.hits_max;
}

void trace_report_losses(struct trace *trace)
{
	/* Losses after the last wanted hit do not matter. */
	if (!trace_is_full(trace))
		probe_trace_tell_losses(trace->set);
}

void trace_report_damage(const struct probe_traced *traced)
{
	uint64_t damaged = probe_session_damaged(traced->session);

	if (damaged)
		report_warning("process %d has written over its rings: hits are missing, and some "
			       "of those shown may be wrong (noticed %" PRIu64 " time%s)",
			(int)probe_target_pid(traced->target), damaged, damaged == 1 ? "" : "s");
}

/* ---- Counts ----------------------------------------------------------------- */

bool trace_has_output(const struct trace *trace, enum probe_tracer_output output)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		if (trace->tracers[i].output == output)
			return true;
	}
	return false;
}

/* ---- The summary ------------------------------------------------------------ */

/* Prints ": 3 hits, 0 lost (1 of 2 sites refused)" or why the probe is not traced. */
static void print_figures(const struct row *row)
{
	bool spans = row->role == PROBE_ROLE_END;
	/* The hit count of a probe includes lost hits; a span count does not. */
	uint64_t count = spans ? row->hits - row->lost : row->hits;
	char missing[PROBE_COVERAGE_BYTES];

	probe_coverage_text(missing, &row->coverage);
	if (probe_coverage_is_none(&row->coverage)) {
		fprintf(stderr, ": not traced (%s)\n", missing);
		return;
	}
	if (row->role == PROBE_ROLE_BEGIN)
		fprintf(stderr, ": %" PRIu64 " begin%s lost", row->lost, row->lost == 1 ? "" : "s");
	else
		fprintf(stderr, ": %" PRIu64 " %s%s, %" PRIu64 " lost", count,
			spans ? "span" : "hit", count == 1 ? "" : "s", row->lost);
	if (spans)
		fprintf(stderr, ", %" PRIu64 " in flight, %" PRIu64 " end%s without a begin",
			row->in_flight, row->unmatched, row->unmatched == 1 ? "" : "s");
	if (missing[0])
		fprintf(stderr, " (%s)", missing);
	putc('\n', stderr);
}

const char *trace_longer_wait(const struct trace *trace)
{
	return trace->tracers->options.wait_ns ? ", a longer wait (--full=wait:TIME)" : "";
}

/*
 * After an output error, reports how many hits are missing from the output. The error itself was
 * reported before. The hits that libprobe still held, and those in the rings, are certainly
 * missing. The last hits that were passed to the output may be missing.
 */
static void report_cut_off(const struct trace *trace, const struct rows *rows)
{
	uint64_t counted = 0;

	for (size_t i = 0; i < rows->count; i++)
		if (rows->rows[i].role != PROBE_ROLE_BEGIN)
			counted += rows->rows[i].hits - rows->rows[i].lost;
	if (counted > trace->hits)
		report_warning("the output is cut off: up to %" PRIu64 " hit%s in it, and at least "
			       "%" PRIu64 " %s not",
			trace->hits, trace->hits == 1 ? " is" : "s are", counted - trace->hits,
			counted - trace->hits == 1 ? "is" : "are");
	else
		report_warning("the output is cut off: not all of its %" PRIu64 " hit%s in it",
			trace->hits, trace->hits == 1 ? " is" : "s are");
}

static const char *unusable_match(const struct trace *trace)
{
	for (size_t i = 0; i < trace->tracer_count; i++)
		if (trace->tracers[i].options.gather.match)
			return ", or a value of --match could not be read or was a text longer "
			       "than -s allows";
	return "";
}

void trace_report_summary(const struct trace *trace)
{
	uint64_t lost = 0, begins_lost = 0, forgotten = probe_trace_forgotten(trace->set);
	size_t shown = 0;
	struct rows rows;

	if (forgotten)
		report_warning("flight recorders: the oldest %" PRIu64
			       " hit%s of processes that had ended were dropped, for want of room",
			COUNTED(forgotten));
	if (!rows_init(&rows, trace))
		return;
	while (shown < rows.count && (rows.rows[shown].hits || is_incomplete(&rows.rows[shown])))
		shown++;
	/* Probes without hits are left out if they are too many. */
	if (trace->settings.all || rows.count - shown <= SILENT_ROWS_MAX)
		shown = rows.count;
	for (size_t i = 0; i < shown; i++) {
		const struct row *row = &rows.rows[i];

		*(row->role == PROBE_ROLE_BEGIN ? &begins_lost : &lost) += row->lost;
		fputs("probectl: ", stderr);
		print_probe(row->provider, row->name);
		print_figures(row);
	}
	if (shown < rows.count)
		fprintf(stderr, "probectl: %zu probe%s not hit (-a names %s)\n", rows.count - shown,
			rows.count - shown == 1 ? " was" : "s were",
			rows.count - shown == 1 ? "it" : "them");
	if (trace->cut_off && rows.count)
		report_cut_off(trace, &rows);
	if (lost)
		fprintf(stderr,
			"probectl: hits were lost because the rings were full%s; larger ones "
			"(-b)%s "
			"or fewer probes help, and -c counts without loss\n",
			unusable_match(trace), trace_longer_wait(trace));
	if (begins_lost)
		fprintf(stderr,
			"probectl: begins were lost because those of too many threads, or "
			"values of --match, had not ended%s\n",
			unusable_match(trace));
	free(rows.rows);
}

void trace_report_missing(const struct trace *trace)
{
	char missing[PROBE_COVERAGE_BYTES];
	struct rows rows;

	if (!rows_init(&rows, trace))
		return;
	for (size_t i = 0; i < rows.count; i++) {
		const struct row *row = &rows.rows[i];

		probe_coverage_text(missing, &row->coverage);
		if (!missing[0])
			continue;
		fputs("probectl: ", stderr);
		print_probe(row->provider, row->name);
		fprintf(stderr, ": %s (%s)\n",
			probe_coverage_is_none(&row->coverage) ? "not recorded"
							       : "not all of its hits are there",
			missing);
	}
	free(rows.rows);
}

uint64_t trace_lost(const struct trace *trace)
{
	uint64_t lost = 0;
	size_t count;
	AUTO_FREE struct probe_trace_probe *all = probe_trace_probes(trace->set, &count);

	for (size_t i = 0; i < count; i++)
		lost += all[i].tally.lost;
	return lost;
}

/* ---- Waiting for ring space -------------------------------------------------- */

void trace_add_waits(struct trace_waits *sum, const struct probe_session *session)
{
	uint64_t ns;

	sum->hits += probe_session_waited(session, &ns);
	sum->ns += ns;
}

/* ==== Hints =================================================================================== */

/*
 * Why probes may have no hits: some programs pass them only with an option (-XX:+DTraceMethodProbes
 * of OpenJDK). Prints such a condition of the catalogue at the end of a trace, unless a hit shows
 * that it is met.
 */

/* The part of the trace that is missing if a condition is not met. */
enum missing { MISSING_HITS, MISSING_BEGINS, MISSING_ENDS };

/* A condition of the catalogue, and the first probe that has it and no hits. */
struct hint {
	const struct probe_meaning *meaning; /* the catalogue's entry with the condition */
	const struct probe_session_probe *probe;
	const void *process; /* identifies the process of `probe` */
	size_t others;
	enum missing missing;
	bool is_met; /* a hit shows that the condition is met */
};

struct hints {
	struct hint *items;
	size_t count;
};

/* Returns the catalogue's entry of a probe if it has a condition, otherwise NULL. */
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
		/* Other processes have the same probes again. */
		other->others += other->process == hint->process;
		return;
	}
	/* On lack of memory, the hint is left out. */
	if (ARRAY_ROOM(hints->items, hints->count))
		hints->items[hints->count++] = *hint;
}

/* The probes of one process in one tracer, or of all ended processes. */
struct probes {
	const struct trace_tracer *tracer;
	const void *process;
	const struct probe_session_probe *items;
	size_t count;
};

/*
 * Checks the probes that begin pairs with `end`: the program does not pass them if most end events
 * have no start event.
 */
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
		/*
		 * Passed: the start events, matched or open, are at least as many as the end events
		 * without a start event.
		 */
		hint.is_met = end->hits + end->in_flight >= end->unmatched;
		add_hint(hints, &hint);
	}
}

static void look_at_probe(struct hints *hints, const struct trace *trace,
	const struct probes *probes, const struct probe_session_probe *probe)
{
	struct hint hint = {.probe = probe,
		.process = probes->process,
		.meaning = conditional(probes->tracer, probe)};
	const struct probe_session_options *options = &probes->tracer->options;
	bool is_passed = probe->hits || probe->lost || probe->unmatched;
	/* The tracer counts all hits: no --filter, --min or sampling, and no end by -n. */
	bool counts_all = !trace_is_full(trace) && !options->filter && !options->span_min_ns &&
			  options->sample_every < 2 && !options->sample_rate;

	if (probe->role == PROBE_ROLE_END && probe->unmatched)
		look_at_begins(hints, probes, probe);
	/* A session does not count the hits of a probe that begins a pair. */
	if (!hint.meaning || probe->role == PROBE_ROLE_BEGIN ||
		probe_coverage_is_none(&probe->coverage))
		return;
	if (!is_passed && !counts_all)
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
	print_probe(hint->probe->provider, hint->probe->name);
	if (hint->others)
		fprintf(stderr, " and %zu other%s", COUNTED(hint->others));
	fprintf(stderr, "%s: ", texts[hint->missing][1]);
	print_printable(stderr, hint->meaning->needs);
	putc('\n', stderr);
}

void trace_report_hints(const struct trace *trace)
{
	AUTO_FREE struct probe_trace_probe *ended = NULL;
	struct hints hints = {0};
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count; i++) {
		struct probes probes = {
			.tracer = &trace->tracers[all[i]->tracer], .process = all[i]};

		probes.items = probe_session_probes(all[i]->session, &probes.count);
		for (size_t k = 0; k < probes.count; k++)
			look_at_probe(&hints, trace, &probes, &probes.items[k]);
	}
	/*
	 * The probes of ended processes, except those that begin pairs: a pair's number is only
	 * valid within its session.
	 */
	ended = probe_trace_probes(trace->set, &count);
	for (size_t i = 0; i < count; i++) {
		const struct probes probes = {
			&trace->tracers[ended[i].tracer], trace, ended[i].probe, 1};

		if (!ended[i].traced)
			look_at_probe(&hints, trace, &probes, ended[i].probe);
	}
	for (size_t i = 0; i < hints.count; i++)
		if (!hints.items[i].is_met)
			print_hint(&hints.items[i]);
	free(hints.items);
}
