/* SPDX-License-Identifier: MIT */
/* What a target's seccomp filters would do to the system calls that we need. */
#ifndef LIBPROBE_SECCOMP_H
#define LIBPROBE_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/error.h"

/*
 * Asks the filters of a stopped, traced thread what they would do to every
 * system call that probectl has a target make: those that map memory, and
 * those that stubs make. All must be allowed.
 *
 * Errors: PROBE_ERROR_UNSUPPORTED (names the call that is not allowed; or only
 * root may read filters).
 */
PROBE_MUST_CHECK struct probe_error *seccomp_check(pid_t pid, pid_t tid);

/*
 * Runs one filter as the kernel does (classic BPF on struct seccomp_data).
 * Returns its verdict; SECCOMP_RET_KILL_PROCESS for a program that is malformed.
 */
uint32_t seccomp_run(
	const struct sock_filter *program, size_t length, const struct seccomp_data *data);

#endif
