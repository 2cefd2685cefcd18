/* SPDX-License-Identifier: MIT */
/*
 * Two parts of a trace: recordings of rings on request (--full=loop and --full=stop), and the
 * report of losses and the summary.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/print/print.h"
#include "cli/request.h"
#include "cli/trace/trace.h"
#include "probe/stream.h"

/* record --full=loop and --full=stop: hits stay in the rings until a request or the end. */

/* ==== Recordings on request =================================================================== */

/*
 * Recordings of the contents of the rings, made on request. Each target has a stream
 * (probe/stream.h), and all streams are written to one recording. Rings are not read before the
 * request. So waiting costs no processor time, however often probes are hit, and a ring needs to
 * be only as large as the part that the user wants.
 *
 *   loop   flight recorders: written at the end, and on SIGUSR1
 *   stop   the recording ends when a ring of any process is full
 *
 * The rings of a process that has ended are kept until they are written. With `stop`, they are
 * written at once, because their hits are part of the recording in any case. With `loop`, they are
 * written on request, because other hits may be newer by then. Rings take memory. So only the
 * rings of the processes that ended last are kept, and dropped hits are counted.
 */

enum {
	STRING_BYTES = 256,
	ARGS_MAX = 32,
	NUMBER_BYTES = 8,
	ENDED_MAX = 64 /* maximum number of ended processes whose rings are kept */
};

struct trace_rings {
	struct probe_stream *stream;
	struct comm_cache *comms; /* names of threads; borrowed from the trace */
	/* Alive at the last write. Later, its thread ids may be reused. */
	bool alive;
	uint64_t flushed;     /* number of this process's hits that were written */
	uint64_t overwritten; /* number of this process's hits that were overwritten or lost */
	uint64_t ended_ns;    /* when the process ended; 0 while it runs */
	/* Number of hits in the rings when the process ended; 0 after they were written. */
	uint64_t held;
};

/* ---- Start --------------------------------------------------------------------------- */

static const char *comm_of(void *data, pid_t pid, pid_t tid, uint64_t time_ns)
{
	const struct trace_rings *rings = data;

	return rings->alive ? comm_cache_get(rings->comms, pid, tid, time_ns)
			    : comm_cache_known(rings->comms, pid, tid);
}

static struct trace_rings *rings_of(const struct probe_traced *traced)
{
	const struct trace_target *its = traced->data;

	return its->rings;
}

static struct trace_rings *create_rings(struct trace *trace)
{
	struct trace_rings *rings = calloc(1, sizeof(*rings));

	if (!rings)
		return NULL;
	rings->comms = trace->comms;
	return rings;
}

static struct probe_error *create_stream(const struct trace *trace, struct probe_traced *traced,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report)
{
	struct trace_rings *rings = rings_of(traced);
	uint16_t string = options->string_bytes ? options->string_bytes : STRING_BYTES;
	const struct probe_stream_options its = {
		.name = "record",
		.stream_bytes = options->ring_bytes,
		.data_bytes = ARGS_MAX * (NUMBER_BYTES + (size_t)string),
		.string_bytes = string,
		.policy = trace->full == RECORD_LOOP ? PROBE_STREAM_LOOP : PROBE_STREAM_UNTIL_FULL,
		.inherit = options->follow_children,
		.follow_libraries = options->follow_libraries,
		.guess_strings = options->guess_strings,
		.filter = options->filter,
		.together = options->together,
		.catalogue = options->catalogue,
		.watch = options->watch,
		.comm = comm_of,
		.comm_data = rings,
	};
	struct probe_error *error =
		probe_stream_create(traced->target, request, &its, report, &rings->stream);

	return error ? error : probe_stream_start(rings->stream);
}

struct probe_error *trace_rings_start(struct probe_traced *traced,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report, void *data)
{
	struct trace_target *its = traced->data;
	struct trace *trace = data;
	struct probe_error *error;

	traced->is_read_by_user = true;
	its->rings = create_rings(trace);
	if (!its->rings)
		return probe_error_no_memory();
	error = create_stream(trace, traced, request, options, report);
	if (error)
		return probe_error_first(error, trace_rings_end(trace, traced));
	traced->session = probe_stream_session(its->rings->stream);
	return NULL;
}

