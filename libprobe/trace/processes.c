/* SPDX-License-Identifier: MIT */
/* Finds processes in /proc. Source: proc_pid_stat(5). */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/error.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/trace/trace.h"

/* Process ids without duplicates. */
struct ids {
	pid_t *items;
	size_t count;
};

struct probe_processes {
	struct conditions *conditions; /* NULL if there are none */
	const char *const *files;      /* the values of PROBE_CONDITION_EXE; borrowed */
	size_t file_count;
	bool later, only_later;
	struct ids named;   /* pids and trees */
	struct ids parents; /* parents and trees */
	struct ids trees;
	struct ids found;
	/* With only_later: the processes that were found first, and when they were started. */
	struct left_alone {
		pid_t pid;
		uint64_t started;
	} * left_alone;
	size_t left_count;
};

/* ---- All processes --------------------------------------------------------------- */

struct process {
	pid_t pid, parent;
	bool descends;
};

struct all {
	struct process *items;
	size_t count;
};

/* Parses /proc/PID/stat. Returns false for an ended process or a kernel thread. */
static bool parse_stat(char *text, struct process *ret)
{
	enum { KERNEL_THREAD = 0x200000 }; /* PF_KTHREAD in the kernel's include/linux/sched.h */
	char *comm = strchr(text, '('), *end = strrchr(text, ')');
	unsigned int flags;
	int parent;
	char state;

	/* The command name may contain any character, also parentheses. */
	if (!comm || !end || end < comm ||
		sscanf(end + 1, " %c %d %*d %*d %*d %*d %u", &state, &parent, &flags) != 3)
		return false;
	*ret = (struct process){.pid = (pid_t)strtol(text, NULL, 10), .parent = parent};
	return state != 'Z' && state != 'X' && !(flags & KERNEL_THREAD);
}

static bool read_process(pid_t pid, struct process *ret)
{
	char text[512];

	return file_read(procfs_path("/proc/%d/stat", (int)pid).text, text, sizeof(text)) &&
	       parse_stat(text, ret);
}

static struct probe_error *read_all(struct all *ret)
{
	AUTO_DIR DIR *list = procfs_processes();
	struct probe_error *error = NULL;
	struct process process;
	pid_t pid;

	*ret = (struct all){0};
	while (!error && (pid = procfs_next_id(list))) {
		if (pid == getpid() || !read_process(pid, &process))
			continue;
		if (ARRAY_ROOM(ret->items, ret->count))
			ret->items[ret->count++] = process;
		else
			error = probe_error_no_memory();
	}
	return error;
}

/* ---- Choosing processes ---------------------------------------------------------- */

static bool has_id(const struct ids *ids, pid_t pid)
{
	for (size_t i = 0; i < ids->count; i++)
		if (ids->items[i] == pid)
			return true;
	return false;
}

static struct probe_error *add_id(struct ids *ids, pid_t pid)
{
	if (has_id(ids, pid))
		return NULL;
	if (!ARRAY_ROOM(ids->items, ids->count))
		return probe_error_no_memory();
	ids->items[ids->count++] = pid;
	return NULL;
}

/* Adds ids. That of a thread is replaced by that of its process. */
static struct probe_error *add_processes(struct ids *ids, const pid_t *pids, size_t count)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < count && !error; i++) {
		long process = procfs_status_number(pids[i], "Tgid:");

		error = add_id(ids, process > 0 ? (pid_t)process : pids[i]);
	}
	return error;
}

static bool descends(const struct all *all, pid_t parent, pid_t from)
{
	if (parent == from)
		return true;
	for (size_t i = 0; i < all->count; i++)
		if (all->items[i].pid == parent)
			return all->items[i].descends;
	return false;
}

static struct probe_error *add_descendants(
	struct probe_processes *processes, struct all *all, pid_t from)
{
	struct probe_error *error = NULL;
	bool any = false, more = true;

	for (size_t i = 0; i < all->count; i++)
		all->items[i].descends = false;
	/* Repeat until nothing changes, because a child may come before its parent in the list. */
	while (more && !error) {
		more = false;
		for (size_t i = 0; i < all->count && !error; i++) {
			struct process *process = &all->items[i];

			if (process->descends || !descends(all, process->parent, from))
				continue;
			process->descends = any = more = true;
			if (conditions_hold(processes->conditions, process->pid))
				error = add_id(&processes->found, process->pid);
		}
	}
	if (!error && !any && !processes->later && !has_id(&processes->trees, from))
		return probe_error_new(
			PROBE_ERROR_NOT_FOUND, "process %d has no children", (int)from);
	return error;
}

/* If no process meets some value of a condition, returns an error that names this value. */
static struct probe_error *check_met(const struct probe_processes *processes)
{
	const struct ids *found = &processes->found;
	struct probe_error *error = NULL;
	AUTO(buffer_deinit) struct buffer out = {0};

	if (processes->conditions &&
		conditions_describe_unmet(processes->conditions, found->items, found->count, &out))
		error = probe_error_new(PROBE_ERROR_NOT_FOUND, "no process %s%.*s",
			processes->parents.count ? "below those of --children " : "",
			(int)out.length, out.data);
	return error;
}

/* Moves the processes that were found to those that are left alone. */
static struct probe_error *leave_alone(struct probe_processes *processes)
{
	for (size_t i = 0; i < processes->found.count; i++) {
		pid_t pid = processes->found.items[i];

		if (!ARRAY_ROOM(processes->left_alone, processes->left_count))
			return probe_error_no_memory();
		processes->left_alone[processes->left_count++] =
			(struct left_alone){pid, procfs_start_time(pid)};
	}
	processes->found.count = 0;
	return NULL;
}

