/* SPDX-License-Identifier: MIT */
/* The tables of the page, including the tables with the numbers of its charts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/output/output.h"
#include "libprobe/report/report.h"

enum { TIME_PARTS = 16 };

/* ---- Parts --------------------------------------------------------------------------- */

/*
 * Starts a table in a box that scrolls if the table is too wide. The caller writes the caption
 * next. For accessibility, a scrolling box can be reached by keyboard and has a name, the caption.
 */
static void table_begin(struct page *page, const char *class)
{
	unsigned int id = ++page->ids;

	page_html(page, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"c");
	buffer_unsigned(page->out, id);
	page_html(page, "\"><table class=\"");
	page_html(page, class);
	page_html(page, "\">\n<caption id=\"c");
	buffer_unsigned(page->out, id);
	page_html(page, "\">");
}

static void table_columns(struct page *page, const char *const *titles, size_t count)
{
	page_html(page, "</caption>\n<thead><tr>");
	for (size_t i = 0; i < count; i++) {
		page_html(page, "<th scope=\"col\">");
		page_html(page, titles[i]);
		page_html(page, "</th>");
	}
	page_html(page, "</tr></thead>\n<tbody>\n");
}
#define COLUMNS(page, ...)                                                                         \
	table_columns(page, (const char *const[]){__VA_ARGS__},                                    \
		sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void table_end(struct page *page)
{
	page_html(page, "</tbody></table></div>\n");
}

/* Starts a table with the numbers of a chart. The table is hidden until the user clicks on it. */
static void details_begin(struct page *page, const char *summary, const char *caption)
{
	page_html(page, "<details><summary>");
	page_html(page, summary);
	page_html(page, "</summary>\n");
	table_begin(page, "l");
	page_html(page, caption);
}

static void details_end(struct page *page)
{
	table_end(page);
	page_html(page, "</details>\n");
}

static void cell(struct page *page)
{
	page_html(page, "<td>");
}

static void count_cell(struct page *page, uint64_t count)
{
	cell(page);
	page_count(page, count);
	page_html(page, "</td>");
}

static void duration_cell(struct page *page, double ns)
{
	cell(page);
	page_duration(page, ns);
	page_html(page, "</td>");
}

/* Writes a share, with a bar in the background. */
static void share_cell(struct page *page, uint64_t part, uint64_t whole)
{
	char style[64];

	snprintf(style, sizeof(style), "<td class=\"bar\" style=\"--part:%d%%\">",
		whole ? (int)(100 * (double)part / (double)whole + 0.5) : 0);
	page_html(page, style);
	page_share(page, part, whole);
	page_html(page, "</td>");
}

static size_t limit(size_t count, const struct page *page)
{
	return page->view->top && page->view->top < count ? page->view->top : count;
}

static void more(struct page *page, size_t count, size_t shown, const char *what)
{
	if (count <= shown)
		return;
	page_html(page, "<p class=\"soft\">… and ");
	page_count(page, count - shown);
	page_html(page, what);
	page_html(page, "</p>\n");
}

/* ---- Probes --------------------------------------------------------------------------- */

static void probe_cells(struct page *page, uint64_t hits, const uint64_t *bins)
{
	double seconds = summary_seconds(page->summary);

	count_cell(page, hits);
	share_cell(page, hits, page->summary->hits);
	cell(page);
	page_rate(page, seconds > 0 ? (double)hits / seconds : NAN);
	page_html(page, "</td><td class=\"spark\">");
	chart_spark(page, bins);
	page_html(page, "</td></tr>\n");
}

void table_probes(struct page *page)
{
	const struct summary_probe **probes = summary_probes(page->summary);
	size_t count = page->summary->probe_count, shown = limit(count, page);

	table_begin(page, "l probes");
	page_html(page, "Hits of each probe, most first");
	COLUMNS(page, "Probe", "Hits", "Share", "Per second", "Over time");
	for (size_t i = 0; probes && i < shown; i++) {
		page_html(page, "<tr><th scope=\"row\"><code>");
		page_probe(page, probes[i]->provider, probes[i]->name);
		page_html(page, "</code></th>");
		probe_cells(page, probes[i]->hits, probes[i]->bins);
	}
	if (page->summary->other_hits) {
		page_html(page, "<tr><th scope=\"row\">others, not listed by name</th>");
		probe_cells(page, page->summary->other_hits, page->summary->other_bins);
	}
	table_end(page);
	more(page, count, shown, " probes with fewer hits.");
	page->out->no_memory |= !probes;
	free(probes);
}

/* Writes a time since the first hit. */
static void page_since(struct page *page, double ns)
{
	if (ns > 0)
		page_time(page, ns);
	else
		page_html(page, "0");
}

static void time_cell(struct page *page, size_t part, size_t parts)
{
	double length = summary_seconds(page->summary) * 1e9 / (double)parts;

	page_html(page, "<tr><th scope=\"row\">");
	page_since(page, length * (double)part);
	page_html(page, "</th>");
}

static void part_cell(struct page *page, const uint64_t *bins, size_t part)
{
	double rates[TIME_PARTS];

	summary_fold(page->summary, bins, rates, TIME_PARTS);
	cell(page);
	page_rate(page, rates[part]);
	page_html(page, "</td>");
}

void table_rates(struct page *page, const struct summary_probe *const *probes, size_t count)
{
	uint64_t bins[SUMMARY_BINS];

	all_bins(page->summary, bins);
	details_begin(page, "Rates as a table", "Hits a second, from each time on until the next");
	page_html(page, "</caption>\n<thead><tr><th scope=\"col\">From</th>"
			"<th scope=\"col\">All</th>");
	for (size_t i = 0; i < count; i++) {
		page_html(page, "<th scope=\"col\"><code>");
		page_probe(page, probes[i]->provider, probes[i]->name);
		page_html(page, "</code></th>");
	}
	page_html(page, "</tr></thead>\n<tbody>\n");
	for (size_t part = 0; part < TIME_PARTS; part++) {
		time_cell(page, part, TIME_PARTS);
		part_cell(page, bins, part);
		for (size_t i = 0; i < count; i++)
			part_cell(page, probes[i]->bins, part);
		page_html(page, "</tr>\n");
	}
	details_end(page);
}

void table_lost(struct page *page)
{
	details_begin(
		page, "Losses as a table", "Lost hits a second, from each time on until the next");
	COLUMNS(page, "From", "Lost per second");
	for (size_t part = 0; part < TIME_PARTS; part++) {
		time_cell(page, part, TIME_PARTS);
		part_cell(page, page->summary->lost_bins, part);
		page_html(page, "</tr>\n");
	}
	details_end(page);
}

/* ---- Pairs ------------------------------------------------------------------------------ */

static void pair_line(struct page *page, const struct summary_pair *pair)
{
	static const double percents[] = {50, 90, 99, 99.9};
	struct probe_row row;

	pair_row(pair, page->summary, &row);
	page_html(page, "<tr><th scope=\"row\"><code>");
	page_pair(page, pair);
	page_html(page, "</code></th>");
	count_cell(page, pair->times.count);
	for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++)
		duration_cell(page, probe_row_percentile(&row, percents[i]));
	duration_cell(page, pair->times.count ? (double)pair->times.most : NAN);
	duration_cell(page, pair->times.count ? pair->times.sum : NAN);
	count_cell(page, row.in_flight);
	count_cell(page, pair->unmatched);
	page_html(page, "</tr>\n");
}

