/* SPDX-License-Identifier: MIT */
/*
 * What processes have to be: --exe, --name, --cgroup, --container, --user. A process is meant if
 * it meets a value of each of these options that is given.
 */
#ifndef CLI_CONDITIONS_H
#define CLI_CONDITIONS_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/options.h"
#include "libprobe/base/buffer.h"

struct conditions;

/*
 * Takes the values from `common`, which outlives them; *ret is NULL if there are none. Errors:
 * PROBE_ERROR_SYSTEM (--exe: there is no such file), PROBE_ERROR_NOT_FOUND (--user, --container),
 * PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *conditions_create(
	const struct common_options *common, struct conditions **ret);
void conditions_free(struct conditions *conditions);

/*
 * Does a process meet all of them? A file of --exe that was replaced counts as both the new one
 * and the old. NULL: there are no conditions.
 */
bool conditions_hold(struct conditions *conditions, pid_t pid);

/* The error for a process that does not: PROBE_ERROR_STATE. NULL if it does. */
PROBE_MUST_CHECK struct probe_error *conditions_check(struct conditions *conditions, pid_t pid);

/*
 * Adds what a process has to do: "runs /bin/a or /bin/b and belongs to user c". With one value that
 * none of `pids` meets, only this one of its kind; false if there is no such value.
 */
void conditions_describe(const struct conditions *conditions, struct buffer *out);
bool conditions_describe_unmet(
	struct conditions *conditions, const struct pid_list *pids, struct buffer *out);

#endif
