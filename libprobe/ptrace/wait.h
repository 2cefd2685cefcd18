/* SPDX-License-Identifier: MIT */
/* Waiting for the stops of traced threads; see also control_wait(). */
#ifndef LIBPROBE_PTRACE_WAIT_H
#define LIBPROBE_PTRACE_WAIT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/ptrace/signals.h"

/* The PTRACE_EVENT_* of a status; 0: none. */
#define WAIT_EVENT_OF(status) ((unsigned int)(status) >> 16)

/* The signal of a stop at the entry or exit of a system call (PTRACE_O_TRACESYSGOOD). */
enum { WAIT_SYSCALL_STOP = SIGTRAP | 0x80 };
/*
 * The signal that a stop was about, and that must be passed on. 0 if there is none, or if `status`
 * is 0.
 */
long wait_signal_of(int status);

/* How long the other threads stay stopped while one is in vfork(2). */
enum { WAIT_BLOCKED_NS = 10000000 };
/* How long the other threads stay stopped while one gets no processor, or is in a call for us. */
#define WAIT_STOP_NS UINT64_C(2000000000)

enum wait_result { WAIT_STOPPED, WAIT_GONE, WAIT_TIMEOUT };

/*
 * In vfork(2) a thread sleeps until its child has executed another program or has ended; nothing
 * except its own death wakes it earlier. posix_spawn(3) works this way, too.
 */
bool wait_is_blocked(pid_t tid);

/*
 * Waits for the next stop of a traced thread that has run since `begun_ns` (CLOCK_MONOTONIC).
 * Returns WAIT_TIMEOUT if it does not stop within WAIT_STOP_NS.
 */
enum wait_result wait_for_stop(
	pid_t tid, uint64_t begun_ns, struct control_signals *signals, int *status_ret);

/*
 * Waits for the stop that PTRACE_INTERRUPT asked for, at `begun_ns` (CLOCK_MONOTONIC) or later;
 * passes signals on. WAIT_TIMEOUT: it does not stop.
 */
enum wait_result wait_for_interrupt(pid_t tid, uint64_t begun_ns, struct control_signals *signals);

#endif
