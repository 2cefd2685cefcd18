/* SPDX-License-Identifier: MIT */
/*
 * A summary as text.
 *
 *	hits.ctf: 2026-11-22 02:30:11.123 +0000, 5.01s
 *	1234567 hits, 246000 a second, 0 lost; 2 probes, 1 process, 4 threads
 *
 *	PROBE                        HITS  SHARE  RATE/s  OVER TIME, 125ms EACH
 *	postgresql:query__start    617284  50.0%  123000  ▃▄▄▅▇█▇▅▄▄▄▃
 *	...
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/event.h"
#include "libprobe/output/output.h"
#include "libprobe/report/report.h"

enum { NSEC_PER_SEC = 1000000000, NSEC_PER_MSEC = 1000000 };

/* ==== Text ==================================================================================== */

enum { SPARK_WIDTH = 40 };

static void duration_cell(struct grid *grid, double ns)
{
	summary_duration(&grid->text, ns);
	grid_end(grid);
}

/* Writes a share: "12.3%". */
static void share_text(struct buffer *out, uint64_t part, uint64_t whole)
{
	double share = whole ? 100 * (double)part / (double)whole : 0;
	char text[32];

	/* Do not print 0 % for a nonzero share, or 100 % for less than all. */
	if (part && share < 0.05)
		buffer_string(out, "<0.1%");
	else if (part < whole && share >= 99.95)
		buffer_string(out, ">99.9%");
	else if (snprintf(text, sizeof(text), "%d.%d%%", (int)(share + 0.05),
			 (int)(share * 10 + 0.5) % 10) > 0)
		buffer_string(out, text);
}

static void share_cell(struct grid *grid, uint64_t part, uint64_t whole)
{
	share_text(&grid->text, part, whole);
	grid_end(grid);
}

/* ---- Header ------------------------------------------------------------------------- */

/* Writes a local time: "2026-11-22 02:30:11.123 +0100". */
static void local_time(struct buffer *out, uint64_t time_ns)
{
	time_t second = (time_t)(time_ns / NSEC_PER_SEC);
	char text[64], zone[16];
	struct tm tm;

	if (!localtime_r(&second, &tm) || !strftime(text, sizeof(text), "%F %T", &tm) ||
		!strftime(zone, sizeof(zone), " %z", &tm)) {
		buffer_print(out, "%" PRIu64 "ns", time_ns);
		return;
	}
	buffer_print(out, "%s.%03u%s", text, (unsigned int)(time_ns % NSEC_PER_SEC / NSEC_PER_MSEC),
		zone);
}

static void header(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	size_t processes = 0;

	free(threads_processes(summary, &processes));
	buffer_escaped(out, view->title);
	buffer_string(out, ": ");
	if (!summary->events) {
		buffer_string(out, "no hits");
		if (summary->lost)
			buffer_print(out, ", %" PRIu64 " lost", summary->lost);
		buffer_char(out, '\n');
		return;
	}
	local_time(out, summary->begin_ns);
	buffer_string(out, ", ");
	summary_duration(out, (double)(summary->end_ns - summary->begin_ns));
	buffer_char(out, '\n');
	text_counted(out, summary->hits, " hit, ", " hits, ");
	if (summary_seconds(summary) > 0) {
		summary_rate(out, summary, summary->hits);
		buffer_string(out, " a second, ");
	}
	buffer_print(out, "%" PRIu64 " lost", summary->lost);
	if (summary->lost) {
		buffer_string(out, " (");
		share_text(out, summary->lost, summary->lost + summary->hits);
		buffer_char(out, ')');
	}
	buffer_string(out, "; ");
	if (summary->other_hits)
		buffer_string(out, "more than ");
	text_counted(out, summary->probe_count, " probe, ", " probes, ");
	text_counted(out, processes, " process, ", " processes, ");
	if (summary->other_thread_hits)
		buffer_string(out, "more than ");
	text_counted(out, summary->threads.count, " thread\n", " threads\n");
}

