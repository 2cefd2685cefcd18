/* SPDX-License-Identifier: MIT */
/* Threads that a stop has found in a system call, where their registers do not tell. */
#ifndef LIBPROBE_STOP_SETTLE_H
#define LIBPROBE_STOP_SETTLE_H

#include "libprobe/stop/control.h"

/*
 * To be called before a stopped thread makes system calls for us: its registers, which are read
 * again, then say all that it needs to go on. False: it is gone, or, if is_running is set, it does
 * not stop again.
 */
bool settle_thread(struct control_signals *signals, struct control_thread *thread);

/*
 * Detaches from a thread that would make again the call in which the stop has found it. If a signal
 * comes first, the call ends with EINTR, as it would have without us. If the thread does not stop
 * where it should, is_running is set, and it stays attached.
 */
void settle_detach(struct control_signals *signals, struct control_thread *thread);

#endif
