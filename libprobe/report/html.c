/* SPDX-License-Identifier: MIT */
/*
 * A summary as an HTML page. The page is one file. It has no scripts and loads nothing; its content
 * security policy forbids both. Important things come first. Below each chart, a table has its
 * numbers. No chart relies on colour alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/output/output.h"
#include "libprobe/report/report.h"

/* ==== The page ================================================================================ */

enum { SMALL_CHARTS = 6, PAIR_CHARTS = 6, TOP_KEYS = 8 };

/* ---- Text -------------------------------------------------------------------------- */

void page_html(struct page *page, const char *html)
{
	buffer_string(page->out, html);
}

void page_text(struct page *page)
{
	struct buffer *text = &page->text;

	buffer_xml_escaped(page->out, text->data, text->length);
	page->out->no_memory |= text->no_memory;
	text->length = 0;
}

void page_string(struct page *page, const char *string)
{
	buffer_c_escaped(&page->text, string, strlen(string), 0);
	page_text(page);
}

static void page_break(struct page *page)
{
	if (!page->is_plain)
		page_html(page, "<wbr>");
}

void page_probe(struct page *page, const char *provider, const char *name)
{
	const char *word = name, *end;

	buffer_c_escaped(&page->text, provider, strlen(provider), 0);
	buffer_char(&page->text, ':');
	page_text(page);
	for (; (end = strstr(word, "__")) && end[2]; word = end + 2) {
		page_break(page);
		buffer_c_escaped(&page->text, word, (size_t)(end + 2 - word), 0);
		page_text(page);
	}
	page_break(page);
	page_string(page, word);
}

void page_pair(struct page *page, const struct summary_pair *pair)
{
	const struct summary_probe *begin = page->summary->probes[pair->begin];
	const struct summary_probe *end = page->summary->probes[pair->end];

	/* A line may break after the arrow, and should not break inside a name. */
	page_html(page, page->is_plain ? "" : "<span>");
	page_probe(page, begin->provider, begin->name);
	page_html(page, page->is_plain ? " → " : " →</span> <span>");
	page_probe(page, end->provider, end->name);
	page_html(page, page->is_plain ? "" : "</span>");
}

void page_key(struct page *page, const struct summary_top *top)
{
	page_html(page, "<code>");
	page_probe(page, top->probe->provider, top->probe->name);
	page_html(page, "</code> by <code>");
	key_print(page->out, &top->key);
	page_html(page, "</code>");
}

/* ---- Figures ------------------------------------------------------------------------- */

/* Writes a number with its digits in groups of three. */
static void grouped(struct buffer *out, uint64_t value)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			buffer_char(out, ',');
		buffer_char(out, digits[i]);
	}
}

void page_count(struct page *page, uint64_t count)
{
	page_html(page, "<data value=\"");
	buffer_unsigned(page->out, count);
	page_html(page, "\">");
	grouped(page->out, count);
	page_html(page, "</data>");
}

void page_time(struct page *page, double ns)
{
	struct buffer *text = &page->text;
	size_t number = 0;

	summary_duration(text, ns);
	while (number < text->length && strchr("0123456789.", text->data[number]))
		number++;
	buffer_bytes(page->out, text->data, number);
	if (number && number < text->length)
		page_html(page, "\u00a0");
	if (number < text->length && text->data[number] == 'u') {
		page_html(page, "µ");
		number++;
	}
	buffer_bytes(page->out, text->data + number, text->length - number);
	text->length = 0;
}

void page_duration(struct page *page, double ns)
{
	if (!isfinite(ns)) {
		page_html(page, "–");
		return;
	}
	page_html(page, "<data value=\"");
	if (!buffer_whole(page->out, ns))
		buffer_float(page->out, ns);
	page_html(page, "\">");
	page_time(page, ns);
	page_html(page, "</data>");
}

void page_rate(struct page *page, double rate)
{
	if (!isfinite(rate))
		page_html(page, "–");
	else if (rate > 0 && rate < 0.005)
		page_html(page, "&lt;0.01");
	else if (rate < 100 || rate >= 0x1p63)
		text_number(page->out, rate);
	else
		grouped(page->out, (uint64_t)(rate + 0.5));
}

