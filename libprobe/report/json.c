/* SPDX-License-Identifier: MIT */
/*
 * A summary as JSON (RFC 8259), one object per line:
 *
 *	{"type":"record","title":"...","begin":NS,"end":NS,"hits":N,"lost":N,
 *	 "overrun":false,"full":false,"rate":N,"probes":N,"processes":N,"threads":N,
 *	 "bin_base":NS,"bin_width":NS,"lost_bins":[N,...]}
 *	{"type":"probe","provider":"...","name":"...","hits":N,"share":N,"rate":N,"bins":[N,...]}
 *	{"type":"pair", and the fields of a row of `trace -t latency`, "set_aside":N,
 *	 "untimed":N,"heat":[[LOW,HIGH,[N,...]],...]}
 *	{"type":"key","provider":"...","name":"...","key":"str(arg0)","value":...,
 *	 "count":N,"error":N,"share":N}
 *	{"type":"stack","provider":"...","name":"...","count":N,"stack":"whole","frames":[...]}
 *	{"type":"process","pid":N,"comm":"...","hits":N,"threads":N}
 *	{"type":"thread","pid":N,"tid":N,"comm":"...","hits":N}
 *
 * Bin i starts at bin_base + i * bin_width and lasts bin_width. Hits beyond the limits have null in
 * place of a name.
 *
 * The HTML page has these lines, too, with "text" in those of keys, after a line of its own:
 *
 *	{"type":"page","version":"...","top":N,"key_rows":N,"guessed":true,"missing":["str(arg0)"],
 *	 "length":NS,"first_bin":NS,"by_value":false,"more_pairs":false}
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/output/output.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/report/report.h"

static void bins_field(struct buffer *out, const char *name, const struct probe_summary *summary,
	const uint64_t *bins)
{
	json_open(out, name, '[');
	for (size_t i = 0; i < summary->bin_count; i++)
		json_unsigned(out, NULL, bins[i]);
	json_close(out, ']');
}

void summary_json_open(struct buffer *out, const char *type)
{
	json_open(out, NULL, '{');
	json_text(out, "type", type);
}

static void key_name(struct buffer *out, const char *name, const struct key *key)
{
	json_begin(out, name);
	buffer_char(out, '"');
	key_print(out, key);
	buffer_char(out, '"');
}

/* Writes the page's own line: limits, and times since the first hit, to fit into 53 bits. */
static void page(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	summary_json_open(out, "page");
	json_text(out, "version", PROBE_VERSION);
	json_unsigned(out, "top", view->top);
	json_unsigned(out, "key_rows", summary_key_limit(summary, view));
	json_boolean(out, "guessed", !summary->key_count);
	json_open(out, "missing", '[');
	for (size_t i = 0; i < SUMMARY_KEYS_MAX; i++) {
		if (summary_key_missing(summary, i))
			key_name(out, NULL, &summary->keys[i]);
	}
	json_close(out, ']');
	json_unsigned(out, "length", summary->end_ns - summary->begin_ns);
	json_signed(out, "first_bin", summary->base_ns - (int64_t)summary->begin_ns);
	json_boolean(out, "by_value", summary->matches);
	json_boolean(out, "more_pairs", summary->more_pairs);
	json_end_line(out);
}

static void record(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	size_t processes = 0;

	free(threads_processes(summary, &processes));
	summary_json_open(out, "record");
	json_text(out, "title", view->title);
	json_unsigned(out, "begin", summary->begin_ns);
	json_unsigned(out, "end", summary->end_ns);
	json_unsigned(out, "hits", summary->hits);
	json_unsigned(out, "lost", summary->lost);
	json_boolean(out, "overrun", summary->overrun);
	json_boolean(out, "full", summary->full);
	json_number(out, "rate", summary_per_second(summary, summary->hits));
	json_unsigned(out, "probes", summary->probe_count);
	json_unsigned(out, "processes", processes);
	json_unsigned(out, "threads", summary->threads.count);
	json_signed(out, "bin_base", summary->base_ns);
	json_unsigned(out, "bin_width", summary->width_ns);
	bins_field(out, "lost_bins", summary, summary->lost_bins);
	json_end_line(out);
}

static void figures(struct buffer *out, const struct probe_summary *summary, uint64_t hits,
	const uint64_t *bins)
{
	json_unsigned(out, "hits", hits);
	json_number(out, "share", (double)hits / (double)summary->hits);
	json_number(out, "rate", summary_per_second(summary, hits));
	bins_field(out, "bins", summary, bins);
	json_end_line(out);
}

