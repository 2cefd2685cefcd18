/* SPDX-License-Identifier: MIT */
/* Arrays that grow by one item at a time, and need not say how many have room. */
#ifndef LIBPROBE_BASE_ARRAY_H
#define LIBPROBE_BASE_ARRAY_H

#include <stddef.h>

/*
 * Makes room for one item behind the `count` ones of an array (NULL: none is allocated yet).
 * Returns where the array is now, to be given back with free(); NULL without memory: it is
 * then where it was. To be called for every item that is added; items may go without a word.
 */
void *array_grow(void *items, size_t count, size_t item_bytes);

#endif
