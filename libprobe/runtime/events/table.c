/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/runtime/events/table.h"

enum { HEADS_FIRST = 256 };

/* FNV-1a */
static uint32_t hash(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash ^ hash >> 16;
}

static void link_in(struct table *table, uint32_t number)
{
	struct event *event = table_at(table, number);
	uint32_t *head = &table->heads[hash(event->name) % table->head_count];

	event->next = *head;
	*head = number + 1;
}

/* As many heads as events, or more. Chains get longer if there is no memory. */
static void grow_heads(struct table *table, uint32_t count)
{
	uint32_t wanted = table->head_count ? 2 * table->head_count : HEADS_FIRST, *heads;

	if (count < table->head_count)
		return;
	heads = calloc(wanted, sizeof(*heads));
	if (!heads)
		return;
	free(table->heads);
	table->heads = heads;
	table->head_count = wanted;
	for (uint32_t i = 0; i < count; i++)
		link_in(table, i);
}

uint32_t table_find(struct table *table, const char *name)
{
	uint32_t place = table->head_count ? table->heads[hash(name) % table->head_count] : 0;

	while (place) {
		const struct event *event = table_at(table, place - 1);

		if (strcmp(event->name, name) == 0)
			return place - 1;
		place = event->next;
	}
	return UINT32_MAX;
}

/* Makes the chunk of a number, unless it is there. */
static int make_chunk(struct table *table, uint32_t number)
{
	struct event *events;
	unsigned int chunk;

	if (number < TABLE_FIRST)
		return 0;
	chunk = table_chunk(number);
	if (chunk >= TABLE_CHUNKS)
		return EOVERFLOW;
	if (atomic_load_explicit(&table->chunks[chunk], memory_order_relaxed))
		return 0;
	events = calloc((size_t)TABLE_FIRST << chunk, sizeof(*events));
	if (!events)
		return ENOMEM;
	atomic_store_explicit(&table->chunks[chunk], events, memory_order_relaxed);
	return 0;
}

int table_reserve(struct table *table, const char *name, struct event **ret)
{
	uint32_t count = atomic_load_explicit(&table->count, memory_order_relaxed);
	int err = make_chunk(table, count);

	if (err)
		return err;
	grow_heads(table, count);
	if (!table->head_count)
		return ENOMEM;
	*ret = table_at(table, count);
	/* What an earlier failure has left. */
	free((*ret)->name);
	(*ret)->name = strdup(name);
	return (*ret)->name ? 0 : ENOMEM;
}

uint32_t table_commit(struct table *table)
{
	uint32_t number = atomic_load_explicit(&table->count, memory_order_relaxed);

	link_in(table, number);
	/* Pairs with the load in posix_trace_event(): chunk and event are there before. */
	atomic_store_explicit(&table->count, number + 1, memory_order_release);
	return number;
}
