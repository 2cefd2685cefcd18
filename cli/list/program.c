/* SPDX-License-Identifier: MIT */
/* Source: POSIX, "Environment Variables", PATH: an empty part is the current directory. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/list/program.h"

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *program_find(const char *name)
{
	const char *at = getenv("PATH");

	if (!*name || strchr(name, '/'))
		return NULL;
	while (at) {
		size_t length = strcspn(at, ":");
		char *path;

		if (asprintf(&path, "%.*s%s%s", (int)length, at, length ? "/" : "./", name) < 0)
			return NULL;
		if (is_program(path))
			return path;
		free(path);
		at = at[length] ? at + length + 1 : NULL;
	}
	return NULL;
}
