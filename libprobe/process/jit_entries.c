/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "libprobe/base/array.h"
#include "libprobe/process/process.h"

enum {
	ENTRIES_MAX = 1 << 20,
	/* Entries that begin before an address are looked at: code is replaced, but not so often.
	 */
	STEPS_MAX = 64
};

bool jit_entries_full(const struct jit_entries *entries)
{
	return entries->count == ENTRIES_MAX;
}

bool jit_entries_add(struct jit_entries *entries, uint64_t start, uint64_t size, size_t name)
{
	struct jit_entry entry = {.start = start, .order = entries->count, .name = name};

	if (!size || jit_entries_full(entries) || __builtin_add_overflow(start, size, &entry.end))
		return true;
	if (!ARRAY_ROOM(entries->items, entries->count))
		return false;
	entries->items[entries->count++] = entry;
	return true;
}

static int compare_entries(const void *a, const void *b)
{
	const struct jit_entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

void jit_entries_sort(struct jit_entries *entries)
{
	uint64_t reach = 0;

	if (entries->count)
		qsort(entries->items, entries->count, sizeof(*entries->items), compare_entries);
	for (size_t i = 0; i < entries->count; i++) {
		if (entries->items[i].end > reach)
			reach = entries->items[i].end;
		entries->items[i].reach = reach;
	}
}

const struct jit_entry *jit_entries_find(const struct jit_entries *entries, uint64_t address)
{
	size_t at = ARRAY_SEARCH_ABOVE(entries->items, entries->count, start, address);
	const struct jit_entry *found = NULL;

	for (int steps = 0; steps < STEPS_MAX && at-- > 0; steps++) {
		const struct jit_entry *entry = &entries->items[at];

		if (entry->reach <= address)
			break;
		if (entry->end > address && (!found || entry->order > found->order))
			found = entry;
	}
	return found;
}
