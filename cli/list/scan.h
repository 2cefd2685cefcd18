/* SPDX-License-Identifier: MIT */
/* The probes of all programs and libraries in the standard directories. */
#ifndef CLI_LIST_SCAN_H
#define CLI_LIST_SCAN_H

#include <stddef.h>

#include "libprobe/base/error.h"
#include "probe/list.h"

/* One list for each thread that read files; a file's sites are together in one. */
struct scan {
	struct probe_list **lists;
	size_t count;
};

/*
 * Reads every regular ELF file in the standard directories once, with a
 * progress line on standard error if that is a terminal. Files that cannot be
 * read are left out. Initialise with {0}; errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *scan_system(struct scan *ret);
void scan_deinit(struct scan *scan);

#endif
