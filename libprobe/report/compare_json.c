/* SPDX-License-Identifier: MIT */
/*
 * Two summaries side by side, as JSON, one object a line; what is only in one of them is null in
 * the other:
 *
 *	{"type":"records","before":{"title":"...","begin":NS,"end":NS,"hits":N,"lost":N},"after":...}
 *	{"type":"probe","provider":"...","name":"...","before":{"hits":N,"rate":N},"after":...}
 *	{"type":"pair","begin_provider":"...","begin_name":"...","provider":"...","name":"...",
 *	 "before":{"count":N,"rate":N,"sum":NS,"sum_rate":NS,"p50":NS,"p99":NS,"max":NS},
 *	 "after":...}
 *	{"type":"pair_key",...,"key":"...","value":...,"before":{"count":N,...},"after":...}
 *	{"type":"key","provider":"...","name":"...","key":"...","value":...,
 *	 "before":{"count":N,"error":N,"rate":N},"after":...}
 */
#include <math.h>
#include <stdlib.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/output/output.h"
#include "libprobe/report/report.h"

static const char *const side_fields[SIDE_COUNT] = {",\"before\":", ",\"after\":"};

static void records(struct buffer *out, const struct comparison *comparison)
{
	buffer_string(out, "{\"type\":\"records\"");
	for (int side = 0; side < SIDE_COUNT; side++) {
		const struct probe_summary *summary = comparison->summaries[side];

		buffer_string(out, side_fields[side]);
		json_string_field(out, "{\"title\":", comparison->views[side]->title);
		json_unsigned_field(out, ",\"begin\":", summary->begin_ns);
		json_unsigned_field(out, ",\"end\":", summary->end_ns);
		json_unsigned_field(out, ",\"hits\":", summary->hits);
		json_unsigned_field(out, ",\"lost\":", summary->lost);
		json_number_field(out, ",\"rate\":", compare_rate(summary, summary->hits));
		buffer_char(out, '}');
	}
	buffer_json_end(out);
}

static void probes(struct buffer *out, const struct comparison *comparison)
{
	size_t count = 0;
	AUTO_FREE struct compared *rows = compare_probes(comparison, &count);

	out->no_memory |= !rows;
	for (size_t i = 0; rows && i < count; i++) {
		const struct summary_probe *any = compared_any(&rows[i]);

		json_string_field(out, "{\"type\":\"probe\",\"provider\":", any->provider);
		json_string_field(out, ",\"name\":", any->name);
		for (int side = 0; side < SIDE_COUNT; side++) {
			const struct summary_probe *probe = rows[i].items[side];

			buffer_string(out, side_fields[side]);
			if (!probe) {
				buffer_string(out, "null");
				continue;
			}
			json_unsigned_field(out, "{\"hits\":", probe->hits);
			json_number_field(out, ",\"rate\":",
				compare_rate(comparison->summaries[side], probe->hits));
			buffer_char(out, '}');
		}
		buffer_json_end(out);
	}
}

static void times_figures(
	struct buffer *out, const struct probe_summary *summary, const struct summary_times *times)
{
	struct probe_row row;

	if (!times) {
		buffer_string(out, "null");
		return;
	}
	summary_times_row(times, &row);
	json_unsigned_field(out, "{\"count\":", times->count);
	json_number_field(out, ",\"rate\":", compare_rate(summary, times->count));
	json_number_field(out, ",\"sum\":", times->sum);
	json_number_field(out, ",\"sum_rate\":", compare_rate(summary, times->sum));
	json_number_field(out, ",\"p50\":", probe_row_percentile(&row, 50));
	json_number_field(out, ",\"p99\":", probe_row_percentile(&row, 99));
	json_number_field(
		out, ",\"max\":", times->count ? (long double)times->most : (long double)NAN);
	buffer_char(out, '}');
}

