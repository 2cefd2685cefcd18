/* SPDX-License-Identifier: MIT */
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "libprobe/thread/registers.h"

/* By a request of their own (0: there is none), or as a regset. */
static bool transfer(pid_t tid, int own, int regset, struct arch_registers *registers)
{
	struct iovec bytes = {registers, arch_process()->register_bytes};

	return (own ? ptrace(own, tid, NULL, registers)
		    : ptrace(regset, tid, NT_PRSTATUS, &bytes)) == 0;
}

bool registers_read(pid_t tid, struct arch_registers *ret)
{
	return transfer(tid, arch_process()->ptrace_get, PTRACE_GETREGSET, ret);
}

bool registers_write(pid_t tid, const struct arch_registers *registers)
{
	struct arch_registers copy = *registers;

	return transfer(tid, arch_process()->ptrace_set, PTRACE_SETREGSET, &copy);
}
