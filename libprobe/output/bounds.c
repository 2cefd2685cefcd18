/* SPDX-License-Identifier: MIT */
/*
 * The buckets of exported histograms. A scraper needs the same ones at all times, or it could not
 * tell what is new in each, and few, because each is a series. So the 1,921 buckets of a row are
 * added up:
 *
 *	times		1, 2 and 5 times each power of ten from 100 ns to 100 s. The row's buckets
 *			are ticks of a clock; each is counted where its middle is, 1.6 % off at
 *			most, and stays there when the length of a tick becomes known better
 *	whole numbers	0, 1, 3, 7, 15 ... 2^40 - 1. The row's buckets end there, so it is exact
 *	doubles		2^-10 ... 2^30, exact except for a value that is a bound itself
 *
 * Negative values are in the first bucket.
 */
#include <math.h>

#include "libprobe/output/output.h"

enum { DECADES = 9, FIRST_DOUBLE = -10 };

_Static_assert(3 * DECADES + 1 <= METRIC_BOUNDS_MAX, "times have fewer");

static size_t time_bounds(double ret[METRIC_BOUNDS_MAX])
{
	static const double steps[] = {1, 2, 5};
	double decade = 100;
	size_t count = 0;

	for (int i = 0; i < DECADES; i++, decade *= 10)
		for (int k = 0; k < 3; k++)
			ret[count++] = decade * steps[k];
	ret[count++] = decade;
	return count;
}

size_t metric_bounds(
	const struct probe_view *view, const struct probe_row *row, double ret[METRIC_BOUNDS_MAX])
{
	if (view->times)
		return time_bounds(ret);
	for (int i = 0; i < METRIC_BOUNDS_MAX; i++)
		ret[i] = row->is_float ? ldexp(1, FIRST_DOUBLE + i) : ldexp(1, i) - 1;
	return METRIC_BOUNDS_MAX;
}

void metric_fill(const struct probe_view *view, const struct probe_row *row, const double *bounds,
	size_t count, uint64_t ret[METRIC_BOUNDS_MAX + 1])
{
	size_t at = 0;

	for (size_t i = 0; i <= count; i++)
		ret[i] = 0;
	for (size_t i = 0; row->buckets && i < PROBE_BUCKETS; i++) {
		double low, high;

		if (!row->buckets[i])
			continue;
		probe_row_bucket(row, i, &low, &high);
		/* The last of the row's buckets has what is negative. */
		if (i == PROBE_BUCKETS - 1)
			at = 0;
		while (at < count && (view->times ? (low + high) / 2 : high) > bounds[at])
			at++;
		ret[at] += row->buckets[i];
	}
}
