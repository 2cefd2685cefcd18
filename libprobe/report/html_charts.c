/* SPDX-License-Identifier: MIT */
/*
 * Charts of the page in SVG, written by hand: there is no library with which a C program could draw
 * charts that need no script in the browser. Also the bins of time, and the axes.
 *
 * A chart is stretched in both directions to its box (preserveAspectRatio="none"). Its coordinates
 * are 0 to 1000 to the right and 0 to 100 downwards. Text would be stretched, too, so labels of
 * axes are beside the chart and placed in per cent.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "libprobe/report/report.h"

/* ==== Bins of time ============================================================================ */

/*
 * Divides time into a fixed number of bins, which all counts over time share.
 *
 * The length of a record is known only at its end. So bins are narrow at first; when they are used
 * up, adjacent bins are merged in pairs. The first bin starts at the first event. If an earlier
 * event arrives later, whole bins are put in front.
 */

enum { FIRST_WIDTH_NS = 1000 };

static void halve(uint64_t *bins, size_t unused)
{
	(void)unused;
	for (size_t i = 0; i < SUMMARY_BINS / 2; i++)
		bins[i] = bins[2 * i] + bins[2 * i + 1];
	memset(bins + SUMMARY_BINS / 2, 0, SUMMARY_BINS / 2 * sizeof(*bins));
}

static void shift(uint64_t *bins, size_t by)
{
	memmove(bins + by, bins, (SUMMARY_BINS - by) * sizeof(*bins));
	memset(bins, 0, by * sizeof(*bins));
}

static void change_all(
	struct probe_summary *summary, void (*change)(uint64_t *bins, size_t by), size_t by)
{
	change(summary->lost_bins, by);
	change(summary->other_bins, by);
	for (size_t i = 0; i < summary->probe_count; i++)
		change(summary->probes[i]->bins, by);
	for (size_t i = 0; i < summary->pair_count; i++) {
		for (size_t row = 0; row < SUMMARY_HEAT_ROWS; row++)
			change(summary->pairs[i]->heat[row], by);
	}
}

static size_t find_bin(struct probe_summary *summary, uint64_t time_ns)
{
	int64_t time = (int64_t)time_ns;

	if (!summary->bin_count) {
		summary->base_ns = time;
		summary->width_ns = FIRST_WIDTH_NS;
		summary->bin_count = 1;
	}
	for (;;) {
		uint64_t width = summary->width_ns, bin;

		if (time >= summary->base_ns) {
			bin = ((uint64_t)time - (uint64_t)summary->base_ns) / width;
			if (bin < SUMMARY_BINS) {
				if (bin >= summary->bin_count)
					summary->bin_count = (size_t)bin + 1;
				return (size_t)bin;
			}
		} else {
			/* base_ns is at least -width_ns, and a time is at least 0. */
			bin = ((uint64_t)summary->base_ns - (uint64_t)time + width - 1) / width;
			if (bin <= SUMMARY_BINS - summary->bin_count) {
				change_all(summary, shift, (size_t)bin);
				/*
				 * Computed in unsigned arithmetic, because the distance may exceed
				 * INT64_MAX.
				 */
				summary->base_ns =
					(int64_t)((uint64_t)summary->base_ns - bin * width);
				summary->bin_count += (size_t)bin;
				return 0;
			}
		}
		change_all(summary, halve, 0);
		summary->width_ns *= 2;
		summary->bin_count = (summary->bin_count + 1) / 2;
	}
}

size_t summary_bin(struct probe_summary *summary, uint64_t time_ns)
{
	summary->last_bin = find_bin(summary, time_ns);
	summary->last_bin_ns = (uint64_t)summary->base_ns + summary->last_bin * summary->width_ns;
	return summary->last_bin;
}

double summary_seconds(const struct probe_summary *summary)
{
	return (double)(summary->end_ns - summary->begin_ns) / 1e9;
}

size_t summary_spans(
	const struct probe_summary *summary, const uint64_t *bins, struct summary_span *ret)
{
	/* The base differs from the first time only if events were out of order. */
	double base = (double)(summary->base_ns - (int64_t)summary->begin_ns);
	double length = (double)(summary->end_ns - summary->begin_ns);
	double width = (double)summary->width_ns;
	size_t count = summary->bin_count;

	for (size_t i = 0; i < count; i++) {
		double begin = base + (double)i * width;

		ret[i] = (struct summary_span){.begin_ns = begin < 0 ? 0 : begin,
			.end_ns = begin + width,
			.count = bins[i]};
	}
	if (!count)
		return 0;
	if (count > 1 && length - ret[count - 1].begin_ns < width / 2) {
		ret[count - 2].count += ret[count - 1].count;
		count--;
	}
	ret[count - 1].end_ns = length;
	return count;
}

