/* SPDX-License-Identifier: MIT */
/* Keys: values that are taken from events, and the most frequent of them. */
#include <stdlib.h>
#include <string.h>

#include "libprobe/names/argument.h"
#include "libprobe/base/value.h"
#include "libprobe/summary/summary.h"

uint64_t summary_hash(const void *bytes, size_t length, uint64_t seed)
{
	const unsigned char *from = bytes;
	uint64_t hash = seed ^ length;

	for (size_t i = 0; i < length; i += 8) {
		uint64_t word = 0;

		memcpy(&word, from + i, length - i < 8 ? length - i : 8);
		/* The finalizer of MurmurHash3, for each word. */
		hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
		hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
		hash ^= hash >> 29;
	}
	return hash;
}

/* ---- What is taken ----------------------------------------------------------------- */

static const struct {
	const char *name;
	enum key_kind kind;
} words[] = {{"tid", KEY_TID}, {"pid", KEY_PID}, {"cpu", KEY_CPU}, {"comm", KEY_COMM}};
enum { WORDS = sizeof(words) / sizeof(words[0]) };

struct probe_error *key_parse(const char *text, size_t length, struct key *ret)
{
	const char *end = text + length;

	for (size_t i = 0; i < WORDS; i++) {
		if (strlen(words[i].name) == length && !memcmp(text, words[i].name, length)) {
			*ret = (struct key){.kind = words[i].kind};
			return NULL;
		}
	}
	*ret = (struct key){.kind = KEY_ARG};
	if (argument_parse(text, &ret->arg) == end)
		return NULL;
	ret->kind = KEY_STRING;
	if (length > 5 && !memcmp(text, "str(", 4) && end[-1] == ')' &&
		argument_parse(text + 4, &ret->arg) == end - 1)
		return NULL;
	return probe_error_new(PROBE_ERROR_USAGE,
		"'%.*s' is not a key (expected argN, str(argN), tid, pid, cpu or comm)",
		(int)(length < 100 ? length : 100), text);
}

void key_print(struct buffer *out, const struct key *key)
{
	for (size_t i = 0; i < WORDS; i++) {
		if (words[i].kind == key->kind) {
			buffer_string(out, words[i].name);
			return;
		}
	}
	buffer_string(out, key->kind == KEY_STRING ? "str(arg" : "arg");
	buffer_unsigned(out, key->arg);
	if (key->kind == KEY_STRING)
		buffer_char(out, ')');
}

static struct probe_value signed_value(int64_t value)
{
	return (struct probe_value){.kind = PROBE_VALUE_SIGNED, .i = value};
}

static bool arg_value(
	const struct key *key, const struct probe_event *event, struct probe_value *ret)
{
	if (key->arg >= event->arg_count)
		return false;
	*ret = event->args[key->arg];
	if (ret->kind == PROBE_VALUE_TEXT)
		ret->kind = key->kind == KEY_STRING ? PROBE_VALUE_STRING : PROBE_VALUE_UNSIGNED;
	return key->kind == KEY_STRING ? ret->kind == PROBE_VALUE_STRING
				       : ret->kind != PROBE_VALUE_NULL;
}

bool key_value(const struct key *key, const struct probe_event *event, struct probe_value *ret)
{
	switch (key->kind) {
	case KEY_TID:
		*ret = signed_value(event->tid);
		return true;
	case KEY_PID:
		*ret = signed_value(event->pid);
		return true;
	case KEY_CPU:
		*ret = signed_value(event->cpu);
		return event->cpu >= 0;
	case KEY_COMM:
		if (!event->comm)
			return false;
		*ret = (struct probe_value){.kind = PROBE_VALUE_STRING,
			.bytes = event->comm,
			.length = strlen(event->comm)};
		return true;
	default:
		return arg_value(key, event, ret);
	}
}

/* ---- The most frequent -------------------------------------------------------------- */

struct top *top_create(size_t slot_count)
{
	struct top *top = calloc(1, sizeof(*top));
	size_t room = 4;

	if (!top)
		return NULL;
	while (room < 2 * slot_count)
		room *= 2;
	top->slot_count = slot_count;
	top->table_mask = room - 1;
	top->slots = calloc(slot_count, sizeof(*top->slots));
	top->table = calloc(room, sizeof(*top->table));
	if (top->slots && top->table)
		return top;
	top_free(top);
	return NULL;
}

