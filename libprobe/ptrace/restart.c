/* SPDX-License-Identifier: MIT */
/*
 * A stop interrupts the system call that a thread sleeps in. Most calls then return one
 * of the kernel's own codes, -512 to -516, and the kernel restarts the call if no
 * handler runs. Some return EINTR itself, which then reaches the program, although no
 * signal ever arrived (signal(7), "Interruption of system calls and library
 * functions by stop signals").
 *
 * For those the result is changed to ERESTARTNOHAND before the thread continues. The
 * kernel checks it after the stop (arch_do_signal_or_restart()): without a signal it
 * leads the thread back to its system call instruction, with the call's number; if a
 * handler has to run, the result becomes EINTR.
 *
 * Such a call gets its whole time limit again, except those of epoll (remaining.c). The
 * limits of the others lie in the program's memory (semtimedop(2), rt_sigtimedwait(2),
 * epoll_pwait2(2), io_getevents(2)), which is not ours to write, or in the socket, for all of its
 * users. A register could point to a copy in memory of ours instead. But any later stop, even by
 * another tool after we have gone, restarts the call with that register: the copy would have to
 * stay mapped until the call returns, and nothing would tell us when. Without it, the call would
 * end with EFAULT, which is worse than ending late.
 *
 * aarch64 shows no tracer which call that was, and takes the result for that of a call that has
 * ended. So each thread is looked at before the stop: if it slept in such a call, and stands behind
 * it with EINTR afterwards, it is led back to the instruction, with the first argument, which the
 * result has replaced. A call that a thread begins between the look and the stop, mostly within
 * microseconds, ends with EINTR: nobody but the kernel knows its first argument.
 *
 * The calls here have done nothing yet when they return EINTR; one that has sent or
 * received something returns how much. close(2) is different, so it is not among them.
 * Calls on devices (ioctl(2)) may mean anything, and are left alone.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "libprobe/base/file.h"
#include "libprobe/process/process.h"
#include "libprobe/ptrace/ptrace.h"

enum {
	ERESTARTNOHAND = 514, /* <linux/errno.h>, not for programs */
	CALL_BYTES = 4	      /* of the instruction, where make_again() is needed */
};

static bool has(const uint16_t *numbers, size_t count, long number)
{
	for (size_t i = 0; i < count; i++)
		if (number == numbers[i])
			return true;
	return false;
}

bool restart_is_wait(long number)
{
	return has(arch_process()->waits, arch_process()->wait_count, number);
}

bool restart_has_block(long number, const char *args)
{
	unsigned long long futex[4] = {0};

	if (number == SYS_futex) /* only with a time limit, the fourth */
		return sscanf(args, "%llx %llx %llx %llx", &futex[0], &futex[1], &futex[2],
			       &futex[3]) == 4 &&
		       futex[3];
	return has(arch_process()->blocks, arch_process()->block_count, number);
}

void restart_look(pid_t pid, pid_t tid, struct restart_seen *ret)
{
	unsigned long long arg, sp, pc;
	char path[64], text[256];
	long number;

	*ret = (struct restart_seen){.number = -1};
	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	if (file_read(path, text, sizeof(text)) &&
		sscanf(text, "%ld %llx %*x %*x %*x %*x %*x %llx %llx", &number, &arg, &sp, &pc) ==
			4)
		*ret = (struct restart_seen){number, arg, sp, pc};
}

bool restart_ended(struct arch_registers *regs)
{
	int64_t number = (int64_t)arch_get(regs, ARCH_CALL);

	if (number < 0 || (int64_t)arch_get(regs, ARCH_RESULT) != -EINTR ||
		!restart_is_wait((long)number))
		return false;
	arch_set(regs, ARCH_RESULT, -(uint64_t)ERESTARTNOHAND);
	return true;
}

/* Leads the thread back, if it was in that call. */
static bool make_again(struct arch_registers *regs, const struct restart_seen *seen)
{
	if (!seen || seen->number < 0 || !restart_is_wait(seen->number) ||
		(int64_t)arch_get(regs, ARCH_RESULT) != -EINTR ||
		arch_get(regs, ARCH_NUMBER) != (uint64_t)seen->number ||
		arch_get(regs, ARCH_PC) != seen->pc || arch_get(regs, ARCH_SP) != seen->sp)
		return false;
	arch_set(regs, ARCH_PC, seen->pc - CALL_BYTES);
	arch_set(regs, ARCH_ARG0, seen->arg);
	return true;
}

void restart_undo(struct arch_registers *regs)
{
	arch_set(regs, ARCH_PC, arch_get(regs, ARCH_PC) + CALL_BYTES);
	arch_set(regs, ARCH_RESULT, -(uint64_t)EINTR);
}

bool restart_hides_block(pid_t pid, const struct arch_registers *regs)
{
	uint32_t expected = arch_process()->hidden_call, code;
	long number = (long)arch_get(regs, ARCH_NUMBER);

	if (!expected || number == SYS_restart_syscall ||
		!(number == SYS_futex || restart_has_block(number, "")))
		return false;
	return memory_read(pid, arch_get(regs, ARCH_PC), &code, sizeof(code)) == sizeof(code) &&
	       code == expected;
}

bool restart_is_in_call(pid_t pid, const struct arch_registers *regs)
{
	uint32_t expected = arch_process()->hidden_call, code[2];

	if (!expected)
		return (int64_t)arch_get(regs, ARCH_CALL) >= 0;
	/* Behind the call, or led back to it. */
	return memory_read(pid, arch_get(regs, ARCH_PC) - CALL_BYTES, code, sizeof(code)) !=
		       sizeof(code) ||
	       code[0] == expected || code[1] == expected;
}

bool restart_wait(struct arch_registers *regs, const struct restart_seen *seen)
{
	return arch_process()->hidden_call ? make_again(regs, seen) : restart_ended(regs);
}
