/* SPDX-License-Identifier: MIT */
/* The general registers of a thread that is stopped under ptrace(2) by the calling thread. */
#ifndef LIBPROBE_PTRACE_REGISTERS_H
#define LIBPROBE_PTRACE_REGISTERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "arch/process.h"

/* False: it is gone. */
bool registers_read(pid_t tid, struct arch_registers *ret);
bool registers_write(pid_t tid, const struct arch_registers *registers);

#endif
