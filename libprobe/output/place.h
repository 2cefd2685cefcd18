/* SPDX-License-Identifier: MIT */
/* Where output goes: files and folders that another user may have prepared. */
#ifndef LIBPROBE_OUTPUT_PLACE_H
#define LIBPROBE_OUTPUT_PLACE_H

#include "libprobe/base/error.h"

/*
 * Makes a folder, or opens the one that is there: *ret is a descriptor of it. Errors:
 * PROBE_ERROR_SYSTEM, PROBE_ERROR_PERMISSION (see place.c).
 */
PROBE_MUST_CHECK struct probe_error *place_folder(const char *path, int *ret);

#endif
