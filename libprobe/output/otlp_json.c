/* SPDX-License-Identifier: MIT */
/* The common parts of messages: attributes, resources, scopes. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/value.h"
#include "libprobe/output/output.h"

static void separate(struct buffer *out)
{
	if (out->length && !strchr("{[", out->data[out->length - 1]))
		buffer_char(out, ',');
}

static void name_field(struct buffer *out, const char *name)
{
	separate(out);
	buffer_char(out, '"');
	buffer_string(out, name);
	buffer_string(out, "\":");
}

static void quoted(struct buffer *out, const char *text, size_t length)
{
	struct buffer printable = {0};

	buffer_c_escaped(&printable, text, length, 0);
	buffer_char(out, '"');
	buffer_json_escaped(out, printable.data, printable.length);
	buffer_char(out, '"');
	out->no_memory |= printable.no_memory;
	buffer_deinit(&printable);
}

void otlp_number(struct buffer *out, const char *name, uint64_t value)
{
	name_field(out, name);
	buffer_char(out, '"');
	buffer_unsigned(out, value);
	buffer_char(out, '"');
}

void otlp_text(struct buffer *out, const char *name, const char *text)
{
	name_field(out, name);
	quoted(out, text, strlen(text));
}

static void open_attribute(struct buffer *out, const char *key)
{
	separate(out);
	buffer_char(out, '{');
	otlp_text(out, "key", key);
	name_field(out, "value");
	buffer_char(out, '{');
}

void otlp_text_attribute(struct buffer *out, const char *key, const char *text, size_t length)
{
	open_attribute(out, key);
	name_field(out, "stringValue");
	quoted(out, text, length);
	buffer_string(out, "}}");
}

void otlp_pid_attribute(struct buffer *out, pid_t pid)
{
	open_attribute(out, "process.pid");
	otlp_number(out, "intValue", (uint64_t)pid);
	buffer_string(out, "}}");
}

void otlp_double(struct buffer *out, const char *name, double value)
{
	name_field(out, name);
	if (isfinite(value))
		buffer_float(out, value);
	else
		buffer_string(out, isnan(value) ? "\"NaN\""
				   : value > 0	? "\"Infinity\""
						: "\"-Infinity\"");
}

void otlp_value_attribute(struct buffer *out, const char *key, const struct probe_value *value)
{
	open_attribute(out, key);
	switch (value->kind) {
	case PROBE_VALUE_NULL:
		break; /* an empty value */
	case PROBE_VALUE_SIGNED:
	case PROBE_VALUE_UNSIGNED:
		/* intValue is signed: addresses and large numbers are text. */
		name_field(out, value->kind == PROBE_VALUE_UNSIGNED && value->u > INT64_MAX
					? "stringValue"
					: "intValue");
		buffer_char(out, '"');
		value_add_number(out, value);
		buffer_char(out, '"');
		break;
	case PROBE_VALUE_FLOAT:
		otlp_double(out, "doubleValue", value->f);
		break;
	case PROBE_VALUE_BYTES:
		name_field(out, "stringValue");
		buffer_char(out, '"');
		buffer_hex_bytes(out, value->bytes, value->length);
		buffer_char(out, '"');
		break;
	case PROBE_VALUE_OTHER:
	case PROBE_VALUE_STACK:
	case PROBE_VALUE_STRING:
	case PROBE_VALUE_TEXT:
		name_field(out, "stringValue");
		quoted(out, value->bytes, value->length);
	}
	buffer_string(out, "}}");
}

void otlp_open_resource(
	struct buffer *out, pid_t pid, const char *program, const char *scopes, const char *items)
{
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	separate(out);
	buffer_string(out, "{\"resource\":{\"attributes\":[");
	otlp_text_attribute(out, "service.name", program, strlen(program));
	otlp_text_attribute(out, "host.name", host, strlen(host));
	if (pid)
		otlp_pid_attribute(out, pid);
	buffer_string(out, "]}");
	name_field(out, scopes);
	buffer_string(out, "[{\"scope\":{\"name\":\"probectl\",\"version\":\"" PROBE_VERSION "\"}");
	name_field(out, items);
	buffer_char(out, '[');
}

void otlp_close_resource(struct buffer *out)
{
	buffer_string(out, "]}]}");
}
