/* SPDX-License-Identifier: MIT */
/* Attaches to the threads of a process, which run on (PTRACE_SEIZE), and asks them to stop. */
#ifndef LIBPROBE_PTRACE_SEIZE_H
#define LIBPROBE_PTRACE_SEIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "libprobe/ptrace/control.h"

/*
 * Attaches to a thread of a process, and appends it. If it is gone or dead, *attached_ret is false.
 */
struct probe_error *seize_thread(struct control *control, pid_t pid, pid_t tid, bool *attached_ret);

/* Asks a thread to stop (PTRACE_INTERRUPT); does not wait. */
void seize_ask_to_stop(struct control_thread *thread);

/*
 * What follows when a thread is attached to. SEIZE_ASK: it is asked to stop at once, because a
 * thread can create another and end within microseconds, and that one can do the same.
 */
enum seize_then { SEIZE_LET_RUN, SEIZE_ASK };

/*
 * Attaches to every thread that is not attached yet, of the process and its guests, and appends it.
 * The kernel's workers (procfs_is_worker()) and threads that have ended are passed over.
 * *new_ret is not 0 if there are some, or may be more: only if it is 0, and all threads are
 * stopped, are these all that there are.
 *
 * Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_PERMISSION, PROBE_ERROR_SYSTEM; those that were
 * attached stay so.
 */
struct probe_error *seize_new(struct control *control, enum seize_then then, size_t *new_ret);

/*
 * Are all threads of the process attached, except those that were passed over when they were last
 * listed? `folder` comes from procfs_open_threads(). Cheap.
 */
bool seized_all(const struct control *control, int folder);

#endif
