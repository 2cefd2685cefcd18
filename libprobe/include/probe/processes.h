/* SPDX-License-Identifier: MIT */
/*
 * Which processes are meant: some by their ids, those below others, and those that meet conditions,
 * such as the program that they run.
 */
#ifndef PROBE_PROCESSES_H
#define PROBE_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "error.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_processes;

/*
 * The kinds of conditions. A process meets the conditions if it matches at least one value of each
 * kind that has values.
 */
enum probe_condition {
	/*
	 * The program that it runs: a path, or a name in PATH. If the file was replaced, processes
	 * that run the old file and processes that run the new one both match.
	 */
	PROBE_CONDITION_EXE,
	PROBE_CONDITION_NAME,	   /* its command name, or the name of its program's file */
	PROBE_CONDITION_CGROUP,	   /* its control group, or one above */
	PROBE_CONDITION_CONTAINER, /* the id or name of its container */
	PROBE_CONDITION_USER,	   /* the name or id of its user */
	PROBE_CONDITION_COUNT
};

/* Zero selects nothing. If an id is that of a thread, it selects the thread's process. */
struct probe_selection {
	/*
	 * Without ids, all processes that meet the conditions are meant. The values are borrowed
	 * until the end.
	 */
	struct {
		const char *const *values;
		size_t count;
	} conditions[PROBE_CONDITION_COUNT];
	const pid_t *pids, *trees, *parents; /* copied */
	size_t pid_count;
	size_t tree_count;   /* these processes and all their descendants */
	size_t parent_count; /* only all descendants of these processes */
	bool later;	     /* also processes that come later */
	/*
	 * Only processes that come later: probe_processes_find() finds none, and those that meet
	 * the conditions then are left alone for as long as they run. Not with `pids` and `trees`.
	 */
	bool only_later;
};

/*
 * Reads a selection. Errors: PROBE_ERROR_SYSTEM (no such program), PROBE_ERROR_NOT_FOUND (no such
 * user), PROBE_ERROR_USAGE (`only_later` without parents and conditions, or with ids),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_processes_create(
	const struct probe_selection *selection, struct probe_processes **ret);
/* NULL is allowed. */
void probe_processes_free(struct probe_processes *processes);

/*
 * Finds the processes that are meant and run now. All of /proc is read in one pass, so that a tree
 * of processes is seen as it is at one moment. The first *named_ret ids are those of pids and
 * trees, which need not meet the conditions. Our own process, zombies and kernel threads are left
 * out. Owned by `processes`, and valid until the next call. Errors: PROBE_ERROR_NOT_FOUND (one of
 * `parents` has no descendants, or no process meets a condition; not if processes that come later
 * are meant, too), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_processes_find(
	struct probe_processes *processes, const pid_t **ret, size_t *count_ret, size_t *named_ret);

/*
 * Opens a process, and checks that it meets the conditions. Errors: PROBE_ERROR_STATE (it does
 * not), otherwise as probe_target_open().
 */
PROBE_MUST_CHECK struct probe_error *probe_processes_open(
	struct probe_processes *processes, pid_t pid, struct probe_target **ret);

/*
 * Tells whether processes that come later are meant, whoever starts them: those below others, or
 * those that meet the conditions if no process was named.
 */
bool probe_processes_seek(const struct probe_processes *processes);
/*
 * Returns the conditions as a text: "runs /bin/a or /bin/b and belongs to user c"; "comes" if there
 * are none. The caller frees it. Returns NULL on lack of memory.
 */
char *probe_processes_describe(const struct probe_processes *processes);

#ifdef __cplusplus
}
#endif
#endif
