/* SPDX-License-Identifier: MIT */
/* Where stubs enter this library. */
#ifndef LIBPROBE_SELF_ENTER_H
#define LIBPROBE_SELF_ENTER_H

#include <stdbool.h>
#include <stdint.h>

#include "libprobe/base/error.h"

/*
 * Finds out what has to be saved, and how. Not `by_register`: as a context switch does it,
 * also where there is a faster way; for tests. PROBE_ERROR_UNSUPPORTED: this processor
 * cannot do it.
 */
PROBE_MUST_CHECK struct probe_error *enter_init(bool by_register);

/*
 * arch_stub.call: keeps vector and floating-point state, and calls `enter_called` with
 * the same arguments, in the state in which functions begin.
 */
void enter(const uint64_t *frame, uint64_t site);

/* Of whoever uses it (hook.c). */
void enter_called(const uint64_t *frame, uint64_t site);

#endif
