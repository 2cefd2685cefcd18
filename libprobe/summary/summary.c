/* SPDX-License-Identifier: MIT */
/* A summary of events: what each of them adds to. */
#include <stdlib.h>
#include <string.h>

#include "libprobe/stream/stream.h"
#include "libprobe/summary/summary.h"

enum { PROBE_TABLE = 2 * SUMMARY_PROBES_MAX }; /* a power of two */
_Static_assert(SUMMARY_PROBES_MAX < UINT16_MAX, "numbers of probes are in the table");

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
	if (!error && options->match)
		error = parse_match(summary, options->match, options->catalogue);
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
	summary->probe_table = calloc(PROBE_TABLE, sizeof(*summary->probe_table));
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

static void free_probe(struct summary_probe *probe)
{
	for (size_t i = 0; i < SUMMARY_KEYS_MAX; i++)
		top_free(probe->tops[i]);
	free(probe->provider);
	free(probe->name);
	free(probe);
}

void probe_summary_free(struct probe_summary *summary)
{
	if (!summary)
		return;
	flights_deinit(summary);
	instances_deinit(summary);
	callers_deinit(summary);
	for (size_t i = 0; i < summary->probe_count; i++)
		free_probe(summary->probes[i]);
	free(summary->probes);
	free(summary->probe_table);
	free(summary->threads);
	for (size_t i = 0; i < SUMMARY_KEYS_MAX; i++) {
		buffer_deinit(&summary->normals[i]);
		key_deinit(&summary->keys[i]);
	}
	key_deinit(&summary->match);
	key_deinit(&summary->match_end);
	free(summary);
}

/* ---- Probes ------------------------------------------------------------------------ */

static struct probe_error *add_probe(
	struct probe_summary *summary, const struct probe_event *event, uint64_t hash)
{
	struct summary_probe *probe = calloc(1, sizeof(*probe));

	if (!probe)
		return probe_error_no_memory();
	probe->provider = strdup(event->provider);
	probe->name = strdup(event->name);
	probe->hash = hash;
	if (!probe->provider || !probe->name) {
		free_probe(probe);
		return probe_error_no_memory();
	}
	summary->probes[summary->probe_count++] = probe;
	return flights_probe(summary);
}

/* The number of the event's probe; SIZE_MAX: there is no room for it. */
static struct probe_error *find_probe(
	struct probe_summary *summary, const struct probe_event *event, size_t *ret)
{
	uint64_t hash = summary_hash(event->provider, strlen(event->provider),
		summary_hash(event->name, strlen(event->name), 0));

	size_t at = hash & (PROBE_TABLE - 1);

	for (; summary->probe_table[at]; at = (at + 1) & (PROBE_TABLE - 1)) {
		size_t index = summary->probe_table[at] - 1U;
		const struct summary_probe *probe = summary->probes[index];

		if (probe->hash == hash && strcmp(probe->name, event->name) == 0 &&
			strcmp(probe->provider, event->provider) == 0) {
			*ret = index;
			return NULL;
		}
	}
	*ret = SIZE_MAX;
	if (summary->probe_count == SUMMARY_PROBES_MAX)
		return NULL;
	*ret = summary->probe_count;
	summary->probe_table[at] = (uint16_t)(summary->probe_count + 1);
	return add_probe(summary, event, hash);
}

/* ---- Keys ---------------------------------------------------------------------------- */

static struct probe_error *add_key(struct probe_summary *summary, struct summary_probe *probe,
	size_t index, const struct probe_value *value)
{
	struct top **top = &probe->tops[index];

	if (!*top)
		*top = top_create(summary->key_count ? SUMMARY_SLOTS : SUMMARY_AUTO_SLOTS);
	return *top && top_add(*top, value) ? NULL : probe_error_no_memory();
}

/* Without keys that were asked for: strings, and integers while they are few. */
static struct probe_error *guess_keys(
	struct probe_summary *summary, struct summary_probe *probe, const struct probe_event *event)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < event->arg_count && i < SUMMARY_AUTO_ARGS && !error; i++) {
		struct probe_value value = event->args[i];

		if (value.kind == PROBE_VALUE_TEXT)
			value.kind = PROBE_VALUE_STRING;
		if (probe->no_top[i] || value.kind == PROBE_VALUE_NULL ||
			value.kind == PROBE_VALUE_FLOAT || value.kind == PROBE_VALUE_BYTES)
			continue;
		probe->numbers[i] = (uint8_t)(value.number ? value.number - 1U : i);
		if (!probe->tops[i] && summary->auto_keys++ >= SUMMARY_AUTO_KEYS_MAX) {
			probe->no_top[i] = true;
			continue;
		}
		error = add_key(summary, probe, i, &value);
		if (error || value.kind == PROBE_VALUE_STRING ||
			probe->tops[i]->used <= SUMMARY_AUTO_NUMBERS)
			continue;
		/* Numbers without end: addresses, identifiers. */
		top_free(probe->tops[i]);
		probe->tops[i] = NULL;
		probe->no_top[i] = true;
		summary->auto_keys--;
	}
	return error;
}

