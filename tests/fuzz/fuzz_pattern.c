/* SPDX-License-Identifier: MIT */
/* Patterns: any text is parsed, matched against names derived from it, and compared. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/query/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *names[] = {"provider:name", "a:b__c", NULL};
	struct capture captures[CAPTURES_MAX];
	struct probe_pattern *pattern;
	struct probe_error *error;
	size_t count;
	char *text;

	/* A user's own regular expressions and globs may take long: that is no bug. */
	if (size > 64 || memchr(data, '*', size) || memchr(data, '{', size) ||
		memchr(data, '+', size))
		return 0;
	text = malloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	names[2] = text;
	error = probe_pattern_parse(text, &pattern);
	if (!error) {
		(void)probe_pattern_matches(pattern, text, text, text);
		(void)probe_pattern_matches(pattern, "/usr/lib/libx.so.1", "provider", "a-b__c");
		error = pattern_captures(pattern, "provider", "name", 3, false, captures, &count);
		if (!error && pattern_has_captures(pattern) && (count == 0 || count > 32))
			abort();
		probe_error_free(error);
		error = probe_pattern_no_match(pattern, "here", "probectl list", names, 3);
		probe_pattern_free(pattern);
	}
	probe_error_free(error);
	free(text);
	return 0;
}
