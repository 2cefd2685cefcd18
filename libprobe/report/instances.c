/* SPDX-License-Identifier: MIT */
/*
 * Pairs of start and end events: times, values for keys, and the slowest.
 *
 * A pair's value comes from the start event, whose arguments tell what the program does, or else
 * from the end event, so values are kept until then. If too many start events are open, only their
 * times are kept. If no row is free for a new value, the value is counted among "others".
 */
#include <stdlib.h>
#include <string.h>

#include "arch/layout.h"
#include "libprobe/base/array.h"
#include "libprobe/base/event.h"
#include "libprobe/base/value.h"
#include "libprobe/report/report.h"

/* ==== Single pairs ============================================================================ */

enum { TEXT_MAX = 256, WORDS_MAX = 65536, WORDS_STEP = 64 };

struct item {
	struct key key;
	struct probe_value value; /* value; its bytes are in the same allocation */
};

struct begun_words {
	size_t room; /* size of the allocation in bytes */
	pid_t tid;
	size_t count;
	const char *text;
	struct item items[];
};

/* ---- Data of start events -------------------------------------------------------------- */

/* Gets the event's string argument with the lowest number. Returns false if it has none. */
static bool first_string(const struct probe_event *event, struct key *ret)
{
	size_t first = SIZE_MAX;

	for (size_t i = 0; i < event->arg_count; i++) {
		const struct probe_value *value = &event->args[i];
		size_t number = value->number ? value->number - 1U : i;

		if (number < first &&
			(value->kind == PROBE_VALUE_STRING || value->kind == PROBE_VALUE_TEXT))
			first = number;
	}
	*ret = (struct key){.kind = KEY_STRING, .arg = (uint8_t)first};
	return first < SIZE_MAX;
}

/*
 * Adds the event's values for keys that items[] lacks or, without keys, its first string. Returns
 * the number of items.
 */
static size_t take(struct probe_summary *summary, const struct probe_event *event,
	struct item items[SUMMARY_KEYS_MAX], size_t count)
{
	struct probe_value value;
	struct key key;

	for (size_t i = 0; i < summary->key_count; i++) {
		size_t k = 0;

		while (k < count && !key_same(&items[k].key, &summary->keys[i]))
			k++;
		if (k < count || !key_value(&summary->keys[i], event, &value))
			continue;
		if (!key_complete(&summary->keys[i], event, &value, &summary->normals[i])) {
			summary->text.no_memory = true;
			continue;
		}
		items[count++] = (struct item){summary->keys[i], value};
	}
	if (!summary->key_count && !count && first_string(event, &key) &&
		key_value(&key, event, &value))
		items[count++] = (struct item){key, value};
	for (size_t i = 0; i < count; i++) {
		struct probe_value *its = &items[i].value;

		if (!value_has_bytes(its) || its->length <= SUMMARY_KEY_BYTES_MAX)
			continue;
		its->length = SUMMARY_KEY_BYTES_MAX;
		its->truncated = true;
	}
	return count;
}

static void text_of(struct buffer *out, const struct probe_event *event)
{
	out->length = 0;
	for (size_t i = 0; i < event->arg_count && out->length < TEXT_MAX; i++) {
		if (i)
			buffer_char(out, ' ');
		value_add_text(out, &event->args[i]);
	}
	if (out->length <= TEXT_MAX)
		return;
	/* Do not cut inside a UTF-8 character; bytes 10xxxxxx continue a character. */
	out->length = TEXT_MAX;
	while (out->length && ((unsigned char)out->data[out->length] & 0xc0) == 0x80)
		out->length--;
	buffer_string(out, "...");
}

/* Frees a start event's data (may be NULL), or keeps its memory for the next start event. */
static void instances_drop(struct probe_summary *summary, struct begun_words *words)
{
	if (!words)
		return;
	free(summary->spare);
	summary->spare = words;
}