void table_pairs(struct page *page)
{
	const struct summary_pair **pairs = summary_pairs(page->summary);
	size_t count = page->summary->pair_count, shown = limit(count, page);

	table_begin(page, "l pairs");
	page_html(page, "Times of each pair, most in total first");
	COLUMNS(page, "Pair", "Count", "p50", "p90", "p99", "p99.9", "Most", "Total", "In flight",
		"No begin");
	for (size_t i = 0; pairs && i < shown; i++)
		pair_line(page, pairs[i]);
	table_end(page);
	more(page, count, shown, " pairs with less time.");
	page->out->no_memory |= !pairs;
	free(pairs);
}

static void range_cell(struct page *page, size_t row)
{
	page_html(page, "<tr><th scope=\"row\">");
	page_time(page, heat_low(row));
	page_html(page, " to ");
	page_time(page, heat_low(row + 1));
	page_html(page, "</th>");
}

void table_histogram(struct page *page, const struct summary_pair *pair)
{
	uint64_t below = 0;
	size_t low, high;

	if (!heat_range(page->summary, pair, &low, &high))
		return;
	details_begin(page, "Histogram as a table", "Distribution of times");
	COLUMNS(page, "Time", "Count", "Share", "Up to here");
	for (size_t row = low; row < high; row++) {
		uint64_t count = heat_count(page->summary, pair, row);

		if (!count)
			continue;
		below += count;
		range_cell(page, row);
		count_cell(page, count);
		share_cell(page, count, pair->times.count);
		cell(page);
		page_share(page, below, pair->times.count);
		page_html(page, "</td></tr>\n");
	}
	details_end(page);
}

/* The number of events of a pair in some bins. *row_ret is the heat row of a percentile. */
static uint64_t in_bins(
	const struct summary_pair *pair, size_t from, size_t to, double percent, size_t *row_ret)
{
	uint64_t total = 0, below = 0;

	for (size_t row = 0; row < SUMMARY_HEAT_ROWS; row++) {
		for (size_t bin = from; bin < to; bin++)
			total += pair->heat[row][bin];
	}
	for (size_t row = 0; row < SUMMARY_HEAT_ROWS && total; row++) {
		for (size_t bin = from; bin < to; bin++)
			below += pair->heat[row][bin];
		if ((double)below >= percent / 100 * (double)total) {
			*row_ret = row;
			break;
		}
	}
	return total;
}

static void heat_percentile(
	struct page *page, const struct summary_pair *pair, size_t from, size_t to, double percent)
{
	size_t row = 0;

	cell(page);
	if (in_bins(pair, from, to, percent, &row)) {
		page_html(page, "≤ ");
		page_time(page, heat_low(row + 1));
	} else {
		page_html(page, "–");
	}
	page_html(page, "</td>");
}

