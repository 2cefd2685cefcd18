/* SPDX-License-Identifier: MIT */
/* What the writers of JSON share. A key has all its punctuation, e.g. ",\"name\":". */
#ifndef SINK_JSON_H
#define SINK_JSON_H

#include "libprobe/sink/format.h"

void json_string_field(struct buffer *out, const char *key, const char *text);
void json_unsigned_field(struct buffer *out, const char *key, uint64_t value);
void json_signed_field(struct buffer *out, const char *key, int64_t value);
void json_value(struct buffer *out, const struct probe_value *value);

/* One object for each row. */
void json_table(struct format_context *context, const struct probe_table *table,
	const struct probe_view *view);

#endif