void page_share(struct page *page, uint64_t part, uint64_t whole)
{
	summary_share(&page->text, part, whole);
	page_text(page);
}

static double mean_rate(const struct probe_summary *summary, uint64_t hits)
{
	double seconds = summary_seconds(summary);

	return seconds > 0 ? (double)hits / seconds : NAN;
}

/* ---- The first screen -------------------------------------------------------------------- */

static void head(struct page *page)
{
	page_html(page,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		"style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		"<meta name=\"referrer\" content=\"no-referrer\">\n"
		"<meta name=\"generator\" content=\"probectl " PROBE_VERSION "\">\n<title>");
	page_string(page, page->view->title);
	page_html(page, " – probectl report</title>\n<style>\n");
	page_html(page, html_style);
	page_html(page, "</style>\n</head>\n<body>\n"
			"<a class=\"skip\" href=\"#main\">Skip to the report</a>\n"
			"<div class=\"page\">\n");
}

static void plural(struct page *page, uint64_t count, const char *one, const char *many)
{
	page_count(page, count);
	page_html(page, count == 1 ? one : many);
}

static void header(struct page *page)
{
	const struct probe_summary *summary = page->summary;
	size_t processes = 0;

	free(threads_processes(summary, &processes));
	page_html(page, "<header>\n<p class=\"over\">Hits of static probes</p>\n<h1>");
	page_string(page, page->view->title);
	page_html(page, "</h1>\n<p class=\"when\">");
	if (summary->events) {
		summary_time(page->out, summary->begin_ns);
		page_html(page, ", for ");
		page_duration(page, (double)(summary->end_ns - summary->begin_ns));
		page_html(page, " · ");
		page_html(page, summary->other_hits ? "more than " : "");
		plural(page, summary->probe_count, " probe", " probes");
		page_html(page, " · ");
		plural(page, processes, " process", " processes");
		page_html(page, " · ");
		page_html(page, summary->other_thread_hits ? "more than " : "");
		plural(page, summary->thread_count, " thread", " threads");
	}
	page_html(page, "</p>\n");
}

/* The pair with the highest 99th percentile. */
static const struct summary_pair *slowest_pair(const struct probe_summary *summary)
{
	const struct summary_pair *slowest = NULL;
	double most = -1;

	for (size_t i = 0; i < summary->pair_count; i++) {
		struct probe_row row;
		double ns;

		if (!summary->pairs[i]->times.count)
			continue;
		pair_row(summary->pairs[i], summary, &row);
		ns = probe_row_percentile(&row, 99);
		if (ns <= most)
			continue;
		most = ns;
		slowest = summary->pairs[i];
	}
	return slowest;
}

static void answer_slowest(struct page *page)
{
	const struct summary_pair *pair = slowest_pair(page->summary);
	struct probe_row row;

	if (!pair)
		return;
	pair_row(pair, page->summary, &row);
	page_html(page, "<div><dt>Slowest pair, 99th percentile</dt><dd class=\"big\">");
	page_duration(page, probe_row_percentile(&row, 99));
	page_html(page, "</dd><dd><code>");
	page_pair(page, pair);
	page_html(page, "</code></dd></div>\n");
}

