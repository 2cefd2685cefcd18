/* SPDX-License-Identifier: MIT */
/*
 * The libraries that a file needs, where this system has them: in the folders that its loader
 * looks in anyway. Where else a file looks (RUNPATH), and what its libraries need in turn, is left
 * to lists of processes.
 */
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/patch/patch.h"

enum { NEEDED_MAX = 256 };

struct needed {
	struct probe_list *list;
	uint16_t machine;
	size_t count;
	struct probe_error *error;
};

/* Adds the file, if it is a library for the same machine; *ret: it was. */
static struct probe_error *add_library(struct needed *needed, const char *path, bool *ret)
{
	struct object *object;
	struct probe_error *error = object_open(path, &object);

	*ret = false;
	if (error) {
		bool is_fatal = error->code == PROBE_ERROR_MEMORY;

		if (is_fatal)
			return error;
		probe_error_free(error);
		return NULL;
	}
	*ret = object_machine(object) == needed->machine;
	object_close(object);
	return *ret ? probe_list_add_file(needed->list, path) : NULL;
}

/* `folder` may have wildcards, the name has none. */
static struct probe_error *look_in(
	struct needed *needed, const char *folder, const char *name, bool *found_ret)
{
	struct probe_error *error = NULL;
	char pattern[512];
	glob_t found;

	if (snprintf(pattern, sizeof(pattern), "%s/%s", folder, name) >= (int)sizeof(pattern) ||
		glob(pattern, 0, NULL, &found))
		return NULL;
	for (size_t i = 0; i < found.gl_pathc && !error && !*found_ret; i++)
		error = add_library(needed, found.gl_pathv[i], found_ret);
	globfree(&found);
	return error;
}

/* Continues with the next name unless this returns false. */
static bool take_needed(const char *name, void *data)
{
	static const char *const folders[] = {"/lib/*-linux-*", "/usr/lib/*-linux-*", "/lib64",
		"/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"};
	struct needed *needed = data;
	bool found = false;

	/* A file may have any text there. */
	if (!strpbrk(name, "/*?[\\"))
		for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
			if (!needed->error && !found)
				needed->error = look_in(needed, folders[i], name, &found);
	return !needed->error && ++needed->count < NEEDED_MAX;
}

struct probe_error *probe_list_add_needed(struct probe_list *list, const char *path)
{
	struct needed needed = {.list = list};
	struct object *object;
	struct probe_error *error = object_open(path, &object);

	if (error)
		return error;
	needed.machine = object_machine(object);
	object_needed(object, take_needed, &needed);
	object_close(object);
	return needed.error;
}
