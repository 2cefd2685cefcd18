/* SPDX-License-Identifier: MIT */
/* Source: Documentation/admin-guide/syscall-user-dispatch.rst of Linux; <linux/ptrace.h>. */
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "libprobe/process/process.h"
#include "libprobe/ptrace/ptrace.h"

/* Linux 6.4; headers may be older. */
#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif

enum {
	DISPATCH_OFF = 0,
	FILTER_ALLOW = 0
}; /* PR_SYS_DISPATCH_OFF, SYSCALL_DISPATCH_FILTER_ALLOW */

/* struct ptrace_sud_config */
struct dispatch {
	uint64_t mode, selector, offset, length;
};

static bool read_dispatch(pid_t tid, struct dispatch *ret)
{
	return ptrace(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tid, sizeof(*ret), ret) == 0 &&
	       ret->mode != DISPATCH_OFF;
}

bool dispatch_is_on(pid_t tid)
{
	struct dispatch dispatch;

	return read_dispatch(tid, &dispatch);
}

bool dispatch_takes_calls(pid_t pid, pid_t tid)
{
	struct dispatch dispatch;
	uint8_t selector;

	/* Without a selector, calls from outside a range of addresses are always handed over. */
	return read_dispatch(tid, &dispatch) &&
	       (!dispatch.selector || memory_read(pid, dispatch.selector, &selector, 1) != 1 ||
		       selector != FILTER_ALLOW);
}