void top_free(struct top *top)
{
	if (!top)
		return;
	for (size_t i = 0; i < top->used; i++)
		free((void *)(uintptr_t)top->slots[i].value.bytes);
	free(top->slots);
	free(top->table);
	free(top);
}

static uint64_t value_hash(const struct probe_value *value)
{
	if (value_has_bytes(value))
		return summary_hash(value->bytes, value->length, value->truncated);
	return summary_hash(&value->u, sizeof(value->u), 2);
}

/* Where a value is in the table, or would be. */
static size_t find(const struct top *top, const struct probe_value *value, uint64_t hash)
{
	size_t at = hash & top->table_mask;

	for (; top->table[at]; at = (at + 1) & top->table_mask) {
		const struct top_slot *slot = &top->slots[top->table[at] - 1];

		if (slot->hash == hash && value_compare(&slot->value, value) == 0)
			break;
	}
	return at;
}

/* Takes an entry out: those after it that it kept from their place move up. */
static void forget(struct top *top, size_t hole)
{
	size_t mask = top->table_mask;

	for (size_t at = (hole + 1) & mask; top->table[at]; at = (at + 1) & mask) {
		size_t home = top->slots[top->table[at] - 1].hash & mask;

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		top->table[hole] = top->table[at];
		hole = at;
	}
	top->table[hole] = 0;
}

/* The slot with the smallest count; each search continues where the last one ended. */
static struct top_slot *least_slot(struct top *top)
{
	for (;;) {
		uint64_t least = UINT64_MAX;

		for (size_t i = 0; i < top->slot_count; i++) {
			struct top_slot *slot = &top->slots[top->cursor];

			if (slot->count == top->least)
				return slot;
			least = slot->count < least ? slot->count : least;
			top->cursor = (top->cursor + 1) % top->slot_count;
		}
		top->least = least;
	}
}

static bool set_value(struct top_slot *slot, const struct probe_value *value)
{
	char *copy = NULL;

	if (value_has_bytes(value)) {
		copy = malloc(value->length + 1);
		if (!copy)
			return false;
		memcpy(copy, value->length ? value->bytes : "", value->length);
	}
	free((void *)(uintptr_t)slot->value.bytes);
	slot->value = *value;
	slot->value.bytes = copy;
	return true;
}

bool top_add(struct top *top, const struct probe_value *given)
{
	struct probe_value value = *given;
	struct top_slot *slot;
	uint64_t hash;
	size_t at;

	if (value_has_bytes(&value) && value.length > SUMMARY_KEY_BYTES_MAX) {
		value.length = SUMMARY_KEY_BYTES_MAX;
		value.truncated = true;
	}
	hash = value_hash(&value);
	at = find(top, &value, hash);
	top->total++;
	if (top->table[at]) {
		top->slots[top->table[at] - 1].count++;
		return true;
	}
	if (top->used < top->slot_count) {
		slot = &top->slots[top->used++];
	} else {
		slot = least_slot(top);
		forget(top, find(top, &slot->value, slot->hash));
		slot->error = slot->count;
		top->approximate = true;
		at = find(top, &value, hash);
	}
	slot->hash = hash;
	slot->count++;
	top->table[at] = (uint32_t)(slot - top->slots) + 1;
	return set_value(slot, &value);
}

static int by_count(const void *a, const void *b)
{
	const struct top_slot *left = *(const struct top_slot *const *)a;
	const struct top_slot *right = *(const struct top_slot *const *)b;

	if (left->count != right->count)
		return left->count > right->count ? -1 : 1;
	return value_compare(&left->value, &right->value);
}

const struct top_slot **top_sorted(const struct top *top)
{
	const struct top_slot **sorted = calloc(top->used + 1, sizeof(struct top_slot *));

	for (size_t i = 0; sorted && i < top->used; i++)
		sorted[i] = &top->slots[i];
	if (sorted)
		qsort(sorted, top->used, sizeof(struct top_slot *), by_count);
	return sorted;
}

size_t top_shown(const struct top *top, const struct top_slot *const *sorted, size_t limit,
	uint64_t *rest_ret, uint64_t *most_ret)
{
	size_t shown = 0;

	*rest_ret = top->total;
	while (shown < top->used && (!limit || shown < limit) &&
		2 * sorted[shown]->error <= sorted[shown]->count) {
		/* At least this many are its own. */
		*rest_ret -= sorted[shown]->count - sorted[shown]->error;
		shown++;
	}
	*most_ret = shown < top->used ? sorted[shown]->count : 0;
	return shown;
}