/* Copies a start event's data. *ret may be NULL. Returns false if out of memory. */
static bool instances_begin(
	struct probe_summary *summary, const struct probe_event *event, struct begun_words **ret)
{
	struct buffer *text = &summary->text;
	struct item items[SUMMARY_KEYS_MAX];
	size_t bytes = 0, count;
	struct begun_words *words;
	char *at;

	*ret = NULL;
	if (!summary->instances || summary->flights.depth >= WORDS_MAX)
		return true;
	count = take(summary, event, items, 0);
	text_of(text, event);
	for (size_t i = 0; i < count; i++)
		bytes += value_has_bytes(&items[i].value) ? items[i].value.length : 0;
	bytes += sizeof(*words) + count * sizeof(items[0]) + text->length + 1;
	/* The memory that was freed last is usually large enough. */
	words = summary->spare;
	summary->spare = NULL;
	if (!words || words->room < bytes) {
		free(words);
		bytes = (bytes + WORDS_STEP - 1) / WORDS_STEP * WORDS_STEP;
		words = malloc(bytes);
		if (words)
			words->room = bytes;
	}
	if (!words || text->no_memory) {
		free(words);
		return false;
	}
	words->tid = event->tid;
	words->count = count;
	memcpy(words->items, items, count * sizeof(items[0]));
	at = (char *)&words->items[count];
	for (size_t i = 0; i < count; i++) {
		struct probe_value *value = &words->items[i].value;

		if (!value_has_bytes(value))
			continue;
		memcpy(at, value->length ? value->bytes : "", value->length);
		value->bytes = at;
		at += value->length;
	}
	memcpy(at, text->length ? text->data : "", text->length);
	at[text->length] = '\0';
	words->text = at;
	*ret = words;
	return true;
}

/* ---- Pairs by value --------------------------------------------------------------------- */

/* Finds or adds a value's row. *ret is NULL at the limit. Returns false if out of memory. */
static bool find_row(struct probe_summary *summary, const struct summary_pair *pair,
	const struct item *item, struct summary_value **ret)
{
	const uint64_t of[] = {
		pair->begin, pair->end, item->key.kind, item->key.arg, value_class(&item->value)};
	const struct map_part key[] = {MAP_OBJECT(of), value_part(&item->value)};

	*ret = map_find(&summary->values, key, 2);
	if (*ret || summary->values.count == SUMMARY_VALUES_MAX)
		return true;
	*ret = map_add(&summary->values, sizeof(**ret), key, 2);
	if (!*ret)
		return false;
	(*ret)->begin = pair->begin;
	(*ret)->end = pair->end;
	(*ret)->key = item->key;
	(*ret)->value = item->value;
	(*ret)->value.bytes = (const char *)map_key(*ret) + sizeof(of);
	return true;
}

/* ---- The slowest ------------------------------------------------------------------------- */

static void free_slow(struct summary_slow *slow)
{
	free((void *)(uintptr_t)slow->text);
	free(slow->block);
}

/* Adds a pair, with copies of its text and stack (may be NULL), if it is slow. */
static bool add_slow(
	struct summary_pair *pair, const struct summary_slow *slow, const struct probe_stack *stack)
{
	size_t at = pair->slow_count;
	struct summary_slow owned = *slow;

	while (at && pair->slow[at - 1].duration_ns < slow->duration_ns)
		at--;
	if (at == SUMMARY_SLOWEST)
		return true;
	owned.text = strdup(owned.text);
	if (owned.text && stack)
		owned.stack = event_copy_stack(stack, &owned.block);
	if (!owned.text || (stack && !owned.stack)) {
		free_slow(&owned);
		return false;
	}
	if (pair->slow_count == SUMMARY_SLOWEST)
		free_slow(&pair->slow[--pair->slow_count]);
	memmove(&pair->slow[at + 1], &pair->slow[at], (pair->slow_count - at) * sizeof(*slow));
	pair->slow[at] = owned;
	pair->slow_count++;
	return true;
}

/* ---- Ends -------------------------------------------------------------------------------- */

static void summary_times_add(struct summary_times *times, uint64_t duration_ns);

