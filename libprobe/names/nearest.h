/* SPDX-License-Identifier: MIT */
/* How far two names are from each other, for "did you mean". */
#ifndef LIBPROBE_NAMES_NEAREST_H
#define LIBPROBE_NAMES_NEAREST_H

#include <stddef.h>

enum { NEAREST_COMPARED_MAX = 128 };

/*
 * Levenshtein's distance: the least number of characters inserted, deleted or
 * replaced. Neither may be longer than NEAREST_COMPARED_MAX.
 */
unsigned int nearest_distance(const char *a, size_t a_length, const char *b, size_t b_length);

#endif