void summary_text_header(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	header(out, summary, view);
	/* Losses whose number is unknown. */
	if (summary->overrun)
		buffer_string(
			out, "older hits were overwritten: the rings held no more (record -b)\n");
	if (summary->full)
		buffer_string(
			out, "later hits were not recorded: the rings were full (record -b)\n");
}

/* ---- Probes --------------------------------------------------------------------------- */

/* Draws the rate over time, relative to the highest rate. */
static void spark(struct buffer *out, const struct probe_summary *summary, const uint64_t *bins,
	const struct probe_summary_view *view)
{
	static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const marks[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
	double parts[SPARK_WIDTH], most = 0;
	size_t width = SPARK_WIDTH;

	summary_fold(summary, bins, parts, SPARK_WIDTH);
	for (size_t i = 0; i < SPARK_WIDTH; i++)
		most = parts[i] > most ? parts[i] : most;
	while (width && !(parts[width - 1] > 0))
		width--;
	for (size_t i = 0; i < width; i++) {
		/* Even the smallest rate must be visible. */
		size_t height = (size_t)(parts[i] / most * 8 + 1 - 1e-9);

		buffer_string(out, (view->ascii ? marks : blocks)[height < 8 ? height : 8]);
	}
}

static void probe_line(struct grid *grid, const struct probe_summary *summary, uint64_t hits,
	const uint64_t *bins, const struct probe_summary_view *view)
{
	grid_end(grid);
	grid_number(grid, hits);
	share_cell(grid, hits, summary->hits);
	summary_rate(&grid->text, summary, hits);
	grid_end(grid);
	spark(&grid->text, summary, bins, view);
	grid_end(grid);
}

static void probes(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	AUTO_FREE const struct summary_probe **sorted = summary_probes(summary);
	size_t shown = summary_shown(summary->probe_count, view->top);
	AUTO(grid_deinit) struct grid grid = {0};

	out->no_memory |= !sorted;
	if (!sorted)
		return;
	grid_titles(&grid, "PROBE<HITS>SHARE>RATE/s>");
	buffer_string(&grid.text, "OVER TIME");
	if (summary_seconds(summary) > 0) {
		buffer_string(&grid.text, ", ");
		summary_duration(&grid.text, summary_seconds(summary) * 1e9 / SPARK_WIDTH);
		buffer_string(&grid.text, " EACH");
	}
	grid_titles(&grid, "<");
	for (size_t i = 0; i < shown; i++) {
		event_put_probe(&grid.text, sorted[i]->provider, sorted[i]->name);
		probe_line(&grid, summary, sorted[i]->hits, sorted[i]->bins, view);
	}
	if (summary->other_hits) {
		buffer_string(&grid.text, "(others)");
		probe_line(&grid, summary, summary->other_hits, summary->other_bins, view);
	}
	if (summary->lost) {
		buffer_string(&grid.text, "(lost)");
		grid_end(&grid);
		grid_number(&grid, summary->lost);
		grid_end(&grid);
		summary_rate(&grid.text, summary, summary->lost);
		grid_end(&grid);
		spark(&grid.text, summary, summary->lost_bins, view);
		grid_end(&grid);
	}
	grid_print(&grid, out, 0);
	text_more(out, summary->probe_count - shown, " more probe (--top)\n",
		" more probes (--top)\n");
}

/* ---- Pairs ------------------------------------------------------------------------------ */

void summary_text_pair(
	struct buffer *out, const struct probe_summary *summary, const struct summary_pair *pair)
{
	const struct summary_probe *begin = summary->probes[pair->begin];
	const struct summary_probe *end = summary->probes[pair->end];

	event_put_probe(out, begin->provider, begin->name);
	buffer_string(out, " -> ");
	event_put_probe(out, end->provider, end->name);
}

static void pair_line(
	struct grid *grid, const struct probe_summary *summary, const struct summary_pair *pair)
{
	static const double percents[] = {50, 90, 99, 99.9};
	struct buffer *text = &grid->text;
	struct probe_row row;

	pair_row(pair, summary, &row);
	summary_text_pair(text, summary, pair);
	grid_end(grid);
	grid_number(grid, pair->times.count);
	duration_cell(grid, pair->times.count ? pair->times.sum : NAN);
	for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++)
		duration_cell(grid, probe_row_percentile(&row, percents[i]));
	duration_cell(grid, pair->times.count ? (double)pair->times.most : NAN);
	grid_number(grid, row.in_flight);
	grid_number(grid, pair->unmatched);
}