/* Adds an ended pair. Returns false if out of memory. */
static bool instances_end(struct probe_summary *summary, struct summary_pair *pair,
	const struct summary_begun *begun, const struct probe_event *event, uint64_t duration_ns)
{
	const struct begun_words *words = begun->words;
	struct item items[SUMMARY_KEYS_MAX];
	struct summary_value *row;
	size_t count = words ? words->count : 0;

	if (!summary->instances)
		return true;
	if (count)
		memcpy(items, words->items, count * sizeof(items[0]));
	count = take(summary, event, items, count);
	for (size_t i = 0; i < count; i++) {
		if (!find_row(summary, pair, &items[i], &row))
			return false;
		if (row)
			summary_times_add(&row->times, duration_ns);
		else
			pair->other_values++;
	}
	return add_slow(pair,
		&(struct summary_slow){.time_ns = begun->time_ns,
			.duration_ns = duration_ns,
			.pid = event->pid,
			.tid = words ? words->tid : event->tid,
			.text = words ? words->text : "?"},
		event->stack);
}

static void instances_forget(const struct probe_summary *summary)
{
	const struct begins_stack *stack;

	for (size_t i = 0; (stack = map_next(&summary->flights.stacks, &i));)
		for (size_t k = 0; k < stack->depth; k++)
			free(((const struct summary_begun *)stack->items)[k].words);
}

void instances_deinit(struct probe_summary *summary)
{
	map_clear(&summary->values);
	free(summary->spare);
	buffer_deinit(&summary->text);
}

/* ---- Sorted rows ------------------------------------------------------------------------- */

/* Orders rows by key, then by most time. */
static int value_order(const void *a, const void *b)
{
	const struct summary_value *left = *(const struct summary_value *const *)a;
	const struct summary_value *right = *(const struct summary_value *const *)b;

	return ORDER(left->key.kind, right->key.kind) ?: ORDER(left->key.arg, right->key.arg)
		?: ORDER(right->times.sum, left->times.sum)
		?: value_compare(&left->value, &right->value);
}

const struct summary_value **instances_values(
	const struct probe_summary *summary, const struct summary_pair *pair, size_t *count_ret)
{
	const struct summary_value **sorted =
		calloc(summary->values.count + 1, sizeof(struct summary_value *));
	const struct summary_value *row;

	*count_ret = 0;
	for (size_t i = 0; sorted && (row = map_next(&summary->values, &i));)
		if (row->begin == pair->begin && row->end == pair->end)
			sorted[(*count_ret)++] = row;
	if (sorted)
		qsort(sorted, *count_ret, sizeof(struct summary_value *), value_order);
	return sorted;
}

/* ==== Matching start and end events =========================================================== */

/*
 * Matches start events with end events.
 *
 * Pairs are found by name, but names become known one by one (query.h), so each possible start
 * event is treated as one. If a new name makes a better pair with a probe of an old pair, the old
 * pair is dissolved, with its times.
 *
 * Each thread has a stack of open start events for each probe. An end event belongs to the
 * innermost one, with the same identity if known (report.h). With a key to match by, each value has
 * a stack instead. If an end event is lost, its start event would match a later one, so losses drop
 * all open start events.
 */

/* ---- Pairs of probes ---------------------------------------------------------------- */

static void free_pair(struct summary_pair *pair)
{
	for (size_t i = 0; i < pair->slow_count; i++)
		free_slow(&pair->slow[i]);
	free(pair->heat);
	free(pair);
}

static struct probe_error *add_pair(struct probe_summary *summary, size_t begin, size_t end)
{
	struct summary_pair *pair;

	if (summary->pair_count == SUMMARY_PAIRS_MAX) {
		summary->more_pairs = true;
		return NULL;
	}
	if (!ARRAY_ROOM(summary->pairs, summary->pair_count))
		return probe_error_no_memory();
	pair = calloc(1, sizeof(*pair));
	if (pair)
		pair->heat = calloc(SUMMARY_HEAT_ROWS, sizeof(*pair->heat));
	if (!pair || !pair->heat) {
		free(pair);
		return probe_error_no_memory();
	}
	pair->begin = begin;
	pair->end = end;
	/* the end events so far have no start event */
	pair->unmatched = summary->probes[end]->hits;
	summary->pairs[summary->pair_count++] = pair;
	return NULL;
}

