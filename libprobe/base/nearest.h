/* SPDX-License-Identifier: MIT */
/* Finds the name nearest to a typed one, for "did you mean". */
#pragma once

#include <stddef.h>

enum { NEAREST_COMPARED_MAX = 128 };

/*
 * Returns the Levenshtein distance: the least number of characters to insert, delete or replace.
 * Names have at most NEAREST_COMPARED_MAX characters.
 */
unsigned int nearest_distance(const char *a, size_t a_length, const char *b, size_t b_length);

/* Names of probes, for probe_pattern_no_match(). Initialise with {0}. */
struct probe_names {
	char **items;
	size_t count;
};
/* Adds "PROVIDER:NAME", unless memory is short. */
void probe_names_add(struct probe_names *names, const char *provider, const char *name);
void probe_names_deinit(struct probe_names *names);

/* The nearest name so far, or NULL. Initialise with {0}. */
struct nearest {
	const char *name;
	unsigned int distance;
};

/* Compares one more name, which must stay valid. Among equally near names, the first wins. */
void nearest_consider(struct nearest *nearest, const char *typed, const char *name);
