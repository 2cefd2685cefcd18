/* SPDX-License-Identifier: MIT */
/* "Did you mean": the probes with the names most similar to a pattern that matches none. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "libprobe/base/error.h"
#include "libprobe/base/nearest.h"
#include "libprobe/query/query.h"
#include "probe/pattern.h"

enum {
	NEAREST_MAX = 3,
	/* Only this many characters of a longer name are compared. */
	COMPARED_MAX = NEAREST_COMPARED_MAX,
	SPELLED_MAX = 512 /* bytes of a name that a message shows */
};

struct candidate {
	const char *name;
	unsigned int distance;
};

/*
 * Copies the part of a pattern that is compared: its last two parts, with `-` as `__`, without
 * arguments, other tools' prefixes and glob characters.
 */
static size_t reduce(const char *pattern, char ret[COMPARED_MAX + 1], bool *has_provider_ret)
{
	const char *quote = strstr(pattern, ":\"");
	const char *end = quote ? strrchr(pattern, '"') : pattern + strcspn(pattern, "(");
	const char *from = quote ? quote : end;
	size_t length = 0;
	int colons = quote != NULL;

	while (from > pattern && from[-1] != '/') {
		if (from[-1] == ':' && ++colons == 2)
			break;
		from--;
	}
	if (strncmp(from, "sdt_", 4) == 0)
		from += 4;
	for (; from < end && length < COMPARED_MAX - 1; from++) {
		if (strchr("*?[]\\^$ \"", *from))
			continue;
		if (*from == '-')
			ret[length++] = '_';
		ret[length++] = *from == '-' ? '_' : *from;
	}
	*has_provider_ret = colons > 0 && memchr(ret, ':', length) != ret;
	return length;
}

/* The same for a pattern of functions: the name of the function. */
static size_t reduce_function(const char *pattern, char ret[COMPARED_MAX + 1])
{
	size_t length = 0;
	const char *end = pattern + sdt_function_length(pattern, strcspn(pattern, "(")), *from;

	for (from = end; from > pattern; from--)
		if (from[-1] == ':' && !(from > pattern + 1 && from[-2] == ':') && *from != ':')
			break;
	for (; from < end && length < COMPARED_MAX - 1; from++)
		if (!strchr("*?[]\\^$/ ", *from))
			ret[length++] = *from;
	return length;
}

/*
 * Returns the edit distance between "provider:name" and the typed text; UINT32_MAX if not similar.
 */
static unsigned int distance_of(
	const char *typed, size_t typed_length, bool has_provider, const char *name)
{
	const char *colon =
		strchr(event_is_of_function(name) ? name + strlen(SDT_FUNCTIONS) : name, ':');
	size_t length, longer;
	unsigned int distance;

	/* The typed colon may be one of the name. */
	if (has_provider && colon && strchr(colon + 1, ':')) {
		distance = distance_of(typed, typed_length, false, name);
		if (distance != UINT32_MAX)
			return distance;
	}
	if (!has_provider && colon)
		name = colon + 1;
	length = strnlen(name, COMPARED_MAX);
	if (typed_length >= 3 && memmem(name, length, typed, typed_length))
		return 1;
	longer = length > typed_length ? length : typed_length;
	distance = nearest_distance(typed, typed_length, name, length);
	/* If more characters differ, it is not a typing error. */
	return distance * 5 > longer * 2 ? UINT32_MAX : distance;
}

/* Inserts a candidate in order, after those of equal distance. */
static void insert(struct candidate best[NEAREST_MAX], size_t *count, struct candidate new)
{
	size_t at = *count;

	if (new.distance == UINT32_MAX)
		return;
	for (size_t i = 0; i < *count; i++)
		if (strcmp(best[i].name, new.name) == 0)
			return;
	while (at > 0 && best[at - 1].distance > new.distance)
		at--;
	if (at == NEAREST_MAX)
		return;
	if (*count < NEAREST_MAX)
		++*count;
	memmove(&best[at + 1], &best[at], (*count - at - 1) * sizeof(*best));
	best[at] = new;
}

