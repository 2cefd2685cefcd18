/* SPDX-License-Identifier: MIT */
/* A summary as a whole, its bins of time, and the rows to show. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/output/output.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/report/report.h"

/* ==== Selecting rows ========================================================================== */

enum { GUESSED_ROWS = 10 };

void summary_duration(struct buffer *out, double ns)
{
	/* Seconds and minutes are used up to some hundreds. */
	bool is_hours = ns >= 2 * 3600e9;
	char text[40];

	if (!(ns >= 600e9)) {
		text_duration(out, ns);
		return;
	}
	ns /= is_hours ? 3600e9 : 60e9;
	snprintf(text, sizeof(text), "%" PRIu64 ".%u%s", (uint64_t)(ns + 0.05),
		(unsigned int)((uint64_t)(ns * 10 + 0.5) % 10), is_hours ? "h" : "min");
	buffer_string(out, text);
}

void summary_rate(struct buffer *out, const struct probe_summary *summary, uint64_t hits)
{
	double value = summary_per_second(summary, hits);

	if (isnan(value))
		buffer_char(out, '-');
	else if (value > 0 && value < 0.005)
		buffer_string(out, "<0.01");
	else /* with many hits per second, fractions are not significant */
		text_number(out,
			value < 100 || value >= 0x1p63 ? value : (double)(uint64_t)(value + 0.5));
}

static int probe_order(const void *a, const void *b)
{
	const struct summary_probe *left = *(const struct summary_probe *const *)a;
	const struct summary_probe *right = *(const struct summary_probe *const *)b;

	return ORDER(right->hits, left->hits) ?: strcmp(left->provider, right->provider)
		?: strcmp(left->name, right->name);
}

/* Returns a sorted copy; the caller frees it. NULL if out of memory. */
static void *sorted_copy(
	const void *pointers, size_t count, int (*order)(const void *a, const void *b))
{
	void **sorted = calloc(count + 1, sizeof(*sorted));

	if (sorted && count) {
		memcpy(sorted, pointers, count * sizeof(*sorted));
		qsort(sorted, count, sizeof(*sorted), order);
	}
	return sorted;
}

const struct summary_probe **summary_probes(const struct probe_summary *summary)
{
	return sorted_copy(summary->probes, summary->probe_count, probe_order);
}

static int pair_order(const void *a, const void *b)
{
	const struct summary_pair *left = *(const struct summary_pair *const *)a;
	const struct summary_pair *right = *(const struct summary_pair *const *)b;

	return ORDER(right->times.sum, left->times.sum)
		?: ORDER(right->times.count, left->times.count) ?: ORDER(left->end, right->end);
}

const struct summary_pair **summary_pairs(const struct probe_summary *summary)
{
	return sorted_copy(summary->pairs, summary->pair_count, pair_order);
}

/* ---- Keys --------------------------------------------------------------------------- */

static bool is_string(const struct top *top)
{
	return top->used && top->slots[0]->value.kind == PROBE_VALUE_STRING;
}

/* Returns true if a table that the user did not ask for is worth showing. */
static bool tells(const struct top *top)
{
	AUTO_FREE const struct top_slot **sorted = NULL;
	uint64_t surely = 0, rest, most;
	bool any;

	for (size_t i = 0; i < top->used; i++) {
		const struct top_slot *slot = top->slots[i];

		if (slot->count - slot->error > surely)
			surely = slot->count - slot->error;
		/* Numbers from 2^32 on are nearly always addresses. */
		if (!is_string(top) &&
			(slot->value.kind == PROBE_VALUE_SIGNED
					? slot->value.i > UINT32_MAX ||
						  slot->value.i < -(int64_t)UINT32_MAX
					: slot->value.u > UINT32_MAX))
			return false;
	}
	if (is_string(top) && (!top->approximate || surely <= 1))
		return !top->approximate;
	if (is_string(top)) {
		/* If out of memory, writing the table fails, too. */
		sorted = top_sorted(top);
		any = !sorted || top_shown(top, sorted, 1, &rest, &most);
		return any;
	}
	return top->used > 1 && top->total >= 2 * top->used;
}

static int top_order(const void *a, const void *b)
{
	const struct summary_top *left = a, *right = b;

	/* An end event often has its start event's arguments. */
	return is_string(right->top) - is_string(left->top)
		?: (left->probe->role == PROBE_ROLE_END) - (right->probe->role == PROBE_ROLE_END)
		?: probe_order(&left->probe, &right->probe)
		?: ORDER(left->key.arg, right->key.arg);
}

struct summary_top *summary_tops(const struct probe_summary *summary, size_t *count_ret)
{
	struct summary_top *tops =
		calloc(summary->probe_count * SUMMARY_KEYS_MAX + 1, sizeof(*tops));
	size_t count = 0;

	for (size_t i = 0; tops && i < summary->probe_count; i++) {
		const struct summary_probe *probe = summary->probes[i];

		for (size_t k = 0; k < SUMMARY_KEYS_MAX; k++) {
			const struct top *top = probe->tops[k];

			if (!top || !top->used || (!summary->key_count && !tells(top)))
				continue;
			tops[count] = (struct summary_top){.probe = probe, .top = top};
			tops[count].key = summary->keys[k];
			if (!summary->key_count)
				tops[count].key =
					(struct key){.kind = is_string(top) ? KEY_STRING : KEY_ARG,
						.arg = probe->numbers[k],
						.label = probe->labels[k]};
			count++;
		}
	}
	if (tops)
		qsort(tops, count, sizeof(*tops), top_order);
	*count_ret = count;
	return tops;
}

