/* SPDX-License-Identifier: MIT */
/* How the threads of a target can be told apart by a stub, without a system call. */
#ifndef LIBPROBE_THREADS_H
#define LIBPROBE_THREADS_H

#include "arch/arch.h"
#include "libprobe/modules.h"
#include "probe/target.h"

/*
 * Finds where libc keeps the thread's id and its rseq area. What is not found
 * is left out: stubs then use locks and ask the kernel.
 */
void threads_model(struct probe_target *target, struct modules *modules, struct arch_thread *ret);

/* Is this module the program's dynamic loader, whose code runs before threads are set up? */
bool threads_is_loader(const struct module *module);

#endif
