/* SPDX-License-Identifier: MIT */
/*
 * A stop interrupts the system call that a thread sleeps in. Most calls then return one
 * of the kernel's own codes, -512 to -516, with which the kernel begins the call again
 * where no handler runs. Some return EINTR itself, which then reaches the program,
 * though no signal ever came (signal(7), "Interruption of system calls and library
 * functions by stop signals").
 *
 * For those the result is changed to ERESTARTNOHAND before the thread goes on. The
 * kernel looks at it behind the stop (arch_do_signal_or_restart()): without a signal it
 * leads the thread back to its system call instruction, with the call's number; if
 * a handler is to run, the result becomes EINTR.
 *
 * Such a call has its whole time limit again, but for those of epoll (remaining.c). The
 * limits of the others lie in the program's memory (semtimedop(2), rt_sigtimedwait(2),
 * epoll_pwait2(2), io_getevents(2)), which is not ours to write, or in the socket, for all of its
 * users. A register could point to a copy in memory of ours instead. But the next stop begins the
 * call again with that register, whoever makes it, also after we have gone: the copy would have
 * to stay mapped until the call returns, and nobody is there to see that. Where it did not, the
 * call would end with EFAULT, which is worse than late.
 *
 * All calls here have done nothing yet when they return EINTR; one that has
 * sent or received something returns how much. close(2), of which that is not so, is
 * none of them. Calls on devices (ioctl(2)) may mean anything, and are left alone.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "libprobe/stop/restart.h"

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
