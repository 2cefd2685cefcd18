/* SPDX-License-Identifier: MIT */
/*
 * The processes that a command works on: those of -p, --tree and --children, or all processes;
 * from these, the processes that meet the conditions (cli/conditions.h). Or a program to start.
 */
#ifndef CLI_PROCESSES_H
#define CLI_PROCESSES_H

#include "cli/options.h"
#include "probe/target.h"
#include "probe/watch.h"

/* clang-format off */
#define OPTIONS_PROCESSES(common)                                                                  \
	OPTION(0, "tree", PIDS, NULL, &(common)->trees,                                            \
		"use these processes and all their descendants; where there is --follow, also "    \
		"those that come"),                                                                \
	OPTION(0, "children", PIDS, NULL, &(common)->parents,                                      \
		"use all descendants of these processes"),                                         \
	OPTION(0, "exe", STRINGS, "FILE", &(common)->conditions[CONDITION_EXE],                    \
		"use only processes that run this program; without -p or --children: all of them, " \
		"as with the next four"),                                                          \
	OPTION(0, "name", STRINGS, "NAME", &(common)->conditions[CONDITION_NAME],                  \
		"only those with this command name or program file"),                              \
	OPTION(0, "user", STRINGS, "NAME|UID", &(common)->conditions[CONDITION_USER],              \
		"only those of this user"),                                                        \
	OPTION(0, "cgroup", STRINGS, "PATH", &(common)->conditions[CONDITION_CGROUP],              \
		"only those in this control group, or below it"),                                  \
	OPTION(0, "container", STRINGS, "ID|NAME", &(common)->conditions[CONDITION_CONTAINER],     \
		"only those in this container")

#define SYNOPSIS_RUNNING "-p PID[,PID...] | --tree PID | --exe FILE | --name NAME"
#define SYNOPSIS_PROCESSES "(" SYNOPSIS_RUNNING " | -- PROGRAM [ARGS...])"

#define OPTIONS_FOLLOW(common)                                                                     \
	OPTION(0, "follow", FLAG, NULL, &(common)->follow,                                         \
		"also probe libraries opened later, forked children, and programs that they "      \
		"start; with --exe, --name ... alone: all such processes that come later"),                                                                          \
	OPTION(0, "no-follow", FLAG, NULL, &(common)->no_follow,                                   \
		"with a PROGRAM: probe only it and the libraries that it starts with")
/* clang-format on */

/* Whether the command line names a process in any way. */
bool processes_given(const struct common_options *common);

/*
 * Checks that the command line names processes in one way only, without contradiction. Errors:
 * PROBE_ERROR_USAGE.
 */
PROBE_MUST_CHECK struct probe_error *processes_check(const struct common_options *common);

/*
 * As processes_check(), for a command that starts no program. Also finds the processes, see
 * processes_find().
 */
PROBE_MUST_CHECK struct probe_error *processes_find_running(struct common_options *common);

/*
 * Drops the error for common->pids[index] and returns NULL if this process was not given by its
 * id and has ended since. Otherwise returns `error`.
 */
struct probe_error *processes_unless_ended(
	const struct common_options *common, size_t index, struct probe_error *error);

/*
 * Opens a process and checks that it meets the conditions. If a later change of the process has
 * to wait for another controller, prints a warning.
 */
PROBE_MUST_CHECK struct probe_error *processes_open(
	const struct common_options *common, pid_t pid, struct probe_target **ret);

/*
 * Call it before probe_sessions_stop(). If the process is frozen, prints a warning that the
 * command waits, and that a signal ends the wait.
 */
void processes_tell_frozen(const struct probe_target *target);

/* One change for each of several processes, which are numbered from 0. */
struct turn {
	pid_t (*pid)(void *data, size_t index);
	/* `patience` is for probe_target_set_patience(); NULL on lack of memory. */
	struct probe_error *(*change)(void *data, size_t index, struct probe_patience *patience);
	/* Called once for each process. Takes ownership of the error, which may be NULL. */
	void (*end)(void *data, size_t index, struct probe_error *error);
	void *data;
};

