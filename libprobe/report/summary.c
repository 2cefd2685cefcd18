/* SPDX-License-Identifier: MIT */
/* A summary of events, as a whole. What an event adds to it: events.c. */
#include <stdlib.h>
#include <string.h>

#include "libprobe/report/report.h"

/* It may be the same for values that differ, or it is never that of a begin and of its end. */
static bool is_for_keys_only(const struct key *key)
{
	return key_is_norm(key) || key->kind == KEY_SYMBOL || key->kind == KEY_PROBE;
}

static struct probe_error *parse_match(
	struct probe_summary *summary, const char *text, const struct probe_catalogue *catalogue)
{
	const char *colon = strchr(text, ':'), *end = colon ? colon + 1 : text;
	struct probe_error *error;

	summary->matches = true;
	error = key_parse(text, colon ? (size_t)(colon - text) : strlen(text), catalogue,
		SUMMARY_KEYS_MAX, &summary->match);
	if (!error)
		error = key_parse(
			end, strlen(end), catalogue, SUMMARY_KEYS_MAX + 1, &summary->match_end);
	if (!error && (is_for_keys_only(&summary->match) || is_for_keys_only(&summary->match_end)))
		error = probe_error_new(PROBE_ERROR_USAGE,
			"what is matched: '%s': norm(), sym() and probe are for keys only, ends "
			"are matched exactly",
			text);
	return error;
}

static struct probe_error *parse_options(
	struct probe_summary *summary, const struct probe_summary_options *options)
{
	struct probe_error *error = NULL;

	if (options->key_count > SUMMARY_KEYS_MAX)
		return probe_error_new(
			PROBE_ERROR_USAGE, "at most %d keys can be given", SUMMARY_KEYS_MAX);
	summary->key_count = options->key_count;
	summary->instances = options->pairs;
	if (options->pairs && !buffer_init(&summary->text))
		return probe_error_no_memory();
	for (size_t i = 0; i < options->key_count && !error; i++)
		error = key_parse(options->keys[i], strlen(options->keys[i]), options->catalogue,
			(uint8_t)i, &summary->keys[i]);
	if (options->match)
		return error ? error : parse_match(summary, options->match, options->catalogue);
	summary->identities.catalogue = options->catalogue;
	return error;
}

struct probe_error *probe_summary_create(
	const struct probe_summary_options *options, struct probe_summary **ret)
{
	struct probe_summary *summary = calloc(1, sizeof(*summary));
	struct probe_error *error;

	if (!summary)
		return probe_error_no_memory();
	summary->flights.item_bytes = sizeof(struct summary_begun);
	summary->probes = calloc(SUMMARY_PROBES_MAX, sizeof(struct summary_probe *));
	summary->probe_table = calloc(SUMMARY_PROBE_TABLE, sizeof(*summary->probe_table));
	error = summary->probes && summary->probe_table ? NULL : probe_error_no_memory();
	if (!error && options)
		error = parse_options(summary, options);
	if (error) {
		probe_summary_free(summary);
		return error;
	}
	*ret = summary;
	return NULL;
}

void probe_summary_free(struct probe_summary *summary)
{
	if (!summary)
		return;
	flights_deinit(summary);
	instances_deinit(summary);
	callers_deinit(summary);
	for (size_t i = 0; i < summary->probe_count; i++)
		summary_probe_free(summary->probes[i]);
	free(summary->probes);
	free(summary->probe_table);
	free(summary->threads);
	for (size_t i = 0; i < SUMMARY_KEYS_MAX; i++) {
		buffer_deinit(&summary->normals[i]);
		key_deinit(&summary->keys[i]);
	}
	key_deinit(&summary->match);
	key_deinit(&summary->match_end);
	identities_deinit(&summary->identities);
	free(summary);
}

struct probe_error *probe_summary_check_keys(
	const struct probe_summary *summary, const struct probe_summary *other)
{
	struct probe_error *error;

	if (!summary->hits && !(other && other->hits))
		return NULL;
	for (size_t i = 0; i < summary->key_count; i++) {
		if (summary_key_missing(summary, i) && !(other && !summary_key_missing(other, i)))
			return key_not_found(&summary->keys[i]);
	}
	error = key_unknown(&summary->match);
	return error ? error : key_unknown(&summary->match_end);
}

struct probe_error *summary_take(struct buffer *out, char **ret, size_t *length_ret)
{
	buffer_char(out, '\0');
	if (out->no_memory) {
		buffer_deinit(out);
		return probe_error_no_memory();
	}
	*ret = out->data;
	*length_ret = out->length - 1;
	out->data = NULL;
	buffer_deinit(out);
	return NULL;
}

struct probe_error *probe_summary_render(const struct probe_summary *summary,
	enum probe_summary_format format, const struct probe_summary_view *view, char **ret,
	size_t *length_ret)
{
	struct buffer out;

	if ((unsigned int)format > PROBE_SUMMARY_HTML)
		return probe_error_new(
			PROBE_ERROR_USAGE, "there is no format %d of summaries", (int)format);
	if (!buffer_init(&out))
		return probe_error_no_memory();
	switch (format) {
	case PROBE_SUMMARY_TEXT:
		summary_text(&out, summary, view);
		break;
	case PROBE_SUMMARY_JSON:
		summary_json(&out, summary, view);
		break;
	case PROBE_SUMMARY_HTML:
		summary_html(&out, summary, view);
		break;
	}
	return summary_take(&out, ret, length_ret);
}
