/* SPDX-License-Identifier: MIT */
/*
 * Threads whose system calls the kernel hands to a handler of the program
 * (PR_SET_SYSCALL_USER_DISPATCH, as under Wine). If such a thread made a call for us, that handler
 * would answer it; or, as all signals are blocked meanwhile, SIGSYS would kill the process.
 */
#ifndef LIBPROBE_PTRACE_DISPATCH_H
#define LIBPROBE_PTRACE_DISPATCH_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Is this switched on for a thread that we have stopped? False before Linux 6.4, which does not
 * tell.
 */
bool dispatch_is_on(pid_t tid);

/*
 * Would the handler get a call of this stopped thread just now? The program switches that on and
 * off with a byte of its memory.
 */
bool dispatch_takes_calls(pid_t pid, pid_t tid);

#endif
