/* SPDX-License-Identifier: MIT */
/*
 * The processes that a command works on. They are those of -p, --tree and --children, or all
 * processes. If there are conditions, only processes that meet them are used (probe/processes.h).
 * Some commands can start a program instead.
 */
#pragma once

#include "cli/options.h"
#include "probe/target.h"

/* clang-format off */
#define OPTIONS_PROCESSES(common)                                                                  \
	OPTION(0, "tree", PIDS, NULL, &(common)->trees,                                            \
		"use these processes and all their descendants; where there is --follow, also "    \
		"those that come"),                                                                \
	OPTION(0, "children", PIDS, NULL, &(common)->parents,                                      \
		"use all descendants of these processes"),                                         \
	OPTION(0, "exe", STRINGS, "FILE", &(common)->conditions[PROBE_CONDITION_EXE],                    \
		"use only processes that run this program; without -p or --children: all of them, " \
		"as with the next four"),                                                          \
	OPTION(0, "name", STRINGS, "NAME", &(common)->conditions[PROBE_CONDITION_NAME],                  \
		"only those with this command name or program file"),                              \
	OPTION(0, "user", STRINGS, "NAME|UID", &(common)->conditions[PROBE_CONDITION_USER],              \
		"only those of this user"),                                                        \
	OPTION(0, "cgroup", STRINGS, "PATH", &(common)->conditions[PROBE_CONDITION_CGROUP],              \
		"only those in this control group, or below it"),                                  \
	OPTION(0, "container", STRINGS, "ID|NAME", &(common)->conditions[PROBE_CONDITION_CONTAINER],     \
		"only those in this container")

#define SYNOPSIS_RUNNING "-p PID[,PID...] | --tree PID | --exe FILE | --name NAME"
#define SYNOPSIS_PROCESSES "(" SYNOPSIS_RUNNING " | -- PROGRAM [ARGS...])"

#define OPTIONS_FOLLOW(common)                                                                     \
	OPTION(0, "follow", FLAG, NULL, &(common)->follow,                                         \
		"also probe libraries opened later, forked children, and programs that they "      \
		"start; with --exe, --name ... alone: all such processes that come later"),                                                                          \
	OPTION(0, "new", FLAG, NULL, &(common)->only_later,                                        \
		"with --exe, --name ... or --children: only processes that come later"),           \
	OPTION(0, "no-follow", FLAG, NULL, &(common)->no_follow,                                   \
		"with a PROGRAM: probe only it and the libraries that it starts with")
/* clang-format on */

/* Returns true if the command line has any option that selects processes. */
bool processes_given(const struct common_options *common);

/* Returns PROBE_ERROR_USAGE if options that select processes contradict each other. */
PROBE_MUST_CHECK struct probe_error *processes_check(const struct common_options *common);

/* As processes_check() and then processes_find(), for a command that starts no program. */
PROBE_MUST_CHECK struct probe_error *processes_find_running(struct common_options *common);

/*
 * If the process common->pids[index] has ended since it was found, and was not named with -p, frees
 * the error and returns NULL. Otherwise returns `error`.
 */
struct probe_error *processes_unless_ended(
	const struct common_options *common, size_t index, struct probe_error *error);

/*
 * Opens a process and checks that it meets the conditions. Later changes print a warning if they
 * must wait for another controller.
 */
PROBE_MUST_CHECK struct probe_error *processes_open(
	const struct common_options *common, pid_t pid, struct probe_target **ret);

/* Warns that a process is frozen, and that a signal ends the wait. For probe_sessions_stop(). */
void processes_tell_frozen(const struct probe_target *target);

/* Returns true if the command follows libraries, children and executed programs. */
bool processes_follow(const struct common_options *common);

/* Prints what the command is waiting for: "waiting for each process that runs /bin/a". */
void processes_report_waiting(const struct common_options *common);

/*
 * Raises our limit of open files, because each traced process needs several. Programs that were
 * started before have the old limit.
 */
void processes_allow_descriptors(void);

/*
 * Finds the selected processes and appends them to common->pids, after those of -p. Stores the
 * number of those of -p in common->pids_given. Leaves out our own process and zombies. If an id is
 * that of a thread, selects the thread's process.
 *
 * Errors: those of probe_processes_create(), and PROBE_ERROR_NOT_FOUND if --children names a
 * process without children, or if no process meets a condition. If processes that start later are
 * also selected, there is no PROBE_ERROR_NOT_FOUND.
 */
PROBE_MUST_CHECK struct probe_error *processes_find(struct common_options *common);

/*
 * An error that many processes may have, such as an unknown PROBE or a missing permission, and that
 * is reported only once. Initialise with {0}, and always call mistake_end().
 */
struct mistake {
	struct probe_error *error;
	pid_t pid; /* the first process with the mistake */
	size_t count;
	struct pid_list also; /* the other processes with the same mistake */
	/* Number of processes that are missing in `also`, because memory was short. */
	size_t untold;
};

/* Takes ownership of the error, and returns true, if it is the first mistake or the same again. */
bool mistake_take(struct mistake *mistake, pid_t pid, struct probe_error *error);
/*
 * Returns the mistake as an error, or NULL. The message names the processes, unless all `count`
 * have it because the command line is wrong.
 */
struct probe_error *mistake_end(
	struct mistake *mistake, const struct common_options *common, size_t count);

/* Processes that were found by a condition and cannot be used. Initialise with {0}. */
struct left_out {
	struct mistake forbidden, lacking;
};

/*
 * Handles the error of a process that cannot be used, and takes ownership of it. Warns, unless a
 * permission or a probe is missing: these are only noted.
 */
void left_out_add(struct left_out *left, pid_t pid, struct probe_error *error);
/* If permissions are missing for some processes, prints one line with a warning about them. */
void left_out_report(struct left_out *left, const struct common_options *common);
/* Returns the error after all processes were left out: about a missing probe, if any. */
PROBE_MUST_CHECK struct probe_error *left_out_error(
	struct left_out *left, const struct common_options *common);
void left_out_deinit(struct left_out *left, const struct common_options *common);

/* Adds the process id to an error, which may be NULL, if there are several processes. */
struct probe_error *processes_error(
	const struct common_options *common, pid_t pid, struct probe_error *error);

/* Returns the start of a message that a process is not traced, or "" if it has ended. */
const char *processes_untraced(const struct probe_error *error);

/* ---- The program that `run`, `trace -- PROGRAM` and other commands start ---------------- */

/*
 * Starts a program and holds it before its first instruction. If it does not exist or cannot be
 * executed, sets *status_ret to the exit status that a shell would return.
 */
PROBE_MUST_CHECK struct probe_error *child_start(
	char *const argv[], struct probe_target **ret, int *status_ret);

/* Returns the exit status of probectl after a program could not be started. */
int child_spawn_status(const struct probe_error *error);

/*
 * If a signal has killed the held program, on which an operation has failed with `error`, returns
 * an error that says so, and sets *status_ret. Otherwise returns `error`.
 */
PROBE_MUST_CHECK struct probe_error *child_error(
	struct probe_error *error, const struct probe_target *target, int *status_ret);

/* Returns true if the program has ended. Sets *ret to its exit status as a shell would show it. */
bool child_ended(pid_t pid, int *ret);
