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
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/output/output.h"
#include "libprobe/report/report.h"

static void rate_field(struct buffer *out, const struct probe_summary *summary, uint64_t hits)
{
	double seconds = summary_seconds(summary);

	json_number_field(out, ",\"rate\":", seconds > 0 ? (double)hits / seconds : NAN);
}

static void bins_field(struct buffer *out, const char *key, const struct probe_summary *summary,
	const uint64_t *bins)
{
	buffer_string(out, key);
	buffer_char(out, '[');
	for (size_t i = 0; i < summary->bin_count; i++) {
		if (i)
			buffer_char(out, ',');
		buffer_unsigned(out, bins[i]);
	}
	buffer_char(out, ']');
}

/*
 * Writes the page's own line: its limits, and times relative to the first hit, since a script's
 * numbers have 53 bits.
 */
static void page(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	bool any = false;

	json_string_field(out, "{\"type\":\"page\",\"version\":", PROBE_VERSION);
	json_unsigned_field(out, ",\"top\":", view->top);
	json_unsigned_field(out, ",\"key_rows\":", summary_key_limit(summary, view));
	buffer_string(out, summary->key_count ? ",\"guessed\":false" : ",\"guessed\":true");
	buffer_string(out, ",\"missing\":[");
	for (size_t i = 0; i < SUMMARY_KEYS_MAX; i++) {
		if (!summary_key_missing(summary, i))
			continue;
		buffer_string(out, any ? ",\"" : "\"");
		key_print(out, &summary->keys[i]);
		buffer_char(out, '"');
		any = true;
	}
	json_unsigned_field(out, "],\"length\":", summary->end_ns - summary->begin_ns);
	json_signed_field(out, ",\"first_bin\":", summary->base_ns - (int64_t)summary->begin_ns);
	buffer_string(out, summary->matches ? ",\"by_value\":true" : ",\"by_value\":false");
	buffer_string(out, summary->more_pairs ? ",\"more_pairs\":true" : ",\"more_pairs\":false");
	buffer_json_end(out);
}

static void record(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	size_t processes = 0;

	free(threads_processes(summary, &processes));
	json_string_field(out, "{\"type\":\"record\",\"title\":", view->title);
	json_unsigned_field(out, ",\"begin\":", summary->begin_ns);
	json_unsigned_field(out, ",\"end\":", summary->end_ns);
	json_unsigned_field(out, ",\"hits\":", summary->hits);
	json_unsigned_field(out, ",\"lost\":", summary->lost);
	buffer_string(out, summary->overrun ? ",\"overrun\":true" : ",\"overrun\":false");
	buffer_string(out, summary->full ? ",\"full\":true" : ",\"full\":false");
	rate_field(out, summary, summary->hits);
	json_unsigned_field(out, ",\"probes\":", summary->probe_count);
	json_unsigned_field(out, ",\"processes\":", processes);
	json_unsigned_field(out, ",\"threads\":", summary->thread_count);
	json_signed_field(out, ",\"bin_base\":", summary->base_ns);
	json_unsigned_field(out, ",\"bin_width\":", summary->width_ns);
	bins_field(out, ",\"lost_bins\":", summary, summary->lost_bins);
	buffer_json_end(out);
}

static void figures(struct buffer *out, const struct probe_summary *summary, uint64_t hits,
	const uint64_t *bins)
{
	json_unsigned_field(out, ",\"hits\":", hits);
	json_number_field(out, ",\"share\":", (double)hits / (double)summary->hits);
	rate_field(out, summary, hits);
	bins_field(out, ",\"bins\":", summary, bins);
	buffer_json_end(out);
}

static void names(struct buffer *out, const char *type, const struct summary_probe *probe)
{
	json_string_field(out, "{\"type\":", type);
	json_string_field(out, ",\"provider\":", probe->provider);
	json_string_field(out, ",\"name\":", probe->name);
}