/* ---- While it runs ------------------------------------------------------------------- */

struct probe_error *trace_rings_poll(struct trace *trace, const struct probe_traced *traced)
{
	struct probe_stream *stream = rings_of(traced)->stream;
	pid_t pid = probe_target_pid(traced->target);
	struct probe_stream_status status;
	struct probe_error *error = probe_stream_poll(stream, NULL);

	/* The process may have ended by the time its hits are read. */
	comm_cache_get(trace->comms, pid, pid, clock_now_ns());

	if (error || trace->full != RECORD_STOP)
		return error;
	error = probe_stream_get_status(stream, &status);
	if (error)
		return error;
	trace->overrun |= status.overrun;
	trace->loop.over |= status.full;
	return NULL;
}

struct probe_error *trace_rings_write(struct trace *trace, struct probe_traced *traced)
{
	struct trace_rings *rings = rings_of(traced);
	struct probe_stream_status status;
	struct probe_error *error, *unknown;
	uint64_t gone;

	rings->alive = probe_target_alive(traced->target);
	error = probe_stream_flush_to(rings->stream, trace->record);
	unknown = probe_stream_get_status(rings->stream, &status);
	if (unknown)
		return probe_error_first(error, unknown);
	trace->overrun |= status.overrun;
	trace->hits += status.flushed - rings->flushed;
	rings->flushed = status.flushed;
	gone = trace->full == RECORD_LOOP ? status.overwritten : status.lost;
	trace->overwritten += gone - rings->overwritten;
	rings->overwritten = gone;
	if (!error) {
		rings->held = 0;
		traced->is_kept = false;
	}
	return error;
}

/* ---- The end ------------------------------------------------------------------------- */

struct probe_error *trace_rings_suspend(const struct probe_traced *traced)
{
	return probe_stream_stop(rings_of(traced)->stream);
}

static bool count_hit(const struct probe_hit *hit, void *data)
{
	(void)hit;
	++*(uint64_t *)data;
	return true;
}

/* Lets the rings go that have been kept for the longest time, if too many are kept. */
static void keep_newest(const struct trace *trace)
{
	struct probe_traced *oldest = NULL;
	size_t count, kept = 0;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count; i++) {
		if (!all[i]->is_kept)
			continue;
		if (!oldest || rings_of(all[i])->ended_ns < rings_of(oldest)->ended_ns)
			oldest = all[i];
		kept++;
	}
	if (kept > ENDED_MAX)
		oldest->is_kept = false;
}

struct probe_error *trace_rings_note_end(struct trace *trace, struct probe_traced *traced)
{
	struct trace_rings *rings = rings_of(traced);
	struct probe_error *error;

	rings->ended_ns = clock_monotonic_ns();
	if (trace->full == RECORD_STOP)
		return trace_rings_write(trace, traced);
	error = probe_session_snapshot(traced->session, count_hit, &rings->held);
	traced->is_kept = rings->held > 0;
	keep_newest(trace);
	return error;
}

struct probe_error *trace_rings_end(struct trace *trace, struct probe_traced *traced)
{
	struct trace_target *its = traced->data;
	struct trace_rings *rings = its->rings;
	struct probe_error *error = NULL, *lost = NULL;

	if (rings->held) {
		uint64_t unread = probe_session_recorded(traced->session) - rings->flushed -
				  rings->overwritten;

		trace->dropped++;
		trace->dropped_hits += rings->held;
		trace->overwritten += unread - rings->held;
		if (trace->record)
			lost = probe_ctf_discarded(trace->record, traced->session, unread);
	}
	if (rings->stream)
		error = probe_stream_shutdown(rings->stream);
	error = probe_error_first(lost, error);
	free(rings);
	its->rings = NULL;
	traced->session = NULL;
	return error;
}