/* Another process may get the id of one that is left alone. */
static bool is_left_alone(const struct probe_processes *processes, pid_t pid)
{
	for (size_t i = 0; i < processes->left_count; i++)
		if (processes->left_alone[i].pid == pid)
			return procfs_start_time(pid) == processes->left_alone[i].started;
	return false;
}

struct probe_error *probe_processes_find(
	struct probe_processes *processes, const pid_t **ret, size_t *count_ret, size_t *named_ret)
{
	const struct ids *named = &processes->named, *parents = &processes->parents;
	struct probe_error *error;
	struct all all = {0};

	processes->found.count = 0;
	error = add_processes(&processes->found, named->items, named->count);
	*named_ret = processes->found.count;
	if (!error && (parents->count || (!named->count && processes->conditions)))
		error = read_all(&all);
	for (size_t i = 0; i < all.count && !parents->count && !error; i++)
		if (conditions_hold(processes->conditions, all.items[i].pid))
			error = add_id(&processes->found, all.items[i].pid);
	for (size_t i = 0; i < parents->count && !error; i++)
		error = add_descendants(processes, &all, parents->items[i]);
	free(all.items);
	if (!error && !named->count && !probe_processes_seek(processes))
		error = check_met(processes);
	if (!error && processes->only_later)
		error = leave_alone(processes);
	*ret = processes->found.items;
	*count_ret = processes->found.count;
	return error;
}

/* ---- Processes that come later ---------------------------------------------------- */

bool probe_processes_seek(const struct probe_processes *processes)
{
	return processes->later &&
	       (processes->parents.count || (processes->conditions && !processes->named.count));
}

bool processes_may_come(const struct probe_processes *processes)
{
	const struct ids *parents = &processes->parents;
	bool any = !parents->count;
	struct process process;

	for (size_t i = 0; i < parents->count && !any; i++)
		any = read_process(parents->items[i], &process);
	return probe_processes_seek(processes) && any;
}

/*
 * Returns true if a process of `parents` is an ancestor of the process, or if there are none. If a
 * process between the two has ended, this cannot be found out, and the result is false.
 */
static bool is_below(const struct probe_processes *processes, pid_t pid)
{
	struct process process = {.parent = pid};

	if (!processes->parents.count)
		return true;
	do {
		if (!read_process(process.parent, &process))
			return false;
		if (has_id(&processes->parents, process.parent))
			return true;
	} while (process.parent > 1);
	return false;
}

bool processes_meet(struct probe_processes *processes, pid_t pid)
{
	return conditions_hold(processes->conditions, pid) && !is_left_alone(processes, pid);
}

static bool is_wanted(pid_t pid, bool is_new, void *data)
{
	struct probe_processes *processes = data;

	if (!is_new && has_id(&processes->found, pid))
		return false;
	return is_below(processes, pid) && processes_meet(processes, pid);
}

void processes_newcomers(struct probe_processes *processes, struct probe_newcomers *ret)
{
	*ret = (struct probe_newcomers){.is_wanted = is_wanted,
		.data = processes,
		.files = processes->files,
		.file_count = processes->file_count};
}

/* ---- Processes -------------------------------------------------------------------- */

struct probe_error *probe_processes_create(
	const struct probe_selection *selection, struct probe_processes **ret)
{
	struct probe_processes *processes = calloc(1, sizeof(*processes));
	struct probe_error *error;

	if (!processes)
		return probe_error_no_memory();
	processes->files = selection->conditions[PROBE_CONDITION_EXE].values;
	processes->file_count = selection->conditions[PROBE_CONDITION_EXE].count;
	processes->only_later = selection->only_later;
	processes->later = selection->later || selection->only_later;
	error = add_processes(&processes->named, selection->pids, selection->pid_count)
			?: add_processes(
				   &processes->trees, selection->trees, selection->tree_count);
	if (!error)
		error = add_processes(
			&processes->parents, selection->parents, selection->parent_count);
	for (size_t i = 0; i < processes->trees.count && !error; i++) {
		error = add_id(&processes->named, processes->trees.items[i])
				?: add_id(&processes->parents, processes->trees.items[i]);
	}
	error = error ?: conditions_create(selection, &processes->conditions);
	if (!error && processes->only_later &&
		(processes->named.count || !probe_processes_seek(processes)))
		error = probe_error_new(PROBE_ERROR_USAGE,
			"only processes that come later are meant: name a program, a user and the "
			"like, or parents, but no process that runs");
	if (error)
		probe_processes_free(processes);
	else
		*ret = processes;
	return error;
}

void probe_processes_free(struct probe_processes *processes)
{
	if (!processes)
		return;
	conditions_free(processes->conditions);
	free(processes->named.items);
	free(processes->parents.items);
	free(processes->trees.items);
	free(processes->found.items);
	free(processes->left_alone);
	free(processes);
}

struct probe_error *probe_processes_open(
	struct probe_processes *processes, pid_t pid, struct probe_target **ret)
{
	struct probe_target *target;
	struct probe_error *error = probe_target_open(pid, NULL, &target);

	if (error)
		return error;
	/* Check the conditions again, because another process may have this process id now. */
	error = conditions_check(processes->conditions, pid);
	if (error && !probe_target_alive(target)) {
		probe_error_free(error);
		error = probe_error_new(PROBE_ERROR_NOT_FOUND, "there is no process %d", (int)pid);
	}
	if (error)
		probe_target_close(target);
	else
		*ret = target;
	return error;
}

char *probe_processes_describe(const struct probe_processes *processes)
{
	struct buffer out = {0};

	if (processes->conditions)
		conditions_describe(processes->conditions, &out);
	else
		buffer_string(&out, "comes");
	return buffer_take(&out, NULL);
}
