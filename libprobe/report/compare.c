/* SPDX-License-Identifier: MIT */
/* Compares two summaries, by rates, because records differ in length. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/event.h"
#include "libprobe/base/value.h"
#include "libprobe/output/output.h"
#include "libprobe/report/report.h"

/* ==== Comparing =============================================================================== */

enum side { SIDE_BEFORE, SIDE_AFTER, SIDE_COUNT };

struct comparison {
	const struct probe_summary *summaries[SIDE_COUNT];
	const struct probe_summary_view *views[SIDE_COUNT];
};

/* A row of one summary or of both. An item is NULL if its summary does not have the row. */
struct compared {
	const void *items[SIDE_COUNT];
	unsigned int group;
	double change; /* of the amount per second */
	size_t place;  /* position before sorting; equal rows keep their order */
};

/* The two summaries' tables of one key. */
struct compared_top {
	struct summary_top tops[SIDE_COUNT];
};

/* Returns the row of the first summary or, if that has none, of the second. */
static const void *compared_any(const struct compared *compared)
{
	return compared->items[SIDE_BEFORE] ? compared->items[SIDE_BEFORE]
					    : compared->items[SIDE_AFTER];
}

/* A kind of rows, each of which joins an item of one summary and the same item of the other. */
struct row_kind {
	bool (*same)(const struct comparison *comparison, const void *before, const void *after);
	/* The rows' amounts are a number of hits, or the sum of these times. */
	uint64_t (*hits)(const void *item);
	const struct summary_times *(*times)(const void *item);
	/* Returns the group by which rows are sorted first. NULL if there are no groups. */
	unsigned int (*group)(const void *item);
};

static int by_change(const void *a, const void *b)
{
	const struct compared *left = a, *right = b;

	return ORDER(left->group, right->group) ?: ORDER(right->change, left->change)
		?: ORDER(left->place, right->place);
}

/* Returns the amount per second of an item, which may be NULL. */
static double rate_of(const struct comparison *comparison, const struct row_kind *kind,
	enum side side, const void *item)
{
	double rate;

	if (!item)
		return 0;
	rate = summary_per_second(comparison->summaries[side],
		kind->times ? kind->times(item)->sum : (long double)kind->hits(item));
	return isnan(rate) ? 0 : rate;
}

/*
 * Matches the items of two arrays of pointers, which it frees. Returns NULL if an array is NULL or
 * memory runs out.
 */
static struct compared *match(const struct comparison *comparison, const struct row_kind *kind,
	void *before, size_t before_count, void *after, size_t after_count, size_t *count_ret)
{
	AUTO_FREE const void **lefts = before, **rights = after;
	AUTO_FREE bool *taken = calloc(after_count + 1, sizeof(*taken));
	struct compared *rows = calloc(before_count + after_count + 1, sizeof(*rows));
	size_t count = 0;

	*count_ret = 0;
	if (!lefts || !rights || !taken || !rows) {
		free(rows);
		return NULL;
	}
	for (size_t i = 0; i < before_count; i++) {
		size_t k = 0;

		while (k < after_count &&
			(taken[k] || !kind->same(comparison, lefts[i], rights[k])))
			k++;
		taken[k] = true;
		rows[count++].items[SIDE_BEFORE] = lefts[i];
		if (k < after_count)
			rows[count - 1].items[SIDE_AFTER] = rights[k];
	}
	for (size_t k = 0; k < after_count; k++)
		if (!taken[k])
			rows[count++].items[SIDE_AFTER] = rights[k];
	for (size_t i = 0; i < count; i++) {
		rows[i].group = kind->group ? kind->group(compared_any(&rows[i])) : 0;
		rows[i].change =
			fabs(rate_of(comparison, kind, SIDE_AFTER, rows[i].items[SIDE_AFTER]) -
				rate_of(comparison, kind, SIDE_BEFORE, rows[i].items[SIDE_BEFORE]));
		rows[i].place = i;
	}
	qsort(rows, count, sizeof(*rows), by_change);
	*count_ret = count;
	return rows;
}

