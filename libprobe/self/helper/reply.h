/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SELF_REPLY_H
#define LIBPROBE_SELF_REPLY_H

#include <stdbool.h>

#include "libprobe/self/helper/message.h"
#include "probe/target.h"

/* Sends an error (may be NULL), a report and a result. Does nothing if the socket is closed. */
void reply_send(int socket, const struct probe_error *error, const struct probe_report *report,
	const void *result, size_t result_bytes);

/*
 * Reads a reply: the error, the report, which is added to `report`, and the result. Returns false
 * if it is incomplete.
 */
bool reply_take(struct message *message, struct probe_error **error_ret,
	struct probe_report *report, void *result, size_t result_bytes);

#endif
