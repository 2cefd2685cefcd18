/* SPDX-License-Identifier: MIT */
/*
 * Conditions on processes: --exe, --name, --cgroup, --container, --user. Each option may have
 * several values. A process meets the conditions if it matches at least one value of each option
 * that is on the command line.
 */
#ifndef CLI_CONDITIONS_H
#define CLI_CONDITIONS_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/options.h"
#include "libprobe/base/buffer.h"

struct conditions;

/*
 * Makes the conditions from the values in `common`, which must outlive *ret. Sets *ret to NULL if
 * there are no values. Errors: PROBE_ERROR_SYSTEM (--exe: no such file), PROBE_ERROR_NOT_FOUND
 * (--user, --container), PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *conditions_create(
	const struct common_options *common, struct conditions **ret);
void conditions_free(struct conditions *conditions);

/*
 * Returns true if a process meets all conditions, or if `conditions` is NULL. If a file of --exe
 * was replaced, processes that run the old file and processes that run the new file both match.
 */
bool conditions_hold(struct conditions *conditions, pid_t pid);

/* Returns PROBE_ERROR_STATE if a process does not meet the conditions, otherwise NULL. */
PROBE_MUST_CHECK struct probe_error *conditions_check(struct conditions *conditions, pid_t pid);

/*
 * conditions_describe() appends all conditions: "runs /bin/a or /bin/b and belongs to user c".
 * conditions_describe_unmet() appends only the first value that none of `pids` matches. It returns
 * false if each value is matched.
 */
void conditions_describe(const struct conditions *conditions, struct buffer *out);
bool conditions_describe_unmet(
	struct conditions *conditions, const struct pid_list *pids, struct buffer *out);

#endif