static void answers(struct page *page, const struct summary_probe *const *probes)
{
	const struct probe_summary *summary = page->summary;
	uint64_t bins[SUMMARY_BINS];

	all_bins(summary, bins);
	page_html(page, "<dl class=\"answers\">\n<div><dt>Hits</dt><dd class=\"big\" id=\"hits\">");
	page_count(page, summary->hits);
	page_html(page, "</dd>");
	if (summary->probe_count) {
		page_html(page, "<dd>most of <code>");
		page_probe(page, probes[0]->provider, probes[0]->name);
		page_html(page, "</code>, ");
		page_share(page, probes[0]->hits, summary->hits);
		page_html(page, "</dd>");
	}
	page_html(page, "</div>\n<div><dt>Rate</dt><dd class=\"big\">");
	page_rate(page, mean_rate(summary, summary->hits));
	if (summary_seconds(summary) > 0) {
		page_html(page, "/s</dd><dd>on average; at most ");
		page_rate(page, peak_rate(summary, bins));
		page_html(page, "/s</dd></div>\n");
	} else {
		page_html(page, "</dd><dd>all hits are of one instant</dd></div>\n");
	}
	page_html(page, "<div><dt>Lost</dt><dd class=\"big");
	page_html(page, summary->lost ? " alert\" id=\"lost\">" : "\" id=\"lost\">");
	page_count(page, summary->lost);
	page_html(page, "</dd><dd>");
	if (summary->lost) {
		page_share(page, summary->lost, summary->lost + summary->hits);
		page_html(page, " of all hits: what follows is incomplete</dd></div>\n");
	} else if (summary->overrun || summary->full) {
		page_html(page, summary->overrun ? "but older hits were overwritten</dd></div>\n"
						 : "but later hits were not recorded</dd></div>\n");
	} else {
		page_html(page, "every hit is here</dd></div>\n");
	}
	answer_slowest(page);
	page_html(page, "</dl>\n");
}

static void navigation(struct page *page, bool keys)
{
	page_html(page, "<nav aria-label=\"Sections\"><ul>\n"
			"<li><a href=\"#rates\">Rates</a></li>\n"
			"<li><a href=\"#probes\">Probes</a></li>\n");
	if (page->summary->pair_count)
		page_html(page, "<li><a href=\"#latencies\">Latencies</a></li>\n");
	if (keys)
		page_html(page, "<li><a href=\"#keys\">Top keys</a></li>\n");
	page_html(page, "<li><a href=\"#losses\">Losses</a></li>\n"
			"<li><a href=\"#threads\">Threads</a></li>\n"
			"</ul></nav>\n</header>\n");
}

/* ---- Sections ------------------------------------------------------------------------------ */

static void section_begin(struct page *page, const char *id, const char *title)
{
	page_html(page, "<section aria-labelledby=\"");
	page_html(page, id);
	page_html(page, "\">\n<h2 id=\"");
	page_html(page, id);
	page_html(page, "\">");
	page_html(page, title);
	page_html(page, "</h2>\n");
}

static void section_end(struct page *page)
{
	page_html(page, "</section>\n");
}

static void rates(struct page *page, const struct summary_probe *const *probes)
{
	size_t count = page->summary->probe_count;
	uint64_t bins[SUMMARY_BINS];

	count = count < SMALL_CHARTS ? count : SMALL_CHARTS;
	all_bins(page->summary, bins);
	section_begin(page, "rates", "Rates over time");
	if (!(summary_seconds(page->summary) > 0)) {
		page_html(page, "<p>All hits are of one instant: there is no rate.</p>\n");
		section_end(page);
		return;
	}
	page_html(page, "<figure><figcaption>All hits, per second</figcaption>\n");
	chart_rate(page, "Hits of all probes", NULL, bins, false);
	page_html(page, "</figure>\n");
	if (page->summary->probe_count > 1) {
		page_html(page, "<div class=\"three\">\n");
		for (size_t i = 0; i < count; i++) {
			page_html(page, "<div><h3><code>");
			page_probe(page, probes[i]->provider, probes[i]->name);
			page_html(page, "</code></h3>\n");
			chart_rate(page, "Hits of ", probes[i], probes[i]->bins, true);
			page_html(page, "</div>\n");
		}
		page_html(page, "</div>\n");
	}
	table_rates(page, probes, page->summary->probe_count > 1 ? count : 0);
	section_end(page);
}

static void figure(struct page *page, const char *name, double ns)
{
	page_html(page, "<div><dt>");
	page_html(page, name);
	page_html(page, "</dt><dd>");
	page_duration(page, ns);
	page_html(page, "</dd></div>");
}