void summary_fold(
	const struct probe_summary *summary, const uint64_t *bins, double *ret, size_t parts)
{
	double part = (double)(summary->end_ns - summary->begin_ns) / (double)parts;
	struct summary_span spans[SUMMARY_BINS];
	size_t count = summary_spans(summary, bins, spans);

	memset(ret, 0, parts * sizeof(*ret));
	for (size_t i = 0; i < count && part > 0; i++) {
		double length = spans[i].end_ns - spans[i].begin_ns;

		/* Distributes the hits of a span over the parts that it overlaps. */
		for (size_t k = (size_t)(spans[i].begin_ns / part); k < parts; k++) {
			double from = (double)k * part, to = from + part;

			if (from >= spans[i].end_ns)
				break;
			from = from < spans[i].begin_ns ? spans[i].begin_ns : from;
			to = to > spans[i].end_ns ? spans[i].end_ns : to;
			if (to > from && length > 0)
				ret[k] += (double)spans[i].count * (to - from) / length /
					  (part / 1e9);
		}
	}
}

/* ==== Axes ==================================================================================== */

/* Axes of charts: their ends, their ticks, and the labels of ticks. */

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

	/* Treat 2.9999999999999996 as 3. */
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

	/* Write 90 s, not 1.5 min. */
	while (unit < 5 && (ns < units[unit].ns || (unit < 2 && !is_multiple(ns, units[unit].ns))))
		unit++;
	if (ns == 0)
		unit = 5;
	axis_number(out, ns / units[unit].ns);
	buffer_string(out, ns == 0 ? "" : units[unit].name);
}

/* ---- Times of the record ---------------------------------------------------------------- */

/* Starts a label at `percent` from `place`, which is "left" or "bottom". `class` may be NULL. */
static void axis_label(struct page *page, const char *place, double percent, const char *class)
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

/* The smallest of 1, 2, 5, 10, 20 ... that is not below the value. */
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

/* Writes the horizontal axis: times since the first hit. */
static void axis_times(struct page *page)
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

static void axis_numbers(struct page *page, double top, size_t parts)
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

/* The position of a time among the heat rows. Both rows of a power of two have the same height. */
double axis_row(double ns)
{
	return ns < 2 ? ns : 2 * logarithm(ns);
}

/*
 * Computes ticks between two heat rows: 1, 2, 5, 10 ..., or powers of ten, at most AXIS_TICKS_MAX.
 * Returns their number.
 */
