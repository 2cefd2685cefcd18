/* SPDX-License-Identifier: MIT */
/* Memory of a process that nobody takes away while a thread runs in a module. */
#ifndef LIBPROBE_PROCESS_SAFE_H
#define LIBPROBE_PROCESS_SAFE_H

#include "arch/arch.h"
#include "libprobe/process/modules.h"

/*
 * What a stub in the module may read without a check, as far as it is known: pages of the module's
 * file that can be read now, and the main thread's stack as far as it has grown. `maps` are those
 * that the module was found in.
 */
void safe_memory(const struct module *module, const struct maps *maps, struct arch_safe *ret);

#endif
