/* SPDX-License-Identifier: MIT */
/* Variables that release their resource when they go out of scope. */
#ifndef LIBPROBE_BASE_CLEANUP_H
#define LIBPROBE_BASE_CLEANUP_H

#include <stdlib.h>

static inline void cleanup_free(void *pointer)
{
	free(*(void **)pointer);
}

/* Frees the pointer variable at the end of its scope. The variable must be initialised. */
#define AUTO_FREE __attribute__((cleanup(cleanup_free)))

#endif