/* Reports which hits are not in the recording. */
static void trace_rings_report(const struct trace *trace)
{
	if (trace->overwritten && trace->full == RECORD_LOOP && !trace->settings.quiet)
		fprintf(stderr,
			"probectl: %" PRIu64 " older hit%s overwritten, which the record counts as "
			"lost (see -b)\n",
			trace->overwritten, trace->overwritten == 1 ? " was" : "s were");
	if (trace->overrun && trace->full == RECORD_STOP && !trace->settings.quiet)
		fprintf(stderr,
			"probectl: later hits were not recorded: the rings were full; %" PRIu64
			" hit%s lost until the probes were off (see -b)\n",
			trace->overwritten, trace->overwritten == 1 ? " was" : "s were");
	if (trace->dropped)
		report_warning("the rings of %zu process%s that had ended were dropped, with "
			       "%" PRIu64 " hit%s: those of the last %d are kept, until SIGUSR1 "
			       "writes them",
			trace->dropped, trace->dropped == 1 ? "" : "es",
			COUNTED(trace->dropped_hits), ENDED_MAX);
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
	int order = strcmp(left->provider, right->provider);

	return order ? order : strcmp(left->name, right->name);
}

static int row_compare_tracers(const void *a, const void *b)
{
	const struct row *left = a, *right = b;
	int order = row_compare_names(a, b);

	if (order)
		return order;
	return left->tracer < right->tracer ? -1 : left->tracer > right->tracer;
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

	if (left->hits != right->hits)
		return left->hits > right->hits ? -1 : 1;
	if (is_incomplete(left) != is_incomplete(right))
		return is_incomplete(left) ? -1 : 1;
	return row_compare_names(a, b);
}

static void row_add(struct row *row, const struct row *more)
{
	row->hits += more->hits;
	row->lost += more->lost;
	row->in_flight += more->in_flight;
	row->unmatched += more->unmatched;
	probe_coverage_add(&row->coverage, &more->coverage);
}

static void row_take_most(struct row *row, const struct row *other)
{
	if (other->hits > row->hits || (other->hits == row->hits && other->lost > row->lost))
		*row = *other;
}

/* Merges neighbouring rows that compare as equal. */
static void rows_merge(struct rows *rows, int (*compare)(const void *, const void *),
	void (*merge)(struct row *, const struct row *))
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->count; i++) {
		struct row *row = &rows->rows[i];

		if (kept && !compare(&rows->rows[kept - 1], row))
			merge(&rows->rows[kept - 1], row);
		else
			rows->rows[kept++] = *row;
	}
	rows->count = kept;
}

/* All tracers have the same processes, so only the first tracer's session reports a process. */
void trace_report_fate(struct trace *trace, const struct probe_traced *traced)
{
	pid_t pid = probe_target_pid(traced->target);
	struct probe_fate fate;

	if (traced->tracer)
		return;
	probe_target_fate(traced->target, traced->pidfd, &fate);
	/*
	 * Not the program that we started: our exit status says it. Not followed processes: it
	 * concerns only their parents. In `yes | head`, `yes` always ends with SIGPIPE.
	 */
	if (!fate.signal || ((traced->later || pid == trace->loop.child) && !fate.out_of_memory))
		return;
	report_warning("process %d was killed by SIG%s%s", (int)pid, sigabbrev_np(fate.signal),
		fate.out_of_memory ? ": its control group ran out of memory" : "");
	/* Only SIGKILL comes from another program. The user may be tracing to wait for a crash. */
	trace->failed |= fate.signal == SIGKILL && traced->named && pid != trace->loop.child;
}

/*
 * Returns true if the summary includes a tracer, because it takes each hit. Not if it gathers rows
 * or is a flight recorder.
 */
static bool is_told(const struct trace_tracer *tracer)
{
	return tracer->output != PROBE_TRACER_ROWS && !tracer_is_exported(tracer) &&
	       tracer->output != PROBE_TRACER_FLIGHT;
}

