/* SPDX-License-Identifier: MIT */
/* The processes of a command, the errors that they have in common, and the program that it starts.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/processes.h"
#include "libprobe/base/buffer.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/error.h"
#include "libprobe/base/procfs.h"

/* ==== Processes =============================================================================== */

enum { QUIET_SECONDS = 2 /* if we wait longer than this for another controller, we report it */ };

bool processes_given(const struct common_options *common)
{
	size_t given = common->pids.count + common->parents.count + common->trees.count;

	for (int kind = 0; kind < PROBE_CONDITION_COUNT; kind++)
		given += common->conditions[kind].count;
	return given > 0;
}

struct probe_error *processes_check(const struct common_options *common)
{
	bool given = processes_given(common);

	if (common->follow && common->no_follow)
		return usage_error("--follow and --no-follow exclude each other");
	if (common->only_later && (common->no_follow || common->program || common->pids.count ||
					  common->trees.count || !given))
		return usage_error(
			"--new is for processes that come later: use it with --exe, --name, "
			"--user, "
			"--cgroup, --container or --children, without -p, --tree, --no-follow and "
			"a PROGRAM");
	if (common->program && given)
		return usage_error(
			"%s: give either processes (-p, --tree, --exe, --name ...) or -- "
			"PROGRAM, not both",
			common->command);
	if (!given && common->program && !common->program[0])
		return usage_error(
			"%s: no program given; put it after --, as in `%s PROBE -- ls -l`",
			common->command, common->command);
	if (!given && !common->program)
		return usage_error(
			"%s: no process given; use -p PID, --tree PID, --exe FILE or --name NAME, "
			"or -- PROGRAM to start one",
			common->command);
	return NULL;
}

/*
 * Returns true if we should wait on for a locked process. Ctrl-C, even if blocked, ends the wait.
 */
static bool go_on_waiting(pid_t pid, unsigned int seconds, const char *holder, void *unused)
{
	sigset_t pending;

	(void)unused;
	if (seconds == QUIET_SECONDS)
		report_warning(
			"process %d: %s has locked its probes: waiting for it", (int)pid, holder);
	return sigpending(&pending) < 0 ||
	       !(sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM));
}

struct probe_error *processes_open(
	const struct common_options *common, pid_t pid, struct probe_target **ret)
{
	struct probe_error *error = probe_processes_open(common->meant, pid, ret);

	if (!error)
		probe_target_on_wait(*ret, go_on_waiting, NULL);
	return error;
}

void processes_tell_frozen(const struct probe_target *target)
{
	if (probe_target_frozen(target))
		report_warning(
			"process %d is frozen: waiting up to 8 s for it to be thawed, "
			"because its probes cannot be switched off before; Ctrl-C ends the wait",
			(int)probe_target_pid(target));
}

bool processes_follow(const struct common_options *common)
{
	return common->follow || (common->program && !common->no_follow);
}

void processes_report_waiting(const struct common_options *common)
{
	AUTO_FREE char *text = probe_processes_describe(common->meant);

	fprintf(stderr, "probectl: waiting for each process that %s; Ctrl-C ends\n",
		text ? text : "comes");
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
	struct probe_selection selection = {.pids = common->pids.items,
		.pid_count = common->pids.count,
		.trees = common->trees.items,
		.tree_count = common->trees.count,
		.parents = common->parents.items,
		.parent_count = common->parents.count};
	struct probe_error *error;
	const pid_t *found;
	size_t count;

	common->follow |= (common->trees.count && !common->no_follow) || common->only_later;
	selection.later = common->follow;
	selection.only_later = common->only_later;
	for (int kind = 0; kind < PROBE_CONDITION_COUNT; kind++) {
		selection.conditions[kind].values = common->conditions[kind].items;
		selection.conditions[kind].count = common->conditions[kind].count;
	}
	error = probe_processes_create(&selection, &common->meant)
			?: probe_processes_find(common->meant, &found, &count, &common->pids_given);
	common->pids.count = 0;
	for (size_t i = 0; !error && i < count; i++)
		error = options_add_pid(&common->pids, found[i]);
	return error;
}

