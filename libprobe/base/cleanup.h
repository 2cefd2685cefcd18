/* SPDX-License-Identifier: MIT */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static inline void cleanup_free(void *pointer)
{
	free(*(void **)pointer);
}

/* Frees the pointer variable, which must be initialised, at the end of its scope. */
#define AUTO_FREE __attribute__((cleanup(cleanup_free)))

/*
 * Close the variable, which must be initialised, unless it is negative or NULL. errno stays. A
 * closed descriptor becomes -1.
 */
void cleanup_fd(int *fd);
void cleanup_dir(DIR **dir);
void cleanup_file(FILE **file);
#define AUTO_FD __attribute__((cleanup(cleanup_fd)))
#define AUTO_DIR __attribute__((cleanup(cleanup_dir)))
#define AUTO_FILE __attribute__((cleanup(cleanup_file)))

/* Calls a function with the variable's address at the end of its scope: AUTO(maps_deinit). */
#define AUTO(deinit) __attribute__((cleanup(deinit)))
