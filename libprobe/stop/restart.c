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
 * leads the thread back to its `syscall` instruction, with the call's number in rax; if
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

static const unsigned short waits[] = {
	SYS_epoll_wait,
	SYS_epoll_pwait,
	441, /* epoll_pwait2 */
	SYS_semop,
	SYS_semtimedop,
	SYS_msgrcv,
	SYS_msgsnd,
	SYS_rt_sigtimedwait,
	SYS_io_getevents,
	333, /* io_pgetevents */
	426, /* io_uring_enter */
	/* On a socket with SO_RCVTIMEO or SO_SNDTIMEO. */
	SYS_read,
	SYS_readv,
	327, /* preadv2 */
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_recvmmsg,
	SYS_accept,
	SYS_accept4,
	SYS_connect,
	SYS_write,
	SYS_writev,
	328, /* pwritev2 */
	SYS_sendto,
	SYS_sendmsg,
	SYS_sendmmsg,
	SYS_sendfile,
	SYS_splice,
};

bool restart_is_wait(long number)
{
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
		if (number == waits[i])
			return true;
	return false;
}

bool restart_has_block(long number, const char *args)
{
	unsigned long long futex[4] = {0};

	if (number == SYS_futex) /* only with a time limit, the fourth */
		return sscanf(args, "%llx %llx %llx %llx", &futex[0], &futex[1], &futex[2],
			       &futex[3]) == 4 &&
		       futex[3];
	return number == SYS_nanosleep || number == SYS_clock_nanosleep || number == SYS_poll ||
	       number == SYS_restart_syscall;
}

bool restart_wait(struct user_regs_struct *regs)
{
	if ((int64_t)regs->orig_rax < 0 || (int64_t)regs->rax != -EINTR ||
		!restart_is_wait((long)regs->orig_rax))
		return false;
	regs->rax = -(uint64_t)ERESTARTNOHAND;
	return true;
}