size_t axis_latencies(size_t low, size_t high, double ret[AXIS_TICKS_MAX])
{
	for (size_t skip = 1;; skip++) {
		size_t count = 0, number = 0;

		for (double power = 1; power < 1e19; power *= 10) {
			for (size_t i = 0; i < 3; i++) {
				double ns = power * (double[]){1, 2, 5}[i], row = axis_row(ns);

				/*
				 * The first try takes all ticks. The second takes only powers of
				 * ten. The third takes every second power of ten, the fourth every
				 * third, and so on.
				 */
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

static void axis_latency_labels(struct page *page, size_t low, size_t high, bool is_vertical)
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

/* ==== Charts ================================================================================== */

enum { WIDTH = 1000, HEIGHT = 100, LEVELS = 6 };

/* ---- Parts ---------------------------------------------------------------------------- */

static void point(struct buffer *out, char command, double x, double y)
{
	buffer_char(out, command);
	axis_coordinate(out, x);
	buffer_char(out, ' ');
	axis_coordinate(out, y);
}

static void horizontal(struct page *page, const char *class, double y)
{
	page_html(page, "<line class=\"");
	page_html(page, class);
	page_html(page, "\" x1=\"0\" x2=\"1000\" y1=\"");
	axis_coordinate(page->out, y);
	page_html(page, "\" y2=\"");
	axis_coordinate(page->out, y);
	page_html(page, "\"/>");
}

static void vertical(struct page *page, const char *class, double x)
{
	page_html(page, "<line class=\"");
	page_html(page, class);
	page_html(page, "\" y1=\"0\" y2=\"100\" x1=\"");
	axis_coordinate(page->out, x);
	page_html(page, "\" x2=\"");
	axis_coordinate(page->out, x);
	page_html(page, "\"/>");
}

static unsigned int svg_begin(struct page *page)
{
	unsigned int id = ++page->ids;

	page->is_plain = true;
	page_html(page, "<svg viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" role=\"img\" "
			"aria-labelledby=\"t");
	buffer_unsigned(page->out, id);
	page_html(page, "\" aria-describedby=\"d");
	buffer_unsigned(page->out, id);
	page_html(page, "\"><title id=\"t");
	buffer_unsigned(page->out, id);
	page_html(page, "\">");
	return id;
}

/* Starts the description, after the title. */
static void svg_describe(struct page *page, unsigned int id)
{
	page_html(page, "</title><desc id=\"d");
	buffer_unsigned(page->out, id);
	page_html(page, "\">");
}

static void svg_described(struct page *page)
{
	page_html(page, " The numbers are in the table below.</desc>");
	page->is_plain = false;
}

/* ---- Rates ------------------------------------------------------------------------------- */

void all_bins(const struct probe_summary *summary, uint64_t ret[SUMMARY_BINS])
{
	memcpy(ret, summary->other_bins, SUMMARY_BINS * sizeof(*ret));
	for (size_t i = 0; i < summary->probe_count; i++) {
		for (size_t k = 0; k < SUMMARY_BINS; k++)
			ret[k] += summary->probes[i]->bins[k];
	}
}

static double span_rate(const struct summary_span *span)
{
	double length = span->end_ns - span->begin_ns;

	return length > 0 ? (double)span->count * 1e9 / length : 0;
}

double peak_rate(const struct probe_summary *summary, const uint64_t *bins)
{
	struct summary_span spans[SUMMARY_BINS];
	size_t count = summary_spans(summary, bins, spans);
	double most = 0;

	for (size_t i = 0; i < count; i++)
		most = larger(most, span_rate(&spans[i]));
	return most;
}

/* Draws the rate over time, as an area and as a line on top. */
static void steps(struct page *page, const uint64_t *bins, double top)
{
	struct summary_span spans[SUMMARY_BINS];
	size_t count = summary_spans(page->summary, bins, spans);
	double length = summary_seconds(page->summary) * 1e9;

	if (!(length > 0) || !(top > 0))
		return;
	for (size_t pass = 0; pass < 2; pass++) {
		page_html(page,
			pass ? "<path class=\"curve\" d=\"" : "<path class=\"area\" d=\"M0 100");
		for (size_t i = 0; i < count; i++) {
			double y = HEIGHT - span_rate(&spans[i]) / top * HEIGHT;

			point(page->out, pass && !i ? 'M' : 'L', spans[i].begin_ns / length * WIDTH,
				y);
			point(page->out, 'L', spans[i].end_ns / length * WIDTH, y);
		}
		page_html(page, pass ? "\"/>" : "L1000 100Z\"/>");
	}
}

void chart_spark(struct page *page, const uint64_t *bins)
{
	page_html(page, "<svg viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" "
			"aria-hidden=\"true\">");
	steps(page, bins, peak_rate(page->summary, bins) * 1.05);
	page_html(page, "</svg>");
}

static void rate_words(struct page *page, const char *what, const struct summary_probe *probe,
	const uint64_t *bins)
{
	unsigned int id = svg_begin(page);
	uint64_t count = 0;

	for (size_t i = 0; i < page->summary->bin_count; i++)
		count += bins[i];
	page_html(page, what);
	if (probe)
		page_probe(page, probe->provider, probe->name);
	page_html(page, " a second, over time");
	svg_describe(page, id);
	buffer_unsigned(page->out, count);
	page_html(page, " in ");
	page_time(page, summary_seconds(page->summary) * 1e9);
	page_html(page, "; at most ");
	page_rate(page, peak_rate(page->summary, bins));
	page_html(page, " a second.");
	svg_described(page);
}

void chart_rate(struct page *page, const char *what, const struct summary_probe *probe,
	const uint64_t *bins, bool is_small)
{
	size_t parts;
	double top = axis_end(peak_rate(page->summary, bins), &parts);

	parts = is_small ? 1 : parts;
	page_html(page, is_small ? "<div class=\"plot small\">" : "<div class=\"plot\">");
	axis_numbers(page, top, parts);
	rate_words(page, what, probe, bins);
	for (size_t i = 1; i <= parts; i++)
		horizontal(page, "grid", HEIGHT - HEIGHT * (double)i / (double)parts);
	steps(page, bins, top);
	horizontal(page, "axis", HEIGHT);
	page_html(page, "</svg>");
	axis_times(page);
	page_html(page, "</div>");
}

/* ---- Latencies ----------------------------------------------------------------------------- */

uint64_t heat_count(
	const struct probe_summary *summary, const struct summary_pair *pair, size_t row)
{
	uint64_t count = 0;

	for (size_t i = 0; i < summary->bin_count; i++)
		count += pair->heat[row][i];
	return count;
}

bool heat_range(const struct probe_summary *summary, const struct summary_pair *pair,
	size_t *low_ret, size_t *high_ret)
{
	size_t low = SUMMARY_HEAT_ROWS, high = 0;

	for (size_t row = 0; row < SUMMARY_HEAT_ROWS; row++) {
		if (!heat_count(summary, pair, row))
			continue;
		low = row < low ? row : low;
		high = row + 1;
	}
	/* Add some rows, so that a single row does not fill the chart. */
	while (high && high - low < 6) {
		low -= low > 0;
		high += high < SUMMARY_HEAT_ROWS;
	}
	*low_ret = low;
	*high_ret = high;
	return high > 0;
}

/* Draws all cells of one level as a path. */
static void cells(struct page *page, const struct summary_pair *pair, size_t low, size_t high,
	size_t level, uint64_t most)
{
	double length = summary_seconds(page->summary) * 1e9,
	       height = HEIGHT / (double)(high - low);
	struct summary_span spans[SUMMARY_BINS];

	page_html(page, "<path class=\"l");
	buffer_unsigned(page->out, level);
	page_html(page, "\" d=\"");
	for (size_t row = low; row < high && length > 0; row++) {
		size_t count = summary_spans(page->summary, pair->heat[row], spans);

		for (size_t i = 0; i < count; i++) {
			double left = spans[i].begin_ns / length * WIDTH, part;

			if (!spans[i].count)
				continue;
			part = most > 1
				       ? logarithm((double)spans[i].count) / logarithm((double)most)
				       : 1;
			if (level != 1 + (size_t)((LEVELS - 1) * part + 1e-9))
				continue;
			point(page->out, 'M', left, HEIGHT - (double)(row + 1 - low) * height);
			page_html(page, "h");
			axis_coordinate(page->out, spans[i].end_ns / length * WIDTH - left);
			page_html(page, "v");
			axis_coordinate(page->out, height);
			page_html(page, "H");
			axis_coordinate(page->out, left);
			page_html(page, "z");
		}
	}
	page_html(page, "\"/>");
}

static uint64_t most_in_cell(const struct probe_summary *summary, const struct summary_pair *pair)
{
	struct summary_span spans[SUMMARY_BINS];
	uint64_t most = 0;

	for (size_t row = 0; row < SUMMARY_HEAT_ROWS; row++) {
		size_t count = summary_spans(summary, pair->heat[row], spans);

		for (size_t i = 0; i < count; i++)
			most = spans[i].count > most ? spans[i].count : most;
	}
	return most;
}

static void legend(struct page *page, uint64_t most)
{
	if (most == 1) {
		page_html(page, "<p class=\"legend\" aria-hidden=\"true\">each cell is one</p>");
		return;
	}
	page_html(page, "<p class=\"legend\" aria-hidden=\"true\">1 <svg viewBox=\"0 0 6 1\" "
			"preserveAspectRatio=\"none\">");
	for (size_t level = 1; level <= LEVELS; level++) {
		page_html(page, "<path class=\"l");
		buffer_unsigned(page->out, level);
		page_html(page, "\" d=\"M");
		buffer_unsigned(page->out, level - 1);
		page_html(page, " 0h1v1h-1z\"/>");
	}
	page_html(page, "</svg> ");
	page_count(page, most);
	page_html(page, " in a cell</p>");
}

void chart_heat(struct page *page, const struct summary_pair *pair)
{
	uint64_t most = most_in_cell(page->summary, pair);
	double ticks[AXIS_TICKS_MAX];
	size_t low, high, count;
	unsigned int id;

	if (!heat_range(page->summary, pair, &low, &high))
		return;
	page_html(page, "<figure><figcaption>How long it took (upwards), over time</figcaption>"
			"<div class=\"plot\">");
	axis_latency_labels(page, low, high, true);
	id = svg_begin(page);
	page_html(page, "Heat map: times of ");
	page_pair(page, pair);
	svg_describe(page, id);
	page_html(page, "From ");
	page_time(page, (double)pair->times.least);
	page_html(page, " to ");
	page_time(page, (double)pair->times.most);
	page_html(page, ". Each cell counts those that ended in a part of the time and took so "
			"long.");
	svg_described(page);
	count = axis_latencies(low, high, ticks);
	for (size_t i = 0; i < count; i++)
		horizontal(page, "grid",
			HEIGHT -
				(axis_row(ticks[i]) - (double)low) / (double)(high - low) * HEIGHT);
	page_html(page, "<g shape-rendering=\"crispEdges\">");
	for (size_t level = 1; level <= LEVELS; level++)
		cells(page, pair, low, high, level, most);
	page_html(page, "</g>");
	horizontal(page, "axis", HEIGHT);
	page_html(page, "</svg>");
	axis_times(page);
	page_html(page, "</div>");
	legend(page, most);
	table_heat(page, pair);
	page_html(page, "</figure>");
}

/* Marks percentiles: lines in the chart, or their labels above it. */
static void percentile_marks(
	struct page *page, const struct probe_row *row, size_t low, size_t high, bool is_labels)
{
	static const struct {
		const char *name;
		double percent;
	} marks[] = {{"p50", 50}, {"p99", 99}};
	double last = -100;

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		double ns = probe_row_percentile(row, marks[i].percent);
		double part = (axis_row(ns) - (double)low) / (double)(high - low) * 100;

		if (!is_labels) {
			vertical(page, "mark", part * WIDTH / 100);
		} else if (part - last > 12) {
			axis_label(page, "left", part, NULL);
			page_html(page, marks[i].name);
			page_html(page, "</span>");
			last = part;
		}
	}
}

static void histogram_bars(
	struct page *page, const struct summary_pair *pair, size_t low, size_t high, double top)
{
	double width = WIDTH / (double)(high - low);

	page_html(page, "<path class=\"bars\" d=\"");
	for (size_t row = low; row < high; row++) {
		double height = (double)heat_count(page->summary, pair, row) / top * HEIGHT;

		if (!(height > 0))
			continue;
		/* Even one hit of a million must be visible. */
		height = larger(height, 0.8);
		point(page->out, 'M', (double)(row - low) * width + width * 0.06, HEIGHT);
		page_html(page, "v");
		axis_coordinate(page->out, -height);
		page_html(page, "h");
		axis_coordinate(page->out, width * 0.88);
		page_html(page, "V100z");
	}
	page_html(page, "\"/>");
}

void chart_histogram(struct page *page, const struct summary_pair *pair)
{
	size_t low, high, parts;
	struct probe_row row;
	double top = 1;
	unsigned int id;

	if (!heat_range(page->summary, pair, &low, &high))
		return;
	for (size_t i = low; i < high; i++)
		top = larger(top, (double)heat_count(page->summary, pair, i));
	top = axis_end(top, &parts);
	parts = top < 5 ? (size_t)top : parts; /* whole numbers of hits only */
	pair_row(pair, page->summary, &row);
	page_html(page, "<figure><figcaption>Distribution of times</figcaption><div class=\"plot "
			"marked\"><div class=\"marks\" aria-hidden=\"true\">");
	percentile_marks(page, &row, low, high, true);
	page_html(page, "</div>");
	axis_numbers(page, top, parts);
	id = svg_begin(page);
	page_html(page, "Histogram: times of ");
	page_pair(page, pair);
	svg_describe(page, id);
	page_html(page, "Half of them took at most ");
	page_time(page, probe_row_percentile(&row, 50));
	page_html(page, ", 99 of 100 at most ");
	page_time(page, probe_row_percentile(&row, 99));
	page_html(page, ".");
	svg_described(page);
	for (size_t i = 1; i <= parts; i++)
		horizontal(page, "grid", HEIGHT - HEIGHT * (double)i / (double)parts);
	histogram_bars(page, pair, low, high, top);
	percentile_marks(page, &row, low, high, false);
	horizontal(page, "axis", HEIGHT);
	page_html(page, "</svg>");
	axis_latency_labels(page, low, high, false);
	page_html(page, "</div>");
	table_histogram(page, pair);
	page_html(page, "</figure>");
}
