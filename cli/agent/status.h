/* SPDX-License-Identifier: MIT */
/* `probectl agent --status` asks the agent that runs, by a socket in its folder. */
#ifndef CLI_AGENT_STATUS_H
#define CLI_AGENT_STATUS_H

#include <stdbool.h>
#include <stddef.h>

#include "libprobe/base/error.h"

struct agent_session;

/* Initialise with {-1, -1}. */
struct status_server {
	int folder; /* locked: one agent in it */
	int fd;
};

/*
 * Takes the folder: $RUNTIME_DIRECTORY, or /run/probectl for root, $XDG_RUNTIME_DIR/probectl for
 * others. Errors: PROBE_ERROR_STATE if an agent has it, PROBE_ERROR_SYSTEM, PROBE_ERROR_PERMISSION.
 */
PROBE_MUST_CHECK struct probe_error *status_open(struct status_server *server);
/* Answers who has asked. Never waits. */
void status_answer(
	struct status_server *server, struct agent_session *const *sessions, size_t count);
void status_close(struct status_server *server);

/* Asks, and prints the answer. Errors: PROBE_ERROR_NOT_FOUND if no agent runs. */
PROBE_MUST_CHECK struct probe_error *status_print(bool json);

#endif
