/* SPDX-License-Identifier: MIT */
/* Numbers and times for people. */
#include <math.h>
#include <stdio.h>

#include "libprobe/sink/text.h"

static void decimals(struct buffer *out, double value, int count)
{
	char *at = buffer_reserve(out, 400);
	locale_t before = uselocale(out->c_locale);

	if (at)
		out->length += (size_t)snprintf(at, 400, "%.*f", count, value);
	uselocale(before);
}

void text_duration(struct buffer *out, double ns)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	size_t unit = 0;

	if (!isfinite(ns)) {
		buffer_char(out, '-');
		return;
	}
	/* 999.5 and more would be shown as 1000. */
	while (unit < 3 && ns >= 999.5) {
		ns /= 1000;
		unit++;
	}
	if (unit == 0 && ns == (double)(int64_t)ns)
		decimals(out, ns, 0);
	else
		decimals(out, ns, ns < 9.995 ? 2 : ns < 99.95 ? 1 : 0);
	buffer_string(out, units[unit]);
}

void text_number(struct buffer *out, double value)
{
	if (!isfinite(value))
		buffer_char(out, '-');
	else if (buffer_whole(out, value))
		return;
	else if (fabs(value) >= 0x1p63)
		buffer_float(out, value);
	else
		decimals(out, value, fabs(value) < 1000 ? 2 : 0);
}