static struct probe_error *add_keys(
	struct probe_summary *summary, struct summary_probe *probe, const struct probe_event *event)
{
	struct probe_error *error = NULL;
	struct probe_value value;

	if (!summary->key_count)
		return guess_keys(summary, probe, event);
	for (size_t i = 0; i < summary->key_count && !error; i++) {
		if (!key_value(&summary->keys[i], event, &value))
			continue;
		error = key_complete(&summary->keys[i], event, &value, &summary->normals[i])
				? add_key(summary, probe, i, &value)
				: probe_error_no_memory();
	}
	return error;
}

/* ---- Events ---------------------------------------------------------------------------- */

static void add_time(struct probe_summary *summary, uint64_t time_ns)
{
	if (!summary->events || time_ns < summary->begin_ns)
		summary->begin_ns = time_ns;
	if (!summary->events || time_ns > summary->end_ns)
		summary->end_ns = time_ns;
	summary->events++;
}

/* Half of what 64 bits hold, so that hits can be added to it. Returns how many were added. */
static uint64_t add_lost(struct probe_summary *summary, uint64_t count)
{
	uint64_t room = UINT64_MAX / 2 - summary->lost;
	uint64_t lost = count < room ? count : room;

	summary->lost += lost;
	return lost;
}

/* The log of a stream (probe/stream.h) also has events of the stream: no process hit those. */
static bool take_stream_event(struct probe_summary *summary, const struct probe_event *event)
{
	if (!stream_types_is_own(event))
		return false;
	switch (stream_types_own(event->provider, event->name)) {
	case PROBE_STREAM_OVERFLOW:
		summary->overrun = true;
		break;
	case PROBE_STREAM_STOP: /* 1: it was full. A number of 1 is the same in every kind. */
		summary->full |= event->arg_count && event->args[0].u == 1;
		break;
	default:
		break;
	}
	return true;
}

/* Counts a hit; *ret is the number of its probe, or SIZE_MAX. */
static struct probe_error *count_hit(
	struct probe_summary *summary, const struct probe_event *event, size_t bin, size_t *ret)
{
	struct summary_probe *probe;
	struct probe_error *error;

	summary->hits++;
	error = threads_hit(summary, event);
	if (!error)
		error = find_probe(summary, event, ret);
	if (error)
		return error;
	if (*ret == SIZE_MAX) {
		summary->other_hits++;
		summary->other_bins[bin]++;
		return NULL;
	}
	probe = summary->probes[*ret];
	probe->hits++;
	probe->bins[bin]++;
	if (event->stack && !callers_add(summary, *ret, event->stack))
		return probe_error_no_memory();
	return add_keys(summary, probe, event);
}

/* The bin of an event's time, to which the event is added. */
static size_t take_time(struct probe_summary *summary, const struct probe_event *event)
{
	/* Not every record says when hits were lost. The clock of no machine says more. */
	uint64_t time_ns = event->time_ns ? event->time_ns : summary->end_ns;
	size_t bin;

	time_ns = time_ns > INT64_MAX ? INT64_MAX : time_ns;
	bin = summary_bin(summary, time_ns);
	if (!summary->events)
		summary->lost_bins[bin] = summary->lost;
	add_time(summary, time_ns);
	return bin;
}

struct probe_error *probe_summary_add(
	struct probe_summary *summary, const struct probe_event *event)
{
	struct probe_error *error = NULL;
	size_t bin, index, begin = SIZE_MAX;

	if (take_stream_event(summary, event))
		return NULL;
	/* No event so far had a time. */
	if (!event->time_ns && !summary->events && event->kind == PROBE_EVENT_LOST) {
		add_lost(summary, event->lost);
		return NULL;
	}
	if (event->begin)
		error = count_hit(summary, event->begin, take_time(summary, event->begin), &begin);
	if (error)
		return error;
	bin = take_time(summary, event);
	if (event->kind == PROBE_EVENT_LOST) {
		summary->lost_bins[bin] += add_lost(summary, event->lost);
		flights_forget(summary);
		return NULL;
	}
	error = count_hit(summary, event, bin, &index);
	if (error || index == SIZE_MAX)
		return error;
	if (!event->begin)
		return flights_hit(summary, index, event, bin);
	return begin == SIZE_MAX ? NULL : flights_span(summary, begin, index, event, bin);
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
