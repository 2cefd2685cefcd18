/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SELF_PROXY_H
#define LIBPROBE_SELF_PROXY_H

#include <stddef.h>

#include "libprobe/self/helper/message.h"
#include "libprobe/ptrace/ptrace.h"

/* A function of the program that selects probes: see probe_pattern_predicate(). */
struct proxy_predicate {
	int socket;
	uint64_t function, data;
};
/* Asks the caller to call the program's function (struct proxy_predicate) that selects probes. */
bool proxy_matches(const char *path, const char *provider, const char *name, void *predicate);

#endif
