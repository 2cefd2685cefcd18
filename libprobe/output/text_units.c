/* SPDX-License-Identifier: MIT */
/* Numbers and times for people. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libprobe/output/output.h"
#include "probe/sink.h"

void probe_duration_text(char text[PROBE_DURATION_BYTES], double ns)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	size_t unit = 0;
	int count;

	if (!isfinite(ns) || fabs(ns) > 1e25) {
		strcpy(text, "-");
		return;
	}
	/* 999.5 and more would be shown as 1000. */
	while (unit < 3 && ns >= 999.5) {
		ns /= 1000;
		unit++;
	}
	if (unit == 0 && ns >= 0 && ns == (double)(int64_t)ns)
		count = 0;
	else
		count = ns < 9.995 ? 2 : ns < 99.95 ? 1 : 0;
	snprintf(text, PROBE_DURATION_BYTES, "%.*f%s", count, ns, units[unit]);
}

static void decimals(struct buffer *out, double value, int count)
{
	char *at = buffer_reserve(out, 400);
	locale_t before = uselocale(out->c_locale);

	if (at)
		out->length += (size_t)snprintf(at, 400, "%.*f", count, value);
	uselocale(before);
}

void text_real(struct buffer *out, double value, enum text_digits digits)
{
	char *at = isfinite(value) ? buffer_reserve(out, 40) : NULL;
	locale_t before = uselocale(out->c_locale);

	if (at)
		out->length += (size_t)snprintf(at, 40, "%.*g", (int)digits, value);
	else if (!isfinite(value))
		buffer_char(out, '-');
	uselocale(before);
}

void text_duration(struct buffer *out, double ns)
{
	char *at = buffer_reserve(out, PROBE_DURATION_BYTES);
	locale_t before = uselocale(out->c_locale);

	if (at) {
		probe_duration_text(at, ns);
		out->length += strlen(at);
	}
	uselocale(before);
}

void text_number(struct buffer *out, long double value)
{
	if (!isfinite(value))
		buffer_char(out, '-');
	else if (buffer_whole(out, value))
		return;
	else if (fabsl(value) >= 0x1p63L)
		buffer_float(out, (double)value);
	else
		decimals(out, (double)value, fabsl(value) < 1000 ? 2 : 0);
}
