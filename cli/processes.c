/* SPDX-License-Identifier: MIT */
/* Source: proc_pid_stat(5). One look at all of /proc, so that a tree is seen whole. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/processes.h"
#include "libprobe/base/array.h"
#include "libprobe/base/file.h"

enum { COMM_LENGTH = 15 /* of TASK_COMM_LEN, without its NUL */ };

struct process {
	pid_t pid, parent;
	char comm[COMM_LENGTH + 1];
	bool descends;
};

struct processes {
	struct process *items;
	size_t count;
};

/* Takes one stat line apart; false for what is no process that runs. */
static bool parse_stat(char *text, struct process *ret)
{
	char *comm = strchr(text, '('), *end = strrchr(text, ')');
	int parent;
	char state;

	/* The name may hold anything, parentheses included. */
	if (!comm || !end || end < comm || sscanf(end + 1, " %c %d", &state, &parent) != 2)
		return false;
	*end = '\0';
	*ret = (struct process){.pid = (pid_t)strtol(text, NULL, 10), .parent = parent};
	snprintf(ret->comm, sizeof(ret->comm), "%s", comm + 1);
	return state != 'Z' && state != 'X' && ret->pid != getpid();
}

static bool read_process(const char *name, struct process *ret)
{
	char path[64], text[512];

	snprintf(path, sizeof(path), "/proc/%.20s/stat", name);
	return file_read(path, text, sizeof(text)) && parse_stat(text, ret);
}

static struct probe_error *processes_read(struct processes *ret)
{
	DIR *dir = opendir("/proc");
	struct probe_error *error = NULL;
	struct dirent *entry;

	*ret = (struct processes){0};
	while (dir && !error && (entry = readdir(dir))) {
		struct process process;

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
			!read_process(entry->d_name, &process))
			continue;
		if (ARRAY_ROOM(ret->items, ret->count))
			ret->items[ret->count++] = process;
		else
			error = probe_error_no_memory();
	}
	if (dir)
		closedir(dir);
	return error;
}

/* ---- Which are meant ------------------------------------------------------------ */

static bool has_program(pid_t pid, const char *name)
{
	static const char deleted[] = " (deleted)";
	char path[64], program[4096], *base;
	size_t length;
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	got = readlink(path, program, sizeof(program) - 1);
	if (got <= 0)
		return false;
	program[got] = '\0';
	length = strlen(deleted);
	if ((size_t)got > length && strcmp(program + got - length, deleted) == 0)
		program[got - (ssize_t)length] = '\0';
	base = strrchr(program, '/');
	return base && strcmp(base + 1, name) == 0;
}

static bool is_called(const struct process *process, const char *name)
{
	char comm[COMM_LENGTH + 1];

	snprintf(comm, sizeof(comm), "%s", name);
	return strcmp(process->comm, comm) == 0 || has_program(process->pid, name);
}

static struct probe_error *add_named(
	struct common_options *common, const struct processes *all, const char *name)
{
	struct probe_error *error = NULL;
	bool any = false;

	for (size_t i = 0; i < all->count && !error; i++) {
		if (!is_called(&all->items[i], name))
			continue;
		any = true;
		error = options_add_pid(&common->pids, all->items[i].pid);
	}
	if (!error && !any)
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "no process is called '%s'", name);
	return error;
}

static bool descends(const struct processes *all, pid_t parent, pid_t from)
{
	if (parent == from)
		return true;
	for (size_t i = 0; i < all->count; i++)
		if (all->items[i].pid == parent)
			return all->items[i].descends;
	return false;
}

static struct probe_error *add_descendants(
	struct common_options *common, struct processes *all, pid_t from)
{
	struct probe_error *error = NULL;
	bool any = false, more = true;

	for (size_t i = 0; i < all->count; i++)
		all->items[i].descends = false;
	/* A child may come before its parent. */
	while (more && !error) {
		more = false;
		for (size_t i = 0; i < all->count && !error; i++) {
			struct process *process = &all->items[i];

			if (process->descends || !descends(all, process->parent, from))
				continue;
			process->descends = any = more = true;
			error = options_add_pid(&common->pids, process->pid);
		}
	}
	if (!error && !any)
		return probe_error_new(
			PROBE_ERROR_NOT_FOUND, "process %d has no children", (int)from);
	return error;
}

bool processes_given(const struct common_options *common)
{
	return common->pids.count || common->names.count || common->parents.count;
}

struct probe_error *processes_check(const struct common_options *common)
{
	bool given = processes_given(common);

	if (common->follow && common->no_follow)
		return probe_error_new(
			PROBE_ERROR_USAGE, "--follow and --no-follow exclude each other");
	if (common->program && given)
		return probe_error_new(PROBE_ERROR_USAGE,
			"%s: give either processes (-p, --name, --children) or -- PROGRAM, not "
			"both",
			common->command);
	if (!given && common->program && !common->program[0])
		return probe_error_new(PROBE_ERROR_USAGE,
			"%s: no program given; put it after --, as in `%s PROBE -- ls -l`",
			common->command, common->command);
	if (!given && !common->program)
		return probe_error_new(PROBE_ERROR_USAGE,
			"%s: no process given; use -p PID, --name NAME or --children PID, or -- "
			"PROGRAM to start one",
			common->command);
	return NULL;
}

bool processes_follow(const struct common_options *common)
{
	return common->follow || (common->program && !common->no_follow);
}

void processes_allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

struct probe_error *processes_find(struct common_options *common)
{
	struct probe_error *error;
	struct processes all;

	common->pids_given = common->pids.count;
	if (!common->names.count && !common->parents.count)
		return NULL;
	error = processes_read(&all);
	for (size_t i = 0; i < common->names.count && !error; i++)
		error = add_named(common, &all, common->names.items[i]);
	for (size_t i = 0; i < common->parents.count && !error; i++)
		error = add_descendants(common, &all, common->parents.items[i]);
	free(all.items);
	return error;
}

struct probe_error *processes_error(
	const struct common_options *common, pid_t pid, struct probe_error *error)
{
	char name[32];
	int length = snprintf(name, sizeof(name), "process %d", (int)pid);
	const char *said = error ? strstr(error->message, name) : NULL;

	/* Many errors say it themselves. */
	if (common->pids.count < 2 || (said && (said[length] < '0' || said[length] > '9')))
		return error;
	return probe_error_prefix(error, "%s", name);
}

bool mistake_take(struct mistake *mistake, pid_t pid, struct probe_error *error)
{
	if (error->code != PROBE_ERROR_USAGE)
		return false;
	if (mistake->error && strcmp(mistake->error->message, error->message) != 0)
		return false;
	if (mistake->error) {
		probe_error_free(error);
	} else {
		mistake->error = error;
		mistake->pid = pid;
	}
	mistake->count++;
	return true;
}

struct probe_error *mistake_end(
	struct mistake *mistake, const struct common_options *common, size_t count)
{
	return mistake->count == count ? mistake->error
				       : processes_error(common, mistake->pid, mistake->error);
}
