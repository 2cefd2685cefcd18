/* SPDX-License-Identifier: MIT */
/* How the threads of a target can be told apart by a stub, without a system call. */
#ifndef LIBPROBE_TARGET_THREADS_H
#define LIBPROBE_TARGET_THREADS_H

#include "arch/arch.h"
#include "libprobe/process/modules.h"
#include "libprobe/target/change.h"
#include "probe/target.h"

/*
 * Finds where libc keeps the thread's id and its rseq area. What is not found
 * is left out: stubs then use locks and ask the kernel.
 */
void threads_model(struct probe_target *target, struct modules *modules, struct arch_thread *ret);

/*
 * Are the threads, all of them stopped, as the model says? If not, the target notes it, so
 * that the next model is another one, and PROBE_ERROR_STATE: what was built is of no use,
 * and has to be built anew.
 */
PROBE_MUST_CHECK struct probe_error *threads_check(struct probe_target *target,
	const struct control *control, const struct arch_thread *model);

/*
 * May all threads, which are stopped, read the time stamp counter (PR_SET_TSC)? As above,
 * where one may not. The kernel writes its answers to `answer`, in memory of ours there.
 */
PROBE_MUST_CHECK struct probe_error *threads_check_counter(struct change *change, uint64_t answer);

/* Is this module the program's dynamic loader, whose code runs before threads are set up? */
bool threads_is_loader(const struct module *module);

#endif
