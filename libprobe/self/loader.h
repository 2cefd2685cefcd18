/* SPDX-License-Identifier: MIT */
/* A hook of the loader, hit when a library is opened, before its constructors run. */
#ifndef LIBPROBE_SELF_LOADER_H
#define LIBPROBE_SELF_LOADER_H

#include "libprobe/self/hook.h"

/*
 * Patches the loader. From then on, opened() is called when libraries have been mapped, in the
 * thread that opens them, with the loader's lock. Free the hook like others. Errors: as
 * gate_attach_call(), and those of probe/self.h.
 */
PROBE_MUST_CHECK struct probe_error *loader_create(void (*opened)(void), struct hook **ret);

#endif
