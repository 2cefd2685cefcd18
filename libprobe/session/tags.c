/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/session/session.h"

static struct probe_error *parse_tag(const char *text, size_t length, enum probe_tracer_tag *ret)
{
	static const struct {
		const char *name;
		enum probe_tracer_tag tag;
	} tags[] = {{"point", PROBE_TAG_POINT}, {"observe", PROBE_TAG_OBSERVE},
		{"count", PROBE_TAG_COUNT}};

	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		if (strlen(tags[i].name) != length || memcmp(tags[i].name, text, length) != 0)
			continue;
		*ret = tags[i].tag;
		return NULL;
	}
	return probe_error_new(PROBE_ERROR_USAGE,
		"there is no tag '%.*s'; there are point, observe, count", (int)length, text);
}

struct probe_error *tags_add(struct tags *tags, const char *text)
{
	size_t length = strcspn(text, "@");
	struct tag_rule *rule;
	struct probe_error *error;

	if (!ARRAY_ROOM(tags->rules, tags->count))
		return probe_error_no_memory();
	rule = &tags->rules[tags->count];
	*rule = (struct tag_rule){0};
	error = parse_tag(text, length, &rule->tag);
	if (!error && text[length])
		error = probe_error_prefix(
			probe_pattern_parse(text + length + 1, &rule->pattern), "tag=%s", text);
	if (!error)
		tags->count++;
	return error;
}

enum probe_tracer_tag tags_find(struct tags *tags, const struct probe_session_probe *probe)
{
	for (size_t i = tags->count; i-- > 0;) {
		const struct probe_pattern *pattern = tags->rules[i].pattern;

		if (pattern && !probe_pattern_matches(pattern, probe->path ? probe->path : "",
				       probe->provider, probe->name))
			continue;
		tags->rules[i].applied = true;
		return tags->rules[i].tag;
	}
	return PROBE_TAG_POINT;
}

const char *tags_idle(const struct tags *tags)
{
	for (size_t i = 0; i < tags->count; i++)
		if (tags->rules[i].pattern && !tags->rules[i].applied)
			return probe_pattern_text(tags->rules[i].pattern);
	return NULL;
}

void tags_deinit(struct tags *tags)
{
	for (size_t i = 0; i < tags->count; i++)
		probe_pattern_free(tags->rules[i].pattern);
	free(tags->rules);
	*tags = (struct tags){0};
}
