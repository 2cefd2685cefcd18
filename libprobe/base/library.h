/* SPDX-License-Identifier: MIT */
/* Libraries that few commands need, loaded with dlopen(3) on demand. */
#pragma once

#include <stddef.h>

/* A function's name, and the place of its pointer in the caller's table. */
struct library_function {
	const char *name;
	size_t offset;
};

/*
 * Loads a library for good and fills in the table. Returns NULL, or a name that was not found:
 * `soname` (dlerror(3) says why), or a function's name.
 */
const char *library_load(
	const char *soname, const struct library_function *functions, size_t count, void *table);
