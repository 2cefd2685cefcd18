/* SPDX-License-Identifier: MIT */
/*
 * Two summaries side by side, as text:
 *
 *	PROBE                     HITS  AFTER  RATE/s  AFTER  CHANGE
 *	postgresql:query__start  10000   5000    1000    500  -50.0%
 *
 * A column AFTER belongs to the one before it, CHANGE to both. CHANGE/s is that of a total, for
 *each second: records differ in length.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/output/output.h"
#include "libprobe/report/report.h"

/* From here on, a factor says more than percent. */
enum { PERCENT_MAX = 1000 };

/* How one number became another one: "+12.3%", "x25", "new", "gone". */
static void change(struct buffer *out, double before, double after)
{
	double percent = 100 * (after / before - 1);
	char text[64];

	if (!(before > 0))
		strcpy(text, after > 0 ? "new" : "-");
	else if (!(after > 0))
		strcpy(text, "gone");
	else if (percent < PERCENT_MAX)
		snprintf(text, sizeof(text), "%+.1f%%", percent);
	else
		snprintf(text, sizeof(text), "x%.0f", after / before);
	buffer_string(out, text);
}

/* A column, then AFTER, and how the one became the other (NULL: no such column). */
static void titles(struct lines *lines, const char *name, const char *changes, bool is_last)
{
	lines_title(lines, name, true, false);
	lines_title(lines, "AFTER", true, !changes && is_last);
	if (changes)
		lines_title(lines, changes, true, is_last);
}

/* Of what may have been dropped, the change is not known. */
static void change_cell(struct lines *lines, const double amounts[SIDE_COUNT],
	const bool known[SIDE_COUNT], bool is_last)
{
	if (known[SIDE_BEFORE] && known[SIDE_AFTER])
		change(&lines->grid.text, amounts[SIDE_BEFORE], amounts[SIDE_AFTER]);
	else
		buffer_char(&lines->grid.text, '?');
	lines_next(lines, true, is_last);
}

/* Counts, then rates. What is not exact has a mark; what may have been dropped is not known. */
static void count_cells(struct lines *lines, const struct comparison *comparison,
	const uint64_t counts[SIDE_COUNT], const bool known[SIDE_COUNT], bool is_last)
{
	struct buffer *text = &lines->grid.text;
	double rates[SIDE_COUNT];

	for (int side = 0; side < SIDE_COUNT; side++) {
		rates[side] = compare_rate(comparison->summaries[side], counts[side]);
		if (!known[side])
			buffer_char(text, counts[side] ? '~' : '?');
		if (known[side] || counts[side])
			buffer_unsigned(text, counts[side]);
		lines_next(lines, true, false);
	}
	for (int side = 0; side < SIDE_COUNT; side++) {
		if (!known[side])
			buffer_char(text, counts[side] ? '~' : '?');
		if (known[side] || counts[side])
			summary_rate(text, comparison->summaries[side], counts[side]);
		lines_next(lines, true, false);
	}
	change_cell(lines, rates, known, is_last);
}

static const bool both_known[SIDE_COUNT] = {true, true};

static size_t shown_of(size_t count, size_t limit)
{
	return limit && limit < count ? limit : count;
}

static void more(struct buffer *out, size_t count, size_t shown, const char *what)
{
	if (count <= shown)
		return;
	buffer_string(out, "... ");
	buffer_unsigned(out, count - shown);
	buffer_string(out, " more ");
	buffer_string(out, what);
	buffer_string(out, count - shown == 1 ? " (--top)\n" : "s (--top)\n");
}

/* ---- Probes ---------------------------------------------------------------------------- */

static void probe_line(
	struct lines *lines, const struct comparison *comparison, const struct compared *compared)
{
	const struct summary_probe *const probes[SIDE_COUNT] = {
		compared->items[SIDE_BEFORE], compared->items[SIDE_AFTER]};
	const struct summary_probe *any = compared_any(compared);
	uint64_t hits[SIDE_COUNT];

	text_probe(&lines->grid.text, any->provider, any->name);
	lines_next(lines, false, false);
	for (int side = 0; side < SIDE_COUNT; side++)
		hits[side] = probes[side] ? probes[side]->hits : 0;
	count_cells(lines, comparison, hits, both_known, true);
}

static void probes(struct buffer *out, const struct comparison *comparison)
{
	size_t count = 0, shown;
	AUTO_FREE struct compared *rows = compare_probes(comparison, &count);
	struct lines lines;

	if (!rows || !lines_begin(&lines, out)) {
		out->no_memory = true;
		return;
	}
	shown = shown_of(count, comparison->views[SIDE_AFTER]->top);
	buffer_char(out, '\n');
	lines_title(&lines, "PROBE", false, false);
	titles(&lines, "HITS", NULL, false);
	titles(&lines, "RATE/s", "CHANGE", true);
	for (size_t i = 0; i < shown; i++)
		probe_line(&lines, comparison, &rows[i]);
	lines_end(&lines);
	more(out, count, shown, "probe");
}

