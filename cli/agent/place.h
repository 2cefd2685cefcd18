/* SPDX-License-Identifier: MIT */
/* The folder of the agent that runs: its lock, and the socket `agent.sock` in it. */
#ifndef CLI_AGENT_PLACE_H
#define CLI_AGENT_PLACE_H

#include "libprobe/base/error.h"

/*
 * Makes the folder, unless it is there, and locks it. Errors: PROBE_ERROR_STATE if an agent has
 * done so, PROBE_ERROR_PERMISSION if others may write to it, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *place_take(int *folder_ret);
/* Listens in a folder that we have taken; nobody else can connect. Errors: PROBE_ERROR_SYSTEM. */
PROBE_MUST_CHECK struct probe_error *place_listen(int folder, int *fd_ret);
void place_remove(int folder);

/* Connects to the agent. Errors: PROBE_ERROR_NOT_FOUND if none runs, PROBE_ERROR_SYSTEM. */
PROBE_MUST_CHECK struct probe_error *place_connect(int *fd_ret);

#endif
