/* SPDX-License-Identifier: MIT */
/*
 * What the writers of the page share: the page as a whole (html.c), its tables
 * (html_tables.c), its charts (html_charts.c) and their axes (html_axes.c), its style
 * (html_style.c).
 *
 * Names and values come out of traced programs. All of them are first made
 * printable as for a terminal, and then escaped; nothing else puts text of a
 * record into the page.
 */
#ifndef LIBPROBE_REPORT_HTML_H
#define LIBPROBE_REPORT_HTML_H

#include "libprobe/report/summary.h"

struct page {
	struct buffer *out;
	struct buffer text; /* what page_text() is to escape */
	const struct probe_summary *summary;
	const struct probe_summary_view *view;
	unsigned int ids; /* given so far */
	bool is_plain;	  /* words only, no HTML in names */
};

extern const char html_style[];

/* Our own HTML. */
void page_html(struct page *page, const char *html);
/* What was written to page->text, escaped. */
void page_text(struct page *page);
void page_string(struct page *page, const char *text);
/* With the places where a line may end. */
void page_probe(struct page *page, const char *provider, const char *name);
void page_pair(struct page *page, const struct summary_pair *pair);
void page_key(struct page *page, const struct summary_top *top);

/* Figures, with their exact value for programs. */
void page_count(struct page *page, uint64_t count);
void page_duration(struct page *page, double ns);
/* The same as plain text. */
void page_time(struct page *page, double ns);
/* Hits a second. */
void page_rate(struct page *page, double rate);
void page_share(struct page *page, uint64_t part, uint64_t whole);

/* ---- Tables (html_tables.c) ------------------------------------------------------- */

void table_probes(struct page *page);
void table_pairs(struct page *page);
void table_keys(struct page *page, const struct summary_top *top);
/* Where there are several. */
void table_processes(struct page *page);
void table_threads(struct page *page);
/* The numbers of charts. */
void table_rates(struct page *page, const struct summary_probe *const *probes, size_t count);
void table_lost(struct page *page);
void table_heat(struct page *page, const struct summary_pair *pair);
void table_histogram(struct page *page, const struct summary_pair *pair);

/* ---- Axes (html_axes.c) ------------------------------------------------------------ */

enum { AXIS_TICKS_MAX = 6 };

/* A place in a chart, or in per cent, with one decimal at most. */
void axis_coordinate(struct buffer *out, double value);
/* The end of an axis for values up to this one, and in how many parts it is divided. */
double axis_end(double value, size_t *parts_ret);
/* "2.5k": thousands, millions ...; of ticks, which have few digits. */
void axis_number(struct buffer *out, double value);
/* "2.5ms", "3min": without zeros at its end. */
void axis_time(struct buffer *out, double ns);
/* Begins a label; `place` is left or bottom, in per cent; the class may be NULL. */
void axis_label(struct page *page, const char *place, double percent, const char *class);
/* Below the chart: times since the first hit. Beside it: numbers up to `top`. */
void axis_times(struct page *page);
void axis_numbers(struct page *page, double top, size_t parts);
/* Where a latency is among the rows of heat; which of them are labelled; the labels. */
double axis_row(double ns);
size_t axis_latencies(size_t low, size_t high, double ret[AXIS_TICKS_MAX]);
void axis_latency_labels(struct page *page, size_t low, size_t high, bool is_vertical);

/* ---- Charts (html_charts.c) -------------------------------------------------------- */

/* A sentence each, for screen readers. */
void chart_rate(struct page *page, const char *what, const struct summary_probe *probe,
	const uint64_t *bins, bool is_small);
void chart_spark(struct page *page, const uint64_t *bins);
void chart_heat(struct page *page, const struct summary_pair *pair);
void chart_histogram(struct page *page, const struct summary_pair *pair);

/* The rows of heat with something in them: [*low_ret, *high_ret); false: none. */
bool heat_range(const struct probe_summary *summary, const struct summary_pair *pair,
	size_t *low_ret, size_t *high_ret);
uint64_t heat_count(
	const struct probe_summary *summary, const struct summary_pair *pair, size_t row);
/* The most hits a second in one of the bins. */
double peak_rate(const struct probe_summary *summary, const uint64_t *bins);
/* All hits by time. */
void all_bins(const struct probe_summary *summary, uint64_t ret[SUMMARY_BINS]);

#endif
