/* SPDX-License-Identifier: MIT */
/* The transactions of this process, by tag. */
#ifndef LIBPROBE_RUNTIME_PMTRACE_TAGS_H
#define LIBPROBE_RUNTIME_PMTRACE_TAGS_H

#include <stdint.h>

/*
 * Return 0 and the tag's number in this process (from 1 on), or an error of probe/pmtrace.h.
 * Thread-safe: of several threads that begin or end one transaction, one succeeds.
 */
int tags_begin(const char *tag, uint64_t *number_ret);
/* Ends a transaction, completed or aborted. */
int tags_end(const char *tag, uint64_t *number_ret);

#endif
