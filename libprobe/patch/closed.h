/* SPDX-License-Identifier: MIT */
/* Libraries that the target closes while their sites are being patched. */
#ifndef LIBPROBE_PATCH_CLOSED_H
#define LIBPROBE_PATCH_CLOSED_H

#include "libprobe/patch/install.h"

/*
 * What to return instead of an error, or of NULL where memory was not as the files have it: if a
 * library of these installs (a list, by `next`) is not mapped where it was, or may not have been
 * for a moment, PROBE_ERROR_STATE, and it is a lesson (libprobe/patch/attempt.h). Takes the error.
 */
PROBE_MUST_CHECK struct probe_error *closed_error(
	const struct install *installs, struct probe_error *error);

#endif
