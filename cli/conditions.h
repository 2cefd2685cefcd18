/* SPDX-License-Identifier: MIT */
/*
 * Conditions on processes: --exe, --name, --cgroup, --container, --user. A process meets the
 * conditions if, for each of these options on the command line, it meets at least one value.
 */
#ifndef CLI_CONDITIONS_H
#define CLI_CONDITIONS_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/options.h"
#include "libprobe/base/buffer.h"

struct conditions;

/*
 * Takes the values from `common`, which must outlive *ret. *ret is NULL if there are no
 * conditions. Errors: PROBE_ERROR_SYSTEM (--exe: no such file), PROBE_ERROR_NOT_FOUND (--user,
 * --container), PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *conditions_create(
	const struct common_options *common, struct conditions **ret);
void conditions_free(struct conditions *conditions);

/*
 * Whether a process meets all conditions; true if `conditions` is NULL. If a file of --exe was
 * replaced, both the old and the new file count.
 */
bool conditions_hold(struct conditions *conditions, pid_t pid);

/* Returns PROBE_ERROR_STATE if a process does not meet the conditions, otherwise NULL. */
PROBE_MUST_CHECK struct probe_error *conditions_check(struct conditions *conditions, pid_t pid);

/*
 * conditions_describe() appends the conditions: "runs /bin/a or /bin/b and belongs to user c".
 * conditions_describe_unmet() appends only the first value that none of `pids` meets; false if
 * there is no such value.
 */
void conditions_describe(const struct conditions *conditions, struct buffer *out);
bool conditions_describe_unmet(
	struct conditions *conditions, const struct pid_list *pids, struct buffer *out);

#endif
