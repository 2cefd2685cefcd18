/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE */
/*
 * For LD_PRELOAD: getppid(2) with a probe, so that whatever asks for it passes one.
 *
 *	ppid:call	the result
 */
#include <sys/sdt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../target.h"

pid_t getppid(void)
{
	pid_t ret = (pid_t)syscall(SYS_getppid);

	STAP_PROBE1(ppid, call, ret);
	target_room_behind();
	return ret;
}
