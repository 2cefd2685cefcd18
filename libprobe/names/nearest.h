/* SPDX-License-Identifier: MIT */
/* The distance between two names, for "did you mean". */
#ifndef LIBPROBE_NAMES_NEAREST_H
#define LIBPROBE_NAMES_NEAREST_H

#include <stddef.h>

enum { NEAREST_COMPARED_MAX = 128 };

/*
 * Levenshtein distance: the least number of characters inserted, deleted or replaced. Neither
 * name may be longer than NEAREST_COMPARED_MAX.
 */
unsigned int nearest_distance(const char *a, size_t a_length, const char *b, size_t b_length);

#endif
