/* SPDX-License-Identifier: MIT */
/* The transactions of this process, by tag. */
#ifndef LIBPROBE_RUNTIME_PMTRACE_TAGS_H
#define LIBPROBE_RUNTIME_PMTRACE_TAGS_H

#include <stdint.h>

/*
 * All functions here return 0 and set *number_ret to the tag's number in this process (from 1 on),
 * or return an error of probe/pmtrace.h and begin no transaction. All functions are thread-safe: if
 * several threads begin the same transaction, or end it, only one of them succeeds.
 */
int tags_begin(const char *tag, uint64_t *number_ret);
/* Ends a transaction, whether it is completed or aborted. */
int tags_end(const char *tag, uint64_t *number_ret);

#endif