/* Returns the start probe of an end probe; SIZE_MAX for other probes. */
static size_t begin_of(const struct pairing_probe *probe)
{
	return probe->role == PAIR_END ? probe->begin : SIZE_MAX;
}

static void assign_roles(struct probe_summary *summary)
{
	for (size_t i = 0; i < summary->probe_count; i++)
		summary->probes[i]->role = PROBE_ROLE_NONE;
	for (size_t i = 0; i < summary->pair_count; i++) {
		const struct summary_pair *pair = summary->pairs[i];

		summary->probes[pair->begin]->role = PROBE_ROLE_BEGIN;
		summary->probes[pair->end]->role = PROBE_ROLE_END;
		summary->probes[pair->end]->pair = i;
	}
}

struct probe_error *flights_probe(struct probe_summary *summary)
{
	struct summary_probe *its = summary->probes[summary->probe_count - 1];
	struct probe_error *error = pairing_add(&summary->pairing, its->provider, its->name);
	size_t kept = 0;

	if (error)
		return error;
	its->may_begin = summary->pairing.probes[its->index].may_be == PAIR_BEGIN;
	if (summary->pairing.probes[summary->pairing.count - 1].role == PAIR_NONE)
		return NULL;
	/* Drop the pairs that the new name has dissolved. */
	for (size_t i = 0; i < summary->pair_count; i++) {
		struct summary_pair *pair = summary->pairs[i];

		if (pair->is_made || begin_of(&summary->pairing.probes[pair->end]) == pair->begin)
			summary->pairs[kept++] = pair;
		else
			free_pair(pair);
	}
	summary->pair_count = kept;
	assign_roles(summary);
	for (size_t i = 0; i < summary->pairing.count && !error; i++) {
		size_t begin = begin_of(&summary->pairing.probes[i]);

		if (begin != SIZE_MAX && summary->probes[i]->role != PROBE_ROLE_END)
			error = add_pair(summary, begin, i);
	}
	assign_roles(summary);
	return error;
}

/* ---- Stacks --------------------------------------------------------------------------- */

/* Pushes a start event. If a limit is reached, only counts it. Returns false if out of memory. */
static bool push(struct probe_summary *summary, struct summary_probe *probe,
	struct begins_stack *stack, const struct probe_event *event, uint64_t identity)
{
	struct summary_begun begun = {.time_ns = event->time_ns, .identity = identity};

	if (!stack->excess && summary->flights.depth < SUMMARY_BEGINS_MAX) {
		if (!instances_begin(summary, event, &begun.words))
			return false;
		if (begins_push(&summary->flights, stack, &begun))
			return true;
		free(begun.words);
		return false;
	}
	stack->excess++;
	probe->untimed++;
	return true;
}

void flights_forget(struct probe_summary *summary)
{
	const struct begins_stack *stack;

	for (size_t i = 0; (stack = map_next(&summary->flights.stacks, &i));) {
		const struct begins_key *key = map_key(stack);

		summary->probes[key->probe]->set_aside += stack->depth + stack->excess;
		summary->probes[key->probe]->in_flight -= stack->depth + stack->excess;
	}
	instances_forget(summary);
	begins_deinit(&summary->flights);
}

void flights_deinit(struct probe_summary *summary)
{
	instances_forget(summary);
	begins_deinit(&summary->flights);
	for (size_t i = 0; i < summary->pair_count; i++)
		free_pair(summary->pairs[i]);
	free(summary->pairs);
	pairing_deinit(&summary->pairing);
}

/* ---- Hits ------------------------------------------------------------------------------- */