/* ---- Probes ---------------------------------------------------------------------------- */

static bool same_name(const struct summary_probe *a, const struct summary_probe *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->provider, b->provider) == 0;
}

static bool same_probe(const struct comparison *comparison, const void *before, const void *after)
{
	(void)comparison;
	return same_name(before, after);
}

static uint64_t probe_hits(const void *item)
{
	return ((const struct summary_probe *)item)->hits;
}

static const struct row_kind probe_rows = {.same = same_probe, .hits = probe_hits};

static struct compared *compare_probes(const struct comparison *comparison, size_t *count_ret)
{
	const struct probe_summary *before = comparison->summaries[SIDE_BEFORE];
	const struct probe_summary *after = comparison->summaries[SIDE_AFTER];

	return match(comparison, &probe_rows, summary_probes(before), before->probe_count,
		summary_probes(after), after->probe_count, count_ret);
}

/* ---- Pairs ----------------------------------------------------------------------------- */

static bool same_pair(const struct comparison *comparison, const void *before, const void *after)
{
	const struct summary_pair *a = before, *b = after;
	struct summary_probe *const *left = comparison->summaries[SIDE_BEFORE]->probes;
	struct summary_probe *const *right = comparison->summaries[SIDE_AFTER]->probes;

	return same_name(left[a->begin], right[b->begin]) && same_name(left[a->end], right[b->end]);
}

static const struct summary_times *pair_times(const void *item)
{
	return &((const struct summary_pair *)item)->times;
}

static const struct row_kind pair_rows = {.same = same_pair, .times = pair_times};

static struct compared *compare_pairs(const struct comparison *comparison, size_t *count_ret)
{
	const struct probe_summary *before = comparison->summaries[SIDE_BEFORE];
	const struct probe_summary *after = comparison->summaries[SIDE_AFTER];

	return match(comparison, &pair_rows, summary_pairs(before), before->pair_count,
		summary_pairs(after), after->pair_count, count_ret);
}

/* ---- Values of pairs ------------------------------------------------------------------- */

static unsigned int key_group(const void *item)
{
	const struct key *key = &((const struct summary_value *)item)->key;

	return (unsigned int)key->kind << 8 | key->arg;
}

static bool same_pair_value(
	const struct comparison *comparison, const void *before, const void *after)
{
	const struct summary_value *a = before, *b = after;

	(void)comparison;
	return key_same(&a->key, &b->key) && a->value.truncated == b->value.truncated &&
	       value_compare(&a->value, &b->value) == 0;
}

static const struct summary_times *pair_value_times(const void *item)
{
	return &((const struct summary_value *)item)->times;
}

static const struct row_kind pair_value_rows = {
	.same = same_pair_value, .times = pair_value_times, .group = key_group};

/* Matches the rows (struct summary_value) of a pair, by key, then by the largest change. */
static struct compared *compare_pair_values(
	const struct comparison *comparison, const struct compared *pair, size_t *count_ret)
{
	size_t before_count, after_count;
	const struct summary_value **before = instances_values(
		comparison->summaries[SIDE_BEFORE], pair->items[SIDE_BEFORE], &before_count);
	const struct summary_value **after = instances_values(
		comparison->summaries[SIDE_AFTER], pair->items[SIDE_AFTER], &after_count);

	return match(
		comparison, &pair_value_rows, before, before_count, after, after_count, count_ret);
}

/* ---- Values of keys -------------------------------------------------------------------- */

static bool same_value(const struct comparison *comparison, const void *before, const void *after)
{
	const struct top_slot *a = before, *b = after;

	(void)comparison;
	return value_class(&a->value) == value_class(&b->value) &&
	       value_compare(&a->value, &b->value) == 0;
}

static uint64_t value_hits(const void *item)
{
	return ((const struct top_slot *)item)->count;
}