/*
 * Changes `count` processes. The users who own them share the time, and a process with many
 * threads comes after smaller ones. Locked processes are retried, all together, after the rest.
 */
void processes_take_turns(size_t count, const struct turn *turn);

/* Whether the command follows the processes: libraries, children and programs that come later. */
bool processes_follow(const struct common_options *common);

/*
 * Whether the command must look for processes that start later: with --follow and --tree,
 * --children or conditions, unless -p names all processes. Call it after processes_find().
 */
bool processes_seek(const struct common_options *common);
/*
 * Whether further processes can still start. False if all processes of --tree and --children
 * have ended.
 */
bool processes_may_come(const struct common_options *common);
/* Makes a watch find processes that start later. `common` must outlive the watch. */
PROBE_MUST_CHECK struct probe_error *processes_seek_later(
	const struct common_options *common, struct probe_watch *watch);
/* Whether a process meets the conditions after it has executed another program. */
bool processes_mean(const struct common_options *common, pid_t pid);
/* Prints what the command waits for: "waiting for each process that runs /bin/a". */
void processes_report_waiting(const struct common_options *common);

/*
 * Raises the limit of open files to its maximum: each traced process takes several descriptors.
 * A program that was started before keeps the old limit.
 */
void processes_allow_descriptors(void);

/*
 * Adds the selected processes to common->pids, after those of -p, whose number is stored in
 * common->pids_given. Leaves out this process and zombies. The id of a thread selects its
 * process.
 *
 * Errors: those of conditions_create(), and PROBE_ERROR_NOT_FOUND (--children names a process
 * without children, or no process meets a condition; neither is an error if later processes are
 * also selected).
 */
PROBE_MUST_CHECK struct probe_error *processes_find(struct common_options *common);

/*
 * A mistake on the command line, such as a PROBE or an argument that does not exist, is
 * reported only once, even if it is found in many processes. The same applies to missing
 * permissions. Initialise with {0}; always call mistake_end().
 */
struct mistake {
	struct probe_error *error;
	pid_t pid; /* the process where the mistake was found first */
	size_t count;
	struct pid_list also; /* the further processes with this mistake */
	size_t untold;	      /* number of processes not in `also`, on lack of memory */
};

/*
 * Takes the error of a process if it is the first mistake, or the same again. Returns whether
 * it did.
 */
bool mistake_take(struct mistake *mistake, pid_t pid, struct probe_error *error);
/*
 * Returns the mistake, or NULL. The message names all processes with the mistake, unless the
 * command line is wrong and all `count` processes have it.
 */
struct probe_error *mistake_end(
	struct mistake *mistake, const struct common_options *common, size_t count);

/* Processes that were found by a condition but cannot be used. Initialise with {0}. */
struct left_out {
	struct mistake forbidden, lacking;
};

/*
 * Takes the error of a process that cannot be used. Prints a warning unless the error is a
 * missing permission or a missing probe.
 */
void left_out_add(struct left_out *left, pid_t pid, struct probe_error *error);
/* Prints a one-line warning about processes with missing permissions. */
void left_out_report(struct left_out *left, const struct common_options *common);
/*
 * Returns the error for the missing probe if this is the only mistake, or NULL. For use when no
 * process is left.
 */
struct probe_error *left_out_lacking(struct left_out *left, const struct common_options *common);
void left_out_deinit(struct left_out *left, const struct common_options *common);

/* Adds the process id to an error if there are several processes. `error` may be NULL. */
struct probe_error *processes_error(
	const struct common_options *common, pid_t pid, struct probe_error *error);

/*
 * The start of a message about a process that is not traced: "" if the process has ended,
 * because its error already says so.
 */
const char *processes_untraced(const struct probe_error *error);

#endif
