/* SPDX-License-Identifier: MIT */
/* Loads libcurl when the first message is to be sent. */
#include "libprobe/output/curl.h"

#ifdef HTTP_CLIENT_BUILT
#include <dlfcn.h>

#include "libprobe/base/library.h"

struct probe_error *curl_load(struct libcurl *curl)
{
	static const struct library_function functions[] = {
		{"curl_multi_init", offsetof(struct libcurl, multi_init)},
		{"curl_multi_cleanup", offsetof(struct libcurl, multi_cleanup)},
		{"curl_multi_setopt", offsetof(struct libcurl, multi_setopt)},
		{"curl_multi_add_handle", offsetof(struct libcurl, add)},
		{"curl_multi_remove_handle", offsetof(struct libcurl, remove)},
		{"curl_multi_socket_action", offsetof(struct libcurl, act)},
		{"curl_multi_info_read", offsetof(struct libcurl, info_read)},
		{"curl_easy_init", offsetof(struct libcurl, easy_init)},
		{"curl_easy_cleanup", offsetof(struct libcurl, easy_cleanup)},
		{"curl_easy_setopt", offsetof(struct libcurl, setopt)},
		{"curl_easy_getinfo", offsetof(struct libcurl, getinfo)},
		{"curl_easy_strerror", offsetof(struct libcurl, strerror)},
		{"curl_slist_append", offsetof(struct libcurl, append)},
		{"curl_slist_free_all", offsetof(struct libcurl, free_all)},
	};
	static const char soname[] = "libcurl.so.4";
	const char *missing =
		library_load(soname, functions, sizeof(functions) / sizeof(functions[0]), curl);

	if (missing == soname)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"OTLP needs libcurl (Debian: libcurl4), which cannot be loaded: %s",
			dlerror());
	if (missing)
		return probe_error_new(
			PROBE_ERROR_UNSUPPORTED, "OTLP needs a newer libcurl, with %s()", missing);
	return NULL;
}
#endif
