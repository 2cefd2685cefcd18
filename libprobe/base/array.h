/* SPDX-License-Identifier: MIT */
/* Arrays that grow by one item at a time, and binary search in sorted arrays. */
#ifndef LIBPROBE_BASE_ARRAY_H
#define LIBPROBE_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Makes room for one more item after the first `count` items of an array (NULL: not allocated yet).
 * Returns the array's new address, which the caller frees. Returns NULL if there is no memory; the
 * array is unchanged then. Must be called before each item is added. Items may be removed without a
 * call.
 */
void *array_grow(void *items, size_t count, size_t item_bytes);

/*
 * Makes room for one item after the first `count` items of the array `items`, a variable. Returns
 * false if there is no memory.
 */
#define ARRAY_ROOM(items, count)                                                                   \
	({                                                                                         \
		void *array_grown = array_grow(items, count, sizeof(*(items)));                    \
                                                                                                   \
		if (array_grown)                                                                   \
			(items) = array_grown;                                                     \
		array_grown != NULL;                                                               \
	})

/* Returns the capacity that array_grow() assumes for an array of `count` items. */
size_t array_room(size_t count);

/*
 * Allocates `size` bytes of zeros whose pages are already present, so that using them while a
 * process is stopped causes no page fault. The caller frees them. Returns NULL if there is no
 * memory.
 */
void *array_resident(size_t size);

/*
 * Returns the first index below `count` for which `is_before` is false; `count` if there is none.
 * `is_before` must be true for all indices below the result, and false from there on.
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

/* The arguments of array_search(). */
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
 * Returns the index of the first item whose key is at least `key`; `count` if there is none. The
 * array must be sorted by its keys. A key is a uint64_t at `offset` bytes in each item.
 */
static inline size_t array_search(
	const void *items, size_t count, size_t item_bytes, size_t offset, uint64_t key)
{
	const struct array_key wanted = {items, item_bytes, offset, key};

	return array_partition(count, array_key_is_before, &wanted);
}

/* Returns the index of the first item whose key is above `key`; `count` if there is none. */
static inline size_t array_search_above(
	const void *items, size_t count, size_t item_bytes, size_t offset, uint64_t key)
{
	return key == UINT64_MAX ? count : array_search(items, count, item_bytes, offset, key + 1);
}

/* Returns the item whose key is `key`; NULL if there is none. */
static inline void *array_find(
	const void *items, size_t count, size_t item_bytes, size_t offset, uint64_t key)
{
	size_t index = array_search(items, count, item_bytes, offset, key);
	char *item = index < count ? (char *)items + index * item_bytes : NULL;

	return item && memcmp(item + offset, &key, sizeof(key)) == 0 ? item : NULL;
}

/* Sorts an array by its keys; `items` may be NULL if the array is empty. */
void array_sort(void *items, size_t count, size_t item_bytes, size_t offset);

/* These macros take the name of the key's member in place of the key's offset. */
#define ARRAY_SEARCH(items, count, member, key)                                                    \
	array_search(items, count, sizeof(*(items)), offsetof(__typeof__(*(items)), member), key)
#define ARRAY_SEARCH_ABOVE(items, count, member, key)                                              \
	array_search_above(                                                                        \
		items, count, sizeof(*(items)), offsetof(__typeof__(*(items)), member), key)
#define ARRAY_FIND(items, count, member, key)                                                      \
	array_find(items, count, sizeof(*(items)), offsetof(__typeof__(*(items)), member), key)
#define ARRAY_SORT(items, count, member)                                                           \
	array_sort(items, count, sizeof(*(items)), offsetof(__typeof__(*(items)), member))

#endif
