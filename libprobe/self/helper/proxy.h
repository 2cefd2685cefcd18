/* SPDX-License-Identifier: MIT */
/* What the process that makes a change has the caller of the change do. */
#ifndef LIBPROBE_SELF_PROXY_H
#define LIBPROBE_SELF_PROXY_H

#include <stddef.h>

#include "libprobe/self/helper/message.h"
#include "libprobe/ptrace/ptrace.h"

/* A function of the program that names probes (probe_pattern_predicate()), in the controller. */
struct proxy_predicate {
	int socket;
	uint64_t function, data;
};
/* Has the caller call it; `predicate` is a struct proxy_predicate. */
bool proxy_matches(const char *path, const char *provider, const char *name, void *predicate);

#endif
