/* SPDX-License-Identifier: MIT */
/* Threads that a stop has found in a system call, where their registers do not tell. */
#ifndef LIBPROBE_PTRACE_SETTLE_H
#define LIBPROBE_PTRACE_SETTLE_H

#include "libprobe/ptrace/control.h"

/*
 * Called before a stopped thread makes system calls for us. Reads its registers again: from then on
 * they hold all that the thread needs to go on. Returns false if the thread is gone, or if it does
 * not stop again; then is_running is set.
 */
bool settle_thread(struct control_signals *signals, struct control_thread *thread);

/*
 * Detaches from a thread that would repeat the call in which the stop found it. If a signal comes
 * first, the call ends with EINTR, as it would have without us. If the thread does not stop as
 * expected, is_running is set, and it stays attached.
 */
void settle_detach(struct control_signals *signals, struct control_thread *thread);

#endif