void summary_json_open_named(
	struct buffer *out, const char *type, const char *provider, const char *name)
{
	summary_json_open(out, type);
	json_text(out, "provider", provider);
	json_text(out, "name", name);
}

static void probes(struct buffer *out, const struct probe_summary *summary)
{
	AUTO_FREE const struct summary_probe **sorted = summary_probes(summary);

	for (size_t i = 0; sorted && i < summary->probe_count; i++) {
		summary_json_open_named(out, "probe", sorted[i]->provider, sorted[i]->name);
		figures(out, summary, sorted[i]->hits, sorted[i]->bins);
	}
	if (summary->other_hits) {
		summary_json_open_named(out, "probe", NULL, NULL);
		figures(out, summary, summary->other_hits, summary->other_bins);
	}
	out->no_memory |= !sorted;
}

/* Writes the heat rows that have hits. */
static void heat_field(
	struct buffer *out, const struct probe_summary *summary, const struct summary_pair *pair)
{
	json_open(out, "heat", '[');
	for (size_t row = 0; row < SUMMARY_HEAT_ROWS; row++) {
		uint64_t count = 0;

		for (size_t i = 0; i < summary->bin_count; i++)
			count += pair->heat[row][i];
		if (!count)
			continue;
		json_open(out, NULL, '[');
		json_number(out, NULL, heat_low(row));
		json_number(out, NULL, heat_low(row + 1));
		bins_field(out, NULL, summary, pair->heat[row]);
		json_close(out, ']');
	}
	json_close(out, ']');
}

void summary_json_key(struct buffer *out, const struct key *key, const struct probe_value *value)
{
	key_name(out, "key", key);
	json_value(out, "value", value);
	if (value->truncated)
		json_boolean(out, "truncated", true);
}

static struct probe_table_row named_row(
	const struct probe_summary *summary, const struct summary_pair *pair)
{
	const struct summary_probe *begin = summary->probes[pair->begin];
	const struct summary_probe *end = summary->probes[pair->end];

	return (struct probe_table_row){.provider = end->provider,
		.name = end->name,
		.begin_provider = begin->provider,
		.begin_name = begin->name,
		.unmatched = pair->unmatched};
}

enum {
	TIMES = PROBE_COLUMN_SUM | PROBE_COLUMN_MIN | PROBE_COLUMN_MAX | PROBE_COLUMN_AVERAGE |
		PROBE_COLUMN_PERCENTILES
};

static void pair_values(
	struct buffer *out, const struct probe_summary *summary, const struct summary_pair *pair)
{
	static const struct probe_view view = {.columns = TIMES, .times = true};
	size_t count;
	AUTO_FREE const struct summary_value **rows = instances_values(summary, pair, &count);

	for (size_t i = 0; rows && i < count; i++) {
		struct probe_table_row row = named_row(summary, pair);

		summary_times_row(&rows[i]->times, &row.row);
		summary_json_open(out, "pair_key");
		json_row_fields(out, &row, 0, &view);
		summary_json_key(out, &rows[i]->key, &rows[i]->value);
		json_end_line(out);
	}
	out->no_memory |= !rows;
}

static void slowest(
	struct buffer *out, const struct probe_summary *summary, const struct summary_pair *pair)
{
	const struct summary_probe *end = summary->probes[pair->end];

	for (size_t i = 0; i < pair->slow_count; i++) {
		const struct summary_slow *slow = &pair->slow[i];

		summary_json_open_named(out, "longest", end->provider, end->name);
		json_unsigned(out, "ts", slow->time_ns);
		json_unsigned(out, "duration", slow->duration_ns);
		json_signed(out, "pid", slow->pid);
		json_signed(out, "tid", slow->tid);
		json_text(out, "text", slow->text);
		if (slow->stack)
			json_stack_fields(out, "stack", slow->stack);
		json_end_line(out);
	}
}

static void pairs(struct buffer *out, const struct probe_summary *summary)
{
	static const struct probe_view view = {
		.columns = TIMES | PROBE_COLUMN_BUCKETS | PROBE_COLUMN_PAIRS,
		.times = true,
	};
	AUTO_FREE const struct summary_pair **sorted = summary_pairs(summary);

	for (size_t i = 0; sorted && i < summary->pair_count; i++) {
		const struct summary_probe *begin = summary->probes[sorted[i]->begin];
		struct probe_table_row row = named_row(summary, sorted[i]);

		pair_row(sorted[i], summary, &row.row);
		summary_json_open(out, "pair");
		json_row_fields(out, &row, 0, &view);
		json_unsigned(out, "set_aside", begin->set_aside);
		json_unsigned(out, "untimed", begin->untimed);
		heat_field(out, summary, sorted[i]);
		json_end_line(out);
		pair_values(out, summary, sorted[i]);
		slowest(out, summary, sorted[i]);
	}
	out->no_memory |= !sorted;
}

