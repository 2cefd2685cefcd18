/* SPDX-License-Identifier: MIT */
/* Processes that are meant by their name or their parent. */
#ifndef CLI_PROCESSES_H
#define CLI_PROCESSES_H

#include "cli/options.h"

#define OPTIONS_PROCESSES(common)                                                                  \
	{.name = "name",                                                                           \
		.kind = OPTION_STRINGS,                                                            \
		.value = "NAME",                                                                   \
		.target = &(common)->names,                                                        \
		.help = "all processes with that command name or program file"},                   \
	{                                                                                          \
		.name = "children", .kind = OPTION_PIDS, .target = &(common)->parents,             \
		.help = "all processes that descend from these"                                    \
	}

/* Is any process named, in whatever way? */
bool processes_given(const struct common_options *common);

/*
 * Adds those that --name and --children mean to common->pids, behind those of
 * -p, whose number is then in common->pids_given. Neither this process nor
 * zombies are among them.
 *
 * Errors: PROBE_ERROR_NOT_FOUND (a name or a parent means none).
 */
PROBE_MUST_CHECK struct probe_error *processes_find(struct common_options *common);

#endif
