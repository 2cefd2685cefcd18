/* SPDX-License-Identifier: MIT */
/* Which of several names is nearest to one that was typed, for "did you mean". */
#ifndef LIBPROBE_BASE_NEAREST_H
#define LIBPROBE_BASE_NEAREST_H

#include <stddef.h>

enum { NEAREST_COMPARED_MAX = 128 };

/*
 * Levenshtein distance: the least number of characters inserted, deleted or replaced. Neither
 * name may be longer than NEAREST_COMPARED_MAX.
 */
unsigned int nearest_distance(const char *a, size_t a_length, const char *b, size_t b_length);

/* The nearest name so far; initialise with {0}. NULL: none is similar. */
struct nearest {
	const char *name;
	unsigned int distance;
};

/* Considers one more name, which must stay valid. Of equally near ones the first stays. */
void nearest_consider(struct nearest *nearest, const char *typed, const char *name);

#endif
