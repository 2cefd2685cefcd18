/* SPDX-License-Identifier: MIT */
/* Calls of the program's functions that the controller asks the caller to make. */
#ifndef LIBPROBE_SELF_PROXY_H
#define LIBPROBE_SELF_PROXY_H

#include <stddef.h>

#include "libprobe/self/helper/message.h"
#include "libprobe/ptrace/ptrace.h"

/*
 * The controller's knowledge of a function of the program that selects probes
 * (probe_pattern_predicate()).
 */
struct proxy_predicate {
	int socket;
	uint64_t function, data;
};
/* Asks the caller to call the function that `predicate`, a struct proxy_predicate, describes. */
bool proxy_matches(const char *path, const char *provider, const char *name, void *predicate);

#endif
