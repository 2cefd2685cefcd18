/* SPDX-License-Identifier: MIT */
/* Where stubs enter this library. */
#ifndef LIBPROBE_SELF_ENTER_H
#define LIBPROBE_SELF_ENTER_H

#include <stdbool.h>
#include <stdint.h>

#include "libprobe/base/error.h"

/*
 * Finds out what to save, and how. Without `by_register` it uses the context switch's way even
 * if there is a faster one; for tests. Error: PROBE_ERROR_UNSUPPORTED (this processor cannot do
 * it).
 */
PROBE_MUST_CHECK struct probe_error *enter_init(bool by_register);

/* arch_stub.call; defined by the user of this module (hook.c), GENERAL_ONLY (arch/general.h). */
void enter_called(const uint64_t *frame, uint64_t site);

/*
 * For enter_called(): saves vector and floating-point state, calls a function, which may be any,
 * in the state in which functions begin, and restores.
 */
void enter_saving(void (*function)(void *data), void *data);

#endif