static void keys(struct buffer *out, const struct probe_summary *summary, bool for_page)
{
	AUTO_FREE struct summary_top *tops = NULL;
	AUTO(buffer_deinit) struct buffer text = {0};
	size_t count;

	tops = summary_tops(summary, &count);
	for (size_t i = 0; tops && i < count; i++) {
		const struct summary_top *its = &tops[i];
		const struct top_slot **sorted = top_sorted(its->top);

		for (size_t k = 0; sorted && k < its->top->used; k++) {
			const struct top_slot *slot = sorted[k];

			summary_json_open_named(out, "key", its->probe->provider, its->probe->name);
			summary_json_key(out, &its->key, &slot->value);
			/* The page shows the value as text tables do. */
			text.length = 0;
			if (for_page) {
				text_meant(&text, summary_top_meaning(its), &slot->value);
				json_bytes(out, "text", text.data, text.length);
			}
			json_unsigned(out, "count", slot->count);
			json_unsigned(out, "error", slot->error);
			json_number(out, "share", (double)slot->count / (double)its->top->total);
			json_end_line(out);
		}
		out->no_memory |= !sorted;
		free(sorted);
	}
	out->no_memory |= !tops || text.no_memory;
}

static void callers(struct buffer *out, const struct probe_summary *summary)
{
	AUTO_FREE struct probe_stacks_row *rows = callers_rows(summary);

	for (size_t i = 0; rows && i < summary->callers_count; i++) {
		summary_json_open_named(out, "stack", rows[i].provider, rows[i].name);
		json_unsigned(out, "count", rows[i].count);
		json_stack_fields(out, "stack", &rows[i].stack);
		json_end_line(out);
	}
	if (summary->other_callers) {
		summary_json_open_named(out, "stack", NULL, NULL);
		json_unsigned(out, "count", summary->other_callers);
		json_end_line(out);
	}
	out->no_memory |= !rows;
}

static void people(struct buffer *out, const struct probe_summary *summary)
{
	AUTO_FREE const struct summary_thread **sorted = threads_sorted(summary);
	AUTO_FREE struct summary_process *processes = NULL;
	size_t count;

	processes = threads_processes(summary, &count);
	for (size_t i = 0; processes && i < count; i++) {
		summary_json_open(out, "process");
		json_signed(out, "pid", processes[i].pid);
		json_text(out, "comm", processes[i].comm);
		json_unsigned(out, "hits", processes[i].hits);
		json_unsigned(out, "threads", processes[i].threads);
		json_end_line(out);
	}
	for (size_t i = 0; sorted && i < summary->threads.count; i++) {
		summary_json_open(out, "thread");
		json_signed(out, "pid", sorted[i]->pid);
		json_signed(out, "tid", sorted[i]->tid);
		json_text(out, "comm", sorted[i]->comm);
		json_unsigned(out, "hits", sorted[i]->hits);
		json_end_line(out);
	}
	if (summary->other_thread_hits) {
		summary_json_open(out, "thread");
		json_null(out, "pid");
		json_null(out, "tid");
		json_null(out, "comm");
		json_unsigned(out, "hits", summary->other_thread_hits);
		json_end_line(out);
	}
	out->no_memory |= !sorted || !processes;
}

void summary_json(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view, bool for_page)
{
	if (for_page)
		page(out, summary, view);
	record(out, summary, view);
	if (!summary->events)
		return;
	probes(out, summary);
	pairs(out, summary);
	keys(out, summary, for_page);
	callers(out, summary);
	people(out, summary);
}

/* ==== The page ================================================================================ */

/* A page is page.html, with these lines in place of one. Its script makes charts and tables. */

static const char place[] = "\nRECORD\n";

void summary_html(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	const char *rest = strstr(page_template, place) + 1;
	AUTO(buffer_deinit) struct buffer json = {0};

	summary_json(&json, summary, view, true);
	buffer_bytes(out, page_template, (size_t)(rest - page_template));
	/* Strings may hold `</script>` or `<!--`, which would end the element. */
	for (size_t i = 0; i < json.length; i++) {
		if (json.data[i] == '<')
			buffer_string(out, "\\u003c");
		else
			buffer_char(out, json.data[i]);
	}
	buffer_string(out, rest + strlen(place) - 1);
	out->no_memory |= json.no_memory;
}
