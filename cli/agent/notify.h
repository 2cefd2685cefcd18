/* SPDX-License-Identifier: MIT */
#ifndef CLI_AGENT_NOTIFY_H
#define CLI_AGENT_NOTIFY_H

/*
 * Tells systemd what state we are in, as sd_notify(3) does: "READY=1". Does nothing if systemd has
 * not asked for it. Returns 0, or the errno(3) of what failed.
 */
int notify_service(const char *state);

#endif
