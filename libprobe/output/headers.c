/* SPDX-License-Identifier: MIT */
/*
 * Headers of the user's, such as an API key for a collector, as OTEL_EXPORTER_OTLP_HEADERS has
 * them: https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/output/output.h"

/* What a name of a header may have (RFC 9110, 5.6.2). */
static bool is_name(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("!#$%&'*+-.^_`|~", text[i]))
			return false;
	return length > 0;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Appends a value; false if it has a byte that ends a header. */
static bool decode(const char *from, size_t length, char *to)
{
	for (size_t i = 0; i < length; i++) {
		bool is_code = from[i] == '%' && i + 2 < length;
		int high = is_code ? digit_of(from[i + 1]) : -1;
		int low = is_code ? digit_of(from[i + 2]) : -1;
		char c = from[i];

		if (high >= 0 && low >= 0) {
			c = (char)(high * 16 + low);
			i += 2;
		}
		if (c == '\r' || c == '\n' || c == '\0')
			return false;
		*to++ = c;
	}
	*to = '\0';
	return true;
}

static size_t trimmed(const char **text, size_t length)
{
	while (length && strchr(" \t", **text)) {
		++*text;
		length--;
	}
	while (length && strchr(" \t", (*text)[length - 1]))
		length--;
	return length;
}

bool http_next_header(const char **headers, char **ret, struct probe_error **error_ret)
{
	const char *name, *value, *end;
	size_t name_length, value_length;
	char *to;

	if (!*headers || !*(*headers += strspn(*headers, ", \t")))
		return false;
	name = *headers;
	end = name + strcspn(name, ",");
	*headers = end;
	name_length = strcspn(name, "=");
	value = name + name_length + 1;
	if (value > end) {
		*error_ret = probe_error_new(PROBE_ERROR_USAGE,
			"OTEL_EXPORTER_OTLP_HEADERS is NAME=VALUE,NAME=VALUE...");
		return false;
	}
	value_length = trimmed(&value, (size_t)(end - value));
	name_length = trimmed(&name, name_length);
	*ret = to = malloc(name_length + value_length + sizeof(": "));
	if (!to) {
		*error_ret = probe_error_no_memory();
		return false;
	}
	to = stpcpy(mempcpy(to, name, name_length), ": ");
	if (is_name(name, name_length) && decode(value, value_length, to))
		return true;
	free(*ret);
	/* The value may be a secret. */
	*error_ret = probe_error_new(PROBE_ERROR_USAGE,
		"OTEL_EXPORTER_OTLP_HEADERS: header %.*s has a byte that is not allowed there",
		(int)name_length, name);
	return false;
}
