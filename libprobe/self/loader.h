/* SPDX-License-Identifier: MIT */
/* A hook of the loader, which is hit before the constructors of a library run. */
#ifndef LIBPROBE_SELF_LOADER_H
#define LIBPROBE_SELF_LOADER_H

#include "libprobe/self/hook.h"

/*
 * Creates the hook and patches the loader. From then on, opened() is called whenever libraries were
 * mapped, in the thread that opens them, which holds the loader's lock. Free the hook like any
 * other. Errors: those of gate_attach_call(), and of probe/self.h.
 */
PROBE_MUST_CHECK struct probe_error *loader_create(void (*opened)(void), struct hook **ret);

#endif