/* ---- Pairs ----------------------------------------------------------------------------- */

static void duration_cells(
	struct lines *lines, const double durations[SIDE_COUNT], const bool known[SIDE_COUNT])
{
	struct buffer *text = &lines->grid.text;

	for (int side = 0; side < SIDE_COUNT; side++) {
		if (known[side])
			summary_duration(text, durations[side]);
		else
			buffer_char(text, '?');
		lines_next(lines, true, false);
	}
}

static void times_titles(struct lines *lines, bool is_last)
{
	titles(lines, "COUNT", NULL, false);
	titles(lines, "TOTAL", "CHANGE/s", false);
	titles(lines, "P50", "CHANGE", false);
	titles(lines, "P99", "CHANGE", false);
	titles(lines, "MAX", "CHANGE", is_last);
}

/* NULL: there are none; that may be so because they were not kept apart. */
static void times_cells(struct lines *lines, const struct comparison *comparison,
	const struct summary_times *const times[SIDE_COUNT], const bool known[SIDE_COUNT],
	bool is_last)
{
	enum { TOTAL, P50, P99, MOST, DURATIONS };
	double durations[DURATIONS][SIDE_COUNT], busy[SIDE_COUNT];

	for (int side = 0; side < SIDE_COUNT; side++) {
		const struct summary_times *its = times[side];
		struct probe_row row = {0};

		if (known[side])
			buffer_unsigned(&lines->grid.text, its ? its->count : 0);
		else
			buffer_char(&lines->grid.text, '?');
		lines_next(lines, true, false);
		if (its)
			summary_times_row(its, &row);
		durations[TOTAL][side] = its && its->count ? (double)its->sum : NAN;
		busy[side] = its ? compare_rate(comparison->summaries[side], its->sum) : NAN;
		durations[P50][side] = probe_row_percentile(&row, 50);
		durations[P99][side] = probe_row_percentile(&row, 99);
		durations[MOST][side] = its && its->count ? (double)its->most : NAN;
	}
	for (size_t i = 0; i < DURATIONS; i++) {
		duration_cells(lines, durations[i], known);
		change_cell(lines, i == TOTAL ? busy : durations[i], known,
			is_last && i + 1 == DURATIONS);
	}
}

static void pair_name(
	struct buffer *out, const struct comparison *comparison, const struct compared *compared)
{
	enum side any = compared->items[SIDE_BEFORE] ? SIDE_BEFORE : SIDE_AFTER;

	summary_text_pair(out, comparison->summaries[any], compared->items[any]);
}

static void pair_line(
	struct lines *lines, const struct comparison *comparison, const struct compared *compared)
{
	const struct summary_times *times[SIDE_COUNT];

	for (int side = 0; side < SIDE_COUNT; side++) {
		const struct summary_pair *pair = compared->items[side];

		times[side] = pair ? &pair->times : NULL;
	}
	pair_name(&lines->grid.text, comparison, compared);
	lines_next(lines, false, false);
	times_cells(lines, comparison, times, both_known, true);
}

/* ---- Values of pairs ------------------------------------------------------------------- */

static void pair_value_line(struct lines *lines, const struct comparison *comparison,
	const struct compared *pair, const struct compared *row)
{
	const struct summary_value *any = compared_any(row);
	const struct summary_times *times[SIDE_COUNT];
	bool known[SIDE_COUNT];

	for (int side = 0; side < SIDE_COUNT; side++) {
		const struct summary_value *value = row->items[side];

		times[side] = value ? &value->times : NULL;
		known[side] =
			value || !((const struct summary_pair *)pair->items[side])->other_values;
	}
	times_cells(lines, comparison, times, known, false);
	text_meant(&lines->grid.text,
		summary_value_meaning(
			comparison->summaries[row->items[SIDE_BEFORE] ? SIDE_BEFORE : SIDE_AFTER],
			any),
		&any->value);
	lines_next(lines, false, true);
}

/* The rows of one key: `count` of them. */
static void values_of(struct buffer *out, const struct comparison *comparison,
	const struct compared *pair, const struct compared *rows, size_t count)
{
	size_t shown = shown_of(count, comparison->views[SIDE_AFTER]->top);
	const struct summary_value *first = compared_any(rows);
	struct lines lines;

	if (!lines_begin(&lines, out))
		return;
	buffer_char(out, '\n');
	pair_name(out, comparison, pair);
	buffer_string(out, " by ");
	key_print(out, &first->key);
	buffer_char(out, '\n');
	times_titles(&lines, false);
	lines_title(&lines, "VALUE", false, true);
	for (size_t i = 0; i < shown; i++)
		pair_value_line(&lines, comparison, pair, &rows[i]);
	lines_end(&lines);
	more(out, count, shown, "value");
}

