/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_BASE_CLEANUP_H
#define LIBPROBE_BASE_CLEANUP_H

#include <stdlib.h>

static inline void cleanup_free(void *pointer)
{
	free(*(void **)pointer);
}

/* Frees the pointer variable, which must be initialised, at the end of its scope. */
#define AUTO_FREE __attribute__((cleanup(cleanup_free)))

#endif
