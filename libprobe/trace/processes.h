/* SPDX-License-Identifier: MIT */
/* Which processes are meant: their conditions, and finding those that come later. */
#ifndef LIBPROBE_TRACE_PROCESSES_H
#define LIBPROBE_TRACE_PROCESSES_H

#include <stdbool.h>
#include <sys/types.h>

#include "libprobe/base/buffer.h"
#include "probe/processes.h"
#include "probe/watch.h"

/* Says which processes that come later are meant. `processes` must outlive *ret. */
void processes_newcomers(struct probe_processes *processes, struct probe_newcomers *ret);

/*
 * Returns true if processes that come later are sought, and can still come. They cannot if all
 * processes of trees and parents have ended.
 */
bool processes_may_come(const struct probe_processes *processes);
/* Returns true if a process meets the conditions. */
bool processes_meet(struct probe_processes *processes, pid_t pid);

/* ---- Conditions (conditions.c) --------------------------------------------------- */

struct conditions;

/*
 * Makes the conditions from the values in `selection`, which must outlive *ret. Sets *ret to NULL
 * if there are no values. Errors: as probe_processes_create().
 */
PROBE_MUST_CHECK struct probe_error *conditions_create(
	const struct probe_selection *selection, struct conditions **ret);
void conditions_free(struct conditions *conditions);

/* Returns true if a process meets all conditions, or if `conditions` is NULL. */
bool conditions_hold(struct conditions *conditions, pid_t pid);

/* Returns PROBE_ERROR_STATE if a process does not meet the conditions, otherwise NULL. */
PROBE_MUST_CHECK struct probe_error *conditions_check(struct conditions *conditions, pid_t pid);

/*
 * conditions_describe() appends all conditions. conditions_describe_unmet() appends only the first
 * value that none of `pids` matches. It returns false if each value is matched.
 */
void conditions_describe(const struct conditions *conditions, struct buffer *out);
bool conditions_describe_unmet(
	struct conditions *conditions, const pid_t *pids, size_t count, struct buffer *out);

/* ---- Containers (conditions.c) --------------------------------------------------- */

/*
 * Returns true if a process is in the container. `groups` is the text of the process's
 * /proc/PID/cgroup.
 */
bool container_has(const char *container, const char *groups);

/*
 * Finds a container by its name in Docker's folder of containers. Returns the container's id,
 * which the caller frees, or NULL.
 */
char *container_named_in_docker(const char *folder, const char *name);
/*
 * Finds a container by its name in a list of containers/storage (Podman). Returns the container's
 * id, which the caller frees, or NULL.
 */
char *container_named_in_storage(const char *path, const char *name);

#endif
