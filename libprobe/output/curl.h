/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_OUTPUT_CURL_H
#define LIBPROBE_OUTPUT_CURL_H

#include "libprobe/output/output.h"

#ifdef HTTP_CLIENT_BUILT
#include <curl/curl.h>

struct libcurl {
	typeof(curl_multi_init) *multi_init;
	typeof(curl_multi_cleanup) *multi_cleanup;
	typeof(curl_multi_setopt) *multi_setopt;
	typeof(curl_multi_add_handle) *add;
	typeof(curl_multi_remove_handle) *remove;
	typeof(curl_multi_socket_action) *act;
	typeof(curl_multi_info_read) *info_read;
	typeof(curl_easy_init) *easy_init;
	typeof(curl_easy_cleanup) *easy_cleanup;
	typeof(curl_easy_setopt) *setopt;
	typeof(curl_easy_getinfo) *getinfo;
	typeof(curl_easy_strerror) *strerror;
	typeof(curl_slist_append) *append;
	typeof(curl_slist_free_all) *free_all;
};

/* Errors: PROBE_ERROR_UNSUPPORTED. */
PROBE_MUST_CHECK struct probe_error *curl_load(struct libcurl *curl);

#endif
#endif
