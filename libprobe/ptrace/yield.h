/* SPDX-License-Identifier: MIT */
/* Giving up the processor while a traced thread runs to its next stop. */
#ifndef LIBPROBE_PTRACE_YIELD_H
#define LIBPROBE_PTRACE_YIELD_H

#include <stdbool.h>
#include <stdint.h>

struct yield {
	uint64_t crowded_until_ns; /* others want the processor, too (CLOCK_MONOTONIC); 0: no */
};

/*
 * Lets threads that share the processor run; false: the caller has to sleep until it is woken.
 * May take as long as others use the processor, but then not again for a second.
 */
bool yield_once(struct yield *yield);

#endif