static struct row row_of(const struct trace *trace, const struct trace_tracer *tracer,
	const struct probe_session_probe *probe, const struct probe_trace_tally *tally)
{
	struct row row = {.provider = probe->provider,
		.name = probe->name,
		.tracer = tracer,
		.hits = probe->hits,
		.lost = probe->lost,
		.coverage = probe->coverage};

	if (tracer->options.spans) {
		row.role = probe->role;
		row.in_flight = probe->in_flight;
		row.unmatched = probe->unmatched;
	}
	if (trace_is_full(trace)) {
		row.in_flight = row.unmatched = 0;
		row.lost = tally->lost;
		row.hits = row.lost + tally->hits;
	}
	return row;
}

/* Returns true if the probe gets a row. One that begins spans does only if hits are missing. */
static bool is_row(const struct row *row)
{
	return row->role != PROBE_ROLE_BEGIN || row->lost || is_incomplete(row);
}

static void rows_add(
	struct rows *rows, const struct trace *trace, const struct probe_trace_probe *probe)
{
	const struct trace_tracer *tracer = &trace->tracers[probe->tracer];

	if (!is_told(tracer))
		return;
	rows->rows[rows->count] = row_of(trace, tracer, probe->probe, &probe->tally);
	rows->count += is_row(&rows->rows[rows->count]);
}

/* Makes the sorted rows of all probes whose hits are printed. Returns false on lack of memory. */
static bool rows_init(struct rows *rows, const struct trace *trace)
{
	size_t count;
	struct probe_trace_probe *all = probe_trace_probes(trace->set, &count);

	*rows = (struct rows){.rows = calloc(count + 1, sizeof(struct row))};
	for (size_t i = 0; rows->rows && i < count; i++)
		rows_add(rows, trace, &all[i]);
	free(all);
	if (!rows->rows)
		return false;
	qsort(rows->rows, rows->count, sizeof(*rows->rows), row_compare_tracers);
	rows_merge(rows, row_compare_tracers, row_add);
	rows_merge(rows, row_compare_names, row_take_most);
	qsort(rows->rows, rows->count, sizeof(*rows->rows), row_compare_hits);
	return true;
}

/* Returns the number of rows to show. Probes without hits are left out if they are too many. */
static size_t rows_shown(const struct rows *rows, bool all)
{
	size_t hit = 0;

	while (hit < rows->count && (rows->rows[hit].hits || is_incomplete(&rows->rows[hit])))
		hit++;
	return all || rows->count - hit <= SILENT_ROWS_MAX ? rows->count : hit;
}

/* ---- Refusals --------------------------------------------------------------- */

void trace_take_refusals(
	struct trace *trace, const struct probe_report *report, pid_t pid, struct report_told *told)
{
	bool named =
		report_refusals_since(report, pid, refusals_shown(false, trace->verbose), told);

	trace->failed |= named && !trace->request->keep_going;
}

/* Returns how often a note occurs among the notes of a session that were told. */
static size_t count_notes(const struct probe_traced *traced, const char *note)
{
	const struct probe_report *report = probe_session_report(traced->session);
	const struct trace_target *its = traced->data;
	size_t count = 0;

	for (size_t i = 0; i < its->told.notes; i++)
		count += strcmp(report->notes[i], note) == 0;
	return count;
}

/* Returns true if the note was reported for another session of the process: most have the same. */
static bool is_noted(const struct trace *trace, const struct probe_traced *traced, const char *note)
{
	size_t count, times = count_notes(traced, note);
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count; i++)
		if (all[i] != traced && all[i]->target == traced->target && all[i]->session &&
			count_notes(all[i], note) > times)
			return true;
	return false;
}

/* Reports only the refused sites of the first tracer, because all tracers have the same sites. */
void trace_report_grown(struct trace *trace, const struct probe_traced *traced)
{
	const struct probe_report *report = probe_session_report(traced->session);
	struct trace_target *its = traced->data;

	if (!traced->tracer)
		trace_take_refusals(trace, report, probe_target_pid(traced->target), &its->told);
	for (; its->told.notes < report->note_count; its->told.notes++)
		if (!is_noted(trace, traced, report->notes[its->told.notes]))
			report_warning("%s", report->notes[its->told.notes]);
}