/* Gets the stack of a hit's start events. Returns false if the hit has no value to match by. */
static bool key_of(const struct probe_summary *summary, size_t begin, const struct key *match,
	const struct probe_event *event, struct begins_key *ret)
{
	struct probe_value value;

	*ret = (struct begins_key){.process = (uint32_t)event->pid, .probe = (uint16_t)begin};
	if (!summary->matches) {
		ret->word = (uint64_t)event->tid;
		return true;
	}
	if (!key_value(match, event, &value))
		return false;
	/* Signed and unsigned numbers with the same bits match. */
	ret->word = value_has_bytes(&value) ? hash_bytes(0, value.bytes, value.length) : value.u;
	ret->kind = value_has_bytes(&value) ? 2 : value.kind == PROBE_VALUE_FLOAT;
	return true;
}

static struct probe_error *begin_hit(
	struct probe_summary *summary, size_t probe, const struct probe_event *event)
{
	struct summary_probe *its = summary->probes[probe];
	struct begins_stack *stack = NULL;
	struct begins_key key;
	bool has_key = key_of(summary, probe, &summary->match, event, &key);
	uint64_t identity;
	struct probe_error *error = identity_of(
		&summary->identities, probe, its->provider, its->name, event, &identity);

	if (error)
		return error;
	if (has_key)
		stack = begins_find(&summary->flights, &key);
	if (!has_key || (!stack && summary->flights.stacks.count == SUMMARY_FLIGHTS_MAX)) {
		its->untimed++;
		return NULL;
	}
	if (!stack)
		stack = begins_make(&summary->flights, &key);
	if (!stack)
		return probe_error_no_memory();
	its->in_flight++;
	return push(summary, its, stack, event, identity) ? NULL : probe_error_no_memory();
}

double heat_low(size_t row)
{
	double low = 1;

	if (row < 2)
		return (double)row;
	for (size_t i = 0; i < row / 2; i++)
		low *= 2;
	if (row % 2)
		low *= 1.4142135623730951;
	/* Return the smallest integer in the row. */
	return row % 2 && low < 0x1p52 ? (double)((uint64_t)low + 1) : low;
}

static void summary_times_add(struct summary_times *times, uint64_t duration_ns)
{
	unsigned int shift = 0;

	times->least = !times->count || duration_ns < times->least ? duration_ns : times->least;
	times->most = duration_ns > times->most ? duration_ns : times->most;
	times->count++;
	times->sum += (double)duration_ns;
	if (duration_ns >= 1u << CELL_SUB_BITS)
		shift = 63 - (unsigned int)__builtin_clzll(duration_ns) - CELL_SUB_BITS;
	times->buckets[((size_t)shift << CELL_SUB_BITS) + (size_t)(duration_ns >> shift)]++;
}

/* Adds a pair's duration. Returns false if out of memory. */
static bool end_begun(struct probe_summary *summary, struct summary_pair *pair,
	const struct summary_begun *begun, const struct probe_event *event, uint64_t ns, size_t bin)
{
	unsigned int exponent;
	size_t row = (size_t)ns;

	summary_times_add(&pair->times, ns);
	/* Rows 0 and 1, then two for each power of two, split at its geometric mean. */
	if (ns >= 2) {
		exponent = 63 - (unsigned int)__builtin_clzll(ns);
		/* true if ns >= 2^exponent * sqrt(2) */
		row = 2 * exponent + (size_t)((unsigned __int128)ns * ns >> (2 * exponent + 1) & 1);
	}
	pair->heat[row][bin]++;
	return instances_end(summary, pair, begun, event, ns);
}

