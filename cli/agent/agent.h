/* SPDX-License-Identifier: MIT */
#ifndef CLI_AGENT_AGENT_H
#define CLI_AGENT_AGENT_H

#include "libprobe/base/error.h"

/*
 * Keeps up the sessions of a file (cli/agent/set.h) until a signal ends it. *status_ret becomes
 * STATUS_FAILED if one did not end in time and was killed. Errors: what keeps it from beginning.
 */
PROBE_MUST_CHECK struct probe_error *agent_run(const char *path, int *status_ret);

#endif
