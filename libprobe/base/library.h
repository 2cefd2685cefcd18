/* SPDX-License-Identifier: MIT */
/* Shared libraries that few commands need: opened, by dlopen(3), when one does. */
#ifndef LIBPROBE_BASE_LIBRARY_H
#define LIBPROBE_BASE_LIBRARY_H

#include <stddef.h>

/* A function, and where its pointer goes in the user's table. */
struct library_function {
	const char *name;
	size_t offset;
};

/*
 * Opens a library for good and fills in the table. Returns the name of what is
 * missing, `soname` or a function's; NULL: nothing is. Without the library, dlerror(3) says why.
 */
const char *library_load(
	const char *soname, const struct library_function *functions, size_t count, void *table);

#endif