static bool of_one_key(const struct compared *a, const struct compared *b)
{
	const struct summary_value *left = compared_any(a), *right = compared_any(b);

	return key_same(&left->key, &right->key);
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
		end = i + 1;
		while (end < count && of_one_key(&rows[i], &rows[end]))
			end++;
		values_of(out, comparison, pair, rows + i, end - i);
	}
}

/* ---- All of them ----------------------------------------------------------------------- */

static void pairs(struct buffer *out, const struct comparison *comparison)
{
	size_t count = 0, shown;
	AUTO_FREE struct compared *rows = compare_pairs(comparison, &count);
	struct lines lines;

	if (!rows || (count && !lines_begin(&lines, out))) {
		out->no_memory = true;
		return;
	}
	if (!count)
		return;
	shown = shown_of(count, comparison->views[SIDE_AFTER]->top);
	buffer_char(out, '\n');
	lines_title(&lines, "PAIR", false, false);
	times_titles(&lines, true);
	for (size_t i = 0; i < shown; i++)
		pair_line(&lines, comparison, &rows[i]);
	lines_end(&lines);
	more(out, count, shown, "pair");
	for (size_t i = 0; i < shown; i++)
		pair_values(out, comparison, &rows[i]);
}

/* ---- Values of keys -------------------------------------------------------------------- */

static void value_line(struct lines *lines, const struct comparison *comparison,
	const struct compared_top *tops, const struct compared *compared)
{
	const struct probe_value *value = NULL;
	uint64_t counts[SIDE_COUNT] = {0};
	bool known[SIDE_COUNT];

	for (int side = 0; side < SIDE_COUNT; side++) {
		const struct top_slot *slot = compared->items[side];

		/* Where values were dropped, one that is not there may have been. */
		known[side] = slot ? !slot->error : !tops->tops[side].top->approximate;
		if (slot) {
			counts[side] = slot->count;
			value = &slot->value;
		}
	}
	count_cells(lines, comparison, counts, known, false);
	text_meant(&lines->grid.text, summary_top_meaning(&tops->tops[SIDE_AFTER]), value);
	lines_next(lines, false, true);
}

static void values(struct buffer *out, const struct comparison *comparison,
	const struct compared_top *compared)
{
	const struct summary_top *const tops[SIDE_COUNT] = {
		&compared->tops[SIDE_BEFORE], &compared->tops[SIDE_AFTER]};
	size_t count = 0, shown;
	AUTO_FREE struct compared *rows = compare_values(comparison, tops, &count);
	struct lines lines;

	if (!rows || !lines_begin(&lines, out)) {
		out->no_memory = true;
		return;
	}
	shown = shown_of(count, summary_key_limit(comparison->summaries[SIDE_AFTER],
					comparison->views[SIDE_AFTER]));
	buffer_char(out, '\n');
	text_probe(out, tops[SIDE_AFTER]->probe->provider, tops[SIDE_AFTER]->probe->name);
	buffer_string(out, " by ");
	key_print(out, &tops[SIDE_AFTER]->key);
	buffer_char(out, '\n');
	titles(&lines, "HITS", NULL, false);
	titles(&lines, "RATE/s", "CHANGE", false);
	lines_title(&lines, "VALUE", false, true);
	for (size_t i = 0; i < shown; i++)
		value_line(&lines, comparison, compared, &rows[i]);
	lines_end(&lines);
	more(out, count, shown, "value");
}

static void keys(struct buffer *out, const struct comparison *comparison)
{
	size_t count = 0;
	AUTO_FREE struct compared_top *rows = compare_tops(comparison, &count);

	out->no_memory |= !rows;
	for (size_t i = 0; rows && i < count; i++) {
		if (comparison->summaries[SIDE_AFTER]->key_count || i < SUMMARY_GUESSED_TABLES)
			values(out, comparison, &rows[i]);
	}
}

void compare_text(struct buffer *out, const struct comparison *comparison)
{
	static const char *const names[SIDE_COUNT] = {"before: ", "after: "};

	for (int side = 0; side < SIDE_COUNT; side++) {
		buffer_string(out, names[side]);
		summary_text_header(out, comparison->summaries[side], comparison->views[side]);
	}
	if (!comparison->summaries[SIDE_BEFORE]->hits && !comparison->summaries[SIDE_AFTER]->hits)
		return;
	probes(out, comparison);
	pairs(out, comparison);
	keys(out, comparison);
}
