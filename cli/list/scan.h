/* SPDX-License-Identifier: MIT */
/* Finds the probes of all programs and libraries in the standard directories. */
#ifndef CLI_LIST_SCAN_H
#define CLI_LIST_SCAN_H

#include <stddef.h>

#include "libprobe/base/error.h"
#include "probe/list.h"

/*
 * The lists of sites, one for each thread that has read files. All sites of a file are in the same
 * list.
 */
struct scan {
	struct probe_list **lists;
	size_t count;
};

/*
 * Reads every regular ELF file in the standard directories once. Unreadable files are left out. If
 * standard error is a terminal, shows a progress line there. Initialise *ret with {0}. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *scan_system(struct scan *ret);
void scan_deinit(struct scan *scan);

#endif
