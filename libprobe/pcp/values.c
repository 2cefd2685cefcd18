/* SPDX-License-Identifier: MIT */
/* What a row has, as values of metrics. */
#include "libprobe/pcp/pcp.h"

#ifdef PCP_BUILT
#include <math.h>

#include "libprobe/base/value.h"

/* As pmdatrace(1) has times. NAN: none. */
static struct pcp_value seconds(double ns)
{
	return (struct pcp_value){.f = ns / 1e9};
}

struct pcp_value pcp_count(uint64_t count)
{
	return (struct pcp_value){.u = count};
}

/*
 * Times keep all digits. Other values may have fractions: where no double is a sum or a counter of
 * whole numbers exactly (above 2^53), PCP gets the nearest one.
 */
struct pcp_value pcp_sum(const struct probe_view *view, long double sum)
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

/* A value or a time; NAN: none. */
struct pcp_value pcp_number(const struct probe_view *view, double value)
{
	if (view->times && view->tags)
		return seconds(value);
	return view->times ? time_value(value) : (struct pcp_value){.f = value};
}

struct pcp_value pcp_value_of(const struct probe_view *view, const struct probe_value *value)
{
	double result = NAN;

	value_number(value, &result);
	return pcp_number(view, result);
}
#endif
