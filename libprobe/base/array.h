/* SPDX-License-Identifier: MIT */
/* Arrays that grow by one item at a time, and such as are sorted by a number. */
#ifndef LIBPROBE_BASE_ARRAY_H
#define LIBPROBE_BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Makes room for one item behind the `count` ones of an array (NULL: none is allocated yet).
 * Returns where the array is now, to be given back with free(); NULL without memory: it is
 * then where it was. To be called for every item that is added; items may go without a word.
 */
void *array_grow(void *items, size_t count, size_t item_bytes);

/* How many items array_grow() takes for granted that there is room for, where it has `count`. */
size_t array_room(size_t count);

/*
 * The index of the first item whose key is not below `key`, or `count`. The array is sorted by
 * its keys: a uint64_t in each item, `offset` bytes from its begin.
 */
static inline size_t array_search(
	const void *items, size_t count, size_t item_bytes, size_t offset, uint64_t key)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint64_t at;

		memcpy(&at, (const char *)items + middle * item_bytes + offset, sizeof(at));
		if (at < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* That of the first item whose key is above it. */
static inline size_t array_search_above(
	const void *items, size_t count, size_t item_bytes, size_t offset, uint64_t key)
{
	return key == UINT64_MAX ? count : array_search(items, count, item_bytes, offset, key + 1);
}

/* The same by a member of the items. */
#define ARRAY_SEARCH(items, count, member, key)                                                    \
	array_search(items, count, sizeof(*(items)), offsetof(__typeof__(*(items)), member), key)
#define ARRAY_SEARCH_ABOVE(items, count, member, key)                                              \
	array_search_above(                                                                        \
		items, count, sizeof(*(items)), offsetof(__typeof__(*(items)), member), key)

#endif
