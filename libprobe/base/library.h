/* SPDX-License-Identifier: MIT */
/*
 * Libraries that few commands need, loaded with dlopen(3) on demand. The functions that are needed
 * stand in a list X(MEMBER, FUNCTION), which makes a struct of pointers and the names to look up:
 *
 *	#define LIBCURL(X) X(init, curl_easy_init) X(cleanup, curl_easy_cleanup)
 *	struct libcurl { LIBCURL(LIBRARY_MEMBER) };
 *	static const char *const names[] = {LIBCURL(LIBRARY_NAME) NULL};
 */
#pragma once

#include "libprobe/base/error.h"

#define LIBRARY_MEMBER(member, function) typeof(function) *member;
#define LIBRARY_NAME(member, function) #function,

struct library {
	const char *soname;
	/* These begin error messages: "OTLP needs libcurl", "OTLP needs a newer libcurl". */
	const char *needed, *newer;
};

/*
 * Loads a library for good and writes the address of each function to `functions`, a struct of
 * pointers in the order of the names. Errors: PROBE_ERROR_UNSUPPORTED.
 */
PROBE_MUST_CHECK struct probe_error *library_load(
	const struct library *library, const char *const *names, void *functions);
