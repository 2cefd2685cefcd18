/* SPDX-License-Identifier: MIT */
/* System calls that a stop ends with EINTR although no signal came: they are restarted. */
#ifndef LIBPROBE_THREAD_RESTART_H
#define LIBPROBE_THREAD_RESTART_H

#include <stdbool.h>

#include "arch/process.h"

/*
 * If PTRACE_INTERRUPT has ended a thread's system call with EINTR, changes the registers so that
 * the kernel restarts the call when the thread continues, or lets it end with EINTR if a handler
 * runs first. Returns whether it did.
 */
bool restart_wait(struct arch_registers *regs);

/* Is a system call one of those? */
bool restart_is_wait(long number);

/*
 * Does the kernel restart this system call from the thread's restart block, which rt_sigreturn(2)
 * drops? `args` is text: its arguments in hexadecimal.
 */
bool restart_has_block(long number, const char *args);

#endif
