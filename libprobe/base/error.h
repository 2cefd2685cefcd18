/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_BASE_ERROR_H
#define LIBPROBE_BASE_ERROR_H

#include "probe/error.h"

/* Like probe_error_new(), with an errno(3) number that is not part of the message. */
struct probe_error *error_numbered(enum probe_error_code code, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4), returns_nonnull, warn_unused_result));

#endif
