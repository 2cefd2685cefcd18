/* SPDX-License-Identifier: MIT */
/* Sources: proc_pid_task(5), the file `children` of each thread (CONFIG_PROC_CHILDREN). */
#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/array.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"

enum { LIST_TRIES = 8, SIZE_TRIES = 8, NEW_PIDS_MAX = 256 };

/* Appends the pids of a thread's children. Returns NULL if memory is short. */
static pid_t *append_children(pid_t pid, pid_t tid, pid_t *pids, size_t *count)
{
	AUTO_FILE FILE *file = fopen(procfs_path("/proc/%d/task/%d/children", pid, tid).text, "re");
	int child;

	while (file && fscanf(file, "%d", &child) == 1) {
		if (!ARRAY_ROOM(pids, *count + 1))
			break;
		pids[(*count)++] = child;
		pids[*count] = 0;
	}
	return pids;
}

pid_t *children_of_thread(pid_t pid, pid_t tid)
{
	size_t count = 0;

	return append_children(pid, tid, NULL, &count);
}

pid_t *children_of(pid_t pid)
{
	AUTO_DIR DIR *threads = procfs_threads(pid);
	pid_t tid, *pids = NULL;
	size_t count = 0;

	while ((tid = procfs_next_id(threads)))
		pids = append_children(pid, tid, pids, &count);
	return pids;
}

/*
 * Reads the list of children until two readings agree. The kernel walks the list by position, so if
 * a child ends in the meantime, it may leave out another one (get_children_pid() in
 * fs/proc/array.c).
 */
static pid_t *all_children_of(pid_t pid)
{
	pid_t *list = children_of(pid);
	bool differs = true;

	for (int i = 0; i < LIST_TRIES && differs; i++) {
		pid_t *before = list;
		size_t k = 0;

		list = children_of(pid);
		while (before && list && before[k] && before[k] == list[k])
			k++;
		differs = before && list ? before[k] != list[k] : before != list;
		free(before);
	}
	return list;
}

/*
 * Returns true if two memories have the same size; used when kcmp(2) is forbidden, as in most
 * containers. The memory of a forked child is smaller, because fork(2) does not copy pages of
 * files.
 */
static bool look_alike(pid_t pid, pid_t other)
{
	pid_t pids[] = {pid, other, pid};
	char text[3][128];

	for (int tries = 0; tries < SIZE_TRIES; tries++) {
		for (int i = 0; i < 3; i++)
			if (!file_read(procfs_path("/proc/%d/statm", pids[i]).text, text[i],
				    sizeof(text[i])))
				return false;
		if (strcmp(text[0], text[2]) == 0)
			return strcmp(text[0], text[1]) == 0;
	}
	return true; /* the sizes keep changing: assume that the memory is shared */
}

bool children_share(pid_t pid, pid_t other)
{
	long order;

	if (!seccomp_may_call(SECCOMP_OWN_KCMP))
		return look_alike(pid, other);
	order = syscall(SYS_kcmp, pid, other, KCMP_VM, 0, 0);
	return order < 0 && errno != ESRCH ? look_alike(pid, other) : order == 0;
}

pid_t *children_apart(pid_t pid)
{
	pid_t *pids = all_children_of(pid);
	size_t kept = 0;

	for (size_t i = 0; pids && pids[i]; i++)
		if (!children_share(pid, pids[i]))
			pids[kept++] = pids[i];
	if (pids)
		pids[kept] = 0;
	return pids;
}

/* ---- Shared memory ------------------------------------------------------------------ */

static bool add_pid(pid_t pid, pid_t **list)
{
	size_t count = 0;

	for (; *list && (*list)[count]; count++)
		if ((*list)[count] == pid)
			return true;
	if (!ARRAY_ROOM(*list, count + 1))
		return false;
	(*list)[count] = pid;
	(*list)[count + 1] = 0;
	return true;
}

static void add_sharing_children(pid_t pid, pid_t of, pid_t **list)
{
	AUTO_FREE pid_t *children = all_children_of(of);

	for (size_t i = 0; children && children[i]; i++)
		if (children[i] != pid && children_share(pid, children[i]))
			add_pid(children[i], list);
}

pid_t *children_sharing(pid_t pid)
{
	long parent = procfs_status_number(pid, "PPid:");
	pid_t *list = NULL;

	add_sharing_children(pid, pid, &list);
	if (parent > 0 && children_share(pid, (pid_t)parent))
		add_pid((pid_t)parent, &list);
	if (parent > 0)
		add_sharing_children(pid, (pid_t)parent, &list);
	/* The list grows during the loop. */
	for (size_t i = 0; list && list[i]; i++)
		add_sharing_children(pid, list[i], &list);
	return list;
}

/*
 * Returns true if a new process may share the memory of `pid`, judged by its parent. kcmp(2), which
 * is asked next, waits for a process that is in execve(2).
 */
static bool is_relative(pid_t pid, pid_t other, const pid_t *list)
{
	pid_t parent = procfs_parent(other);

	if (parent == pid)
		return true;
	for (size_t i = 0; list && list[i]; i++)
		if (parent == list[i])
			return true;
	return parent && parent == procfs_parent(pid);
}

bool children_add_sharing(pid_t pid, long from, long to, pid_t **list)
{
	bool ok = true;

	if (from < 0 || to < from || to - from > NEW_PIDS_MAX) {
		/* The ids have wrapped around, or too many are new, so search all processes. */
		AUTO_FREE pid_t *all = children_sharing(pid);

		for (size_t i = 0; all && all[i] && ok; i++)
			ok = add_pid(all[i], list);
		return ok;
	}
	for (long id = from + 1; id <= to && ok; id++)
		if (is_relative(pid, (pid_t)id, *list) && children_share(pid, (pid_t)id) &&
			procfs_status_number((pid_t)id, "Tgid:") == id)
			ok = id == pid || add_pid((pid_t)id, list);
	return ok;
}
