/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/nearest.h"

void probe_names_add(struct probe_names *names, const char *provider, const char *name)
{
	if (ARRAY_ROOM(names->items, names->count) &&
		asprintf(&names->items[names->count], "%s:%s", provider, name) >= 0)
		names->count++;
}

void probe_names_deinit(struct probe_names *names)
{
	while (names->count)
		free(names->items[--names->count]);
	free(names->items);
	names->items = NULL;
}

static unsigned int least(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int least = a < b ? a : b;

	return c < least ? c : least;
}

/* Wagner and Fischer's algorithm, with one row of the matrix. */
unsigned int nearest_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	unsigned int row[NEAREST_COMPARED_MAX + 1];

	for (size_t k = 0; k <= b_length; k++)
		row[k] = (unsigned int)k;
	for (size_t i = 1; i <= a_length; i++) {
		unsigned int diagonal = row[0];

		row[0] = (unsigned int)i;
		for (size_t k = 1; k <= b_length; k++) {
			unsigned int replace = diagonal + (a[i - 1] != b[k - 1]);

			diagonal = row[k];
			row[k] = least(replace, row[k] + 1, row[k - 1] + 1);
		}
	}
	return row[b_length];
}

void nearest_consider(struct nearest *nearest, const char *typed, const char *name)
{
	size_t typed_length = strnlen(typed, NEAREST_COMPARED_MAX);
	size_t length = strnlen(name, NEAREST_COMPARED_MAX);
	size_t longer = length > typed_length ? length : typed_length;
	unsigned int distance = nearest_distance(typed, typed_length, name, length);

	if (typed_length >= 2 && length >= 2 && (strstr(name, typed) || strstr(typed, name)))
		distance = 1;
	if (distance * 2 <= longer && (!nearest->name || distance < nearest->distance))
		*nearest = (struct nearest){name, distance};
}
