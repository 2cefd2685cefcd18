/* SPDX-License-Identifier: MIT */
/*
 * A histogram as a chart with a bar for each power of two, as bpftrace prints it:
 *
 *	postgresql:query__start -> postgresql:query__done
 *	[65.5us, 131us)       12 |@@                                                  |
 *	[131us, 262us)       312 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
 *	count 324  sum 56.1ms  min 71.2us  avg 173us  max 255us
 *	p50 170us  p90 210us  p95 231us  p99 250us  p99.9 255us  p99.99 255us
 *	in flight 1  ends without a begin 0
 *
 * Percentiles come from the row's own buckets, which are 32 times finer.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "libprobe/output/output.h"

enum {
	BAR_WIDTH = 52,
	/* One bar for negative values, one for 0, one for each [2^k, 2^(k+1)), k from 0 to 63. */
	BAR_NEGATIVE = 0,
	BAR_ZERO = 1,
	BAR_FIRST = 2,
	BARS = BAR_FIRST + 64,
	/* bars of doubles begin with this k */
	DOUBLE_LEAST = -24
};

struct bars {
	uint64_t counts[BARS];
	uint64_t most;
	unsigned int low, high; /* the bars that are not empty: [low, high) */
	bool are_doubles;
};

/* Returns the bar for a bucket. For times, the middle of the bucket decides. */
static unsigned int bar_of(const struct probe_row *row, size_t index)
{
	uint64_t high, value;
	int64_t low;
	double middle, least, most;
	int power;

	if (index == PROBE_BUCKETS - 1)
		return BAR_NEGATIVE;
	if (row->is_float) {
		probe_row_bucket(row, index, &least, &most);
		frexp(least, &power); /* `least` is at least 2^(power - 1) */
		return index ? BAR_FIRST + (unsigned int)(power - 1 - DOUBLE_LEAST) : BAR_ZERO;
	}
	probe_bucket_range(index, &low, &high);
	value = (uint64_t)low;
	if (row->unit != 1) {
		middle = ((double)(uint64_t)low + (double)high) / 2 * row->unit;
		value = middle >= 0x1p64 ? UINT64_MAX : (uint64_t)middle;
	}
	return value ? BAR_FIRST + 63 - (unsigned int)__builtin_clzll(value) : BAR_ZERO;
}

static void bars_init(struct bars *bars, const struct probe_row *row)
{
	*bars = (struct bars){.low = BARS, .are_doubles = row->is_float};
	for (size_t i = 0; i < PROBE_BUCKETS; i++) {
		unsigned int bar;

		if (!row->buckets[i])
			continue;
		bar = bar_of(row, i);
		bars->counts[bar] += row->buckets[i];
		if (bars->counts[bar] > bars->most)
			bars->most = bars->counts[bar];
		if (bar < bars->low)
			bars->low = bar;
		if (bar >= bars->high)
			bars->high = bar + 1;
	}
}

/* Writes 2^exponent as 512, 1K or 2M. */
static void power(struct buffer *out, unsigned int exponent, bool times)
{
	static const char *const units[] = {"", "K", "M", "G", "T", "P", "E"};

	if (times) {
		text_duration(out, exponent < 64 ? (double)(UINT64_C(1) << exponent) : 0x1p64);
		return;
	}
	buffer_unsigned(out, UINT64_C(1) << exponent % 10);
	buffer_string(out, units[exponent / 10]);
}

/* Writes 2^exponent, which may be less than 1. */
static void power_of_double(struct buffer *out, int exponent)
{
	if (exponent < 0)
		text_real(out, ldexp(1, exponent), TEXT_POWER);
	else
		power(out, (unsigned int)exponent, false);
}

static void bar_label(struct buffer *out, unsigned int bar, bool times, bool are_doubles)
{
	int exponent = (int)bar - BAR_FIRST + DOUBLE_LEAST;

	if (bar == BAR_NEGATIVE) {
		buffer_string(out, "(..., 0)");
	} else if (are_doubles) {
		buffer_string(out, bar == BAR_ZERO ? "[0" : "[");
		if (bar != BAR_ZERO)
			power_of_double(out, exponent);
		buffer_string(out, ", ");
		power_of_double(out, exponent + 1);
		buffer_char(out, ')');
	} else if (bar == BAR_ZERO) {
		buffer_string(out, "[0]");
	} else if (bar == BAR_FIRST) {
		buffer_string(out, times ? "[1ns]" : "[1]");
	} else {
		buffer_char(out, '[');
		power(out, bar - BAR_FIRST, times);
		buffer_string(out, ", ");
		power(out, bar - BAR_FIRST + 1, times);
		buffer_char(out, ')');
	}
}

static void bar_line(struct buffer *out, const struct bars *bars, unsigned int bar, bool times)
{
	size_t before = out->length, width;
	uint64_t count = bars->counts[bar];
	char text[32];

	bar_label(out, bar, times, bars->are_doubles);
	buffer_pad(out, out->length - before, bars->are_doubles ? 20 : 16);
	snprintf(text, sizeof(text), " %10ju |", (uintmax_t)count);
	buffer_string(out, text);
	width = (size_t)((double)count / (double)bars->most * BAR_WIDTH);
	for (size_t i = 0; i < width; i++)
		buffer_char(out, '@');
	buffer_pad(out, width, BAR_WIDTH);
	buffer_string(out, "|\n");
}

/* ---- Figures ---------------------------------------------------------------------- */

static void figure(struct buffer *out, const char *name, const struct probe_row *row,
	const struct probe_view *view, long double value, enum text_digits digits)
{
	buffer_string(out, name);
	buffer_char(out, ' ');
	text_figure(out, row, view, value, digits);
}

static void figures(struct buffer *out, const struct probe_row *row, const struct probe_view *view,
	bool is_none)
{
	static const struct {
		const char *name;
		double percent;
	} percentiles[] = {
		{"p50", 50},
		{"  p90", 90},
		{"  p95", 95},
		{"  p99", 99},
		{"  p99.9", 99.9},
		{"  p99.99", 99.99},
	};

	buffer_string(out, "count ");
	if (is_none)
		buffer_char(out, '-');
	else
		buffer_unsigned(out, row->count);
	if (row->count) {
		figure(out, "  sum", row, view, row->sum, TEXT_VALUE);
		buffer_string(out, "  min ");
		text_exact(out, row, view, &row->min);
		figure(out, "  avg", row, view, row->sum / row->count, TEXT_AVERAGE);
		buffer_string(out, "  max ");
		text_exact(out, row, view, &row->max);
		buffer_char(out, '\n');
		for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++) {
			double value = probe_row_percentile(row, percentiles[i].percent);

			/* A percentile is the middle of a bucket, which may have a fraction. */
			figure(out, percentiles[i].name, row, view,
				view->times || row->is_float ? value : (double)(int64_t)value,
				TEXT_BUCKET);
		}
	}
	buffer_char(out, '\n');
}

void text_chart(struct format_context *context, const struct probe_table_row *row,
	const struct probe_view *view)
{
	struct buffer *out = &context->out;
	struct bars bars;

	if (row->row.buckets && row->row.count) {
		bars_init(&bars, &row->row);
		for (unsigned int bar = bars.low; bar < bars.high; bar++)
			bar_line(out, &bars, bar, view->times);
	}
	figures(out, &row->row, view, probe_coverage_is_none(&row->coverage));
	if (view->columns & PROBE_COLUMN_PAIRS)
		buffer_print(out, "in flight %" PRIu64 "  ends without a begin %" PRIu64 "\n",
			row->row.in_flight, row->unmatched);
}
