/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "libprobe/base/array.h"

enum { FIRST_ROOM = 16 /* a power of two */ };

/* There is room for FIRST_ROOM items, or for as many as the next power of two says. */
void *array_grow(void *items, size_t count, size_t item_bytes)
{
	if (!items || count == 0)
		return reallocarray(items, FIRST_ROOM, item_bytes);
	if (count < FIRST_ROOM || (count & (count - 1)))
		return items;
	return reallocarray(items, 2 * count, item_bytes);
}
