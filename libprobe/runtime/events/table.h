/* SPDX-License-Identifier: MIT */
/* User events by number and by name. Entries are added, but never changed or removed. */
#ifndef LIBPROBE_RUNTIME_EVENTS_TABLE_H
#define LIBPROBE_RUNTIME_EVENTS_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/runtime/events/batch.h"

struct event {
	struct batch_probe probe;
	char *name;    /* owned */
	uint32_t next; /* number + 1 of the next event with the same hash, or 0 */
};

/* Chunk c holds TABLE_FIRST << c events after the first ones, so that no event is ever moved. */
enum { TABLE_FIRST = 128, TABLE_FIRST_BITS = 7, TABLE_CHUNKS = 24 };

struct table {
	struct event first[TABLE_FIRST];
	_Atomic(struct event *) chunks[TABLE_CHUNKS];
	atomic_uint count; /* all events below this number are filled in */
	uint32_t *heads;   /* by hash: number + 1 of the first event, or 0 */
	uint32_t head_count;
};

/* Returns the chunk of a number that is at least TABLE_FIRST. */
static inline unsigned int table_chunk(uint32_t number)
{
	return 31 - (unsigned int)__builtin_clz(number) - TABLE_FIRST_BITS;
}

/* Returns the event of a number below the count, which must have been loaded with acquire. */
static inline struct event *table_at(struct table *table, uint32_t number)
{
	unsigned int chunk;

	if (__builtin_expect(number < TABLE_FIRST, 1))
		return &table->first[number];
	chunk = table_chunk(number);
	return &atomic_load_explicit(&table->chunks[chunk],
		memory_order_relaxed)[number - ((uint32_t)TABLE_FIRST << chunk)];
}

/* ---- One thread at a time ---------------------------------------------------------------- */

/* Returns the number of a name, or UINT32_MAX if the name is unknown. */
uint32_t table_find(struct table *table, const char *name);

#endif
