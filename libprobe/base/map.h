/* SPDX-License-Identifier: MIT */
/*
 * Maps from keys to values. A key is any bytes, and a value has any size. A hash table with open
 * addressing and linear probing, at most half full; each key and its value have an allocation of
 * their own, so a value never moves.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Initialise with {0}. */
struct map {
	struct map_item **slots; /* `room` slots, of which `count` are in use */
	size_t room, count;
};

/*
 * A part of a key. Keys are equal if they have the same bytes, so only one part of a key varies in
 * length, besides texts, which end with their NUL.
 */
struct map_part {
	const void *bytes; /* may be NULL if `length` is 0 */
	size_t length;
};

/* Both arguments `parts` and `count` of the functions below, from initialisers of the parts. */
#define MAP_KEY(...)                                                                               \
	(const struct map_part[]){__VA_ARGS__},                                                    \
		sizeof((const struct map_part[]){__VA_ARGS__}) / sizeof(struct map_part)
/* The bytes of a variable, which has no padding, as a part. */
#define MAP_OBJECT(object)                                                                         \
	{                                                                                          \
		&(object), sizeof(object)                                                          \
	}
/* A text as a part; it may be NULL. */
struct map_part map_text(const char *text);

/* Returns the value of a key; NULL if the map does not have the key. */
void *map_find(const struct map *map, const struct map_part *parts, size_t count);
/*
 * Returns the value of a key, and adds the key if the map does not have it; the new value is
 * `value_bytes` zeros. Returns NULL if out of memory.
 */
void *map_add(struct map *map, size_t value_bytes, const struct map_part *parts, size_t count);
/* Removes a value and its key. What the value points to is left to the caller. */
void map_remove(struct map *map, void *value);
/* Removes all values and keys, and frees their memory. */
void map_clear(struct map *map);

/*
 * Continues a hash with bytes, by one multiplication for each eight: it combines both halves of the
 * product, as in wyhash (https://github.com/wangyi-fudan/wyhash). A program that chooses the keys
 * can make them collide.
 */
uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t length);
/* Continues a hash that others compute, too: FNV-1a of 64 bits. The first `hash` is FNV_START. */
#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_FACTOR UINT64_C(0x100000001b3)
uint64_t hash_fnv(uint64_t hash, const void *bytes, size_t length);

/* Returns the bytes of the key of a value, one part after another. */
const void *map_key(const void *value);
/*
 * Returns the next value, in no order, and advances *slot, which is 0 at first; NULL after the
 * last. When a value is removed, another one that was not visited yet may take its slot, *slot - 1.
 */
void *map_next(const struct map *map, size_t *slot);
