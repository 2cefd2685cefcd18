/* SPDX-License-Identifier: MIT */
/* Constructors of errors (probe/error.h). */
#pragma once

#include "probe/error.h"

/*
 * Never returns NULL: if memory is short, it returns a static error, which probe_error_free()
 * ignores.
 */
struct probe_error *probe_error_new(enum probe_error_code code, const char *format, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull, warn_unused_result));

/* Makes the error of a failed system call: ": " and strerror(err) follow the message. */
struct probe_error *probe_error_system(int err, const char *format, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull, warn_unused_result));

/* Returns a static error, which needs no memory. */
struct probe_error *probe_error_no_memory(void) __attribute__((returns_nonnull));

/* Puts "what: " before an error's message, if memory allows, and returns it. NULL stays NULL. */
struct probe_error *probe_error_prefix(struct probe_error *error, const char *format, ...)
	__attribute__((format(printf, 2, 3), warn_unused_result));

/* Returns `first` and frees `second`; if `first` is NULL, returns `second`. */
struct probe_error *probe_error_first(struct probe_error *first, struct probe_error *second)
	__attribute__((warn_unused_result));

/* Like probe_error_new(), with an errno(3) that is not in the message. */
struct probe_error *error_numbered(enum probe_error_code code, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4), returns_nonnull, warn_unused_result));
