/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <string.h>

#include "libprobe/base/library.h"

struct probe_error *library_load(
	const struct library *library, const char *const *names, void *functions)
{
	void *handle = dlopen(library->soname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!handle)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED, "%s, which cannot be loaded: %s",
			library->needed, dlerror());
	for (size_t i = 0; names[i]; i++) {
		void *function = dlsym(handle, names[i]);

		if (!function)
			return probe_error_new(
				PROBE_ERROR_UNSUPPORTED, "%s, with %s()", library->newer, names[i]);
		/* POSIX guarantees equal sizes of object and function pointers; C has no cast. */
		memcpy((char *)functions + i * sizeof(function), &function, sizeof(function));
	}
	return NULL;
}