/* Reports start events that were not timed. */
static void not_timed(struct buffer *out, const struct probe_summary *summary)
{
	uint64_t aside = 0, untimed = 0;

	for (size_t i = 0; i < summary->probe_count; i++) {
		if (summary->probes[i]->role == PROBE_ROLE_BEGIN) {
			aside += summary->probes[i]->set_aside;
			untimed += summary->probes[i]->untimed;
		}
	}
	if (aside)
		text_counted(out, aside, " begin is", " begins are");
	if (aside)
		buffer_string(out, " not timed: hits were lost before the end\n");
	if (untimed)
		text_counted(out, untimed, " begin is", " begins are");
	if (untimed)
		buffer_string(out, " not timed: no value to match by, or too many at once\n");
	if (summary->more_pairs)
		buffer_string(out, "there are more pairs than a report shows\n");
}

/* ---- Single pairs ------------------------------------------------------------------------- */

/* Writes `count` rows of a key. */
static void values_of(struct buffer *out, const struct probe_summary *summary,
	const struct summary_value *const *rows, size_t count,
	const struct probe_summary_view *view)
{
	size_t shown = summary_shown(count, view->top);
	AUTO(grid_deinit) struct grid grid = {0};

	buffer_string(out, " by ");
	key_print(out, &rows[0]->key);
	buffer_char(out, '\n');
	grid_titles(&grid, "COUNT>TOTAL>P50>P99>MAX>VALUE<");
	for (size_t i = 0; i < shown; i++) {
		struct probe_row row;

		summary_times_row(&rows[i]->times, &row);
		grid_number(&grid, rows[i]->times.count);
		duration_cell(&grid, rows[i]->times.sum);
		duration_cell(&grid, probe_row_percentile(&row, 50));
		duration_cell(&grid, probe_row_percentile(&row, 99));
		duration_cell(&grid, (double)rows[i]->times.most);
		text_meant(&grid.text, summary_value_meaning(summary, rows[i]), &rows[i]->value);
		grid_end(&grid);
	}
	grid_print(&grid, out, 0);
	text_more(out, count - shown, " more value (--top)\n", " more values (--top)\n");
}

static void pair_values(struct buffer *out, const struct probe_summary *summary,
	const struct summary_pair *pair, const struct probe_summary_view *view)
{
	size_t count, end;
	AUTO_FREE const struct summary_value **rows = instances_values(summary, pair, &count);

	out->no_memory |= !rows;
	for (size_t i = 0; rows && i < count; i = end) {
		end = i + 1;
		while (end < count && key_same(&rows[end]->key, &rows[i]->key))
			end++;
		buffer_char(out, '\n');
		summary_text_pair(out, summary, pair);
		values_of(out, summary, rows + i, end - i, view);
	}
	if (pair->other_values)
		text_counted(out, pair->other_values, " pair has another value\n",
			" pairs have other values\n");
}

static void slowest(struct buffer *out, const struct probe_summary *summary,
	const struct summary_pair *pair, const struct probe_summary_view *view)
{
	size_t shown = summary_shown(pair->slow_count, view->top);
	AUTO(grid_deinit) struct grid grid = {0};

	if (!shown)
		return;
	buffer_string(out, "\nthe longest of ");
	summary_text_pair(out, summary, pair);
	buffer_char(out, '\n');
	grid_titles(&grid, "BEGIN<TIME>PID>TID>ARGUMENTS<");
	for (size_t i = 0; i < shown; i++) {
		const struct summary_slow *slow = &pair->slow[i];

		local_time(&grid.text, slow->time_ns);
		grid_end(&grid);
		duration_cell(&grid, (double)slow->duration_ns);
		grid_signed(&grid, slow->pid);
		grid_signed(&grid, slow->tid);
		buffer_string(&grid.text, slow->text);
		grid_end(&grid);
	}
	grid_print(&grid, out, 0);
	/* The stacks of their end events, if they were recorded. */
	for (size_t i = 0; i < shown; i++) {
		const struct summary_slow *slow = &pair->slow[i];

		if (!slow->stack)
			continue;
		local_time(out, slow->time_ns);
		buffer_string(out, "  ");
		summary_duration(out, (double)slow->duration_ns);
		buffer_string(out, ", and ended in\n");
		text_hit_stack(out, slow->stack);
	}
}