static void pair_charts(struct page *page, const struct summary_pair *pair)
{
	struct probe_row row;

	pair_row(pair, page->summary, &row);
	page_html(page, "<article class=\"pair\"><h3><code>");
	page_pair(page, pair);
	page_html(page, "</code></h3>\n<dl class=\"figures\"><div><dt>Count</dt><dd>");
	page_count(page, pair->times.count);
	page_html(page, "</dd></div>");
	figure(page, "Least", (double)pair->times.least);
	figure(page, "p50", probe_row_percentile(&row, 50));
	figure(page, "p90", probe_row_percentile(&row, 90));
	figure(page, "p99", probe_row_percentile(&row, 99));
	figure(page, "p99.9", probe_row_percentile(&row, 99.9));
	figure(page, "Most", (double)pair->times.most);
	figure(page, "Total", pair->times.sum);
	page_html(page, "</dl>\n<div class=\"two\">\n");
	if (summary_seconds(page->summary) > 0)
		chart_heat(page, pair);
	chart_histogram(page, pair);
	page_html(page, "</div></article>\n");
}

static void latencies(struct page *page)
{
	const struct summary_pair **pairs = summary_pairs(page->summary);
	uint64_t aside = 0, untimed = 0;

	for (size_t i = 0; i < page->summary->probe_count; i++) {
		if (page->summary->probes[i]->role == PROBE_ROLE_BEGIN) {
			aside += page->summary->probes[i]->set_aside;
			untimed += page->summary->probes[i]->untimed;
		}
	}
	section_begin(page, "latencies", "Latencies");
	page_html(page, page->summary->matches
				? "<p class=\"soft\">The time from one probe to the other, for "
				  "the same value.</p>\n"
				: "<p class=\"soft\">The time from one probe to the other in the "
				  "same thread, the innermost begin first.</p>\n");
	if (aside) {
		page_html(page, "<p>");
		plural(page, aside, " begin is", " begins are");
		page_html(page, " not timed: hits were lost before the end.</p>\n");
	}
	if (untimed) {
		page_html(page, "<p>");
		plural(page, untimed, " begin is", " begins are");
		page_html(page, " not timed: no value to match by, or too many at once.</p>\n");
	}
	if (page->summary->more_pairs)
		page_html(page, "<p>There are more pairs than a report shows.</p>\n");
	table_pairs(page);
	for (size_t i = 0; pairs && i < page->summary->pair_count && i < PAIR_CHARTS; i++) {
		if (pairs[i]->times.count)
			pair_charts(page, pairs[i]);
	}
	page->out->no_memory |= !pairs;
	free(pairs);
	section_end(page);
}

static void keys(struct page *page, const struct summary_top *tops, size_t count)
{
	section_begin(page, "keys", "Top keys");
	if (!page->summary->key_count) {
		page_html(page, "<p class=\"soft\">Arguments that are strings, or integers with "
				"few different values.</p>\n");
		count = count < TOP_KEYS ? count : TOP_KEYS;
	}
	page_html(page, "<div class=\"two\">\n");
	for (size_t i = 0; i < count; i++)
		table_keys(page, &tops[i]);
	page_html(page, "</div>\n");
	for (size_t i = 0; i < SUMMARY_KEYS_MAX; i++) {
		if (!summary_key_missing(page->summary, i))
			continue;
		page_html(page, "<p>No hit has <code>");
		key_print(page->out, &page->summary->keys[i]);
		page_html(page, "</code>.</p>\n");
	}
	section_end(page);
}

static void losses(struct page *page)
{
	section_begin(page, "losses", "Losses");
	if (page->summary->overrun)
		page_html(page,
			"<p><span class=\"alert\">▲ Older hits were overwritten</span>, and were "
			"not counted: the rings held no more. Larger ones (-b) hold more.</p>\n");
	if (page->summary->full)
		page_html(page,
			"<p><span class=\"alert\">▲ Later hits were not recorded</span>, and were "
			"not counted: the rings were full. Larger ones (-b) hold more.</p>\n");
	if (!page->summary->lost) {
		if (!page->summary->overrun && !page->summary->full)
			page_html(page, "<p>No hit was lost.</p>\n");
		section_end(page);
		return;
	}
	page_html(page, "<p><span class=\"alert\">▲ ");
	plural(page, page->summary->lost, " hit was", " hits were");
	page_html(page, " lost</span>, ");
	page_share(page, page->summary->lost, page->summary->lost + page->summary->hits);
	page_html(page, " of all: the ring was full. Larger rings (-b) or fewer probes help. "
			"Pairs that were in flight then are not timed.</p>\n");
	if (summary_seconds(page->summary) > 0) {
		page_html(page, "<figure class=\"lost\"><figcaption>Lost hits, per second"
				"</figcaption>\n");
		chart_rate(page, "Lost hits", NULL, page->summary->lost_bins, false);
		table_lost(page);
		page_html(page, "</figure>\n");
	}
	section_end(page);
}

