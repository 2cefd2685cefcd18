/* SPDX-License-Identifier: MIT */
/* What the writers of text share. */
#ifndef LIBPROBE_OUTPUT_TEXT_H
#define LIBPROBE_OUTPUT_TEXT_H

#include "libprobe/output/format.h"

/* provider:name */
void text_probe(struct buffer *out, const char *provider, const char *name);
void text_value(struct buffer *out, const struct probe_value *value);
/*
 * A value as its argument's type has it, if that is known (else NULL); one that could not be read
 * has none.
 */
void text_meant(
	struct buffer *out, const struct probe_arg_meaning *arg, const struct probe_value *value);
/* Local time with microseconds. */
void text_time(struct format_context *context, uint64_t time_ns);

/* A time with three significant digits and its unit: "812ns", "1.23ms". */
void text_duration(struct buffer *out, double ns);
/* A count or a measured value: an integer, or with at most two decimals. */
/*
 * A number with a fraction, in this many digits: values and sums have all digits of a double,
 * averages fewer, and estimates from buckets three.
 */
enum text_digits { TEXT_POWER = 3, TEXT_BUCKET = 4, TEXT_AVERAGE = 10, TEXT_VALUE = 15 };
void text_real(struct buffer *out, double value, enum text_digits digits);
void text_number(struct buffer *out, long double value);

/* The heading of a table, if there are several. */
void text_heading(struct format_context *context, const struct probe_view *view);

/* A line for each row, or a chart. */
void text_table(struct format_context *context, const struct probe_table *table,
	const struct probe_view *view);

/* The chart of a row's buckets, and below it the row's other figures. */
void text_chart(struct format_context *context, const struct probe_table_row *row,
	const struct probe_view *view);

#endif
