/* SPDX-License-Identifier: MIT */
/*
 * How the times of one pair are distributed, as a screen of `probectl top`:
 *
 *	probectl top  postgres (8121)  every 1s                      14:03:22
 *	postgresql:query__start -> postgresql:query__done
 *	[65.5us, 131us)            12 |@
 *	[131us, 262us)            312 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
 *	324 ended  56.1ms/s  avg 173us
 *	p50 170us  p90 210us  p99 250us  p99.9 255us
 *	enter back  up down other probe  c since the start  p pause  ? help
 *
 * A line is a power of two; on a low screen, it is several. With keys (-k), a probe without a pair
 * has a line for each key instead, most hits first:
 *
 *	postgresql:lwlock__acquire
 *	"ProcArray"              3120 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
 *	"XidGen"                  312 |@@@
 *	3432 hits of 2 keys  3432 hits/s
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/draw.h"
#include "probe/sink.h"

enum { POWERS = 64, LABEL_WIDTH = 18, LABEL_MOST = 60, COUNT_WIDTH = 10 };

/* Times of 2^k to 2^(k + 1) nanoseconds; the first one has what is less, too. */
struct powers {
	uint64_t counts[POWERS];
	unsigned int low, high; /* those with something in them: [low, high) */
};

/* The bounds of buckets are ticks of a clock: one may hold a power of two, so its middle decides.
 */
static unsigned int power_of(const struct probe_row *row, size_t bucket)
{
	double low, high, middle;
	int exponent;

	probe_row_bucket(row, bucket, &low, &high);
	middle = (low + high) / 2;
	if (!(middle >= 2))
		return 0;
	frexp(middle, &exponent); /* from 2^(exponent - 1) on */
	return exponent > POWERS ? POWERS - 1 : (unsigned int)exponent - 1;
}

static void powers_init(struct powers *powers, const struct probe_row *row)
{
	*powers = (struct powers){.low = POWERS};
	for (size_t i = 0; row->buckets && i < PROBE_BUCKETS; i++) {
		unsigned int power;

		if (!row->buckets[i])
			continue;
		power = power_of(row, i);
		powers->counts[power] += row->buckets[i];
		if (power < powers->low)
			powers->low = power;
		if (power >= powers->high)
			powers->high = power + 1;
	}
}

/* Makes each `step` of them one, which the first of them then is. */
static void join(struct powers *powers, unsigned int step)
{
	for (unsigned int i = powers->low; i < powers->high; i++) {
		unsigned int first = i - (i - powers->low) % step;

		if (i == first)
			continue;
		powers->counts[first] += powers->counts[i];
		powers->counts[i] = 0;
	}
}

static void bar_label(char text[2 * PROBE_DURATION_BYTES + 8], unsigned int low, unsigned int high)
{
	char from[PROBE_DURATION_BYTES], to[PROBE_DURATION_BYTES];

	probe_duration_text(from, ldexp(1, (int)low));
	probe_duration_text(to, ldexp(1, (int)high));
	if (low)
		snprintf(text, 2 * PROBE_DURATION_BYTES + 8, "[%s, %s)", from, to);
	else
		snprintf(text, 2 * PROBE_DURATION_BYTES + 8, "below %s", to);
}

/* A line; the label has so many columns. */
struct bar {
	const char *label;
	size_t label_width;
	uint64_t count;
	double part; /* of the longest bar */
	enum top_look look;
};

static void bar_line(struct top_frame *frame, const struct top_view *view, const struct bar *bar)
{
	size_t figures = bar->label_width + COUNT_WIDTH + strlen(" |"), room = 0, taken;
	struct buffer text = {0};

	if (view->width > figures)
		room = view->width - figures;
	taken = cell_text(&text, bar->label, bar->label_width, view->utf8);
	buffer_pad(&text, taken, bar->label_width);
	cell_count(&text, bar->count, COUNT_WIDTH);
	buffer_string(&text, " |");
	for (size_t i = 0; i < (size_t)(bar->part * (double)room); i++)
		buffer_char(&text, '@');
	buffer_char(&text, '\0');
	frame->text.no_memory |= text.no_memory;
	draw_line(frame, view, bar->look, text.no_memory ? "" : text.data);
	buffer_deinit(&text);
}

