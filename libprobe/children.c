/* SPDX-License-Identifier: MIT */
/* Source: proc_pid_task(5), the file `children` of each thread (CONFIG_PROC_CHILDREN). */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "libprobe/children.h"
#include "libprobe/procfs.h"

/* Appends the numbers of a file; returns the array, or NULL without memory. */
static pid_t *append_children(const char *path, pid_t *pids, size_t *count)
{
	FILE *file = fopen(path, "re");
	int pid;

	while (file && fscanf(file, "%d", &pid) == 1) {
		pid_t *more = reallocarray(pids, *count + 2, sizeof(*more));

		if (!more)
			break;
		pids = more;
		pids[(*count)++] = pid;
		pids[*count] = 0;
	}
	if (file)
		fclose(file);
	return pids;
}

pid_t *children_of(pid_t pid)
{
	struct dirent *entry;
	pid_t *pids = NULL;
	size_t count = 0;
	char path[96];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		int tid = atoi(entry->d_name);

		if (tid <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, tid);
		pids = append_children(path, pids, &count);
	}
	if (dir)
		closedir(dir);
	return pids;
}

pid_t children_process_of(struct children_cache *cache, pid_t tid)
{
	unsigned int slot = (unsigned int)tid % CHILDREN_CACHE;
	long pid;

	if (cache->tids[slot] == tid)
		return cache->pids[slot];
	pid = procfs_status_number(tid, "Tgid:");
	cache->tids[slot] = tid;
	cache->pids[slot] = pid > 0 ? (pid_t)pid : tid;
	return cache->pids[slot];
}
