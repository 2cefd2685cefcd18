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
 * A line is a power of two; on a low screen, it is several.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/draw.h"
#include "probe/sink.h"

enum { POWERS = 64, LABEL_WIDTH = 18, COUNT_WIDTH = 10 };

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

static void bar_line(struct top_frame *frame, const struct top_view *view, const char *label,
	uint64_t count, double part)
{
	size_t figures = LABEL_WIDTH + COUNT_WIDTH + strlen(" |"), room = 0;
	struct buffer text = {0};

	if (view->width > figures)
		room = view->width - figures;
	buffer_string(&text, label);
	buffer_pad(&text, strlen(label), LABEL_WIDTH);
	cell_count(&text, count, COUNT_WIDTH);
	buffer_string(&text, " |");
	for (size_t i = 0; i < (size_t)(part * (double)room); i++)
		buffer_char(&text, '@');
	buffer_char(&text, '\0');
	frame->text.no_memory |= text.no_memory;
	draw_line(frame, view, TOP_LOOK_PLAIN, text.no_memory ? "" : text.data);
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
		bar_line(frame, view, label, powers.counts[i],
			(double)powers.counts[i] / (double)most);
	}
}

static void figure_lines(
	struct top_frame *frame, const struct top_model *model, const struct top_view *view)
{
	static const double percents[] = {50, 90, 99, 99.9};
	uint64_t ns = model->since_start ? model->elapsed_ns : model->interval_ns;
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

static void title_line(
	struct top_frame *frame, const struct top_model *model, const struct top_view *view)
{
	const struct top_row *row = &model->rows[model->selected];
	const struct probe_table_row *pair = view->pair;
	char *text = NULL;
	int length;

	if (pair)
		length = asprintf(&text, "%s:%s -> %s:%s", pair->begin_provider, pair->begin_name,
			pair->provider, pair->name);
	else
		length = asprintf(&text, "%s:%s", row->provider, row->name);
	if (length < 0) {
		frame->text.no_memory = true;
		return;
	}
	draw_line(frame, view, TOP_LOOK_TITLE, text);
	free(text);
}

void draw_chart(struct top_frame *frame, const struct top_model *model, const struct top_view *view)
{
	bool last = view->height >= 2, head = view->height >= 5, figures = view->height >= 7;
	size_t end = view->height - last, rows = end - 1 - head - 2 * (size_t)figures;

	if (head)
		draw_head(frame, model, view);
	title_line(frame, model, view);
	if (view->pair)
		bar_lines(frame, view, rows);
	else if (rows)
		draw_line(frame, view, TOP_LOOK_PLAIN,
			model->since_start
				? "(no pair of this probe has ended since the start)"
				: "(no pair of this probe has ended in the last interval)");
	if (view->pair && figures)
		figure_lines(frame, model, view);
	while (frame->count < end && !frame->text.no_memory)
		draw_line(frame, view, TOP_LOOK_PLAIN, "");
	if (last)
		draw_last(frame, model, view);
}
