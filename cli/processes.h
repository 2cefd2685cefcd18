/* SPDX-License-Identifier: MIT */
/*
 * Which processes a command is about: those of -p, --tree and --children, or else all; of these,
 * the ones that meet the conditions (cli/conditions.h). Or a program to start.
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

/* Is any process named, in whatever way? */
bool processes_given(const struct common_options *common);

/*
 * Is there one way in which processes are meant, and no contradiction? Errors:
 * PROBE_ERROR_USAGE.
 */
PROBE_MUST_CHECK struct probe_error *processes_check(const struct common_options *common);

/* The same for a command that starts no program; finds the processes, see processes_find(). */
PROBE_MUST_CHECK struct probe_error *processes_find_running(struct common_options *common);

/*
 * Takes the error for common->pids[index] away if the process was not given by its id, and has
 * ended since.
 */
struct probe_error *processes_unless_ended(
	const struct common_options *common, size_t index, struct probe_error *error);

/*
 * Opens a process, which has to meet the conditions. If a change of the process later waits for
 * another process, a warning says so.
 */
PROBE_MUST_CHECK struct probe_error *processes_open(
	const struct common_options *common, pid_t pid, struct probe_target **ret);

/*
 * Called before probe_sessions_stop(). If the process is frozen, warns that the command waits, and
 * that a signal ends the wait.
 */
void processes_tell_frozen(const struct probe_target *target);

/* One change each of several processes, which are numbered from 0. */
struct turn {
	pid_t (*pid)(void *data, size_t index);
	/* `patience` is for probe_target_set_patience(); NULL if there was no memory for it. */
	struct probe_error *(*change)(void *data, size_t index, struct probe_patience *patience);
	/* Called once for each process. It owns the error, which may be NULL. */
	void (*end)(void *data, size_t index, struct probe_error *error);
	void *data;
};

/*
 * Changes `count` processes. Users share the time, and a process with many threads comes after
 * smaller ones. Locked processes are tried again, all together, after the rest have been changed.
 */
void processes_take_turns(size_t count, const struct turn *turn);

/* Is what happens to them later to be followed? */
bool processes_follow(const struct common_options *common);

/*
 * Must the command look for processes that begin later? With --follow and --tree, --children or
 * conditions, unless -p names all processes. Call it after processes_find().
 */
bool processes_seek(const struct common_options *common);
/* Can any still come? Not if all those of --tree and --children have ended. */
bool processes_may_come(const struct common_options *common);
/* Lets a watch find the later ones. `common` outlives it. */
PROBE_MUST_CHECK struct probe_error *processes_seek_later(
	const struct common_options *common, struct probe_watch *watch);
/* Does a program that a process has become meet the conditions? */
bool processes_mean(const struct common_options *common, pid_t pid);
/* Says on standard error for what it waits: "waiting for each process that runs /bin/a". */
void processes_report_waiting(const struct common_options *common);

/*
 * Each process that is traced takes several descriptors: as many as we may have. A
 * program that was started before keeps the limit that we had.
 */
void processes_allow_descriptors(void);

/*
 * Adds the processes that are meant to common->pids, after those of -p, whose number is then in
 * common->pids_given. Leaves out this process and zombies. The id of a thread means its process.
 *
 * Errors: those of conditions_create(); PROBE_ERROR_NOT_FOUND (--children
 * names a process without children, or a condition means no process; neither is an error if later
 * processes are meant, too).
 */
PROBE_MUST_CHECK struct probe_error *processes_find(struct common_options *common);

/*
 * A mistake on the command line is reported once, even if it is found in many processes: a PROBE
 * that none of them has, or an argument that it lacks; so is what forbids access to them.
 * Initialise with {0}; always call mistake_end().
 */
struct mistake {
	struct probe_error *error;
	pid_t pid; /* where it was found first */
	size_t count;
	struct pid_list also; /* the other processes */
	size_t untold;	      /* and those for which there was no memory */
};

/* Takes an error of a process if it is a mistake: the first one, or the same again. */
bool mistake_take(struct mistake *mistake, pid_t pid, struct probe_error *error);
/*
 * The mistake, or NULL. It names all its processes, unless it is one of the command line that was
 * found in all of them, `count`.
 */
struct probe_error *mistake_end(
	struct mistake *mistake, const struct common_options *common, size_t count);

/* Processes that were found by name, and are left out: initialise with {0}. */
struct left_out {
	struct mistake forbidden, lacking;
};

/* Takes the error of such a process; warns of what is neither a prohibition nor a missing probe. */
void left_out_add(struct left_out *left, pid_t pid, struct probe_error *error);
/* Warns of those that may not be used, in one line. */
void left_out_report(struct left_out *left, const struct common_options *common);
/* The probe that they lack, if nothing else is wrong: where no process is left. Or NULL. */
struct probe_error *left_out_lacking(struct left_out *left, const struct common_options *common);
void left_out_deinit(struct left_out *left, const struct common_options *common);

/* Adds to an error for which process it is, if there are several. NULL is allowed. */
struct probe_error *processes_error(
	const struct common_options *common, pid_t pid, struct probe_error *error);

/*
 * What a message about a process begins with that is not traced: nothing if it has ended, as its
 * error says all of that.
 */
const char *processes_untraced(const struct probe_error *error);

#endif
