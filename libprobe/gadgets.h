/* SPDX-License-Identifier: MIT */
/* Machine code that a target has anyway, and that remote system calls need. */
#ifndef LIBPROBE_GADGETS_H
#define LIBPROBE_GADGETS_H

#include <stddef.h>
#include <stdint.h>

enum { CONTROL_SIGRETURNS_MAX = 16 };

/* Addresses are the target's, or (struct file) the file's. */
struct control_gadgets {
	uint64_t syscall_ret; /* `syscall; ret` */
	uint64_t leave_ret;   /* `leave; ret` */
	/* `mov $15,%eax; syscall`, where signal handlers return to; there may be several */
	uint64_t sigreturns[CONTROL_SIGRETURNS_MAX];
	size_t sigreturn_count;
};

#endif
