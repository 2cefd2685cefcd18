/* SPDX-License-Identifier: MIT */
/* How much memory the control groups of a process leave it, and whether they let it run. */
#ifndef LIBPROBE_PROCESS_CGROUP_H
#define LIBPROBE_PROCESS_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The group with the least memory left. */
struct cgroup_memory {
	uint64_t limit; /* in bytes; UINT64_MAX: none */
	uint64_t room;	/* what is left below the limit; file caches do not count as used */
};

/* Of a process: examines its own group and all visible ancestors. */
void cgroup_memory(pid_t pid, struct cgroup_memory *ret);

/*
 * The path of the file that counts how often the kernel has killed a process of this process's
 * group because memory ran out, for cgroup_kills() after the process is gone. The caller frees
 * it. NULL if there is none.
 */
char *cgroup_events(pid_t pid);
/* The count; 0 if `events` is NULL or cannot be read. */
uint64_t cgroup_kills(const char *events);

enum { CGROUP_PATH_BYTES = PATH_MAX };
/*
 * Is a process in a control group that is frozen, or is being frozen? If so, *ret becomes the path
 * of the group to thaw, among the groups that we can see.
 */
bool cgroup_frozen(pid_t pid, char ret[CGROUP_PATH_BYTES]);

/*
 * For tests: the same for given contents of /proc/PID/cgroup and /proc/self/mountinfo, with
 * `folder` before each path of the latter.
 */
void cgroup_memory_in(
	const char *folder, const char *groups, const char *mounts, struct cgroup_memory *ret);
bool cgroup_frozen_in(
	const char *folder, const char *groups, const char *mounts, char ret[CGROUP_PATH_BYTES]);

#endif
