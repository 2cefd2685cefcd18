/* SPDX-License-Identifier: MIT */
/* System calls that end with EINTR at a stop, though no signal came: they are begun again. */
#ifndef LIBPROBE_RESTART_H
#define LIBPROBE_RESTART_H

#include <stdbool.h>
#include <sys/user.h>

/*
 * Of a thread that was stopped by PTRACE_INTERRUPT: if that made the system call that
 * it was in end with EINTR, the registers are changed so that the kernel begins the call again when
 * the thread goes on, or lets it end with EINTR if a handler runs first. True if so.
 */
bool restart_wait(struct user_regs_struct *regs);

#endif