static void footer(struct page *page)
{
	page_html(page, "<footer>\n<p>Percentiles come from buckets and are at most 1.6% off. "
			"Charts over time have ");
	buffer_unsigned(page->out, page->summary->bin_count);
	page_html(page, page->summary->bin_count == 1 ? " part of " : " parts of ");
	page_time(page, (double)page->summary->width_ns);
	page_html(page, ". Counts with ~ are at most so many. Times of day are local to the "
			"machine that made this page. Made by probectl " PROBE_VERSION
			".</p>\n</footer>\n");
}

/* ---- The page ----------------------------------------------------------------------------- */

static void body(struct page *page, const struct summary_probe *const *probes,
	const struct summary_top *tops, size_t top_count)
{
	bool has_keys = top_count || page->summary->key_count;

	header(page);
	if (!page->summary->events) {
		page_html(page, "</header>\n<main id=\"main\" tabindex=\"-1\">"
				"<p>There are no hits in it.</p>\n");
		losses(page);
		page_html(page, "</main>\n");
		return;
	}
	answers(page, probes);
	navigation(page, has_keys);
	page_html(page, "<main id=\"main\" tabindex=\"-1\">\n");
	rates(page, probes);
	section_begin(page, "probes", "Probes");
	table_probes(page);
	section_end(page);
	if (page->summary->pair_count)
		latencies(page);
	if (has_keys)
		keys(page, tops, top_count);
	losses(page);
	section_begin(page, "threads", "Processes and threads");
	table_processes(page);
	table_threads(page);
	section_end(page);
	page_html(page, "</main>\n");
	footer(page);
}

void summary_html(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	struct page page = {.out = out, .summary = summary, .view = view};
	const struct summary_probe **probes = summary_probes(summary);
	struct summary_top *tops;
	size_t top_count;

	tops = summary_tops(summary, &top_count);
	if (!probes || !tops || !buffer_init(&page.text)) {
		out->no_memory = true;
	} else {
		head(&page);
		body(&page, probes, tops, top_count);
		page_html(&page, "</div>\n</body>\n</html>\n");
		buffer_deinit(&page.text);
	}
	free(probes);
	free(tops);
}

/* ==== Style sheet ============================================================================= */

/*
 * The style sheet. The contrast of text is at least 4.5:1 and of lines in charts at least 3:1 (WCAG
 * 2.1, 1.4.3 and 1.4.11), in the light and the dark scheme. Charts are SVG and are stretched to the
 * available width. Their labels are text beside the chart, of the same size on a phone and on a
 * screen.
 */

