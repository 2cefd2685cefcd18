/* SPDX-License-Identifier: MIT */
/* How much memory the control groups of a process leave it. */
#ifndef LIBPROBE_SANDBOX_CGROUP_H
#define LIBPROBE_SANDBOX_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The group that leaves least. */
struct cgroup_memory {
	uint64_t limit; /* in bytes; UINT64_MAX: there is none */
	uint64_t room;	/* below the limit, as far as it is not used; file caches do not count */
};

/* Those of a process, in its own group and all groups above that can be seen from here. */
void cgroup_memory(pid_t pid, struct cgroup_memory *ret);

/*
 * How often the kernel has killed a process of this process's own group, because memory
 * ran out; and the file that tells, for cgroup_kills() once the process is gone: to be
 * given back with free(), NULL where none does.
 */
char *cgroup_events(pid_t pid);
/* 0 where `events` is NULL or cannot be read. */
uint64_t cgroup_kills(const char *events);

/*
 * The same, of what /proc/PID/cgroup and /proc/self/mountinfo say, with a folder before each
 * path of the latter. For tests.
 */
void cgroup_memory_in(
	const char *folder, const char *groups, const char *mounts, struct cgroup_memory *ret);

#endif
