/* SPDX-License-Identifier: MIT */
/* Text and numbers of `probectl top` in a given width. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "cli/top/top.h"
#include "probe/sink.h"
#include "libprobe/base/utf8.h"

/* ---- Characters -------------------------------------------------------------------- */

/*
 * The columns of a character. Those that take none (marks) or that are unknown are not printed.
 */
static size_t columns_of(const char *text, size_t bytes)
{
	int columns = bytes == 1 ? 1 : wcwidth((wchar_t)utf8_code(text, bytes));

	return columns > 0 ? (size_t)columns : 0;
}

/* What is safe of a text, and has a width: a copy that ends with NUL. */
static void clean(struct buffer *out, const char *text, bool utf8)
{
	struct buffer printable = {0};

	out_printable(&printable, text);
	for (size_t i = 0; i < printable.length;) {
		const char *at = printable.data + i;
		size_t bytes = utf8_character(at, printable.length - i);

		if (bytes == 1 || (utf8 && columns_of(at, bytes)))
			buffer_bytes(out, at, bytes);
		else
			buffer_char(out, '?');
		i += bytes ? bytes : 1;
	}
	buffer_char(out, '\0');
	out->no_memory |= printable.no_memory;
	buffer_deinit(&printable);
}

/* ---- Text -------------------------------------------------------------------------- */

static size_t clean_width(const char *text)
{
	size_t width = 0;

	while (*text) {
		size_t bytes = utf8_character(text, strlen(text));

		width += columns_of(text, bytes);
		text += bytes;
	}
	return width;
}

size_t cell_width(const char *text, bool utf8)
{
	struct buffer copy = {0};
	size_t width = 0;

	clean(&copy, text, utf8);
	if (!copy.no_memory)
		width = clean_width(copy.data);
	buffer_deinit(&copy);
	return width;
}

/* The bytes of as many whole characters as have room; *width_ret is what they take. */
static size_t head(const char *text, size_t width, size_t *width_ret)
{
	size_t length = 0, taken = 0;

	while (text[length]) {
		size_t bytes = utf8_character(text + length, strlen(text + length));
		size_t columns = columns_of(text + length, bytes);

		if (taken + columns > width)
			break;
		taken += columns;
		length += bytes;
	}
	*width_ret = taken;
	return length;
}

/* The same from the end: where the last characters that fit begin. */
static size_t tail(const char *text, size_t width, size_t *width_ret)
{
	size_t total = clean_width(text), at = 0;

	while (total > width) {
		size_t bytes = utf8_character(text + at, strlen(text + at));

		total -= columns_of(text + at, bytes);
		at += bytes;
	}
	*width_ret = total;
	return at;
}

/* The first and the last part of a text that has no room. */
static size_t fit_ends(struct buffer *out, const char *text, size_t width, bool utf8)
{
	size_t dots = utf8 ? 1 : 2, first, last, at;

	if (width <= dots) {
		buffer_bytes(out, "..", width);
		return width;
	}
	buffer_bytes(out, text, head(text, (width - dots + 1) / 2, &first));
	buffer_string(out, utf8 ? "…" : "..");
	at = tail(text, width - dots - first, &last);
	buffer_string(out, text + at);
	return first + dots + last;
}

size_t cell_text(struct buffer *out, const char *text, size_t width, bool utf8)
{
	struct buffer copy = {0};
	size_t taken = 0;

	clean(&copy, text, utf8);
	out->no_memory |= copy.no_memory;
	if (!copy.no_memory) {
		taken = clean_width(copy.data);
		if (taken <= width)
			buffer_string(out, copy.data);
		else
			taken = fit_ends(out, copy.data, width, utf8);
	}
	buffer_deinit(&copy);
	return taken;
}

/* ---- Numbers ----------------------------------------------------------------------- */

static void right(struct buffer *out, const char *text, size_t width)
{
	size_t length = strlen(text);

	buffer_pad(out, 0, width > length ? width - length : 0);
	buffer_string(out, text);
}

/* What has too many digits gets a unit: "12.3M". */
static void short_number(char *text, size_t size, double value)
{
	static const char units[] = " kMGTPE";
	size_t unit = 0;

	while (value >= 999.5 && units[unit + 1]) {
		value /= 1000;
		unit++;
	}
	snprintf(text, size, "%.*f%c", value < 99.95 ? 1 : 0, value, units[unit]);
}

void cell_rate(struct buffer *out, double rate, size_t width)
{
	char text[32];

	if (rate == 0)
		text[0] = '\0';
	else if (rate < 9.95)
		snprintf(text, sizeof(text), "%.1f", rate);
	else
		snprintf(text, sizeof(text), "%.0f", rate);
	if (strlen(text) > width)
		short_number(text, sizeof(text), rate);
	right(out, text, width);
}

void cell_count(struct buffer *out, uint64_t count, size_t width)
{
	char text[32];

	snprintf(text, sizeof(text), "%ju", (uintmax_t)count);
	if (strlen(text) > width)
		short_number(text, sizeof(text), (double)count);
	right(out, text, width);
}

void cell_time(struct buffer *out, double ns, size_t width)
{
	char text[PROBE_DURATION_BYTES] = "-";

	if (!isnan(ns))
		probe_duration_text(text, ns);
	right(out, text, width);
}