/* clang-format off */
const char html_style[] =
":root{color-scheme:light dark;--ground:#fbfbf9;--card:#fff;--ink:#1c2126;--soft:#565f68;"
"--line:#d9dcd8;--accent:#0b5cad;--fill:#cfe0f2;--alert:#a3260f;"
"--h1:#d3e3f3;--h2:#a4c8e8;--h3:#6fa7d8;--h4:#3c83c1;--h5:#195f9f;--h6:#08396a}\n"
"@media(prefers-color-scheme:dark){:root{--ground:#14171a;--card:#1b1f23;--ink:#e7e9ea;"
"--soft:#a2abb3;--line:#343b41;--accent:#74b6ff;--fill:#1e3f60;--alert:#ff9d85;"
"--h1:#17364f;--h2:#1f5079;--h3:#2c71a8;--h4:#4894d0;--h5:#80bbe9;--h6:#cde6fb}}\n"
"*{box-sizing:border-box}\n"
"html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}\n"
"@media(prefers-reduced-motion:reduce){html{scroll-behavior:auto}}\n"
"body{margin:0;background:var(--ground);color:var(--ink);"
"font:16px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif;"
"font-variant-numeric:tabular-nums}\n"
".page{max-width:72rem;margin:0 auto;padding:1.5rem clamp(1rem,4vw,2.5rem) 4rem}\n"
"code{font:.92em/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;"
"overflow-wrap:anywhere;unicode-bidi:isolate}\n"
"code span{display:inline-block;max-width:100%}\n"
"a{color:var(--accent);text-underline-offset:.15em}\n"
":focus-visible{outline:3px solid var(--accent);outline-offset:2px;border-radius:2px}\n"
".skip{position:absolute;left:-100vw;background:var(--card);padding:.5rem 1rem;z-index:1}\n"
".skip:focus{left:.5rem;top:.5rem}\n"
".over{margin:0;color:var(--soft);font-size:.875rem}\n"
"h1{margin:.1rem 0 .3rem;font-size:clamp(1.4rem,1rem + 2vw,2.1rem);line-height:1.2;"
"font-weight:650;letter-spacing:-.01em;overflow-wrap:anywhere}\n"
"h2{margin:0 0 .75rem;font-size:1.25rem;font-weight:650}\n"
"h3{margin:0 0 .6rem;font-size:1rem;font-weight:600;line-height:1.35}\n"
"section{margin-top:2.75rem;padding-top:1.25rem;border-top:1px solid var(--line)}\n"
".when{margin:0;color:var(--soft)}\n"
".answers{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(13rem,100%/2 - .5rem),1fr));"
"gap:1rem;margin:1.5rem 0 0}\n"
".answers div{background:var(--card);border:1px solid var(--line);border-radius:.5rem;"
"padding:.8rem 1rem;min-width:0}\n"
".answers dt{color:var(--soft);font-size:.875rem}\n"
".answers dd{margin:0;color:var(--soft);font-size:.875rem;overflow-wrap:anywhere}\n"
".answers dd.big{color:var(--ink);font-size:clamp(1.1rem,.65rem + 2vw,1.9rem);line-height:1.35;"
"font-weight:600;letter-spacing:-.01em}\n"
".alert,.answers dd.alert{color:var(--alert)}\n"
"nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;margin:1.25rem 0 0;"
"padding:0}\n"
"nav a{display:inline-block;padding:.35rem 0}\n"
"p{max-width:46rem;margin:.5rem 0}\n"
".soft{color:var(--soft)}\n"
".pair{background:var(--card);border:1px solid var(--line);border-radius:.5rem;"
"padding:1rem clamp(.75rem,2vw,1.25rem);margin-top:1rem;min-width:0}\n"
".two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(24rem,100%),1fr));gap:1rem 2rem}\n"
".three{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(17rem,100%),1fr));"
"gap:.75rem 2rem;margin-top:1rem}\n"
".two>*,.three>*{min-width:0}\n"
".three h3{font-weight:400;margin:0 0 .2rem}\n"
".figures{display:flex;flex-wrap:wrap;gap:.35rem 1.6rem;margin:0 0 1rem}\n"
".figures dt{color:var(--soft);font-size:.8125rem}\n"
".figures dd{margin:0;font-weight:600}\n"
"figure{margin:0}\n"
"figcaption{font-size:.875rem;color:var(--soft);margin-bottom:.5rem}\n"
/* The vertical axis, the chart, and the horizontal axis below. */
".plot{display:grid;grid-template-columns:3.6rem minmax(0,1fr);grid-template-rows:var(--height,11rem) "
"1.5rem;padding-top:.6rem}\n"
".plot svg{width:100%;height:100%;display:block;overflow:visible}\n"
".small{--height:4rem}\n"
".ys,.xs{position:relative;font-size:.75rem;line-height:1;color:var(--soft)}\n"
".xs{grid-column:2}\n"
".ys span{position:absolute;right:.5rem;transform:translateY(50%);white-space:nowrap}\n"
".xs span{position:absolute;top:.45rem;transform:translateX(-50%);white-space:nowrap}\n"
".xs span.first{transform:none}\n"
".xs span.last{transform:translateX(-100%)}\n"
".marks{position:relative;grid-column:2;height:1.1rem;font-size:.75rem;line-height:1;"
"color:var(--soft)}\n"
".marks span{position:absolute;transform:translateX(-50%);white-space:nowrap}\n"
".marked{grid-template-rows:1.1rem var(--height,11rem) 1.5rem}\n"
".grid{stroke:var(--line);stroke-width:1}\n"
".axis{stroke:var(--soft);stroke-width:1}\n"
".area{fill:var(--fill)}\n"
".curve{fill:none;stroke:var(--accent);stroke-width:1.5}\n"
".bars{fill:var(--accent)}\n"
".lost .area{fill:none}.lost .curve{stroke:var(--alert)}\n"
".mark{stroke:var(--ink);stroke-width:1;stroke-dasharray:3 3}\n"
"line,path{vector-effect:non-scaling-stroke}\n"
".l1{fill:var(--h1)}.l2{fill:var(--h2)}.l3{fill:var(--h3)}.l4{fill:var(--h4)}.l5{fill:var(--h5)}"
".l6{fill:var(--h6)}\n"
".legend{display:flex;align-items:center;gap:.4rem;font-size:.75rem;color:var(--soft);"
"margin:.25rem 0 0 3.6rem}\n"
".legend svg{width:6rem;height:.7rem}\n"
".scroll{overflow-x:auto;max-width:100%}\n"
"table{border-collapse:collapse;width:100%;font-size:.9375rem}\n"
"caption{text-align:left;color:var(--soft);font-size:.875rem;padding:0 0 .5rem}\n"
"caption code{color:var(--ink)}\n"
"th,td{padding:.4rem .9rem .4rem 0;text-align:right;vertical-align:baseline;white-space:nowrap;"
"border-bottom:1px solid var(--line)}\n"
"th:last-child,td:last-child{padding-right:0}\n"
"thead th{font-weight:500;color:var(--soft);font-size:.8125rem}\n"
"tbody th{font-weight:400}\n"
".l th:first-child,.l td:first-child,td.l,th.l{text-align:left}\n"
"tbody th code,td.l code{display:block;min-width:min(11rem,40vw);white-space:normal}\n"
".probes th:last-child{text-align:left}\n"
"td.spark{width:24%;min-width:7rem;padding-bottom:0}\n"
"td.spark svg{width:100%;height:1.5rem;display:block}\n"
".bar{background:linear-gradient(var(--accent),var(--accent)) left 100%/var(--part) 3px no-repeat;"
"min-width:5.5rem}\n"
".scroll+.scroll{margin-top:1.25rem}\n"
".threads td:nth-child(3),.threads th:nth-child(3),.processes td:nth-child(3),"
".processes th:nth-child(3){text-align:left}\n"
"details{margin-top:.6rem}\n"
"summary{cursor:pointer;color:var(--accent);font-size:.875rem;padding:.3rem 0;width:fit-content}\n"
"details .scroll{margin-top:.4rem;max-height:26rem;overflow-y:auto}\n"
"footer{margin-top:3rem;padding-top:1rem;border-top:1px solid var(--line);color:var(--soft);"
"font-size:.875rem}\n"
"@media(max-width:40rem){body{font-size:15px}.plot{grid-template-columns:3.2rem minmax(0,1fr);"
"--height:9rem}.plot.small{--height:4rem}.legend{margin-left:3.2rem}.answers{gap:.6rem}"
".answers div{padding:.6rem .7rem}section{margin-top:2rem}}\n"
"@media print{nav,.skip{display:none}section,.pair{break-inside:avoid}}\n"
"@media(forced-colors:active){.area,.bars,.l1,.l2,.l3,.l4,.l5,.l6{forced-color-adjust:none}}\n";
/* clang-format on */
