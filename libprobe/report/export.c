/* SPDX-License-Identifier: MIT */
/* Exporting events: the formats by their names, the options, and writing. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/value.h"
#include "libprobe/report/report.h"
#include "libprobe/query/query.h"
#include "libprobe/output/output.h"

struct probe_export {
	const struct export_format *format;
	struct probe_export_options options;
	struct export_settings settings;
	struct probe_sink *sink;
	int fd;
	void *state;
	/* Hits; those with what the options name. */
	bool any, key_seen[PROBE_EXPORT_KEYS_MAX], match_seen;
};

/* In the order of enum probe_export_format. */
static const struct export_format *const formats[] = {
	[PROBE_EXPORT_JSON] = &export_json,
	[PROBE_EXPORT_CSV] = &export_csv,
	[PROBE_EXPORT_FOLDED] = &export_folded,
	[PROBE_EXPORT_TRACE_EVENT] = &export_trace_event,
	[PROBE_EXPORT_FLAMEGRAPH] = &export_flamegraph,
};

enum { FORMAT_COUNT = sizeof(formats) / sizeof(formats[0]) };

bool probe_export_format(const char *name, enum probe_export_format *ret)
{
	for (size_t i = 0; i < FORMAT_COUNT; i++) {
		for (const char *const *its = formats[i]->names; *its; its++) {
			if (strcmp(*its, name) != 0)
				continue;
			*ret = (enum probe_export_format)i;
			return true;
		}
	}
	return false;
}

/* ---- Options ------------------------------------------------------------------------ */

static struct probe_error *parse_match(const char *text, int *begin_ret, int *end_ret)
{
	uint8_t begin = 0, end = 0;
	const char *at = argument_parse(text, &begin);

	end = begin;
	if (at && *at == ':')
		at = argument_parse(at + 1, &end);
	*begin_ret = begin;
	*end_ret = end;
	if (at && !*at)
		return NULL;
	return probe_error_new(PROBE_ERROR_USAGE,
		"what is matched: '%s' is neither argN nor argN:argN (of begin and end)", text);
}

static struct probe_error *settings_init(
	struct export_settings *settings, const struct probe_export_options *options)
{
	struct probe_error *error = NULL;

	*settings = (struct export_settings){.options = options, .match = -1, .match_end = -1};
	if (options->key_count > PROBE_EXPORT_KEYS_MAX)
		return probe_error_new(
			PROBE_ERROR_USAGE, "at most %d keys can be given", PROBE_EXPORT_KEYS_MAX);
	for (size_t i = 0; i < options->key_count && !error; i++)
		error = key_parse(options->keys[i], strlen(options->keys[i]), options->catalogue,
			(uint8_t)i, &settings->keys[i]);
	settings->key_count = options->key_count;
	if (!error && options->match)
		error = parse_match(options->match, &settings->match, &settings->match_end);
	return error;
}

/* ---- Writing -------------------------------------------------------------------------- */

static struct probe_error *export_flush(struct probe_export *exporter)
{
	struct pollfd output = {.fd = exporter->fd, .events = POLLOUT};
	struct probe_error *error = probe_sink_flush(exporter->sink);

	while (!error && probe_sink_pending(exporter->sink)) {
		poll(&output, 1, -1);
		error = probe_sink_flush(exporter->sink);
	}
	return error;
}

struct probe_error *probe_export_create(enum probe_export_format format,
	const struct probe_export_options *options, int fd, const char *name,
	struct probe_export **ret)
{
	struct probe_export *exporter;
	struct probe_error *error;

	if ((size_t)format >= FORMAT_COUNT)
		return probe_error_new(
			PROBE_ERROR_USAGE, "there is no export format %d", (int)format);
	exporter = calloc(1, sizeof(*exporter));
	if (!exporter)
		return probe_error_no_memory();
	exporter->format = formats[format];
	exporter->fd = fd;
	if (options)
		exporter->options = *options;
	error = settings_init(&exporter->settings, &exporter->options);
	if (!error)
		error = sink_create(&format_silent, fd, name, &exporter->sink);
	if (!error)
		error = exporter->format->create(
			&exporter->settings, &sink_context(exporter->sink)->out, &exporter->state);
	if (error) {
		probe_export_free(exporter);
		return error;
	}
	*ret = exporter;
	return NULL;
}

