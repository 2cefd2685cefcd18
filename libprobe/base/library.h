/* SPDX-License-Identifier: MIT */
/* Shared libraries that few commands need, loaded with dlopen(3) on demand. */
#ifndef LIBPROBE_BASE_LIBRARY_H
#define LIBPROBE_BASE_LIBRARY_H

#include <stddef.h>

/* A function's name, and where its pointer goes in the caller's table. */
struct library_function {
	const char *name;
	size_t offset;
};

/*
 * Loads a library for good, and fills in the table. Returns NULL on success. Otherwise returns the
 * name that is missing: `soname`, or the name of a function. If the library is missing, dlerror(3)
 * tells why.
 */
const char *library_load(
	const char *soname, const struct library_function *functions, size_t count, void *table);

#endif
