/* SPDX-License-Identifier: MIT */
/* Axes of charts: where they end, where they have labels, and how these are abbreviated. */
#include <inttypes.h>
#include <stdio.h>

#include "libprobe/report/report.h"

enum { TICKS = 5 };

/* ---- Numbers -------------------------------------------------------------------------- */

void axis_coordinate(struct buffer *out, double value)
{
	int64_t tenths = (int64_t)(value * 10 + (value < 0 ? -0.5 : 0.5));

	if (tenths < 0)
		buffer_char(out, '-');
	tenths = tenths < 0 ? -tenths : tenths;
	buffer_signed(out, tenths / 10);
	if (tenths % 10) {
		buffer_char(out, '.');
		buffer_signed(out, tenths % 10);
	}
}

double axis_end(double value, size_t *parts_ret)
{
	static const struct {
		double end;
		size_t parts;
	} ends[] = {{1, 5}, {1.5, 3}, {2, 4}, {2.5, 5}, {3, 3}, {4, 4}, {5, 5}, {6, 3}, {8, 4},
		{10, 5}};
	double power = power_of_ten(value);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		*parts_ret = ends[i].parts;
		if (ends[i].end * power >= value * (1 - 1e-9))
			return ends[i].end * power;
	}
	return value;
}

void axis_number(struct buffer *out, double value)
{
	static const char *const units[] = {"", "k", "M", "G", "T"};
	size_t unit = 0;
	char text[40];

	/* 2.9999999999999996 is 3. */
	for (value *= 1 + 1e-12; unit < 4 && value >= 1000; unit++)
		value /= 1000;
	snprintf(text, sizeof(text), "%" PRIu64, (uint64_t)value);
	buffer_string(out, text);
	/* Ticks have few digits: 2.5k, 0.05. */
	for (double rest = value - (double)(uint64_t)value, k = 0; rest > 1e-6 && k < 3; k++) {
		if (k == 0)
			buffer_char(out, '.');
		rest *= 10;
		buffer_char(out, (char)('0' + (int)(rest + 1e-6)));
		rest -= (int)(rest + 1e-6);
	}
	buffer_string(out, units[unit]);
}

static bool is_multiple(double value, double of)
{
	return rounded(value / of) * of == value;
}

void axis_time(struct buffer *out, double ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"h", 3600e9}, {"min", 60e9}, {"s", 1e9}, {"ms", 1e6}, {"µs", 1e3}, {"ns", 1}};
	size_t unit = 0;

	/* Not 90 s as 1.5 min. */
	while (unit < 5 && (ns < units[unit].ns || (unit < 2 && !is_multiple(ns, units[unit].ns))))
		unit++;
	if (ns == 0)
		unit = 5;
	axis_number(out, ns / units[unit].ns);
	buffer_string(out, ns == 0 ? "" : units[unit].name);
}

/* ---- Times of the record ---------------------------------------------------------------- */

/* One label; `place` is left or bottom, in per cent. */
void axis_label(struct page *page, const char *place, double percent, const char *class)
{
	page_html(page, "<span");
	if (class) {
		page_html(page, " class=\"");
		page_html(page, class);
		page_html(page, "\"");
	}
	page_html(page, " style=\"");
	page_html(page, place);
	page_html(page, ":");
	axis_coordinate(page->out, percent);
	page_html(page, "%\">");
}

/* Of 1, 2, 5, 10 ..., the smallest that is not below. */
static double round_step(double value)
{
	double power = power_of_ten(value);

	for (size_t i = 0; i < 3; i++) {
		if ((double[]){1, 2, 5}[i] * power >= value * (1 - 1e-9))
			return (double[]){1, 2, 5}[i] * power;
	}
	return 10 * power;
}

static double time_step(double length_ns)
{
	static const double steps[] = {1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600};
	double step = length_ns / TICKS / 1e9;

	if (step <= 1)
		return round_step(step * 1e9);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (steps[i] >= step)
			return steps[i] * 1e9;
	}
	return round_step(step / 3600) * 3600e9;
}

void axis_times(struct page *page)
{
	double length = summary_seconds(page->summary) * 1e9, step = time_step(length);

	page_html(page, "<div class=\"xs\" aria-hidden=\"true\">");
	for (double at = 0; at <= length * (1 + 1e-9) && length > 0; at += step) {
		double percent = at / length * 100;

		axis_label(page, "left", percent, at == 0 ? "first" : percent > 96 ? "last" : NULL);
		axis_time(page->out, at);
		page_html(page, "</span>");
	}
	page_html(page, "</div>");
}

void axis_numbers(struct page *page, double top, size_t parts)
{
	page_html(page, "<div class=\"ys\" aria-hidden=\"true\">");
	for (size_t i = 0; i <= parts; i++) {
		axis_label(page, "bottom", 100.0 * (double)i / (double)parts, NULL);
		axis_number(page->out, top * (double)i / (double)parts);
		page_html(page, "</span>");
	}
	page_html(page, "</div>");
}

/* ---- Latencies ---------------------------------------------------------------------------- */

/* Where a time is among the rows: the rows of a power of two are equally high. */
double axis_row(double ns)
{
	return ns < 2 ? ns : 2 * logarithm(ns);
}

/* Ticks of times between two rows: 1, 2, 5, 10 ..., or powers of ten, at most `room`. */
size_t axis_latencies(size_t low, size_t high, double ret[AXIS_TICKS_MAX])
{
	for (size_t skip = 1;; skip++) {
		size_t count = 0, number = 0;

		for (double power = 1; power < 1e19; power *= 10) {
			for (size_t i = 0; i < 3; i++) {
				double ns = power * (double[]){1, 2, 5}[i], row = axis_row(ns);

				/* All; then 1, 10, 100; then each second of them ... */
				if ((skip > 1 && i) || (!i && number++ % (skip > 2 ? skip - 1 : 1)))
					continue;
				if (row < (double)low || row > (double)high)
					continue;
				if (count < AXIS_TICKS_MAX)
					ret[count] = ns;
				count++;
			}
		}
		if (count <= AXIS_TICKS_MAX)
			return count;
	}
}

void axis_latency_labels(struct page *page, size_t low, size_t high, bool is_vertical)
{
	double ticks[AXIS_TICKS_MAX];
	size_t count = axis_latencies(low, high, ticks);

	page_html(page, is_vertical ? "<div class=\"ys\" aria-hidden=\"true\">"
				    : "<div class=\"xs\" aria-hidden=\"true\">");
	for (size_t i = 0; i < count; i++) {
		double part = (axis_row(ticks[i]) - (double)low) / (double)(high - low) * 100;

		axis_label(page, is_vertical ? "bottom" : "left", part,
			is_vertical ? NULL
			: part > 96 ? "last"
			: part < 4  ? "first"
				    : NULL);
		axis_time(page->out, ticks[i]);
		page_html(page, "</span>");
	}
	page_html(page, "</div>");
}
