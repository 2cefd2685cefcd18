/* SPDX-License-Identifier: MIT */
#ifndef CLI_AGENT_START_H
#define CLI_AGENT_START_H

#include <sys/types.h>

#include "libprobe/base/error.h"

struct relay;
struct set_entry;

/*
 * Starts a session's process, a probectl of our own file. Its messages come by `err`, its output by
 * `out`, or go into the entry's file. Errors: PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY; then nothing
 * is left.
 */
PROBE_MUST_CHECK struct probe_error *start_session(
	const struct set_entry *entry, struct relay *out, struct relay *err, pid_t *pid_ret);

#endif