const struct probe_arg_meaning *summary_top_meaning(const struct summary_top *top)
{
	return key_meaning(&top->key, top->probe->provider, top->probe->name);
}

const struct probe_arg_meaning *summary_value_meaning(
	const struct probe_summary *summary, const struct summary_value *value)
{
	const struct summary_probe *begin = summary->probes[value->begin];
	const struct summary_probe *end = summary->probes[value->end];
	const struct probe_arg_meaning *meaning =
		key_meaning(&value->key, begin->provider, begin->name);

	return meaning ? meaning : key_meaning(&value->key, end->provider, end->name);
}

bool summary_key_missing(const struct probe_summary *summary, size_t key)
{
	for (size_t i = 0; i < summary->probe_count; i++) {
		if (summary->probes[i]->tops[key])
			return false;
	}
	return key < summary->key_count;
}

size_t summary_shown(size_t count, size_t limit)
{
	return limit && limit < count ? limit : count;
}

size_t summary_key_limit(const struct probe_summary *summary, const struct probe_summary_view *view)
{
	/* Tables that the user did not ask for are short. */
	if (!summary->key_count && (!view->top || view->top > GUESSED_ROWS))
		return GUESSED_ROWS;
	return view->top;
}

/* ==== Bins of time ============================================================================ */

double summary_seconds(const struct probe_summary *summary)
{
	return (double)(summary->end_ns - summary->begin_ns) / 1e9;
}

double summary_per_second(const struct probe_summary *summary, long double amount)
{
	double seconds = summary_seconds(summary);

	return seconds > 0 ? (double)amount / seconds : NAN;
}

/*
 * A bin as shown. If the last bin has hardly started, it is shown as a part of the bin before it.
 */
struct span {
	double begin_ns, end_ns; /* start and end in nanoseconds since the first event */
	uint64_t count;
};

/* Converts bins to spans. Returns their number, at most SUMMARY_BINS. */
static size_t spans_of(const struct probe_summary *summary, const uint64_t *bins, struct span *ret)
{
	/* The base differs from the first time only if events were out of order. */
	double base = (double)(summary->base_ns - (int64_t)summary->begin_ns);
	double length = (double)(summary->end_ns - summary->begin_ns);
	double width = (double)summary->width_ns;
	size_t count = summary->bin_count;

	for (size_t i = 0; i < count; i++) {
		double begin = base + (double)i * width;

		ret[i] = (struct span){.begin_ns = begin < 0 ? 0 : begin,
			.end_ns = begin + width,
			.count = bins[i]};
	}
	if (!count)
		return 0;
	if (count > 1 && length - ret[count - 1].begin_ns < width / 2) {
		ret[count - 2].count += ret[count - 1].count;
		count--;
	}
	ret[count - 1].end_ns = length;
	return count;
}

void summary_fold(
	const struct probe_summary *summary, const uint64_t *bins, double *ret, size_t parts)
{
	double part = (double)(summary->end_ns - summary->begin_ns) / (double)parts;
	struct span spans[SUMMARY_BINS];
	size_t count = spans_of(summary, bins, spans);

	memset(ret, 0, parts * sizeof(*ret));
	for (size_t i = 0; i < count && part > 0; i++) {
		double length = spans[i].end_ns - spans[i].begin_ns;

		/* Distributes a span's hits over the parts that it overlaps. */
		for (size_t k = (size_t)(spans[i].begin_ns / part); k < parts; k++) {
			double from = (double)k * part, to = from + part;

			if (from >= spans[i].end_ns)
				break;
			from = from < spans[i].begin_ns ? spans[i].begin_ns : from;
			to = to > spans[i].end_ns ? spans[i].end_ns : to;
			if (to > from && length > 0)
				ret[k] += (double)spans[i].count * (to - from) / length /
					  (part / 1e9);
		}
	}
}

/* ==== Summary ================================================================================= */

/* Is a key unsuitable for matching, because its values are never, or too often, equal? */
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
	for (size_t i = 0; i < options->key_count && !error; i++)
		error = key_parse(options->keys[i], strlen(options->keys[i]), options->catalogue,
			(uint8_t)i, &summary->keys[i]);
	summary->identities.catalogue = options->catalogue;
	summary->identities.is_off = options->match != NULL;
	return error || !options->match ? error
					: parse_match(summary, options->match, options->catalogue);
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
	error = summary->probes ? NULL : probe_error_no_memory();
	if (!error && options)
		error = parse_options(summary, options);
	if (error)
		probe_summary_free(summary);
	else
		*ret = summary;
	return error;
}

void probe_summary_free(struct probe_summary *summary)
{
	if (!summary)
		return;
	flights_deinit(summary);
	instances_deinit(summary);
	callers_deinit(summary);
	for (size_t i = 0; i < summary->probe_count; i++)
		for (size_t k = 0; k < SUMMARY_KEYS_MAX; k++) {
			top_free(summary->probes[i]->tops[k]);
			free(summary->probes[i]->labels[k]);
		}
	free(summary->probes);
	map_clear(&summary->probes_by_name);
	map_clear(&summary->threads);
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
	if (!summary->hits && !(other && other->hits))
		return NULL;
	for (size_t i = 0; i < summary->key_count; i++) {
		if (summary_key_missing(summary, i) && !(other && !summary_key_missing(other, i)))
			return key_not_found(&summary->keys[i]);
	}
	return key_unknown(&summary->match) ?: key_unknown(&summary->match_end);
}

struct probe_error *summary_take(struct buffer *out, char **ret, size_t *length_ret)
{
	*ret = buffer_take(out, length_ret);
	return *ret ? NULL : probe_error_no_memory();
}
