/* SPDX-License-Identifier: MIT */
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "libprobe/ptrace/ptrace.h"

/* Transfers general registers by the ptrace(2) request `own` or, if that is 0, as a regset. */
static bool transfer(pid_t tid, int own, int request, struct arch_registers *registers)
{
	struct iovec bytes = {registers, arch_process()->register_bytes};

	return (own ? ptrace(own, tid, NULL, registers)
		    : ptrace(request, tid, NT_PRSTATUS, &bytes)) == 0;
}

/* Transfers the registers that have a regset of their own. */
static bool transfer_others(pid_t tid, int request, struct arch_registers *registers)
{
	const struct arch_process *arch = arch_process();

	for (int i = 0; i < arch->regset_count; i++) {
		uint64_t *word = &registers->words[arch->regsets[i].word];
		int32_t half = (int32_t)*word;
		bool is_half = arch->regsets[i].bytes == sizeof(half);
		struct iovec bytes = {is_half ? (void *)&half : word, arch->regsets[i].bytes};

		if (request == PTRACE_SETREGSET && arch->regsets[i].never_changes)
			continue;
		if (ptrace(request, tid, arch->regsets[i].type, &bytes))
			return false;
		if (is_half)
			*word = (uint64_t)(int64_t)half;
	}
	return true;
}

bool registers_read(pid_t tid, struct arch_registers *ret)
{
	return transfer(tid, arch_process()->ptrace_get, PTRACE_GETREGSET, ret) &&
	       transfer_others(tid, PTRACE_GETREGSET, ret);
}

bool registers_write(pid_t tid, const struct arch_registers *registers)
{
	struct arch_registers copy = *registers;

	return transfer(tid, arch_process()->ptrace_set, PTRACE_SETREGSET, &copy) &&
	       transfer_others(tid, PTRACE_SETREGSET, &copy);
}