static void probes(struct buffer *out, const struct probe_summary *summary)
{
	const struct summary_probe **sorted = summary_probes(summary);

	for (size_t i = 0; sorted && i < summary->probe_count; i++) {
		names(out, "probe", sorted[i]);
		figures(out, summary, sorted[i]->hits, sorted[i]->bins);
	}
	if (summary->other_hits) {
		buffer_string(out, "{\"type\":\"probe\",\"provider\":null,\"name\":null");
		figures(out, summary, summary->other_hits, summary->other_bins);
	}
	out->no_memory |= !sorted;
	free(sorted);
}

/* Writes the heat rows that have hits. */
static void heat_field(
	struct buffer *out, const struct probe_summary *summary, const struct summary_pair *pair)
{
	bool any = false;

	buffer_string(out, ",\"heat\":[");
	for (size_t row = 0; row < SUMMARY_HEAT_ROWS; row++) {
		uint64_t count = 0;

		for (size_t i = 0; i < summary->bin_count; i++)
			count += pair->heat[row][i];
		if (!count)
			continue;
		json_number_field(out, any ? ",[" : "[", heat_low(row));
		json_number_field(out, ",", heat_low(row + 1));
		bins_field(out, ",", summary, pair->heat[row]);
		buffer_char(out, ']');
		any = true;
	}
	buffer_char(out, ']');
}

void summary_json_key(struct buffer *out, const struct key *key, const struct probe_value *value)
{
	buffer_string(out, ",\"key\":\"");
	key_print(out, key);
	buffer_string(out, "\",\"value\":");
	json_value(out, value);
	if (value->truncated)
		buffer_string(out, ",\"truncated\":true");
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
	const struct summary_value **rows = instances_values(summary, pair, &count);

	for (size_t i = 0; rows && i < count; i++) {
		struct probe_table_row row = named_row(summary, pair);

		summary_times_row(&rows[i]->times, &row.row);
		buffer_string(out, "{\"type\":\"pair_key\",");
		json_row_fields(out, &row, 0, &view);
		summary_json_key(out, &rows[i]->key, &rows[i]->value);
		buffer_json_end(out);
	}
	out->no_memory |= !rows;
	free(rows);
}

static void slowest(
	struct buffer *out, const struct probe_summary *summary, const struct summary_pair *pair)
{
	const struct summary_probe *end = summary->probes[pair->end];

	for (size_t i = 0; i < pair->slow_count; i++) {
		const struct summary_slow *slow = &pair->slow[i];

		names(out, "longest", end);
		json_unsigned_field(out, ",\"ts\":", slow->time_ns);
		json_unsigned_field(out, ",\"duration\":", slow->duration_ns);
		json_signed_field(out, ",\"pid\":", slow->pid);
		json_signed_field(out, ",\"tid\":", slow->tid);
		json_string_field(out, ",\"text\":", slow->text);
		if (slow->stack)
			json_stack_fields(out, ",\"stack\":", slow->stack);
		buffer_json_end(out);
	}
}

static void pairs(struct buffer *out, const struct probe_summary *summary)
{
	static const struct probe_view view = {
		.columns = TIMES | PROBE_COLUMN_BUCKETS | PROBE_COLUMN_PAIRS,
		.times = true,
	};
	const struct summary_pair **sorted = summary_pairs(summary);

	for (size_t i = 0; sorted && i < summary->pair_count; i++) {
		const struct summary_probe *begin = summary->probes[sorted[i]->begin];
		struct probe_table_row row = named_row(summary, sorted[i]);

		pair_row(sorted[i], summary, &row.row);
		buffer_string(out, "{\"type\":\"pair\",");
		json_row_fields(out, &row, 0, &view);
		json_unsigned_field(out, ",\"set_aside\":", begin->set_aside);
		json_unsigned_field(out, ",\"untimed\":", begin->untimed);
		heat_field(out, summary, sorted[i]);
		buffer_json_end(out);
		pair_values(out, summary, sorted[i]);
		slowest(out, summary, sorted[i]);
	}
	out->no_memory |= !sorted;
	free(sorted);
}

