/* SPDX-License-Identifier: MIT */
/*
 * Single pairs: which value each has for a key, and which took longest.
 *
 * The value is that of the begin, which says what is done; of the end, where the begin has none.
 * So a begin keeps its values and its text until it ends; of too many at once, only their times
 * are known. A value that comes once all rows are in use is counted with the others of its pair.
 */
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "libprobe/base/array.h"
#include "libprobe/base/event.h"
#include "libprobe/base/hash.h"
#include "libprobe/base/value.h"
#include "libprobe/output/output.h"
#include "libprobe/report/report.h"

enum { TEXT_MAX = 256, WORDS_MAX = 65536, WORDS_STEP = 64, VALUE_TABLE = 2 * SUMMARY_VALUES_MAX };

struct item {
	struct key key;
	struct probe_value value; /* its bytes are in the same allocation */
};

struct begun_words {
	size_t room; /* bytes in all */
	pid_t tid;
	size_t count;
	const char *text;
	struct item items[];
};

/* ---- What is kept of a begin ----------------------------------------------------------- */

static void cut(struct probe_value *value)
{
	if (!value_has_bytes(value) || value->length <= SUMMARY_KEY_BYTES_MAX)
		return;
	value->length = SUMMARY_KEY_BYTES_MAX;
	value->truncated = true;
}

static bool has(const struct item *items, size_t count, const struct key *key)
{
	for (size_t i = 0; i < count; i++)
		if (key_same(&items[i].key, key))
			return true;
	return false;
}

/* The key of the event's first string, by the number of the argument; false: it has none. */
static bool first_string(const struct probe_event *event, struct key *ret)
{
	size_t first = ARCH_ARGS_MAX;

	for (size_t i = 0; i < event->arg_count; i++) {
		const struct probe_value *value = &event->args[i];
		size_t number = value->number ? value->number - 1U : i;

		if (number < first &&
			(value->kind == PROBE_VALUE_STRING || value->kind == PROBE_VALUE_TEXT))
			first = number;
	}
	*ret = (struct key){.kind = KEY_STRING, .arg = (uint8_t)first};
	return first < ARCH_ARGS_MAX;
}

/* Adds the event's values of keys that are not there; without keys, its first string. */
static size_t take(struct probe_summary *summary, const struct probe_event *event,
	struct item items[SUMMARY_KEYS_MAX], size_t count)
{
	struct probe_value value;
	struct key key;

	for (size_t i = 0; i < summary->key_count; i++) {
		if (has(items, count, &summary->keys[i]) ||
			!key_value(&summary->keys[i], event, &value))
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
	for (size_t i = 0; i < count; i++)
		cut(&items[i].value);
	return count;
}

static void text_of(struct buffer *out, const struct probe_event *event)
{
	out->length = 0;
	for (size_t i = 0; i < event->arg_count && out->length < TEXT_MAX; i++) {
		if (i)
			buffer_char(out, ' ');
		text_value(out, &event->args[i]);
	}
	if (out->length <= TEXT_MAX)
		return;
	/* A character is not divided: the bytes that continue one are 10xxxxxx. */
	out->length = TEXT_MAX;
	while (out->length && ((unsigned char)out->data[out->length] & 0xc0) == 0x80)
		out->length--;
	buffer_string(out, "...");
}

/* What was kept of the last begin that has ended is most often large enough. */
static struct begun_words *words_alloc(struct probe_summary *summary, size_t size)
{
	struct begun_words *words = summary->spare;

