/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/map.h"

/* ---- Hashing -------------------------------------------------------------------------- */

/* The lower bits of the hash depend on the upper bits of the word, too. */
static inline uint64_t hash_word(uint64_t seed, uint64_t word)
{
	unsigned __int128 product = (unsigned __int128)(seed ^ word) * UINT64_C(0xff51afd7ed558ccd);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t load(const char *from, size_t length)
{
	uint32_t low, high;
	uint64_t word;

	if (length >= sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		return word;
	}
	if (length >= sizeof(low)) {
		/* The two loads overlap, and cover all bytes. */
		memcpy(&low, from, sizeof(low));
		memcpy(&high, from + length - sizeof(high), sizeof(high));
		return (uint64_t)high << 32 | low;
	}
	word = length ? (unsigned char)from[0] : 0;
	for (size_t i = 1; i < length; i++)
		word = word << 8 | (unsigned char)from[i];
	return word;
}

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t length)
{
	const char *from = bytes;
	uint64_t hash = seed ^ length * UINT64_C(0x9e3779b97f4a7c15);
	size_t left = length;

	for (; left > 8; left -= 8, from += 8)
		hash = hash_word(hash, load(from, 8));
	/* The last eight bytes; some are hashed already. */
	if (length > 8)
		return hash_word(hash, load(from + left - 8, 8));
	return hash_word(hash, load(from, left));
}

uint64_t hash_fnv(uint64_t hash, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * FNV_FACTOR;
	return hash;
}

/* ---- Maps ----------------------------------------------------------------------------- */

enum { FIRST_ROOM = 16 };

/* The value follows, and after the value the key. */
struct map_item {
	uint64_t hash;
	uint32_t value_bytes, key_bytes;
	_Alignas(max_align_t) char value[];
};

static struct map_item *item_of(const void *value)
{
	return (struct map_item *)(uintptr_t)((const char *)value -
					      offsetof(struct map_item, value));
}

const void *map_key(const void *value)
{
	return (const char *)value + item_of(value)->value_bytes;
}

struct map_part map_text(const char *text)
{
	return (struct map_part){text, text ? strlen(text) + 1 : 0};
}

void *map_next(const struct map *map, size_t *slot)
{
	while (*slot < map->room)
		if (map->slots[(*slot)++])
			return map->slots[*slot - 1]->value;
	return NULL;
}

static uint64_t hash_of(const struct map_part *parts, size_t count, size_t *bytes_ret)
{
	uint64_t hash = 0;

	*bytes_ret = 0;
	for (size_t i = 0; i < count; i++) {
		hash = hash_bytes(hash, parts[i].bytes, parts[i].length);
		*bytes_ret += parts[i].length;
	}
	return hash;
}

/* Faster than memcmp(3) for short keys. */
static bool is_same(const char *a, const char *b, size_t length)
{
	for (; length > 8; length -= 8, a += 8, b += 8)
		if (load(a, 8) != load(b, 8))
			return false;
	return load(a, length) == load(b, length);
}

static bool has_key(const struct map_item *item, const struct map_part *parts, size_t count)
{
	const char *at = map_key(item->value);

	for (size_t i = 0; i < count; i++) {
		if (!is_same(at, parts[i].bytes, parts[i].length))
			return false;
		at += parts[i].length;
	}
	return true;
}

static size_t next_slot(const struct map *map, size_t slot)
{
	return (slot + 1) & (map->room - 1);
}

static size_t free_slot(const struct map *map, uint64_t hash)
{
	size_t slot = hash & (map->room - 1);

	while (map->slots[slot])
		slot = next_slot(map, slot);
	return slot;
}

static bool make_room(struct map *map)
{
	struct map wider = *map;

	if (2 * (map->count + 1) <= map->room)
		return true;
	wider.room = map->room ? 2 * map->room : FIRST_ROOM;
	wider.slots = calloc(wider.room, sizeof(struct map_item *));
	if (!wider.slots)
		return false;
	for (size_t i = 0; i < map->room; i++)
		if (map->slots[i])
			wider.slots[free_slot(&wider, map->slots[i]->hash)] = map->slots[i];
	free(map->slots);
	*map = wider;
	return true;
}

void *map_find(const struct map *map, const struct map_part *parts, size_t count)
{
	size_t key_bytes;
	uint64_t hash = hash_of(parts, count, &key_bytes);
	struct map_item *item;

	if (!map->count)
		return NULL;
	for (size_t slot = hash & (map->room - 1); (item = map->slots[slot]);
		slot = next_slot(map, slot))
		if (item->hash == hash && item->key_bytes == key_bytes &&
			has_key(item, parts, count))
			return item->value;
	return NULL;
}

void *map_add(struct map *map, size_t value_bytes, const struct map_part *parts, size_t count)
{
	size_t key_bytes;
	uint64_t hash = hash_of(parts, count, &key_bytes);
	void *value = map_find(map, parts, count);
	struct map_item *item;
	char *key;

	if (value)
		return value;
	if (value_bytes > UINT32_MAX || key_bytes > UINT32_MAX || !make_room(map))
		return NULL;
	item = calloc(1, sizeof(*item) + value_bytes + key_bytes);
	if (!item)
		return NULL;
	item->hash = hash;
	item->value_bytes = (uint32_t)value_bytes;
	item->key_bytes = (uint32_t)key_bytes;
	key = item->value + value_bytes;
	for (size_t i = 0; i < count; i++)
		if (parts[i].length)
			key = mempcpy(key, parts[i].bytes, parts[i].length);
	map->slots[free_slot(map, hash)] = item;
	map->count++;
	return item->value;
}

/* Moves back the later items that the removed item had displaced from their own slots. */
void map_remove(struct map *map, void *value)
{
	struct map_item *item = item_of(value), *moved;
	size_t hole = item->hash & (map->room - 1), mask = map->room - 1;

	while (map->slots[hole] != item)
		hole = next_slot(map, hole);
	for (size_t at = next_slot(map, hole); (moved = map->slots[at]); at = next_slot(map, at)) {
		if (((at - moved->hash) & mask) < ((at - hole) & mask))
			continue;
		map->slots[hole] = moved;
		hole = at;
	}
	map->slots[hole] = NULL;
	map->count--;
	free(item);
}

void map_clear(struct map *map)
{
	for (size_t i = 0; i < map->room; i++)
		free(map->slots[i]);
	free(map->slots);
	*map = (struct map){0};
}