/* Writes "provider:name" as a pattern that matches it, in quotes if necessary. */
static void spell(const char *name, char ret[SPELLED_MAX])
{
	const char *colon = strchr(name, ':');

	if (colon && event_needs_quotes(name, colon + 1))
		snprintf(ret, SPELLED_MAX, "%.*s\"%s\"", (int)(colon + 1 - name), name, colon + 1);
	else
		snprintf(ret, SPELLED_MAX, "%s", name);
}

/* Returns advice for an event of another tool that is no static probe; otherwise NULL. */
static const char *advice_for(const char *text)
{
	static const char kernel[] = "probes of the kernel are for bpftrace or perf, "
				     "probectl traces programs";
	static const char time[] = "-i SECONDS prints at intervals, and perf samples";
	static const struct {
		const char *prefix, *advice;
	} events[] = {{"kprobe:", kernel}, {"kretprobe:", kernel}, {"k:", kernel}, {"kr:", kernel},
		{"tracepoint:", kernel}, {"t:", kernel}, {"rawtracepoint:", kernel},
		{"kfunc:", kernel}, {"kretfunc:", kernel}, {"fentry:", kernel}, {"fexit:", kernel},
		{"syscalls:", kernel}, {"software:", kernel}, {"hardware:", kernel},
		{"profile:", time}, {"interval:", time}};

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (strncmp(text, events[i].prefix, strlen(events[i].prefix)) == 0)
			return events[i].advice;
	return NULL;
}

struct probe_error *probe_pattern_no_match(const struct probe_pattern *pattern, const char *where,
	const char *all, const char *const *names, size_t name_count)
{
	const char *text = probe_pattern_text(pattern), *advice = advice_for(text);
	struct candidate best[NEAREST_MAX];
	bool is_function = pattern_is_function(pattern);
	size_t count = 0, typed_length;
	char typed[COMPARED_MAX + 1], spelled[NEAREST_MAX][SPELLED_MAX] = {""};
	bool has_provider;

	if (advice)
		return probe_error_new(PROBE_ERROR_NOT_FOUND,
			"no probe matches '%s' in %s: %s (`%s` shows what there is)", text, where,
			advice, all);
	if (name_count == 0)
		return probe_error_new(PROBE_ERROR_NOT_FOUND,
			"no probe matches '%s': there are no %s in %s%s", text,
			is_function ? "names of functions" : "probes", where,
			is_function ? ", which is stripped; a package with its debug symbols has "
				      "them"
				    : "");
	has_provider = false;
	typed_length =
		is_function ? reduce_function(text, typed) : reduce(text, typed, &has_provider);
	for (size_t i = 0; i < name_count; i++)
		insert(best, &count,
			(struct candidate){names[i],
				distance_of(typed, typed_length, has_provider, names[i])});
	if (count == 0)
		return probe_error_new(PROBE_ERROR_NOT_FOUND,
			"no probe matches '%s' in %s, and none has a name like it (`%s` shows what "
			"there is)",
			text, where, all);
	if (strchr(text, '/') && !is_function && typed_length == strlen(best[0].name) &&
		memcmp(typed, best[0].name, typed_length) == 0)
		return probe_error_new(PROBE_ERROR_NOT_FOUND,
			"no probe matches '%s' in %s: %s is there, but not in that file (`%s -v` "
			"shows where)",
			text, where, best[0].name, all);
	for (size_t i = 0; i < count; i++)
		spell(best[i].name, spelled[i]);
	return probe_error_new(PROBE_ERROR_NOT_FOUND,
		"no probe matches '%s' in %s; the nearest: %s%s%s%s%s", text, where, spelled[0],
		count > 1 ? ", " : "", spelled[1], count > 2 ? ", " : "", spelled[2]);
}
