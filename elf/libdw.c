/* SPDX-License-Identifier: MIT */
/*
 * Loads libdw at the first request for a source line or a stack: loading it and its
 * dependencies (decompressors) takes longer than listing probes does. At build time only its
 * headers are needed.
 */
#include <dlfcn.h>

#include "elf/internal.h"

struct probe_error *libdw_load(
	const char *purpose, const struct libdw_function *functions, size_t count)
{
	/* Keep it loaded: the next module needs it again. */
	void *libdw = dlopen("libdw.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);

	if (!libdw)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"%s libdw (elfutils), which cannot be loaded: %s", purpose, dlerror());
	for (size_t i = 0; i < count; i++) {
		*functions[i].address = dlsym(libdw, functions[i].name);
		if (!*functions[i].address)
			return probe_error_new(PROBE_ERROR_UNSUPPORTED,
				"%s a newer libdw (elfutils), with %s()", purpose,
				functions[i].name);
	}
	return NULL;
}
