/* SPDX-License-Identifier: MIT */
/* System calls that end with EINTR at a stop, though no signal came: they are begun again. */
#ifndef LIBPROBE_STOP_RESTART_H
#define LIBPROBE_STOP_RESTART_H

#include <stdbool.h>

#include "arch/process.h"

/*
 * Of a thread that was stopped by PTRACE_INTERRUPT: if that made the system call that
 * it was in end with EINTR, the registers are changed so that the kernel begins the call again when
 * the thread goes on, or lets it end with EINTR if a handler runs first. True if so.
 */
bool restart_wait(struct arch_registers *regs);

/* Is a system call one of those? */
bool restart_is_wait(long number);

/*
 * Does the kernel keep what it needs to begin a system call again in the thread's restart block,
 * which rt_sigreturn(2) drops? `args` is text: its arguments in hexadecimal.
 */
bool restart_has_block(long number, const char *args);

#endif
