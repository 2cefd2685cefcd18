/* SPDX-License-Identifier: MIT */
/* Arrays that grow by one item, and binary search in sorted arrays. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Makes room for one item behind the first `count` (`items` may be NULL). Call it before each item
 * is added; removals need no call. Returns the array, which the caller frees. Returns NULL if
 * memory is short; the old array is then unchanged.
 */
void *array_grow(void *items, size_t count, size_t item_bytes);

/* Makes room for one more item of a variable `items`. Returns false if memory is short. */
#define ARRAY_ROOM(items, count)                                                                   \
	({                                                                                         \
		void *array_grown = array_grow(items, count, sizeof(*(items)));                    \
                                                                                                   \
		if (array_grown)                                                                   \
			(items) = array_grown;                                                     \
		array_grown != NULL;                                                               \
	})

/* Adds an item behind the last one of a variable `items`. Returns false if memory is short. */
#define ARRAY_ADD(items, count, ...)                                                               \
	({                                                                                         \
		bool array_added = ARRAY_ROOM(items, count);                                       \
                                                                                                   \
		if (array_added)                                                                   \
			(items)[count] = (__VA_ARGS__);                                            \
		(count) += array_added;                                                            \
		array_added;                                                                       \
	})

/* Returns the capacity that array_grow() assumes for `count` items. */
size_t array_room(size_t count);

/*
 * Allocates zeros in pages that are present, so that using them during a stop causes no page fault.
 * The caller frees them; NULL if memory is short.
 */
void *array_resident(size_t size);

/*
 * Returns the first index for which `is_before` is false, or `count`. `is_before` must be true for
 * all indices below that, and false from there on.
 */
static inline size_t array_partition(
	size_t count, bool (*is_before)(const void *data, size_t index), const void *data)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (is_before(data, middle))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct array_key {
	const char *items; /* NULL if the array is empty */
	size_t item_bytes, offset;
	uint64_t key;
};

static inline bool array_key_is_before(const void *data, size_t index)
{
	const struct array_key *wanted = data;
	uint64_t at;

	memcpy(&at, wanted->items + index * wanted->item_bytes + wanted->offset, sizeof(at));
	return at < wanted->key;
}

/*
 * Returns the index of the first item whose key, a uint64_t at `offset` in it, is at least `key`;
 * or `count`. The array must be sorted by key.
 */
static inline size_t array_search(
	const void *items, size_t count, size_t item_bytes, size_t offset, uint64_t key)
{
	const struct array_key wanted = {items, item_bytes, offset, key};

	return array_partition(count, array_key_is_before, &wanted);
}

/* Like array_search(), for the first item whose key is above `key`. */
static inline size_t array_search_above(
	const void *items, size_t count, size_t item_bytes, size_t offset, uint64_t key)
{
	return key == UINT64_MAX ? count : array_search(items, count, item_bytes, offset, key + 1);
}

/* Returns the item with this key, or NULL. */
static inline void *array_find(
	const void *items, size_t count, size_t item_bytes, size_t offset, uint64_t key)
{
	size_t index = array_search(items, count, item_bytes, offset, key);
	char *item = index < count ? (char *)items + index * item_bytes : NULL;

	return item && memcmp(item + offset, &key, sizeof(key)) == 0 ? item : NULL;
}

/* Compares two values like strcmp(3). Comparisons in turn: ORDER(a, b) ?: ORDER(c, d). */
#define ORDER(left, right) (((left) > (right)) - ((left) < (right)))

/* Sorts an array by key. `items` may be NULL if it is empty. */
void array_sort(void *items, size_t count, size_t item_bytes, size_t offset);

/* These macros take the name of the key's member. */
#define ARRAY_SEARCH(items, count, member, key)                                                    \
	array_search(items, count, sizeof(*(items)), offsetof(__typeof__(*(items)), member), key)
#define ARRAY_SEARCH_ABOVE(items, count, member, key)                                              \
	array_search_above(                                                                        \
		items, count, sizeof(*(items)), offsetof(__typeof__(*(items)), member), key)
#define ARRAY_FIND(items, count, member, key)                                                      \
	array_find(items, count, sizeof(*(items)), offsetof(__typeof__(*(items)), member), key)
#define ARRAY_SORT(items, count, member)                                                           \
	array_sort(items, count, sizeof(*(items)), offsetof(__typeof__(*(items)), member))
