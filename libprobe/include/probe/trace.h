/* SPDX-License-Identifier: MIT */
/* Work on several processes. */
#ifndef PROBE_TRACE_H
#define PROBE_TRACE_H

#include <stddef.h>
#include <sys/types.h>

#include "error.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Several processes ----------------------------------------------------------- */

/* The functions that change several processes. The processes are numbered from 0. */
struct probe_turn {
	pid_t (*pid)(void *data, size_t index);
	/*
	 * Changes a process. `patience` is for probe_target_set_patience(); it is NULL on lack of
	 * memory.
	 */
	struct probe_error *(*change)(void *data, size_t index, struct probe_patience *patience);
	/*
	 * Called once for each process, after its last change. Takes ownership of the error, which
	 * may be NULL.
	 */
	void (*end)(void *data, size_t index, struct probe_error *error);
	void *data;
};

/*
 * Changes `count` processes. The processes of different users get equal shares of the time, and a
 * process with many threads comes after smaller ones. Processes that another controller has locked
 * are tried again after all others.
 */
void probe_take_turns(size_t count, const struct probe_turn *turn);

#ifdef __cplusplus
}
#endif
#endif