/* As many lines as there are rows, at most. */
static void bar_lines(struct top_frame *frame, const struct top_view *view, size_t rows)
{
	char label[2 * PROBE_DURATION_BYTES + 8];
	struct powers powers;
	unsigned int step = 1;
	uint64_t most = 1;

	powers_init(&powers, &view->pair->row);
	if (!rows)
		return;
	while (powers.low + step * rows < powers.high)
		step++;
	join(&powers, step);
	for (unsigned int i = 0; i < POWERS; i++)
		if (powers.counts[i] > most)
			most = powers.counts[i];
	for (unsigned int i = powers.low; i < powers.high; i += step) {
		bar_label(label, i, i + step);
		bar_line(frame, view,
			&(struct bar){label, LABEL_WIDTH, powers.counts[i],
				(double)powers.counts[i] / (double)most, TOP_LOOK_PLAIN});
	}
}

/* The time that the pairs have ended in. Times by key are gathered only while they are shown. */
static uint64_t pair_ns(const struct top_model *model)
{
	uint64_t ns = model->since_start ? model->elapsed_ns : model->interval_ns;
	bool keyed = model->rows[model->selected].key[0];

	return keyed && model->keyed_ns < ns ? model->keyed_ns : ns;
}

static void figure_lines(
	struct top_frame *frame, const struct top_model *model, const struct top_view *view)
{
	static const double percents[] = {50, 90, 99, 99.9};
	uint64_t ns = pair_ns(model);
	const struct probe_row *row = &view->pair->row;
	char each[PROBE_DURATION_BYTES], average[PROBE_DURATION_BYTES], text[256];
	int length = 0;

	probe_duration_text(each, ns ? (double)row->sum * 1e9 / (double)ns : NAN);
	probe_duration_text(average, (double)(row->sum / (long double)row->count));
	snprintf(text, sizeof(text), "%ju ended  %s/s  avg %s", (uintmax_t)row->count, each,
		average);
	draw_line(frame, view, TOP_LOOK_PLAIN, text);
	for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
		probe_duration_text(each, probe_row_percentile(row, percents[i]));
		length += snprintf(text + length, sizeof(text) - (size_t)length, "%sp%g %s",
			i ? "  " : "", percents[i], each);
	}
	draw_line(frame, view, TOP_LOOK_PLAIN, text);
}

/* ---- Hits over keys ---------------------------------------------------------------- */

/* The rows with a key of the probe under the cursor that were hit. */
struct keyed {
	const struct top_model *model;
	size_t *rows; /* indices; owned */
	size_t count, label_width;
	uint64_t hits;
};

static int compare_hits(const void *a, const void *b, void *data)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	const struct top_model *model = data;
	uint64_t left = model_hits(model, &model->rows[x]);
	uint64_t right = model_hits(model, &model->rows[y]);

	return left > right ? -1 : left < right ? 1 : x < y ? -1 : 1;
}

static bool is_keyed(const struct top_model *model, const struct top_row *row)
{
	const struct top_row *probe = &model->rows[model->selected];

	return row->key[0] && strcmp(row->provider, probe->provider) == 0 &&
	       strcmp(row->name, probe->name) == 0 && model_hits(model, row);
}

/* False without memory. */
static bool keyed_init(
	struct keyed *keyed, const struct top_model *model, const struct top_view *view)
{
	*keyed = (struct keyed){.model = model, .rows = calloc(model->count, sizeof(size_t))};
	if (!keyed->rows)
		return false;
	for (size_t i = 0; i < model->count; i++) {
		const struct top_row *row = &model->rows[i];
		size_t width = is_keyed(model, row) ? cell_width(row->key, view->utf8) : 0;

		if (!width)
			continue;
		keyed->rows[keyed->count++] = i;
		keyed->hits += model_hits(model, row);
		if (width > keyed->label_width)
			keyed->label_width = width;
	}
	if (keyed->label_width > LABEL_MOST)
		keyed->label_width = LABEL_MOST;
	if (keyed->label_width > view->width / 2)
		keyed->label_width = view->width / 2;
	qsort_r(keyed->rows, keyed->count, sizeof(*keyed->rows), compare_hits,
		(void *)(uintptr_t)model);
	return true;
}

