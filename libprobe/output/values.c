/* SPDX-License-Identifier: MIT */
/* What a row has, as values of metrics. */
#include "libprobe/output/output.h"

#ifdef PCP_BUILT
#include <math.h>

/* As pmdatrace(1) has times. NAN: none. */
static struct pcp_value seconds(double ns)
{
	return (struct pcp_value){.f = ns / 1e9};
}

/*
 * Times keep all digits. Other values may have fractions: where no double is a sum or a counter of
 * whole numbers exactly (above 2^53), PCP gets the nearest one.
 */
static struct pcp_value sum_value(const struct probe_view *view, long double sum)
{
	if (!view->times)
		return (struct pcp_value){.f = (double)sum};
	if (view->tags)
		return seconds((double)sum);
	if (sum < 0)
		return (struct pcp_value){.u = sum > -0x1p63L ? (uint64_t)(int64_t)sum : 0};
	return (struct pcp_value){.u = sum < 0x1p64L ? (uint64_t)sum : UINT64_MAX - 1};
}

/* NAN: none. */
static struct pcp_value time_value(double ns)
{
	if (isnan(ns))
		return (struct pcp_value){.u = PCP_NONE};
	return (struct pcp_value){.u = ns < 0 ? 0 : ns < 0x1p63 ? (uint64_t)(ns + 0.5) : INT64_MAX};
}

struct pcp_value pcp_value(
	const struct probe_view *view, enum metric_quantity quantity, long double value)
{
	if (quantity == METRIC_RATE)
		return (struct pcp_value){.f = (double)value};
	if (!metric_infos[quantity].is_value)
		return (struct pcp_value){.u = (uint64_t)value};
	if (quantity == METRIC_TOTAL)
		return sum_value(view, value);
	if (view->times && view->tags)
		return seconds((double)value);
	return view->times ? time_value((double)value) : (struct pcp_value){.f = (double)value};
}
#endif