struct probe_error *processes_find_running(struct common_options *common)
{
	if (!processes_given(common))
		return usage_error(
			"%s: no process given; use -p PID, --tree PID, --exe FILE or --name NAME",
			common->command);
	return processes_find(common);
}

/* EPERM: the process of another user runs. */
static bool has_ended(pid_t pid)
{
	return (kill(pid, 0) < 0 && errno == ESRCH) || procfs_is_zombie(pid);
}

struct probe_error *processes_unless_ended(
	const struct common_options *common, size_t index, struct probe_error *error)
{
	if (!error || index < common->pids_given || !has_ended(common->pids.items[index]))
		return error;
	probe_error_free(error);
	return NULL;
}

struct probe_error *processes_error(
	const struct common_options *common, pid_t pid, struct probe_error *error)
{
	char name[32];
	int length = snprintf(name, sizeof(name), "process %d", (int)pid);
	const char *said = error ? strstr(error->message, name) : NULL;

	/* Do not add the process id if the message has it already, as many messages do. */
	if (common->pids.count < 2 || (said && (said[length] < '0' || said[length] > '9')))
		return error;
	return probe_error_prefix(error, "%s", name);
}

/* ---- Mistakes --------------------------------------------------------------------- */

enum { ALSO_MAX = 20 }; /* maximum number of processes that a message lists */

/* Returns a copy of a message without the process id. The caller frees the copy. */
static char *without_pid(const char *message, pid_t pid)
{
	char id[16], *text = strdup(message);
	size_t length = (size_t)snprintf(id, sizeof(id), "%d", (int)pid);

	if (!text)
		return NULL;
	for (char *at = strstr(text, id); at; at = strstr(at, id)) {
		bool inside = at > text && at[-1] >= '0' && at[-1] <= '9';

		if (inside || (at[length] >= '0' && at[length] <= '9')) {
			at += length;
			continue;
		}
		*at = '#';
		memmove(at + 1, at + length, strlen(at + length) + 1);
	}
	return text;
}

bool mistake_take(struct mistake *mistake, pid_t pid, struct probe_error *error)
{
	struct probe_error *no_memory;
	char *first, *text;
	bool same;

	if (error->code != PROBE_ERROR_USAGE && error->code != PROBE_ERROR_NOT_FOUND &&
		error->code != PROBE_ERROR_PERMISSION)
		return false;
	if (!mistake->error) {
		mistake->error = error;
		mistake->pid = pid;
		mistake->count++;
		return true;
	}
	first = without_pid(mistake->error->message, mistake->pid);
	text = without_pid(error->message, pid);
	same = first && text && strcmp(first, text) == 0;
	free(first);
	free(text);
	if (!same)
		return false;
	mistake->count++;
	no_memory = pid == mistake->pid ? NULL : options_add_pid(&mistake->also, pid);
	mistake->untold += no_memory != NULL;
	probe_error_free(no_memory);
	probe_error_free(error);
	return true;
}

/* Appends the other processes with the mistake: "; the same for 12, 34 and 5 more". */
static struct probe_error *name_all(const struct mistake *mistake)
{
	size_t shown = mistake->also.count < ALSO_MAX ? mistake->also.count : ALSO_MAX;
	size_t more = mistake->also.count - shown + mistake->untold;
	struct probe_error *error;
	AUTO(buffer_deinit) struct buffer out = {0};

	for (size_t i = 0; i < shown; i++)
		buffer_print(&out, "%s%d", i ? ", " : "", (int)mistake->also.items[i]);
	if (more)
		buffer_print(&out, " and %zu more", more);
	error = probe_error_new(mistake->error->code, "%s; the same for %.*s",
		mistake->error->message, (int)out.length, out.data);
	probe_error_free(mistake->error);
	return error;
}

struct probe_error *mistake_end(
	struct mistake *mistake, const struct common_options *common, size_t count)
{
	struct probe_error *error = mistake->error;
	bool several = mistake->also.count + mistake->untold > 0, whole = mistake->count == count;

	/* If the command line is wrong for all processes, the message need not name any process. */
	if (error && !(whole && error->code == PROBE_ERROR_USAGE)) {
		mistake->error = error = processes_error(common, mistake->pid, error);
		error = several ? name_all(mistake) : error;
	}
	free(mistake->also.items);
	*mistake = (struct mistake){0};
	return error;
}

