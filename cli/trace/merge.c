/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace/merge.h"

enum { MERGE_FULL_BYTES = 4 << 20 };

/* A block that grows; what lies in it is named by offset, for it moves. */
struct store {
	char *data;
	size_t length, room;
};

struct entry {
	struct probe_hit hit; /* args: only while it is visited */
	size_t target;
	size_t order;
	size_t args; /* offset in `values`; their bytes are offsets in `text` till then */
};

struct merge {
	struct store entries; /* struct entry */
	struct store values;  /* struct probe_value */
	struct store text;
};

struct merge *merge_create(void)
{
	return calloc(1, sizeof(struct merge));
}

void merge_free(struct merge *merge)
{
	if (!merge)
		return;
	free(merge->entries.data);
	free(merge->values.data);
	free(merge->text.data);
	free(merge);
}

/* Appends `size` bytes and returns their offset in *ret. False without memory. */
static bool store_add(struct store *store, const void *bytes, size_t size, size_t *ret)
{
	size_t room = store->room ? store->room : 4096;
	char *data;

	while (room - store->length < size)
		room *= 2;
	if (room != store->room) {
		data = realloc(store->data, room);
		if (!data)
			return false;
		store->data = data;
		store->room = room;
	}
	if (size)
		memcpy(store->data + store->length, bytes, size);
	*ret = store->length;
	store->length += size;
	return true;
}

static struct probe_value *values_at(const struct merge *merge, size_t offset)
{
	return (struct probe_value *)(void *)(merge->values.data + offset);
}

static bool has_bytes(const struct probe_value *value)
{
	return value->kind == PROBE_VALUE_STRING || value->kind == PROBE_VALUE_TEXT ||
	       value->kind == PROBE_VALUE_BYTES;
}

bool merge_add(struct merge *merge, size_t target, const struct probe_hit *hit)
{
	struct entry entry = {.hit = *hit, .target = target};
	size_t offset;

	entry.order = merge->entries.length;
	if (!store_add(&merge->values, hit->args, hit->arg_count * sizeof(*hit->args), &entry.args))
		return false;
	for (size_t i = 0; i < hit->arg_count; i++) {
		if (!has_bytes(&hit->args[i]))
			continue;
		if (!store_add(&merge->text, hit->args[i].bytes, hit->args[i].length, &offset))
			return false;
		values_at(merge, entry.args)[i].bytes = (const char *)(uintptr_t)offset;
	}
	return store_add(&merge->entries, &entry, sizeof(entry), &offset);
}

bool merge_full(const struct merge *merge)
{
	return merge->entries.length + merge->values.length + merge->text.length >=
	       MERGE_FULL_BYTES;
}

static int entry_compare(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;

	if (left->hit.time_ns != right->hit.time_ns)
		return left->hit.time_ns < right->hit.time_ns ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

/* Offsets become pointers: nothing moves any more. */
static void entry_resolve(const struct merge *merge, struct entry *entry)
{
	struct probe_value *values = values_at(merge, entry->args);

	for (size_t i = 0; i < entry->hit.arg_count; i++) {
		if (has_bytes(&values[i]))
			values[i].bytes = merge->text.data + (uintptr_t)values[i].bytes;
	}
	entry->hit.args = values;
}

void merge_drain(struct merge *merge,
	bool (*visit)(size_t target, const struct probe_hit *hit, void *data), void *data)
{
	struct entry *entries = (struct entry *)(void *)merge->entries.data;
	size_t count = merge->entries.length / sizeof(*entries);

	if (count)
		qsort(entries, count, sizeof(*entries), entry_compare);
	for (size_t i = 0; i < count; i++) {
		entry_resolve(merge, &entries[i]);
		if (!visit(entries[i].target, &entries[i].hit, data))
			break;
	}
	merge->entries.length = merge->values.length = merge->text.length = 0;
}