void table_heat(struct page *page, const struct summary_pair *pair)
{
	const struct probe_summary *summary = page->summary;
	size_t bins = summary->bin_count;
	size_t step = (bins + TIME_PARTS - 1) / TIME_PARTS, row;

	details_begin(page, "Heat map as a table",
		"Ended from each time on until the next, and how long they took");
	COLUMNS(page, "From", "Count", "p50", "p90", "p99", "All");
	for (size_t from = 0; from < bins; from += step) {
		size_t to = from + step < bins ? from + step : bins;
		double begin = (double)(summary->base_ns - (int64_t)summary->begin_ns) +
			       (double)from * (double)summary->width_ns;

		page_html(page, "<tr><th scope=\"row\">");
		page_since(page, begin);
		page_html(page, "</th>");
		count_cell(page, in_bins(pair, from, to, 100, &row));
		heat_percentile(page, pair, from, to, 50);
		heat_percentile(page, pair, from, to, 90);
		heat_percentile(page, pair, from, to, 99);
		heat_percentile(page, pair, from, to, 100);
		page_html(page, "</tr>\n");
	}
	details_end(page);
}

/* ---- Keys, threads ------------------------------------------------------------------------- */

void table_keys(struct page *page, const struct summary_top *top)
{
	const struct top_slot **slots = top_sorted(top->top);
	uint64_t rest = 0, most = 0;
	size_t shown = 0;

	if (slots)
		shown = top_shown(top->top, slots, summary_key_limit(page->summary, page->view),
			&rest, &most);
	page_html(page, "<div>");
	table_begin(page, "l keys");
	page_key(page, top);
	COLUMNS(page, "Value", "Hits", "Share");
	for (size_t i = 0; i < shown; i++) {
		page_html(page, "<tr><th scope=\"row\"><code>");
		text_meant(&page->text, summary_top_meaning(top), &slots[i]->value);
		page_text(page);
		page_html(page, slots[i]->error ? "</code></th><td>~\u00a0" : "</code></th><td>");
		page_count(page, slots[i]->count);
		page_html(page, "</td>");
		share_cell(page, slots[i]->count, top->top->total);
		page_html(page, "</tr>\n");
	}
	table_end(page);
	if (rest) {
		page_html(page, "<p class=\"soft\">");
		page_count(page, rest);
		page_html(
			page, shown ? " more, each value at most " : " hits, each value at most ");
		page_count(page, most);
		page_html(page, most == 1 ? " time.</p>" : " times.</p>");
	}
	if (summary_top_without(top)) {
		page_html(page, "<p class=\"soft\">");
		page_count(page, summary_top_without(top));
		page_html(page, summary_top_without(top) == 1 ? " hit has no such value.</p>"
							      : " hits have no such value.</p>");
	}
	page_html(page, "</div>\n");
	page->out->no_memory |= !slots;
	free(slots);
}

void table_processes(struct page *page)
{
	struct summary_process *processes;
	size_t count = 0, shown;

	processes = threads_processes(page->summary, &count);
	page->out->no_memory |= !processes;
	if (count > 1) {
		shown = limit(count, page);
		table_begin(page, "processes");
		page_html(page, "Hits of each process, most first");
		COLUMNS(page, "Process", "Threads", "Command", "Hits", "Share");
		for (size_t i = 0; i < shown; i++) {
			page_html(page, "<tr><td>");
			buffer_signed(page->out, processes[i].pid);
			page_html(page, "</td>");
			count_cell(page, processes[i].threads);
			page_html(page, "<td class=\"l\">");
			page_string(page, processes[i].comm);
			page_html(page, "</td>");
			count_cell(page, processes[i].hits);
			share_cell(page, processes[i].hits, page->summary->hits);
			page_html(page, "</tr>\n");
		}
		table_end(page);
		more(page, count, shown, " processes with fewer hits.");
	}
	free(processes);
}

void table_threads(struct page *page)
{
	const struct summary_thread **threads = threads_sorted(page->summary);
	size_t count = page->summary->thread_count, shown = limit(count, page);

	table_begin(page, "threads");
	page_html(page, "Hits of each thread, most first");
	COLUMNS(page, "Process", "Thread", "Command", "Hits", "Share");
	for (size_t i = 0; threads && i < shown; i++) {
		page_html(page, "<tr><td>");
		buffer_signed(page->out, threads[i]->pid);
		page_html(page, "</td><td>");
		buffer_signed(page->out, threads[i]->tid);
		page_html(page, "</td><td class=\"l\">");
		page_string(page, threads[i]->comm);
		page_html(page, "</td>");
		count_cell(page, threads[i]->hits);
		share_cell(page, threads[i]->hits, page->summary->hits);
		page_html(page, "</tr>\n");
	}
	table_end(page);
	more(page, count, shown, " threads with fewer hits.");
	if (page->summary->other_thread_hits) {
		page_html(page, "<p class=\"soft\">");
		page_count(page, page->summary->other_thread_hits);
		page_html(page, " hits are of threads beyond these.</p>\n");
	}
	page->out->no_memory |= !threads;
	free(threads);
}
