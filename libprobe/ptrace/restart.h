/* SPDX-License-Identifier: MIT */
/* System calls that a stop ends with EINTR although no signal came: they are restarted. */
#ifndef LIBPROBE_PTRACE_RESTART_H
#define LIBPROBE_PTRACE_RESTART_H

#include <stdbool.h>
#include <sys/types.h>

#include "arch/process.h"

/* The system call that a thread slept in before it was stopped; number negative: none. */
struct restart_seen {
	int64_t number;
	uint64_t arg, sp, pc; /* its first argument; the instruction after the call */
};

/* Looks, where the registers of a stopped thread do not tell (arch_process.hidden_call). */
void restart_look(pid_t pid, pid_t tid, struct restart_seen *ret);

/*
 * If PTRACE_INTERRUPT has ended a thread's system call with EINTR, changes the registers so that
 * the kernel restarts the call when the thread continues, or lets it end with EINTR if a handler
 * runs first. Returns whether it did. Where the registers do not tell of the call, `seen` does
 * (NULL: unknown); such a thread makes the call again (settle_detach()).
 */
bool restart_wait(struct arch_registers *regs, const struct restart_seen *seen);

/* The same of a thread whose registers tell, as at the exit of a call. */
bool restart_ended(struct arch_registers *regs);

/* Back to the call that has ended with EINTR. */
void restart_undo(struct arch_registers *regs);

/*
 * May a stopped thread be in a system call of which the kernel alone knows that it continues it
 * from a restart block?
 */
bool restart_hides_block(pid_t pid, const struct arch_registers *regs);

/*
 * Is a stopped thread in a system call? Where its registers do not tell, one that has just returned
 * counts, too, and one that is about to make a call.
 */
bool restart_is_in_call(pid_t pid, const struct arch_registers *regs);

/* Is a system call one of those? */
bool restart_is_wait(long number);

/*
 * Does the kernel restart this system call from the thread's restart block, which rt_sigreturn(2)
 * drops? `args` is text: its arguments in hexadecimal.
 */
bool restart_has_block(long number, const char *args);

#endif
