/* SPDX-License-Identifier: MIT */
/* What the process that made a change reports. */
#ifndef LIBPROBE_SELF_REPLY_H
#define LIBPROBE_SELF_REPLY_H

#include <stdbool.h>

#include "libprobe/self/helper/message.h"
#include "probe/target.h"

/* Sends an error or success (NULL), a report and a result. A closed socket is ignored. */
void reply_send(int socket, const struct probe_error *error, const struct probe_report *report,
	const void *result, size_t result_bytes);

/*
 * Reads a message; false if it is not a whole reply. Else *error_ret is the error that was sent,
 * the report is added to, and the result is set.
 */
bool reply_take(struct message *message, struct probe_error **error_ret,
	struct probe_report *report, void *result, size_t result_bytes);

#endif
