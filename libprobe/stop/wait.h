/* SPDX-License-Identifier: MIT */
/* Waiting for the stops of traced threads; see also control_wait(). */
#ifndef LIBPROBE_STOP_WAIT_H
#define LIBPROBE_STOP_WAIT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/stop/signals.h"

/* The PTRACE_EVENT_* of a status; 0: none. */
#define WAIT_EVENT_OF(status) ((unsigned int)(status) >> 16)

/* The stop at the entry and the exit of a system call (PTRACE_O_TRACESYSGOOD). */
enum { WAIT_SYSCALL_STOP = SIGTRAP | 0x80 };
/* The signal that a stop (0: there was none) is about, which has to be passed on; 0: none. */
long wait_signal_of(int status);

/* How long the other threads stay stopped while one is in vfork(2). */
enum { WAIT_BLOCKED_NS = 10000000 };
/* How long they stay stopped at most while one gets no processor, or does not end a call of ours.
 */
#define WAIT_STOP_NS UINT64_C(2000000000)

enum wait_result { WAIT_STOPPED, WAIT_GONE, WAIT_TIMEOUT };

/*
 * In vfork(2) a thread sleeps until its child has executed another program or has ended; nothing
 * except its own death wakes it earlier. posix_spawn(3) works this way, too.
 */
bool wait_is_blocked(pid_t tid);

/*
 * Waits for the next stop of a traced thread that runs since `begun_ns` (CLOCK_MONOTONIC).
 * WAIT_TIMEOUT: it has not stopped within WAIT_STOP_NS.
 */
enum wait_result wait_for_stop(
	pid_t tid, uint64_t begun_ns, struct control_signals *signals, int *status_ret);

/*
 * Waits for the stop that PTRACE_INTERRUPT asked for, at `begun_ns` (CLOCK_MONOTONIC) or later;
 * passes signals on. WAIT_TIMEOUT: it does not stop.
 */
enum wait_result wait_for_interrupt(pid_t tid, uint64_t begun_ns, struct control_signals *signals);

#endif