static void key_lines(struct top_frame *frame, const struct keyed *keyed,
	const struct top_view *view, size_t lines)
{
	const struct top_model *model = keyed->model;
	uint64_t most = keyed->count ? model_hits(model, &model->rows[keyed->rows[0]]) : 0;

	for (size_t i = 0; i < keyed->count && i < lines; i++) {
		const struct top_row *row = &model->rows[keyed->rows[i]];
		uint64_t hits = model_hits(model, row);

		bar_line(frame, view,
			&(struct bar){row->key, keyed->label_width, hits,
				(double)hits / (double)most,
				row == &model->rows[model->selected] ? TOP_LOOK_REVERSE
								     : TOP_LOOK_PLAIN});
	}
	if (!keyed->count && lines)
		draw_line(frame, view, TOP_LOOK_PLAIN,
			model->since_start ? "(no hit since the start)"
					   : "(no hit in the last interval)");
}

static void key_figures(
	struct top_frame *frame, const struct keyed *keyed, const struct top_view *view)
{
	const struct top_model *model = keyed->model;
	uint64_t ns = model->since_start ? model->elapsed_ns : model->interval_ns;
	char text[128];

	snprintf(text, sizeof(text), "%ju hits of %zu key%s  %.0f hits/s", (uintmax_t)keyed->hits,
		keyed->count, keyed->count == 1 ? "" : "s",
		ns ? (double)keyed->hits * 1e9 / (double)ns : 0);
	draw_line(frame, view, TOP_LOOK_PLAIN, text);
}

/* Does the probe under the cursor have keys, and no pair? */
static bool shows_keys(const struct top_model *model)
{
	const struct top_row *row = &model->rows[model->selected];

	return model->has_keys && !row->paired;
}

static void draw_keys(struct top_frame *frame, const struct top_model *model,
	const struct top_view *view, size_t lines, bool figures)
{
	struct keyed keyed;

	if (!keyed_init(&keyed, model, view)) {
		frame->text.no_memory = true;
		return;
	}
	key_lines(frame, &keyed, view, lines);
	if (figures)
		key_figures(frame, &keyed, view);
	free(keyed.rows);
}

/* ---- The screen -------------------------------------------------------------------- */

static void title_line(
	struct top_frame *frame, const struct top_model *model, const struct top_view *view)
{
	const struct top_row *row = &model->rows[model->selected];
	const struct probe_table_row *pair = view->pair;
	char *text = NULL;
	int length;

	if (pair)
		length = asprintf(&text, "%s:%s -> %s:%s%s%s", pair->begin_provider,
			pair->begin_name, pair->provider, pair->name, row->key[0] ? "  " : "",
			row->key);
	else if (shows_keys(model))
		length = asprintf(&text, "%s:%s", row->provider, row->name);
	else
		length = asprintf(&text, "%s", row->label);
	if (length < 0) {
		frame->text.no_memory = true;
		return;
	}
	draw_line(frame, view, TOP_LOOK_TITLE, text);
	free(text);
}

static void draw_pair(struct top_frame *frame, const struct top_model *model,
	const struct top_view *view, size_t lines, bool figures)
{
	bool keyed = model->rows[model->selected].key[0];
	const char *start = keyed ? "since the chart began" : "since the start";
	char text[128];

	if (view->pair) {
		bar_lines(frame, view, lines);
		if (figures)
			figure_lines(frame, model, view);
	} else if (lines) {
		snprintf(text, sizeof(text), "(no pair of this probe%s has ended %s)",
			keyed ? " with this key" : "",
			model->since_start ? start : "in the last interval");
		draw_line(frame, view, TOP_LOOK_PLAIN, text);
	}
}

void draw_chart(struct top_frame *frame, const struct top_model *model, const struct top_view *view)
{
	bool last = view->height >= 2, head = view->height >= 5, figures = view->height >= 7;
	size_t lines = shows_keys(model) ? 1 : 2; /* of figures */
	size_t end = view->height - last, rows = end - 1 - head - lines * (size_t)figures;

	if (head)
		draw_head(frame, model, view);
	title_line(frame, model, view);
	if (shows_keys(model))
		draw_keys(frame, model, view, rows, figures);
	else
		draw_pair(frame, model, view, rows, figures);
	while (frame->count < end && !frame->text.no_memory)
		draw_line(frame, view, TOP_LOOK_PLAIN, "");
	if (last)
		draw_last(frame, model, view);
}
