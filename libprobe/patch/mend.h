/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PATCH_MEND_H
#define LIBPROBE_PATCH_MEND_H

#include "libprobe/registry/change.h"

/*
 * Patches the sites again that hold the file's bytes although a session wants them: something
 * has restored them, or their library was opened again. To be called before they are
 * forgotten (change_begin_as_it_is()). *count_ret: how many. Errors: those of change_stop(),
 * PROBE_ERROR_STATE (a thread does not leave the bytes that a patch replaces).
 */
PROBE_MUST_CHECK struct probe_error *mend_sites(struct change *change, size_t *count_ret);

#endif
