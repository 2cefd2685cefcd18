/* SPDX-License-Identifier: MIT */
/*
 * Time, in a fixed number of bins that all counts over time share.
 *
 * How long a record is, is known only at its end. So bins are narrow at first,
 * and whenever there are too many, adjacent ones are merged in twos. The first one begins with
 * the first event; if an earlier one comes later, whole bins are put before it.
 */
#include <string.h>

#include "libprobe/report/report.h"

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
			/* The base is at least -width, and a time at least 0. */
			bin = ((uint64_t)summary->base_ns - (uint64_t)time + width - 1) / width;
			if (bin <= SUMMARY_BINS - summary->bin_count) {
				change_all(summary, shift, (size_t)bin);
				/* The distance alone may be more than a signed number holds. */
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
	/* The base differs from the begin only where events came out of order. */
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

		/* The contents of a span are spread over the parts that it touches. */
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