void trace_report_site(
	struct trace *trace, const struct probe_traced *traced, const struct probe_site_news *site)
{
	pid_t pid = probe_target_pid(traced->target);

	/* Report for the first tracer only, because all tracers have the same sites. */
	if (traced->tracer)
		return;
	trace->failed = true;
	print_site_news(site, pid);
	probe_sink_site(trace->sink, pid, site);
}

void trace_judge_refusals(struct trace *trace)
{
	struct probe_coverage sum = {0};
	size_t count;
	struct probe_trace_probe *all = probe_trace_probes(trace->set, &count);

	for (size_t i = 0; i < count; i++)
		probe_coverage_add(&sum, &all[i].probe->coverage);
	free(all);
	if (!trace->request->keep_going && !trace->failed && probe_coverage_is_none(&sum))
		trace_fail(trace,
			probe_error_new(PROBE_ERROR_REFUSED,
				"all sites are refused (%zu): nothing was traced", sum.sites));
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

uint64_t trace_total(const struct trace *trace)
{
	uint64_t total = 0;
	size_t count;
	struct probe_trace_probe *all = probe_trace_probes(trace->set, &count);

	for (size_t i = 0; i < count; i++)
		if (trace->tracers[all[i].tracer].options.kind != PROBE_SESSION_RECORD)
			total += all[i].probe->hits;
	free(all);
	return total;
}

bool trace_has_output(const struct trace *trace, enum probe_tracer_output output)
{
	for (size_t i = 0; i < trace->tracer_count; i++) {
		if (trace->tracers[i].output == output)
			return true;
	}
	return false;
}

/* ---- The summary ------------------------------------------------------------ */

/* Prints the count in a row. The hit count of a probe includes lost hits; a span count does not. */
static void print_count(const struct row *row)
{
	bool spans = row->role == PROBE_ROLE_END;
	uint64_t count = spans ? row->hits - row->lost : row->hits;

	fprintf(stderr, ": %" PRIu64 " %s%s, %" PRIu64 " lost", count, spans ? "span" : "hit",
		count == 1 ? "" : "s", row->lost);
}

/* Prints ": 3 hits, 0 lost (1 of 2 sites refused)" or why the probe is not traced. */
static void print_figures(const struct row *row)
{
	char missing[PROBE_COVERAGE_BYTES];

	probe_coverage_text(missing, &row->coverage);
	if (probe_coverage_is_none(&row->coverage)) {
		fprintf(stderr, ": not traced (%s)\n", missing);
		return;
	}
	if (row->role == PROBE_ROLE_BEGIN)
		fprintf(stderr, ": %" PRIu64 " begin%s lost", row->lost, row->lost == 1 ? "" : "s");
	else
		print_count(row);
	if (row->role == PROBE_ROLE_END)
		fprintf(stderr, ", %" PRIu64 " in flight, %" PRIu64 " end%s without a begin",
			row->in_flight, row->unmatched, row->unmatched == 1 ? "" : "s");
	if (missing[0])
		fprintf(stderr, " (%s)", missing);
	putc('\n', stderr);
}

/* Returns additional advice for a trace in which hits already wait for ring space. */
static const char *longer_wait(const struct trace *trace)
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

static void report_forgotten(const struct trace *trace)
{
	uint64_t forgotten = probe_trace_forgotten(trace->set);

	if (forgotten)
		report_warning("flight recorders: the oldest %" PRIu64
			       " hit%s of processes that had ended were dropped, for want of room",
			COUNTED(forgotten));
}

void trace_report_summary(const struct trace *trace)
{
	struct rows rows;
	uint64_t lost = 0, begins_lost = 0;
	size_t shown;

	report_forgotten(trace);
	if (!rows_init(&rows, trace))
		return;
	shown = rows_shown(&rows, trace->settings.all);
	for (size_t i = 0; i < shown; i++) {
		const struct row *row = &rows.rows[i];

		*(row->role == PROBE_ROLE_BEGIN ? &begins_lost : &lost) += row->lost;
		fputs("probectl: ", stderr);
		print_printable(stderr, row->provider);
		putc(':', stderr);
		print_printable(stderr, row->name);
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
			unusable_match(trace), longer_wait(trace));
	if (begins_lost)
		fprintf(stderr,
			"probectl: begins were lost because those of too many threads, or "
			"values of --match, had not ended%s\n",
			unusable_match(trace));
	free(rows.rows);
}

/* Reports refused or overwritten sites, whose hits the recording misses without saying so. */
static void trace_report_missing(
	const char *provider, const char *name, const struct probe_coverage *coverage)
{
	char missing[PROBE_COVERAGE_BYTES];

	probe_coverage_text(missing, coverage);
	if (!missing[0])
		return;
	fputs("probectl: ", stderr);
	print_printable(stderr, provider);
	putc(':', stderr);
	print_printable(stderr, name);
	fprintf(stderr, ": %s (%s)\n",
		probe_coverage_is_none(coverage) ? "not recorded" : "not all of its hits are there",
		missing);
}

static void report_all_missing(const struct trace *trace)
{
	struct rows rows;

	if (!rows_init(&rows, trace))
		return;
	for (size_t i = 0; i < rows.count; i++)
		trace_report_missing(
			rows.rows[i].provider, rows.rows[i].name, &rows.rows[i].coverage);
	free(rows.rows);
}

uint64_t trace_lost(const struct trace *trace)
{
	uint64_t lost = 0;
	size_t count;
	struct probe_trace_probe *all = probe_trace_probes(trace->set, &count);

	for (size_t i = 0; i < count; i++)
		lost += all[i].tally.lost;
	free(all);
	return lost;
}

/*
 * After a disk error, which was reported, reports how many hits the recording has. Not exact: the
 * last write may have written uncounted hits, and counted ones may have been in memory.
 */
static void report_unwritten(const struct trace *trace, uint64_t unwritten)
{
	bool added = false;
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count; i++)
		added |= !trace_takes(trace, all[i]);
	report_warning("that ended the record: %s %" PRIu64 " hit%s recorded in %s",
		added ? "up to" : "at least", trace->hits, trace->hits == 1 ? " is" : "s are",
		trace->directory);
	if (unwritten)
		report_warning("at least %" PRIu64 " hit%s not written", unwritten,
			unwritten == 1 ? " was" : "s were");
	else if (added)
		report_warning("what the rings held besides was not written");
}