static const struct row_kind value_rows = {.same = same_value, .hits = value_hits};

static struct compared *compare_values(const struct comparison *comparison,
	const struct summary_top *const tops[SIDE_COUNT], size_t *count_ret)
{
	const struct top *left = tops[SIDE_BEFORE]->top, *right = tops[SIDE_AFTER]->top;

	return match(comparison, &value_rows, top_sorted(left), left->used, top_sorted(right),
		right->used, count_ret);
}

static struct compared_top *compare_tops(const struct comparison *comparison, size_t *count_ret)
{
	size_t before_count, after_count;
	AUTO_FREE struct summary_top *before =
		summary_tops(comparison->summaries[SIDE_BEFORE], &before_count);
	AUTO_FREE struct summary_top *after =
		summary_tops(comparison->summaries[SIDE_AFTER], &after_count);
	struct compared_top *matched = calloc(before_count + 1, sizeof(*matched));

	*count_ret = 0;
	for (size_t i = 0; before && after && matched && i < before_count; i++) {
		for (size_t j = 0; j < after_count; j++) {
			if (key_same(&before[i].key, &after[j].key) &&
				same_name(before[i].probe, after[j].probe))
				matched[(*count_ret)++] =
					(struct compared_top){{before[i], after[j]}};
		}
	}
	if (before && after)
		return matched;
	free(matched);
	return NULL;
}

/* ==== JSON ==================================================================================== */

/*
 * Writes the comparison as JSON, one object per line. If one summary does not have a row, its part
 * is null:
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

static const char *const side_names[SIDE_COUNT] = {"before", "after"};

static void records(struct buffer *out, const struct comparison *comparison)
{
	summary_json_open(out, "records");
	for (int side = 0; side < SIDE_COUNT; side++) {
		const struct probe_summary *summary = comparison->summaries[side];

		json_open(out, side_names[side], '{');
		json_text(out, "title", comparison->views[side]->title);
		json_unsigned(out, "begin", summary->begin_ns);
		json_unsigned(out, "end", summary->end_ns);
		json_unsigned(out, "hits", summary->hits);
		json_unsigned(out, "lost", summary->lost);
		json_number(out, "rate", summary_per_second(summary, summary->hits));
		json_close(out, '}');
	}
	json_end_line(out);
}

static void compare_json_probes(struct buffer *out, const struct comparison *comparison)
{
	size_t count = 0;
	AUTO_FREE struct compared *rows = compare_probes(comparison, &count);

	out->no_memory |= !rows;
	for (size_t i = 0; rows && i < count; i++) {
		const struct summary_probe *any = compared_any(&rows[i]);

		summary_json_open_named(out, "probe", any->provider, any->name);
		for (int side = 0; side < SIDE_COUNT; side++) {
			const struct summary_probe *probe = rows[i].items[side];

			if (!probe) {
				json_null(out, side_names[side]);
				continue;
			}
			json_open(out, side_names[side], '{');
			json_unsigned(out, "hits", probe->hits);
			json_number(out, "rate",
				summary_per_second(comparison->summaries[side], probe->hits));
			json_close(out, '}');
		}
		json_end_line(out);
	}
}

/* Writes the times of both sides, and ends the line. */
static void times_fields(struct buffer *out, const struct comparison *comparison,
	const struct row_kind *kind, const struct compared *compared)
{
	for (int side = 0; side < SIDE_COUNT; side++) {
		const struct probe_summary *summary = comparison->summaries[side];
		const struct summary_times *times;
		struct probe_row row;

		if (!compared->items[side]) {
			json_null(out, side_names[side]);
			continue;
		}
		times = kind->times(compared->items[side]);
		summary_times_row(times, &row);
		json_open(out, side_names[side], '{');
		json_unsigned(out, "count", times->count);
		json_number(out, "rate", summary_per_second(summary, times->count));
		json_number(out, "sum", times->sum);
		json_number(out, "sum_rate", summary_per_second(summary, times->sum));
		json_number(out, "p50", probe_row_percentile(&row, 50));
		json_number(out, "p99", probe_row_percentile(&row, 99));
		json_number(out, "max", times->count ? (long double)times->most : (long double)NAN);
		json_close(out, '}');
	}
	json_end_line(out);
}

