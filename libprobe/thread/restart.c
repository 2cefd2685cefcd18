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
 * The calls here have done nothing yet when they return EINTR; one that has sent or
 * received something returns how much. close(2) is different, so it is not among them.
 * Calls on devices (ioctl(2)) may mean anything, and are left alone.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "libprobe/thread/restart.h"

enum { ERESTARTNOHAND = 514 }; /* <linux/errno.h>, not for programs */

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

bool restart_wait(struct arch_registers *regs)
{
	int64_t number = (int64_t)arch_get(regs, ARCH_CALL);

	if (number < 0 || (int64_t)arch_get(regs, ARCH_RESULT) != -EINTR ||
		!restart_is_wait((long)number))
		return false;
	arch_set(regs, ARCH_RESULT, -(uint64_t)ERESTARTNOHAND);
	return true;
}
