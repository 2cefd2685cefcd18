/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"

enum { FIRST_ROOM = 16 /* must be a power of two */ };

/* Returns the lowest power of two that is at least `count` and FIRST_ROOM. */
size_t array_room(size_t count)
{
	size_t room = FIRST_ROOM;

	while (room < count)
		room *= 2;
	return room;
}

void *array_grow(void *items, size_t count, size_t item_bytes)
{
	if (items && count && array_room(count) > count)
		return items;
	return reallocarray(items, array_room(count + 1), item_bytes);
}

void *array_resident(size_t size)
{
	void *memory = malloc(size);

	/*
	 * Do not use memset(): compilers turn malloc() and memset() into calloc(), which touches no
	 * page.
	 */
	if (memory)
		explicit_bzero(memory, size);
	return memory;
}

static int compare_keys(const void *a, const void *b, void *data)
{
	const size_t *offset = data;
	uint64_t x, y;

	memcpy(&x, (const char *)a + *offset, sizeof(x));
	memcpy(&y, (const char *)b + *offset, sizeof(y));
	return ORDER(x, y);
}

void array_sort(void *items, size_t count, size_t item_bytes, size_t offset)
{
	if (count)
		qsort_r(items, count, item_bytes, compare_keys, &offset);
}
