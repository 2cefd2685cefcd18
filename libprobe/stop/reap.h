/* SPDX-License-Identifier: MIT */
/* The end of threads that are killed while they are traced. */
#ifndef LIBPROBE_STOP_REAP_H
#define LIBPROBE_STOP_REAP_H

#include <sys/types.h>

/*
 * Detaches from a traced thread that has stopped. Where it was killed meanwhile, its end
 * is waited for, by a thread of this process: the caller does not wait.
 */
void reap_or_detach(pid_t tid);

#endif