static void pair_names(struct buffer *out, const char *type, const struct comparison *comparison,
	const struct compared *compared)
{
	enum side any = compared->items[SIDE_BEFORE] ? SIDE_BEFORE : SIDE_AFTER;
	struct summary_probe *const *names = comparison->summaries[any]->probes;
	const struct summary_pair *pair = compared->items[any];

	summary_json_open(out, type);
	json_text(out, "begin_provider", names[pair->begin]->provider);
	json_text(out, "begin_name", names[pair->begin]->name);
	json_text(out, "provider", names[pair->end]->provider);
	json_text(out, "name", names[pair->end]->name);
}

static void compare_json_pair_values(
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
		times_fields(out, comparison, &pair_value_rows, &rows[i]);
	}
}

static void compare_json_pairs(struct buffer *out, const struct comparison *comparison)
{
	size_t count = 0;
	AUTO_FREE struct compared *rows = compare_pairs(comparison, &count);

	out->no_memory |= !rows;
	for (size_t i = 0; rows && i < count; i++) {
		pair_names(out, "pair", comparison, &rows[i]);
		times_fields(out, comparison, &pair_rows, &rows[i]);
		compare_json_pair_values(out, comparison, &rows[i]);
	}
}

static void value(struct buffer *out, const struct comparison *comparison,
	const struct summary_top *its, const struct compared *row)
{
	const struct top_slot *any = compared_any(row);

	summary_json_open_named(out, "key", its->probe->provider, its->probe->name);
	summary_json_key(out, &its->key, &any->value);
	for (int side = 0; side < SIDE_COUNT; side++) {
		const struct top_slot *slot = row->items[side];

		if (!slot) {
			json_null(out, side_names[side]);
			continue;
		}
		json_open(out, side_names[side], '{');
		json_unsigned(out, "count", slot->count);
		json_unsigned(out, "error", slot->error);
		json_number(
			out, "rate", summary_per_second(comparison->summaries[side], slot->count));
		json_close(out, '}');
	}
	json_end_line(out);
}

static void compare_json_keys(struct buffer *out, const struct comparison *comparison)
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

/* ==== Text ==================================================================================== */

/*
 * Writes the comparison as text:
 *
 *	PROBE                     HITS  AFTER  RATE/s  AFTER  CHANGE
 *	postgresql:query__start  10000   5000    1000    500  -50.0%
 *
 * A column AFTER belongs to the column before it, and CHANGE to both. CHANGE/s is the change of a
 * total per second, because records differ in length.
 */

/* Changes greater than this are shown as a factor. */
enum { PERCENT_MAX = 1000 };

/* Writes "+12.3%", "x25", "new" or "gone"; "?" if an amount is unknown, as its row may be dropped.
 */
static void change_cell(
	struct grid *grid, const double amounts[SIDE_COUNT], const bool known[SIDE_COUNT])
{
	double before = amounts[SIDE_BEFORE], after = amounts[SIDE_AFTER];
	double percent = 100 * (after / before - 1);
	char text[64];

	if (!known[SIDE_BEFORE] || !known[SIDE_AFTER])
		strcpy(text, "?");
	else if (!(before > 0))
		strcpy(text, after > 0 ? "new" : "-");
	else if (!(after > 0))
		strcpy(text, "gone");
	else if (percent < PERCENT_MAX)
		snprintf(text, sizeof(text), "%+.1f%%", percent);
	else
		snprintf(text, sizeof(text), "x%.0f", after / before);
	buffer_string(&grid->text, text);
	grid_end(grid);
}

