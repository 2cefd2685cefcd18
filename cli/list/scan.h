/* SPDX-License-Identifier: MIT */
/* The probes of all programs and libraries in the standard directories. */
#ifndef CLI_LIST_SCAN_H
#define CLI_LIST_SCAN_H

#include <stddef.h>

#include "libprobe/base/error.h"
#include "probe/list.h"

/* One list for each thread that read files. The sites of one file are in one list. */
struct scan {
	struct probe_list **lists;
	size_t count;
};

/*
 * Reads every regular ELF file in the standard directories once. Shows a progress line on
 * standard error if this is a terminal. Unreadable files are left out. Initialise with {0}.
 * Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *scan_system(struct scan *ret);
void scan_deinit(struct scan *scan);

#endif
