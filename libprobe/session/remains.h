/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SESSION_REMAINS_H
#define LIBPROBE_SESSION_REMAINS_H

#include "probe/remains.h"

/* probe_remains_open() of a descriptor, which it closes. `path` is for messages. */
PROBE_MUST_CHECK struct probe_error *remains_of(
	int fd, const char *path, struct probe_remains **ret);

#endif
