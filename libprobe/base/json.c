/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <math.h>

#include "libprobe/base/json.h"

enum { NAME_BYTES = 64 }; /* longest name of a field */

static bool needs_comma(const struct buffer *out)
{
	char last = out->length > out->start ? out->data[out->length - 1] : '\n';

	return last != '{' && last != '[' && last != ':' && last != '\n';
}

void json_begin(struct buffer *out, const char *name)
{
	char *to = buffer_reserve(out, NAME_BYTES + 4);

	if (!to)
		return;
	if (needs_comma(out))
		*to++ = ',';
	if (name) {
		*to++ = '"';
		/* Names are short: a loop takes less time than strlen(3) and memcpy(3). */
		for (size_t i = 0; i < NAME_BYTES && *name; i++)
			*to++ = *name++;
		assert(!*name);
		*to++ = '"';
		*to++ = ':';
	}
	out->length = (size_t)(to - out->data);
}

void json_open(struct buffer *out, const char *name, char bracket)
{
	json_begin(out, name);
	buffer_char(out, bracket);
}

void json_close(struct buffer *out, char bracket)
{
	buffer_char(out, bracket);
}

void json_end_line(struct buffer *out)
{
	json_unsigned(out, "schema", PROBE_JSON_SCHEMA);
	buffer_string(out, "}\n");
}

void json_null(struct buffer *out, const char *name)
{
	json_begin(out, name);
	buffer_string(out, "null");
}

void json_boolean(struct buffer *out, const char *name, bool value)
{
	json_begin(out, name);
	buffer_string(out, value ? "true" : "false");
}

void json_unsigned(struct buffer *out, const char *name, uint64_t value)
{
	json_begin(out, name);
	buffer_unsigned(out, value);
}

void json_signed(struct buffer *out, const char *name, int64_t value)
{
	json_begin(out, name);
	buffer_signed(out, value);
}

void json_number(struct buffer *out, const char *name, long double value)
{
	json_begin(out, name);
	if (!isfinite(value))
		buffer_string(out, "null");
	else if (!buffer_whole(out, value))
		buffer_float(out, (double)value);
}

void json_bytes(struct buffer *out, const char *name, const char *text, size_t length)
{
	json_begin(out, name);
	buffer_char(out, '"');
	buffer_json_escaped(out, text, length);
	buffer_char(out, '"');
}

void json_text(struct buffer *out, const char *name, const char *text)
{
	if (text)
		json_bytes(out, name, text, strlen(text));
	else
		json_null(out, name);
}

void json_hex(struct buffer *out, const char *name, uint64_t value)
{
	json_begin(out, name);
	buffer_char(out, '"');
	buffer_hex(out, value);
	buffer_char(out, '"');
}

void json_hex_bytes(struct buffer *out, const char *name, const void *bytes, size_t length)
{
	json_begin(out, name);
	buffer_char(out, '"');
	buffer_hex_bytes(out, bytes, length);
	buffer_char(out, '"');
}
