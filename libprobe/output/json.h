/* SPDX-License-Identifier: MIT */
/* What the writers of JSON share. A key has all its punctuation, e.g. ",\"name\":". */
#ifndef LIBPROBE_OUTPUT_JSON_H
#define LIBPROBE_OUTPUT_JSON_H

#include "libprobe/output/format.h"

void json_string_field(struct buffer *out, const char *key, const char *text);
void json_unsigned_field(struct buffer *out, const char *key, uint64_t value);
void json_signed_field(struct buffer *out, const char *key, int64_t value);
/* A string with its quotes. */
void json_string(struct buffer *out, const char *text, size_t length);
void json_value(struct buffer *out, const struct probe_value *value);

/* A line for a hit; a `pc` of 0 is not known. */
void json_hit(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm);
/* A line for a span: the hit of its end, with its begin. */
void json_span(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *comm);
/* A line for a loss; provider and name may be NULL. */
void json_lost(struct buffer *out, const struct probe_session_probe *probe, uint64_t lost);
/* A whole number of up to 64 bits is written as one; NAN is null. */
void json_number_field(struct buffer *out, const char *key, long double value);

/* What is in the object of a row. */
void json_row_fields(struct buffer *out, const struct probe_table_row *row, size_t key_count,
	const struct probe_view *view);

/* One object for each row. */
void json_table(struct format_context *context, const struct probe_table *table,
	const struct probe_view *view);

#endif