/* Writes counts ("~": inexact), rates and change; "?" for a row that may have been dropped. */
static void count_cells(struct grid *grid, const struct comparison *comparison,
	const uint64_t counts[SIDE_COUNT], const bool known[SIDE_COUNT])
{
	struct buffer *text = &grid->text;
	double rates[SIDE_COUNT];

	for (int side = 0; side < SIDE_COUNT; side++) {
		rates[side] = summary_per_second(comparison->summaries[side], counts[side]);
		if (!known[side])
			buffer_char(text, counts[side] ? '~' : '?');
		if (known[side] || counts[side])
			buffer_unsigned(text, counts[side]);
		grid_end(grid);
	}
	for (int side = 0; side < SIDE_COUNT; side++) {
		if (!known[side])
			buffer_char(text, counts[side] ? '~' : '?');
		if (known[side] || counts[side])
			summary_rate(text, comparison->summaries[side], counts[side]);
		grid_end(grid);
	}
	change_cell(grid, rates, known);
}

static const bool both_known[SIDE_COUNT] = {true, true};

/* ---- Probes ---------------------------------------------------------------------------- */

static void probes(struct buffer *out, const struct comparison *comparison)
{
	size_t count = 0, shown;
	AUTO_FREE struct compared *rows = compare_probes(comparison, &count);
	AUTO(grid_deinit) struct grid grid = {0};

	out->no_memory |= !rows;
	if (!rows)
		return;
	shown = summary_shown(count, comparison->views[SIDE_AFTER]->top);
	buffer_char(out, '\n');
	grid_titles(&grid, "PROBE<HITS>AFTER>RATE/s>AFTER>CHANGE>");
	for (size_t i = 0; i < shown; i++) {
		const struct summary_probe *any = compared_any(&rows[i]);
		uint64_t hits[SIDE_COUNT];

		event_put_probe(&grid.text, any->provider, any->name);
		grid_end(&grid);
		for (int side = 0; side < SIDE_COUNT; side++) {
			const struct summary_probe *probe = rows[i].items[side];

			hits[side] = probe ? probe->hits : 0;
		}
		count_cells(&grid, comparison, hits, both_known);
	}
	grid_print(&grid, out, 0);
	text_more(out, count - shown, " more probe (--top)\n", " more probes (--top)\n");
}

/* ---- Pairs ----------------------------------------------------------------------------- */

static void times_titles(struct grid *grid)
{
	grid_titles(grid, "COUNT>AFTER>TOTAL>AFTER>CHANGE/s>P50>AFTER>CHANGE>P99>AFTER>CHANGE>");
	grid_titles(grid, "MAX>AFTER>CHANGE>");
}

/* Writes durations. known[] is true if a summary without the row certainly had no such pairs. */
static void times_cells(struct grid *grid, const struct comparison *comparison,
	const struct row_kind *kind, const struct compared *compared, const bool known[SIDE_COUNT])
{
	enum { TOTAL, P50, P99, MOST, DURATIONS };
	double durations[DURATIONS][SIDE_COUNT], busy[SIDE_COUNT];

	for (int side = 0; side < SIDE_COUNT; side++) {
		const void *item = compared->items[side];
		const struct summary_times *its = item ? kind->times(item) : NULL;
		struct probe_row row = {0};

		if (known[side])
			buffer_unsigned(&grid->text, its ? its->count : 0);
		else
			buffer_char(&grid->text, '?');
		grid_end(grid);
		if (its)
			summary_times_row(its, &row);
		durations[TOTAL][side] = its && its->count ? (double)its->sum : NAN;
		busy[side] = its ? summary_per_second(comparison->summaries[side], its->sum) : NAN;
		durations[P50][side] = probe_row_percentile(&row, 50);
		durations[P99][side] = probe_row_percentile(&row, 99);
		durations[MOST][side] = its && its->count ? (double)its->most : NAN;
	}
	for (size_t i = 0; i < DURATIONS; i++) {
		for (int side = 0; side < SIDE_COUNT; side++) {
			if (known[side])
				summary_duration(&grid->text, durations[i][side]);
			else
				buffer_char(&grid->text, '?');
			grid_end(grid);
		}
		change_cell(grid, i == TOTAL ? busy : durations[i], known);
	}
}

