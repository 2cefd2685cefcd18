/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <string.h>

#include "libprobe/base/library.h"

const char *library_load(
	const char *soname, const struct library_function *functions, size_t count, void *table)
{
	void *handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!handle)
		return soname;
	for (size_t i = 0; i < count; i++) {
		void *function = dlsym(handle, functions[i].name);

		if (!function)
			return functions[i].name;
		/* POSIX guarantees equal sizes of object and function pointers; C has no cast. */
		memcpy((char *)table + functions[i].offset, &function, sizeof(function));
	}
	return NULL;
}
