/* SPDX-License-Identifier: MIT */
/* Sources: proc_pid_status(5), NSpid; pid_namespaces(7). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/layout.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/procfs.h"
#include "libprobe/registry/registry.h"
#include "libprobe/ptrace/ptrace.h"

enum {
	SCAN_NS = 10000000,
	SCAN_SHARE = 20 /* the pause is at least 20 times as long as the scan */
};

static void remember(struct writers *cache, pid_t tid, pid_t pid, pid_t outer)
{
	unsigned int slot = (unsigned int)tid % WRITERS;

	cache->tids[slot] = tid;
	cache->pids[slot] = pid;
	cache->outer[slot] = outer;
}

/* Remembers a process's threads by their ids in its namespace. */
static void scan_process(struct writers *cache, pid_t pid)
{
	DIR *threads = procfs_threads(pid);
	pid_t outer;

	while ((outer = procfs_next_id(threads))) {
		long inner = procfs_status_last_number(outer, "NSpid:");

		if (inner > 0)
			remember(cache, (pid_t)inner, pid, outer);
	}
	if (threads)
		closedir(threads);
}

static void scan(struct writers *cache, pid_t pid)
{
	pid_t *pids = cache->children ? children_of(pid) : NULL;

	scan_process(cache, pid);
	for (size_t i = 0; pids && pids[i]; i++)
		scan(cache, pids[i]);
	free(pids);
}

void writers_init(struct writers *cache, pid_t root, bool children)
{
	char path[48], ours[64] = "", theirs[64] = "";
	ssize_t length;

	*cache = (struct writers){.root = root, .children = children};
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", root);
	length = readlink(path, theirs, sizeof(theirs) - 1);
	cache->foreign = length > 0 && readlink("/proc/self/ns/pid", ours, sizeof(ours) - 1) > 0 &&
			 strcmp(ours, theirs) != 0;
}

void writers_learn(struct writers *cache)
{
	uint64_t begin = clock_monotonic_ns(), end;

	if ((!cache->children && !cache->foreign) || begin < cache->next_scan_ns)
		return;
	scan(cache, cache->root);
	end = clock_monotonic_ns();
	cache->next_scan_ns = end + SCAN_NS + SCAN_SHARE * (end - begin);
}

static void find(struct writers *cache, pid_t tid)
{
	long pid;

	if (cache->foreign) {
		writers_learn(cache);
		return;
	}
	pid = procfs_status_number(tid, "Tgid:");
	remember(cache, tid, pid > 0 ? (pid_t)pid : tid, tid);
}

void writers_find(struct writers *cache, uint32_t word, pid_t *pid_ret, pid_t *tid_ret)
{
	bool is_child = word & RING_TID_CHILD;
	pid_t tid = (pid_t)(word & ~RING_TID_CHILD);
	unsigned int slot = (unsigned int)tid % WRITERS;

	*pid_ret = cache->root;
	*tid_ret = tid ? tid : cache->root;
	if (!tid || (!is_child && !cache->foreign))
		return;
	if (cache->tids[slot] != tid)
		find(cache, tid);
	if (cache->tids[slot] == tid) {
		*pid_ret = cache->pids[slot];
		*tid_ret = cache->outer[slot];
	} else if (is_child) {
		*pid_ret = tid;
	}
}