void probe_export_free(struct probe_export *exporter)
{
	if (!exporter)
		return;
	exporter->format->free(exporter->state);
	for (size_t i = 0; i < PROBE_EXPORT_KEYS_MAX; i++)
		key_deinit(&exporter->settings.keys[i]);
	probe_sink_free(exporter->sink);
	free(exporter);
}

/* Does this hit have what the options name? */
static void look_for_named(struct probe_export *exporter, const struct probe_event *event)
{
	const struct export_settings *settings = &exporter->settings;
	struct probe_value value;

	exporter->any = true;
	for (size_t i = 0; i < settings->key_count; i++)
		exporter->key_seen[i] |= key_value(&settings->keys[i], event, &value);
	exporter->match_seen |= settings->match >= 0 &&
				probe_event_arg(event, (unsigned int)settings->match, false);
}

struct probe_error *probe_export_event(
	struct probe_export *exporter, const struct probe_event *event)
{
	struct probe_error *error = exporter->format->event(exporter->state, event);

	if (event->begin)
		look_for_named(exporter, event->begin);
	if (event->kind == PROBE_EVENT_HIT)
		look_for_named(exporter, event);
	return error || !probe_sink_full(exporter->sink) ? error : export_flush(exporter);
}

/* An argument that no hit has is a mistake of whoever named it. */
static struct probe_error *check_seen(const struct probe_export *exporter)
{
	for (size_t i = 0; i < exporter->settings.key_count && exporter->any; i++) {
		if (!exporter->key_seen[i])
			return key_not_found(&exporter->settings.keys[i]);
	}
	if (exporter->any && exporter->settings.match >= 0 && !exporter->match_seen)
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "no hit has a value to match by '%s'",
			exporter->options.match);
	return NULL;
}

struct probe_error *probe_export_finish(struct probe_export *exporter)
{
	struct probe_error *error = NULL;
	bool done = false;

	while (!error && !done) {
		error = exporter->format->finish(exporter->state, &done);
		if (!error)
			error = export_flush(exporter);
	}
	return error ? error : check_seen(exporter);
}

/* ---- What several formats say ------------------------------------------------------------ */

void export_value_text(struct buffer *out, const struct probe_value *value)
{
	if (value_add_number(out, value) || value->kind == PROBE_VALUE_NULL)
		return;
	if (value->kind == PROBE_VALUE_BYTES)
		buffer_hex_bytes(out, value->bytes, value->length);
	else
		buffer_bytes(out, value->bytes, value->length);
}

/* A number that was recorded as text, too, is shown as that. */
static bool export_key_value(
	const struct key *key, const struct probe_event *event, struct probe_value *ret)
{
	struct key its;

	if (!key_resolve(key, event, &its) || !key_value(&its, event, ret))
		return false;
	if (its.kind == KEY_ARG)
		*ret = *probe_event_arg(event, its.arg, false);
	return true;
}

/* A key's value, with the word for a number. */
static void add_key_text(struct buffer *out, const struct key *key, const struct probe_event *event,
	const struct probe_value *value)
{
	const struct probe_arg_meaning *meaning = key_meaning(key, event->provider, event->name);

	if (meaning && value->kind != PROBE_VALUE_STRING && value->kind != PROBE_VALUE_TEXT)
		text_meant(out, meaning, value);
	else
		export_value_text(out, value);
}

void export_key_text(
	struct buffer *out, const struct probe_event *event, const struct export_settings *settings)
{
	struct buffer normal = {0};
	struct probe_value value;

	for (size_t i = 0; i < settings->key_count; i++) {
		size_t start = out->length;

		if (!export_key_value(&settings->keys[i], event, &value))
			continue;
		if (!key_complete(&settings->keys[i], event, &value, &normal)) {
			out->no_memory = true;
			break;
		}
		buffer_char(out, ' ');
		add_key_text(out, &settings->keys[i], event, &value);
		if (out->length == start + 1) /* an empty string */
			out->length = start;
	}
	buffer_deinit(&normal);
}