/* ---- Processes that are left out --------------------------------------------------------- */

void left_out_add(struct left_out *left, pid_t pid, struct probe_error *error)
{
	/* EIO: a file of the process was unreadable, and may have the probes. */
	bool lacks = error->code == PROBE_ERROR_NOT_FOUND && error->err != EIO;

	/* It is no error if a process that was found by a condition has ended since. */
	if (has_ended(pid)) {
		probe_error_free(error);
		return;
	}
	if (mistake_take(lacks ? &left->lacking : &left->forbidden, pid, error))
		return;
	if (!lacks)
		report_warning("%s", error->message);
	probe_error_free(error);
}

void left_out_report(struct left_out *left, const struct common_options *common)
{
	struct probe_error *error = mistake_end(&left->forbidden, common, 0);

	if (error)
		report_warning("%s", error->message);
	probe_error_free(error);
}

struct probe_error *left_out_error(struct left_out *left, const struct common_options *common)
{
	struct probe_error *error = mistake_end(&left->lacking, common, 0);

	return error
		       ?: probe_error_new(PROBE_ERROR_NOT_FOUND,
				  "none of the %zu processes can be traced", common->pids.count);
}

void left_out_deinit(struct left_out *left, const struct common_options *common)
{
	probe_error_free(mistake_end(&left->forbidden, common, 0));
	probe_error_free(mistake_end(&left->lacking, common, 0));
}

const char *processes_untraced(const struct probe_error *error)
{
	return error->code == PROBE_ERROR_ENDED ? "" : "a program that was started is not traced: ";
}

/* ==== Child =================================================================================== */

enum { KILLED_LOOKS = 5, ENDING_LOOKS = 1000, LOOK_NS = 1000000 };

struct probe_error *child_start(char *const argv[], struct probe_target **ret, int *status_ret)
{
	struct probe_error *error = probe_target_spawn(argv, ret);

	if (error)
		*status_ret = child_spawn_status(error);
	return error;
}

static int status_of(int wait_status)
{
	return WIFSIGNALED(wait_status) ? STATUS_SIGNAL + WTERMSIG(wait_status)
					: WEXITSTATUS(wait_status);
}

int child_spawn_status(const struct probe_error *error)
{
	if (error->code == PROBE_ERROR_ENDED)
		return status_of(error->err);
	switch (error->code == PROBE_ERROR_SYSTEM ? error->err : 0) {
	case ENOENT:
	case ENOTDIR:
		return STATUS_NO_PROGRAM;
	case EACCES:
	case ENOEXEC:
	case EPERM:
	case EISDIR:
	case ELOOP:
	case ETXTBSY:
	case ELIBBAD:
		return STATUS_CANNOT_RUN;
	default:
		return STATUS_FAILED;
	}
}

struct probe_error *child_error(
	struct probe_error *error, const struct probe_target *target, int *status_ret)
{
	struct probe_fate fate;
	int looks;

	if (!error)
		return NULL;
	/* A killed process takes a moment to become a zombie. Its memory is gone before. */
	looks = error->code == PROBE_ERROR_NOT_FOUND || error->code == PROBE_ERROR_STATE
			? KILLED_LOOKS
			: 0;
	probe_target_fate(target, -1, &fate);
	for (int i = 0; !fate.signal && i < looks; i++) {
		if (!probe_target_alive(target))
			looks = ENDING_LOOKS;
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
		probe_target_fate(target, -1, &fate);
	}
	if (!fate.signal)
		return error;
	probe_error_free(error);
	error = error_numbered(PROBE_ERROR_ENDED, fate.signal,
		"process %d was killed by SIG%s before its probes were on",
		(int)probe_target_pid(target), sigabbrev_np(fate.signal));
	*status_ret = child_spawn_status(error);
	return error;
}

bool child_ended(pid_t pid, int *ret)
{
	int wait_status;
	pid_t got;

	do {
		got = waitpid(pid, &wait_status, WNOHANG);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		/* Another part of our program has already waited for the child. */
		*ret = STATUS_FAILED;
	else if (got && (WIFEXITED(wait_status) || WIFSIGNALED(wait_status)))
		*ret = status_of(wait_status);
	else
		return false;
	return true;
}
