/* SPDX-License-Identifier: MIT */
/* The end of threads that are killed while they are traced. */
#ifndef LIBPROBE_PTRACE_REAP_H
#define LIBPROBE_PTRACE_REAP_H

#include <sys/types.h>

/*
 * Detaches from a stopped thread. If it was killed meanwhile, a thread of this process waits for
 * its end; the caller does not.
 */
void reap_or_detach(pid_t tid);

#endif
