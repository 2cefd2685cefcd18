/* SPDX-License-Identifier: MIT */
/* The most frequent values of a key. */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/hash.h"
#include "libprobe/base/value.h"
#include "libprobe/report/report.h"

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
		return hash_bytes(value->truncated, value->bytes, value->length);
	return hash_word(2, value->u);
}

/* Numbers that are equal, but have other bits (1 and 1.0), stay apart. */
static bool is_value(const struct top_slot *slot, const struct probe_value *value)
{
	if (value_has_bytes(value))
		return slot->value.length == value->length &&
		       value_compare(&slot->value, value) == 0;
	return slot->value.u == value->u &&
	       (slot->value.kind == value->kind || value_compare(&slot->value, value) == 0);
}

/* Where a value is in the table, or would be. */
static size_t find(const struct top *top, const struct probe_value *value, uint64_t hash)
{
	size_t at = hash & top->table_mask;

	for (; top->table[at]; at = (at + 1) & top->table_mask) {
		const struct top_slot *slot = &top->slots[top->table[at] - 1];

		if (slot->hash == hash && is_value(slot, value))
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

bool top_add(struct top *top, const struct probe_value *value)
{
	struct probe_value cut;
	struct top_slot *slot;
	uint64_t hash;
	size_t at;

	if (value_has_bytes(value) && value->length > SUMMARY_KEY_BYTES_MAX) {
		cut = *value;
		cut.length = SUMMARY_KEY_BYTES_MAX;
		cut.truncated = true;
		value = &cut;
	}
	top->total++;
	/* One text after another: to compare it is faster than to hash it. */
	if (value_has_bytes(value) && top->used && is_value(&top->slots[top->last], value)) {
		top->slots[top->last].count++;
		return true;
	}
	hash = value_hash(value);
	at = find(top, value, hash);
	if (top->table[at]) {
		top->last = top->table[at] - 1;
		top->slots[top->last].count++;
		return true;
	}
	if (top->used < top->slot_count) {
		slot = &top->slots[top->used++];
	} else {
		slot = least_slot(top);
		forget(top, find(top, &slot->value, slot->hash));
		slot->error = slot->count;
		top->approximate = true;
		at = find(top, value, hash);
	}
	slot->hash = hash;
	slot->count++;
	top->last = (uint32_t)(slot - top->slots);
	top->table[at] = top->last + 1;
	return set_value(slot, value);
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