/* Writes the value as the tables of text have it. */
static void text_field(
	struct buffer *out, const struct summary_top *its, const struct probe_value *value)
{
	struct buffer text;

	if (!buffer_init(&text)) {
		out->no_memory = true;
		return;
	}
	text_meant(&text, summary_top_meaning(its), value);
	buffer_string(out, ",\"text\":");
	json_string(out, text.data, text.length);
	out->no_memory |= text.no_memory;
	buffer_deinit(&text);
}

static void key(struct buffer *out, const struct summary_top *its, bool for_page)
{
	const struct top_slot **sorted = top_sorted(its->top);

	for (size_t i = 0; sorted && i < its->top->used; i++) {
		names(out, "key", its->probe);
		summary_json_key(out, &its->key, &sorted[i]->value);
		if (for_page)
			text_field(out, its, &sorted[i]->value);
		json_unsigned_field(out, ",\"count\":", sorted[i]->count);
		json_unsigned_field(out, ",\"error\":", sorted[i]->error);
		json_number_field(
			out, ",\"share\":", (double)sorted[i]->count / (double)its->top->total);
		buffer_json_end(out);
	}
	out->no_memory |= !sorted;
	free(sorted);
}

static void keys(struct buffer *out, const struct probe_summary *summary, bool for_page)
{
	struct summary_top *tops;
	size_t count;

	tops = summary_tops(summary, &count);
	for (size_t i = 0; tops && i < count; i++)
		key(out, &tops[i], for_page);
	out->no_memory |= !tops;
	free(tops);
}

static void callers(struct buffer *out, const struct probe_summary *summary)
{
	struct probe_stacks_row *rows = callers_rows(summary);

	for (size_t i = 0; rows && i < summary->callers_count; i++) {
		json_string_field(out, "{\"type\":\"stack\",\"provider\":", rows[i].provider);
		json_string_field(out, ",\"name\":", rows[i].name);
		json_unsigned_field(out, ",\"count\":", rows[i].count);
		json_stack_fields(out, ",\"stack\":", &rows[i].stack);
		buffer_json_end(out);
	}
	if (summary->other_callers) {
		json_unsigned_field(out,
			"{\"type\":\"stack\",\"provider\":null,\"name\":null,\"count\":",
			summary->other_callers);
		buffer_json_end(out);
	}
	out->no_memory |= !rows;
	free(rows);
}

static void people(struct buffer *out, const struct probe_summary *summary)
{
	const struct summary_thread **sorted = threads_sorted(summary);
	struct summary_process *processes;
	size_t count;

	processes = threads_processes(summary, &count);
	for (size_t i = 0; processes && i < count; i++) {
		json_signed_field(out, "{\"type\":\"process\",\"pid\":", processes[i].pid);
		json_string_field(out, ",\"comm\":", processes[i].comm);
		json_unsigned_field(out, ",\"hits\":", processes[i].hits);
		json_unsigned_field(out, ",\"threads\":", processes[i].threads);
		buffer_json_end(out);
	}
	for (size_t i = 0; sorted && i < summary->thread_count; i++) {
		json_signed_field(out, "{\"type\":\"thread\",\"pid\":", sorted[i]->pid);
		json_signed_field(out, ",\"tid\":", sorted[i]->tid);
		json_string_field(out, ",\"comm\":", sorted[i]->comm);
		json_unsigned_field(out, ",\"hits\":", sorted[i]->hits);
		buffer_json_end(out);
	}
	if (summary->other_thread_hits) {
		json_unsigned_field(out,
			"{\"type\":\"thread\",\"pid\":null,\"tid\":null,\"comm\":null,\"hits\":",
			summary->other_thread_hits);
		buffer_json_end(out);
	}
	out->no_memory |= !sorted || !processes;
	free(sorted);
	free(processes);
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