static void pair_name(
	struct buffer *out, const struct comparison *comparison, const struct compared *compared)
{
	enum side any = compared->items[SIDE_BEFORE] ? SIDE_BEFORE : SIDE_AFTER;

	summary_text_pair(out, comparison->summaries[any], compared->items[any]);
}

/* ---- Values of pairs ------------------------------------------------------------------- */

static void pair_value_line(struct grid *grid, const struct comparison *comparison,
	const struct compared *pair, const struct compared *row)
{
	const struct summary_value *any = compared_any(row);
	bool known[SIDE_COUNT];

	for (int side = 0; side < SIDE_COUNT; side++)
		known[side] = row->items[side] ||
			      !((const struct summary_pair *)pair->items[side])->other_values;
	times_cells(grid, comparison, &pair_value_rows, row, known);
	text_meant(&grid->text,
		summary_value_meaning(
			comparison->summaries[row->items[SIDE_BEFORE] ? SIDE_BEFORE : SIDE_AFTER],
			any),
		&any->value);
	grid_end(grid);
}

/* Writes `count` rows of a key. */
static void values_of(struct buffer *out, const struct comparison *comparison,
	const struct compared *pair, const struct compared *rows, size_t count)
{
	size_t shown = summary_shown(count, comparison->views[SIDE_AFTER]->top);
	const struct summary_value *first = compared_any(rows);
	AUTO(grid_deinit) struct grid grid = {0};

	buffer_char(out, '\n');
	pair_name(out, comparison, pair);
	buffer_string(out, " by ");
	key_print(out, &first->key);
	buffer_char(out, '\n');
	times_titles(&grid);
	grid_titles(&grid, "VALUE<");
	for (size_t i = 0; i < shown; i++)
		pair_value_line(&grid, comparison, pair, &rows[i]);
	grid_print(&grid, out, 0);
	text_more(out, count - shown, " more value (--top)\n", " more values (--top)\n");
}

static void pair_values(
	struct buffer *out, const struct comparison *comparison, const struct compared *pair)
{
	size_t count = 0, end;
	AUTO_FREE struct compared *rows = NULL;

	if (!pair->items[SIDE_BEFORE] || !pair->items[SIDE_AFTER])
		return;
	rows = compare_pair_values(comparison, pair, &count);
	out->no_memory |= !rows;
	for (size_t i = 0; rows && i < count; i = end) {
		for (end = i + 1; end < count && rows[end].group == rows[i].group;)
			end++;
		values_of(out, comparison, pair, rows + i, end - i);
	}
}

/* ---- All pairs ------------------------------------------------------------------------- */

static void pairs(struct buffer *out, const struct comparison *comparison)
{
	size_t count = 0, shown;
	AUTO_FREE struct compared *rows = compare_pairs(comparison, &count);
	AUTO(grid_deinit) struct grid grid = {0};

	out->no_memory |= !rows;
	if (!rows || !count)
		return;
	shown = summary_shown(count, comparison->views[SIDE_AFTER]->top);
	buffer_char(out, '\n');
	grid_titles(&grid, "PAIR<");
	times_titles(&grid);
	for (size_t i = 0; i < shown; i++) {
		pair_name(&grid.text, comparison, &rows[i]);
		grid_end(&grid);
		times_cells(&grid, comparison, &pair_rows, &rows[i], both_known);
	}
	grid_print(&grid, out, 0);
	text_more(out, count - shown, " more pair (--top)\n", " more pairs (--top)\n");
	for (size_t i = 0; i < shown; i++)
		pair_values(out, comparison, &rows[i]);
}