static void pairs(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	AUTO_FREE const struct summary_pair **sorted = summary_pairs(summary);
	size_t shown = summary_shown(summary->pair_count, view->top);
	AUTO(grid_deinit) struct grid grid = {0};

	out->no_memory |= !sorted;
	if (!sorted)
		return;
	grid_titles(&grid, "PAIR<COUNT>TOTAL>P50>P90>P99>P99.9>MAX>IN FLIGHT>NO BEGIN>");
	for (size_t i = 0; i < shown; i++)
		pair_line(&grid, summary, sorted[i]);
	if (shown) {
		buffer_char(out, '\n');
		grid_print(&grid, out, 0);
	}
	text_more(
		out, summary->pair_count - shown, " more pair (--top)\n", " more pairs (--top)\n");
	not_timed(out, summary);
	for (size_t i = 0; summary->instances && i < shown; i++) {
		pair_values(out, summary, sorted[i], view);
		slowest(out, summary, sorted[i], view);
	}
}

/* ---- Keys --------------------------------------------------------------------------------- */

/* Returns the number of the probe's hits that have no value for the key. */
static uint64_t hits_without(const struct summary_top *top)
{
	return top->probe->hits - top->top->total;
}

static void keys_of(struct buffer *out, const struct probe_summary *summary,
	const struct summary_top *its, const struct probe_summary_view *view)
{
	AUTO_FREE const struct top_slot **sorted = top_sorted(its->top);
	uint64_t rest, most;
	AUTO(grid_deinit) struct grid grid = {0};
	size_t shown;

	if (!sorted) {
		out->no_memory = true;
		return;
	}
	shown = top_shown(its->top, sorted, summary_key_limit(summary, view), &rest, &most);
	buffer_char(out, '\n');
	event_put_probe(out, its->probe->provider, its->probe->name);
	buffer_string(out, " by ");
	key_print(out, &its->key);
	buffer_char(out, '\n');
	grid_titles(&grid, "HITS>SHARE>VALUE<");
	for (size_t i = 0; i < shown; i++) {
		buffer_string(&grid.text, sorted[i]->error ? "~" : "");
		grid_number(&grid, sorted[i]->count);
		share_cell(&grid, sorted[i]->count, its->top->total);
		text_meant(&grid.text, summary_top_meaning(its), &sorted[i]->value);
		grid_end(&grid);
	}
	if (shown)
		grid_print(&grid, out, 0);
	if (rest) {
		if (shown)
			text_counted(
				out, rest, " hit has another value", " hits have other values");
		else
			text_counted(out, rest, " hit has a value", " hits have values");
		buffer_string(out, ", each at most ");
		text_counted(out, most, " time\n", " times\n");
	}
	if (hits_without(its))
		text_counted(out, hits_without(its), " hit has no such value\n",
			" hits have no such value\n");
}

static void keys(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	AUTO_FREE struct summary_top *tops = NULL;
	size_t count;

	tops = summary_tops(summary, &count);
	if (!tops) {
		out->no_memory = true;
		return;
	}
	for (size_t i = 0; i < count && (summary->key_count || i < SUMMARY_GUESSED_TABLES); i++)
		keys_of(out, summary, &tops[i], view);
	for (size_t i = 0; i < SUMMARY_KEYS_MAX; i++) {
		if (!summary_key_missing(summary, i))
			continue;
		buffer_string(out, "\nno hit has ");
		key_print(out, &summary->keys[i]);
		buffer_char(out, '\n');
	}
	if (!summary->key_count && count > SUMMARY_GUESSED_TABLES) {
		buffer_char(out, '\n');
		text_more(out, count - SUMMARY_GUESSED_TABLES,
			" more argument has few values (-k)\n",
			" more arguments have few values (-k)\n");
	}
}

