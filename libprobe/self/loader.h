/* SPDX-License-Identifier: MIT */
/*
 * A hook of the loader. It is hit when a library is opened, before the library's constructors run.
 */
#ifndef LIBPROBE_SELF_LOADER_H
#define LIBPROBE_SELF_LOADER_H

#include "libprobe/self/hook.h"

/*
 * Creates the hook and patches the loader. From then on, opened() is called whenever libraries have
 * been mapped. It runs in the thread that opens the libraries, while that thread holds the loader's
 * lock. Free the hook like any other. Errors: those of gate_attach_call(), and of probe/self.h.
 */
PROBE_MUST_CHECK struct probe_error *loader_create(void (*opened)(void), struct hook **ret);

#endif
