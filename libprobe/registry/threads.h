/* SPDX-License-Identifier: MIT */
/* How a stub can identify the threads of a target without a system call. */
#ifndef LIBPROBE_REGISTRY_THREADS_H
#define LIBPROBE_REGISTRY_THREADS_H

#include "arch/arch.h"
#include "libprobe/process/modules.h"
#include "libprobe/registry/change.h"
#include "probe/target.h"

/*
 * Finds where libc keeps the thread's id and its rseq area. If one is not found, stubs use locks
 * and ask the kernel instead.
 */
void threads_model(struct probe_target *target, struct modules *modules, struct arch_thread *ret);

/*
 * Do all threads, which are stopped, fit the model? If not, the target notes it, so that the next
 * model is a different one, and the error is PROBE_ERROR_STATE: the stubs must be built again.
 */
PROBE_MUST_CHECK struct probe_error *threads_check(struct probe_target *target,
	const struct control *control, const struct arch_thread *model);

/*
 * May all threads, which are stopped, read the time stamp counter (PR_SET_TSC)? If not, as above.
 * The kernel writes its answers to `answer`, in memory of ours there.
 */
PROBE_MUST_CHECK struct probe_error *threads_check_counter(struct change *change, uint64_t answer);

/*
 * Does the kernel itself make the system calls of all threads, which are stopped? If the program
 * handles those of one (PR_SET_SYSCALL_USER_DISPATCH), as above; stubs must then make none.
 */
PROBE_MUST_CHECK struct probe_error *threads_check_dispatch(struct change *change);

/* Is this module the program's dynamic loader, whose code runs before threads are set up? */
bool threads_is_loader(const struct module *module);

#endif
