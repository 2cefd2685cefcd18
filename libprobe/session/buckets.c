/* SPDX-License-Identifier: MIT */
/* Histograms of stubs (arch/layout.h): the range of each bucket, and percentiles. */
#include <math.h>

#include "arch/layout.h"
#include "libprobe/base/value.h"
#include "probe/hit.h"

_Static_assert(PROBE_BUCKETS == CELL_BUCKETS, "rows are cells, read");

void probe_bucket_range(size_t index, int64_t *low_ret, uint64_t *high_ret)
{
	uint64_t low = index;
	unsigned int shift = 0;

	if (index >= CELL_NEGATIVE) {
		*low_ret = INT64_MIN;
		*high_ret = UINT64_MAX; /* as a signed number: -1 */
		return;
	}
	if (index >= 1u << CELL_SUB_BITS) {
		shift = (unsigned int)(index >> CELL_SUB_BITS) - 1;
		low = (index - ((uint64_t)shift << CELL_SUB_BITS)) << shift;
	}
	*low_ret = (int64_t)low;
	*high_ret = low + ((UINT64_C(1) << shift) - 1);
}

/* A bucket of doubles; see CELL_DOUBLE_LEAST. */
static void double_bucket(size_t index, double *low_ret, double *high_ret)
{
	const int parts = 1 << CELL_SUB_BITS;
	int power = (int)(index >> CELL_SUB_BITS) + CELL_DOUBLE_LEAST, part = (int)index % parts;

	*low_ret = index ? ldexp(1 + (double)part / parts, power) : 0;
	*high_ret =
		index + 1 < CELL_NEGATIVE ? ldexp(1 + (double)(part + 1) / parts, power) : INFINITY;
	if (index >= CELL_NEGATIVE) {
		*low_ret = -INFINITY;
		*high_ret = 0;
	}
}

void probe_row_bucket(const struct probe_row *row, size_t index, double *low_ret, double *high_ret)
{
	uint64_t high;
	int64_t low;

	if (row->is_float) {
		double_bucket(index, low_ret, high_ret);
		return;
	}
	probe_bucket_range(index, &low, &high);
	*low_ret = (double)(uint64_t)low * row->unit;
	*high_ret = (double)high * row->unit;
	if (index >= CELL_NEGATIVE) {
		*low_ret = -INFINITY;
		*high_ret = -1;
	}
}

/* Returns a bucket's middle in the row's unit, within the row's extremes. */
static double bucket_middle(const struct probe_row *row, size_t index)
{
	double middle, least, most, low, high;

	probe_row_bucket(row, index, &low, &high);
	if (index == CELL_NEGATIVE)
		middle = value_number(&row->min, &least) && least < 0 ? least / 2 : -1;
	else
		middle = (low + high) / 2;
	if (value_number(&row->min, &least) && middle < least)
		middle = least;
	if (value_number(&row->max, &most) && middle > most)
		middle = most;
	return middle;
}

/* Returns the smallest value that at least `percent` per cent of all do not exceed. */
double probe_row_percentile(const struct probe_row *row, double percent)
{
	uint64_t total = 0, below, rank;
	double wanted;

	for (size_t i = 0; row->buckets && i < PROBE_BUCKETS; i++)
		total += row->buckets[i];
	if (!total)
		return NAN;
	/* 99.9 has no exact double, but its rank among 1000 must be 999. */
	wanted = percent / 100 * (double)total * (1 - 1e-12);
	rank = (uint64_t)wanted;
	if (rank < 1 || (double)rank < wanted)
		rank++;
	below = row->buckets[CELL_NEGATIVE];
	if (below >= rank)
		return bucket_middle(row, CELL_NEGATIVE);
	for (size_t i = 0; i < CELL_NEGATIVE; i++) {
		below += row->buckets[i];
		if (below >= rank)
			return bucket_middle(row, i);
	}
	return bucket_middle(row, CELL_NEGATIVE - 1);
}