void trace_report_record(const struct trace *trace)
{
	uint64_t lost = trace_lost(trace);

	if (trace->gone)
		report_unwritten(
			trace, lost + trace->unwritten + probe_ctf_unwritten(trace->record));
	else if (lost)
		report_warning("%" PRIu64 " hit%s lost: the rings were full; larger ones (-b)%s or "
			       "fewer probes help",
			lost, lost == 1 ? " was" : "s were", longer_wait(trace));
	if (!trace->settings.quiet)
		report_all_missing(trace);
	if (!trace->gone)
		trace_rings_report(trace);
	if (!trace->settings.quiet && !trace->gone)
		fprintf(stderr, "probectl: %" PRIu64 " hit%s recorded in %s\n",
			COUNTED(trace->hits), trace->directory);
}

/* ---- Waiting for ring space -------------------------------------------------- */

static void add_waits(struct trace_waits *sum, const struct probe_session *session)
{
	uint64_t ns;

	sum->hits += probe_session_waited(session, &ns);
	sum->ns += ns;
}

void trace_keep_waits(struct trace *trace, const struct probe_traced *traced)
{
	add_waits(&trace->waits, traced->session);
}

void trace_report_waits(const struct trace *trace)
{
	struct trace_waits sum = trace->waits;
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(trace->set, &count);

	for (size_t i = 0; i < count; i++)
		add_waits(&sum, all[i]->session);
	if (!sum.hits)
		return;
	if (trace->settings.json)
		probe_sink_waited(trace->sink, sum.hits, sum.ns);
	if (!trace->settings.quiet)
		fprintf(stderr, "probectl: %" PRIu64 " hit%s waited for room, %.3f s in all\n",
			COUNTED(sum.hits), (double)sum.ns / NSEC_PER_SEC);
}