/* ---- Values of keys -------------------------------------------------------------------- */

static void value_line(struct grid *grid, const struct comparison *comparison,
	const struct compared_top *tops, const struct compared *compared)
{
	const struct probe_value *value = NULL;
	uint64_t counts[SIDE_COUNT] = {0};
	bool known[SIDE_COUNT];

	for (int side = 0; side < SIDE_COUNT; side++) {
		const struct top_slot *slot = compared->items[side];

		/* A missing value may be among the dropped ones, so the amount is unknown. */
		known[side] = slot ? !slot->error : !tops->tops[side].top->approximate;
		if (slot) {
			counts[side] = slot->count;
			value = &slot->value;
		}
	}
	count_cells(grid, comparison, counts, known);
	text_meant(&grid->text, summary_top_meaning(&tops->tops[SIDE_AFTER]), value);
	grid_end(grid);
}

static void values(struct buffer *out, const struct comparison *comparison,
	const struct compared_top *compared)
{
	const struct summary_top *const tops[SIDE_COUNT] = {
		&compared->tops[SIDE_BEFORE], &compared->tops[SIDE_AFTER]};
	size_t count = 0, shown;
	AUTO_FREE struct compared *rows = compare_values(comparison, tops, &count);
	AUTO(grid_deinit) struct grid grid = {0};

	out->no_memory |= !rows;
	if (!rows)
		return;
	shown = summary_shown(count, summary_key_limit(comparison->summaries[SIDE_AFTER],
					     comparison->views[SIDE_AFTER]));
	buffer_char(out, '\n');
	event_put_probe(out, tops[SIDE_AFTER]->probe->provider, tops[SIDE_AFTER]->probe->name);
	buffer_string(out, " by ");
	key_print(out, &tops[SIDE_AFTER]->key);
	buffer_char(out, '\n');
	grid_titles(&grid, "HITS>AFTER>RATE/s>AFTER>CHANGE>VALUE<");
	for (size_t i = 0; i < shown; i++)
		value_line(&grid, comparison, compared, &rows[i]);
	grid_print(&grid, out, 0);
	text_more(out, count - shown, " more value (--top)\n", " more values (--top)\n");
}

/* ==== Both formats ============================================================================ */

struct probe_error *probe_summary_compare(const struct probe_summary *before,
	const struct probe_summary_view *before_view, const struct probe_summary *after,
	const struct probe_summary_view *after_view, enum probe_summary_format format, char **ret,
	size_t *length_ret)
{
	static const char *const names[SIDE_COUNT] = {"before: ", "after: "};
	const struct comparison comparison = {{before, after}, {before_view, after_view}};
	AUTO_FREE struct compared_top *tops = NULL;
	struct buffer out = {0};
	size_t count = 0;

	if (format != PROBE_SUMMARY_TEXT && format != PROBE_SUMMARY_JSON)
		return probe_error_new(
			PROBE_ERROR_USAGE, "two records are compared as text or JSON only");
	if (format == PROBE_SUMMARY_JSON) {
		records(&out, &comparison);
		compare_json_probes(&out, &comparison);
		compare_json_pairs(&out, &comparison);
		compare_json_keys(&out, &comparison);
		return summary_take(&out, ret, length_ret);
	}
	for (int side = 0; side < SIDE_COUNT; side++) {
		buffer_string(&out, names[side]);
		summary_text_header(&out, comparison.summaries[side], comparison.views[side]);
	}
	if (!before->hits && !after->hits)
		return summary_take(&out, ret, length_ret);
	probes(&out, &comparison);
	pairs(&out, &comparison);
	tops = compare_tops(&comparison, &count);
	out.no_memory |= !tops;
	for (size_t i = 0; tops && i < count; i++)
		if (after->key_count || i < SUMMARY_GUESSED_TABLES)
			values(&out, &comparison, &tops[i]);
	return summary_take(&out, ret, length_ret);
}