static struct probe_error *end_hit(struct probe_summary *summary, struct summary_pair *pair,
	const struct probe_event *event, size_t bin)
{
	const struct summary_probe *its = summary->probes[pair->begin];
	struct begins_stack *stack = NULL;
	size_t at = SIZE_MAX;
	struct begins_key key;
	uint64_t identity;
	struct probe_error *error = identity_of(
		&summary->identities, pair->begin, its->provider, its->name, event, &identity);
	bool has_memory = true;

	if (error)
		return error;
	if (key_of(summary, pair->begin, &summary->match_end, event, &key))
		stack = begins_find(&summary->flights, &key);
	if (stack && !stack->excess) {
		const struct summary_begun *items = stack->items;
		size_t i = stack->depth;

		/* The newest start event with this identity, of the newest that are compared. */
		while (i && stack->depth - i < SUMMARY_COMPARED_MAX &&
			!identity_matches(items[i - 1].identity, identity))
			i--;
		if (i && stack->depth - i < SUMMARY_COMPARED_MAX)
			at = i - 1;
	}
	if (!stack || (!stack->excess && at == SIZE_MAX)) {
		pair->unmatched++;
		return NULL;
	}
	summary->probes[pair->begin]->in_flight--;
	if (stack->excess) {
		stack->excess--;
	} else {
		struct summary_begun begun = ((const struct summary_begun *)stack->items)[at];
		/* CPUs' clocks may differ by some ns, so the end may seem to be first. */
		uint64_t ns = event->time_ns > begun.time_ns ? event->time_ns - begun.time_ns : 0;

		begins_remove(&summary->flights, stack, at);
		has_memory = end_begun(summary, pair, &begun, event, ns, bin);
		instances_drop(summary, begun.words);
	}
	if (summary->matches && !(stack->depth + stack->excess))
		begins_drop(&summary->flights, stack);
	return has_memory ? NULL : probe_error_no_memory();
}

struct probe_error *flights_hit(
	struct probe_summary *summary, size_t probe, const struct probe_event *event, size_t bin)
{
	const struct summary_probe *its = summary->probes[probe];

	if (its->role == PROBE_ROLE_END)
		return end_hit(summary, summary->pairs[its->pair], event, bin);
	return begin_hit(summary, summary->pairing.probes[probe].same, event);
}

/* Finds or adds the pair of two probes, whatever their names. *ret is NULL at the limit. */
static struct probe_error *find_made(
	struct probe_summary *summary, size_t begin, size_t end, struct summary_pair **ret)
{
	struct probe_error *error;

	*ret = NULL;
	for (size_t i = 0; i < summary->pair_count && !*ret; i++)
		if (summary->pairs[i]->begin == begin && summary->pairs[i]->end == end)
			*ret = summary->pairs[i];
	if (!*ret) {
		size_t before = summary->pair_count;

		error = add_pair(summary, begin, end);
		if (error || summary->pair_count == before)
			return error;
		*ret = summary->pairs[before];
		(*ret)->unmatched = 0;
		assign_roles(summary);
	}
	(*ret)->is_made = true;
	return NULL;
}

struct probe_error *flights_span(struct probe_summary *summary, size_t begin, size_t end,
	const struct probe_event *event, size_t bin)
{
	struct summary_begun begun = {.time_ns = event->begin->time_ns};
	struct summary_pair *pair;
	struct probe_error *error = find_made(summary, begin, end, &pair);
	bool has_memory;

	if (error || !pair)
		return error;
	has_memory = instances_begin(summary, event->begin, &begun.words) &&
		     end_begun(summary, pair, &begun, event, event->duration_ns, bin);
	instances_drop(summary, begun.words);
	return has_memory ? NULL : probe_error_no_memory();
}

void summary_times_row(const struct summary_times *times, struct probe_row *ret)
{
	*ret = (struct probe_row){
		.count = times->count,
		.has_value = true,
		.sum = times->sum,
		.buckets = times->buckets,
		.unit = 1,
	};
	if (!times->count)
		return;
	ret->min = (struct probe_value){.kind = PROBE_VALUE_UNSIGNED, .u = times->least};
	ret->max = (struct probe_value){.kind = PROBE_VALUE_UNSIGNED, .u = times->most};
}

void pair_row(
	const struct summary_pair *pair, const struct probe_summary *summary, struct probe_row *ret)
{
	summary_times_row(&pair->times, ret);
	ret->probe = pair->end;
	ret->begin = pair->begin;
	ret->in_flight = summary->probes[pair->begin]->in_flight;
}
