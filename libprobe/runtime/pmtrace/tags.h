/* SPDX-License-Identifier: MIT */
/* The transactions of this process, by tag. */
#ifndef LIBPROBE_RUNTIME_PMTRACE_TAGS_H
#define LIBPROBE_RUNTIME_PMTRACE_TAGS_H

#include <stdint.h>

/*
 * All return 0 and, with *number_ret, the number of the tag in this process, from 1 on;
 * or an error of probe/pmtrace.h. No transaction is left behind by an error. Threads may
 * call them as they like: of several that begin, or end, the same one, one succeeds.
 */
int tags_begin(const char *tag, uint64_t *number_ret);
/* Ends and aborts. */
int tags_end(const char *tag, uint64_t *number_ret);

/* Is it a tag at all? 0, or an error. */
int tags_check(const char *tag);

#endif