/* ---- Threads -------------------------------------------------------------------------------- */

static void hits_cells(
	struct grid *grid, const struct probe_summary *summary, uint64_t hits, const char *comm)
{
	grid_number(grid, hits);
	share_cell(grid, hits, summary->hits);
	buffer_escaped(&grid->text, comm);
	grid_end(grid);
}

/* Writes the table of processes, if there are several. */
static void processes(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	size_t count = 0;
	AUTO_FREE struct summary_process *sorted = threads_processes(summary, &count);
	size_t shown = summary_shown(count, view->top);
	AUTO(grid_deinit) struct grid grid = {0};

	out->no_memory |= !sorted;
	if (!sorted || count < 2)
		return;
	buffer_char(out, '\n');
	grid_titles(&grid, "PID>THREADS>HITS>SHARE>COMMAND<");
	for (size_t i = 0; i < shown; i++) {
		grid_signed(&grid, sorted[i].pid);
		grid_number(&grid, sorted[i].threads);
		hits_cells(&grid, summary, sorted[i].hits, sorted[i].comm);
	}
	grid_print(&grid, out, 0);
	text_more(out, count - shown, " more process (--top)\n", " more processes (--top)\n");
}

static void threads(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	AUTO_FREE const struct summary_thread **sorted = threads_sorted(summary);
	size_t shown = summary_shown(summary->threads.count, view->top);
	AUTO(grid_deinit) struct grid grid = {0};

	out->no_memory |= !sorted;
	if (!sorted)
		return;
	buffer_char(out, '\n');
	grid_titles(&grid, "PID>TID>HITS>SHARE>COMMAND<");
	for (size_t i = 0; i < shown; i++) {
		grid_signed(&grid, sorted[i]->pid);
		grid_signed(&grid, sorted[i]->tid);
		hits_cells(&grid, summary, sorted[i]->hits, sorted[i]->comm);
	}
	grid_print(&grid, out, 0);
	text_more(out, summary->threads.count - shown, " more thread (--top)\n",
		" more threads (--top)\n");
	if (summary->other_thread_hits)
		text_counted(out, summary->other_thread_hits, " hit is of threads beyond these\n",
			" hits are of threads beyond these\n");
}

static void callers(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	AUTO_FREE struct probe_stacks_row *rows = callers_rows(summary);

	out->no_memory |= !rows;
	if (!rows || !summary->callers_count)
		return;
	buffer_char(out, '\n');
	text_stack_trees(out, rows, summary->callers_count, view->top);
	if (summary->other_callers)
		text_counted(out, summary->other_callers, " hit has a stack beyond these\n",
			" hits have stacks beyond these\n");
}

void summary_text(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	summary_text_header(out, summary, view);
	if (!summary->events)
		return;
	buffer_char(out, '\n');
	probes(out, summary, view);
	if (!summary->hits)
		return;
	pairs(out, summary, view);
	keys(out, summary, view);
	callers(out, summary, view);
	processes(out, summary, view);
	threads(out, summary, view);
}

/* ---- All formats -------------------------------------------------------------------- */

struct probe_error *probe_summary_render(const struct probe_summary *summary,
	enum probe_summary_format format, const struct probe_summary_view *view, char **ret,
	size_t *length_ret)
{
	struct buffer out = {0};

	if ((unsigned int)format > PROBE_SUMMARY_HTML)
		return probe_error_new(
			PROBE_ERROR_USAGE, "there is no format %d of summaries", (int)format);
	switch (format) {
	case PROBE_SUMMARY_TEXT:
		summary_text(&out, summary, view);
		break;
	case PROBE_SUMMARY_JSON:
		summary_json(&out, summary, view, false);
		break;
	case PROBE_SUMMARY_HTML:
		summary_html(&out, summary, view);
		break;
	}
	return summary_take(&out, ret, length_ret);
}