	summary->spare = NULL;
	if (words && words->room >= size)
		return words;
	free(words);
	size = (size + WORDS_STEP - 1) / WORDS_STEP * WORDS_STEP;
	words = malloc(size);
	if (words)
		words->room = size;
	return words;
}

void instances_drop(struct probe_summary *summary, struct begun_words *words)
{
	if (!words)
		return;
	free(summary->spare);
	summary->spare = words;
}

bool instances_begin(
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
	words = words_alloc(
		summary, sizeof(*words) + count * sizeof(items[0]) + bytes + text->length + 1);
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

static uint64_t hash_of(const struct summary_pair *pair, const struct item *item)
{
	const uint64_t seed[] = {
		pair->begin, pair->end, item->key.kind, item->key.arg, item->value.truncated};
	uint64_t hash = hash_bytes(0, seed, sizeof(seed));

	return value_has_bytes(&item->value)
		       ? hash_bytes(hash, item->value.bytes, item->value.length)
		       : hash_word(hash, item->value.u);
}

static bool is_row(const struct summary_value *row, const struct summary_pair *pair,
	const struct item *item, uint64_t hash)
{
	return row->hash == hash && row->begin == pair->begin && row->end == pair->end &&
	       key_same(&row->key, &item->key) && value_compare(&row->value, &item->value) == 0;
}

static void free_row(struct summary_value *row)
{
	if (row)
		free((void *)(uintptr_t)row->value.bytes);
	free(row);
}

static struct summary_value *row_create(
	const struct summary_pair *pair, const struct item *item, uint64_t hash)
{
	struct summary_value *row = calloc(1, sizeof(*row));
	char *bytes = NULL;

	if (row && value_has_bytes(&item->value)) {
		bytes = malloc(item->value.length + 1);
		if (!bytes) {
			free(row);
			return NULL;
		}
		memcpy(bytes, item->value.length ? item->value.bytes : "", item->value.length);
	}
	if (!row)
		return NULL;
	row->begin = pair->begin;
	row->end = pair->end;
	row->key = item->key;
	row->value = item->value;
	row->value.bytes = bytes;
	row->hash = hash;
	return row;
}

/* The row of a value; NULL: there is no room. False without memory. */
static bool find_row(struct probe_summary *summary, const struct summary_pair *pair,
	const struct item *item, struct summary_value **ret)
{
	uint64_t hash = hash_of(pair, item);
	size_t at = hash & (VALUE_TABLE - 1);

	if (!summary->value_table)
		summary->value_table = calloc(VALUE_TABLE, sizeof(*summary->value_table));
	if (!summary->value_table)
		return false;
	for (; summary->value_table[at]; at = (at + 1) & (VALUE_TABLE - 1)) {
		*ret = summary->values[summary->value_table[at] - 1];
		if (is_row(*ret, pair, item, hash))
			return true;
	}
	*ret = NULL;
	if (summary->value_count == SUMMARY_VALUES_MAX)
		return true;
	if (!ARRAY_ROOM(summary->values, summary->value_count))
		return false;
	*ret = row_create(pair, item, hash);
	if (!*ret)
		return false;
	summary->values[summary->value_count++] = *ret;
	summary->value_table[at] = (uint16_t)summary->value_count;
	return true;
}

/* ---- The slowest ------------------------------------------------------------------------- */

static void free_slow(struct summary_slow *slow)
{
	free((void *)(uintptr_t)slow->text);
	free(slow->block);
}

/* Copies what it points to; `stack` may be NULL. False without memory. */
static bool own(struct summary_slow *slow, const struct probe_stack *stack)
{
	slow->text = strdup(slow->text);
	if (slow->text && stack)
		slow->stack = event_copy_stack(stack, &slow->block);
	if (slow->text && (slow->stack || !stack))
		return true;
	free_slow(slow);
	return false;
}

static bool add_slow(
	struct summary_pair *pair, const struct summary_slow *slow, const struct probe_stack *stack)
{
	size_t at = pair->slow_count;
	struct summary_slow owned = *slow;

	while (at && pair->slow[at - 1].duration_ns < slow->duration_ns)
		at--;
	if (at == SUMMARY_SLOWEST)
		return true;
	if (!own(&owned, stack))
		return false;
	if (pair->slow_count == SUMMARY_SLOWEST)
		free_slow(&pair->slow[--pair->slow_count]);
	memmove(&pair->slow[at + 1], &pair->slow[at], (pair->slow_count - at) * sizeof(*slow));
	pair->slow[at] = owned;
	pair->slow_count++;
	return true;
}

/* ---- Ends -------------------------------------------------------------------------------- */

bool instances_end(struct probe_summary *summary, struct summary_pair *pair,
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

void instances_forget(const struct probe_summary *summary)
{
	for (size_t i = 0; i < summary->flights.room; i++) {
		const struct begins_stack *stack = &summary->flights.stacks[i];
		const struct summary_begun *items = stack->items;

		for (size_t k = 0; stack->used && k < stack->depth; k++)
			free(items[k].words);
	}
}

void instances_free_pair(struct summary_pair *pair)
{
	for (size_t i = 0; i < pair->slow_count; i++)
		free_slow(&pair->slow[i]);
}

void instances_deinit(struct probe_summary *summary)
{
	for (size_t i = 0; i < summary->value_count; i++)
		free_row(summary->values[i]);
	free(summary->values);
	free(summary->value_table);
	free(summary->spare);
	if (summary->text.c_locale)
		buffer_deinit(&summary->text);
}

/* ---- In order ---------------------------------------------------------------------------- */

/* By key, then most time first. */
static int value_order(const void *a, const void *b)
{
	const struct summary_value *left = *(const struct summary_value *const *)a;
	const struct summary_value *right = *(const struct summary_value *const *)b;

	if (left->key.kind != right->key.kind)
		return left->key.kind < right->key.kind ? -1 : 1;
	if (left->key.arg != right->key.arg)
		return left->key.arg < right->key.arg ? -1 : 1;
	if (left->times.sum != right->times.sum)
		return left->times.sum > right->times.sum ? -1 : 1;
	return value_compare(&left->value, &right->value);
}

const struct summary_value **instances_values(
	const struct probe_summary *summary, const struct summary_pair *pair, size_t *count_ret)
{
	const struct summary_value **sorted =
		calloc(summary->value_count + 1, sizeof(struct summary_value *));

	*count_ret = 0;
	for (size_t i = 0; sorted && i < summary->value_count; i++)
		if (summary->values[i]->begin == pair->begin &&
			summary->values[i]->end == pair->end)
			sorted[(*count_ret)++] = summary->values[i];
	if (sorted)
		qsort(sorted, *count_ret, sizeof(struct summary_value *), value_order);
	return sorted;
}