static void pair_names(struct buffer *out, const char *type, const struct comparison *comparison,
	const struct compared *compared)
{
	enum side any = compared->items[SIDE_BEFORE] ? SIDE_BEFORE : SIDE_AFTER;
	struct summary_probe *const *names = comparison->summaries[any]->probes;
	const struct summary_pair *pair = compared->items[any];

	json_string_field(out, "{\"type\":", type);
	json_string_field(out, ",\"begin_provider\":", names[pair->begin]->provider);
	json_string_field(out, ",\"begin_name\":", names[pair->begin]->name);
	json_string_field(out, ",\"provider\":", names[pair->end]->provider);
	json_string_field(out, ",\"name\":", names[pair->end]->name);
}

static void pair_values(
	struct buffer *out, const struct comparison *comparison, const struct compared *pair)
{
	size_t count = 0;
	AUTO_FREE struct compared *rows = NULL;

	if (!pair->items[SIDE_BEFORE] || !pair->items[SIDE_AFTER])
		return;
	rows = compare_pair_values(comparison, pair, &count);
	out->no_memory |= !rows;
	for (size_t i = 0; rows && i < count; i++) {
		const struct summary_value *any = compared_any(&rows[i]);

		pair_names(out, "pair_key", comparison, pair);
		summary_json_key(out, &any->key, &any->value);
		for (int side = 0; side < SIDE_COUNT; side++) {
			const struct summary_value *its = rows[i].items[side];

			buffer_string(out, side_fields[side]);
			times_figures(out, comparison->summaries[side], its ? &its->times : NULL);
		}
		buffer_json_end(out);
	}
}

static void pairs(struct buffer *out, const struct comparison *comparison)
{
	size_t count = 0;
	AUTO_FREE struct compared *rows = compare_pairs(comparison, &count);

	out->no_memory |= !rows;
	for (size_t i = 0; rows && i < count; i++) {
		pair_names(out, "pair", comparison, &rows[i]);
		for (int side = 0; side < SIDE_COUNT; side++) {
			const struct summary_pair *pair = rows[i].items[side];

			buffer_string(out, side_fields[side]);
			times_figures(out, comparison->summaries[side], pair ? &pair->times : NULL);
		}
		buffer_json_end(out);
		pair_values(out, comparison, &rows[i]);
	}
}

static void value(struct buffer *out, const struct comparison *comparison,
	const struct summary_top *its, const struct compared *row)
{
	const struct top_slot *any = compared_any(row);

	json_string_field(out, "{\"type\":\"key\",\"provider\":", its->probe->provider);
	json_string_field(out, ",\"name\":", its->probe->name);
	summary_json_key(out, &its->key, &any->value);
	for (int side = 0; side < SIDE_COUNT; side++) {
		const struct top_slot *slot = row->items[side];

		buffer_string(out, side_fields[side]);
		if (!slot) {
			buffer_string(out, "null");
			continue;
		}
		json_unsigned_field(out, "{\"count\":", slot->count);
		json_unsigned_field(out, ",\"error\":", slot->error);
		json_number_field(
			out, ",\"rate\":", compare_rate(comparison->summaries[side], slot->count));
		buffer_char(out, '}');
	}
	buffer_json_end(out);
}

static void keys(struct buffer *out, const struct comparison *comparison)
{
	size_t count = 0;
	AUTO_FREE struct compared_top *matched = compare_tops(comparison, &count);

	out->no_memory |= !matched;
	for (size_t i = 0; matched && i < count; i++) {
		const struct summary_top *const tops[SIDE_COUNT] = {
			&matched[i].tops[SIDE_BEFORE], &matched[i].tops[SIDE_AFTER]};
		size_t value_count = 0;
		AUTO_FREE struct compared *rows = compare_values(comparison, tops, &value_count);

		out->no_memory |= !rows;
		for (size_t k = 0; rows && k < value_count; k++)
			value(out, comparison, tops[SIDE_AFTER], &rows[k]);
	}
}

void compare_json(struct buffer *out, const struct comparison *comparison)
{
	records(out, comparison);
	probes(out, comparison);
	pairs(out, comparison);
	keys(out, comparison);
}
