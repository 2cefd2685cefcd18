/* SPDX-License-Identifier: MIT */
/* The controller's reply to a request. */
#ifndef LIBPROBE_SELF_REPLY_H
#define LIBPROBE_SELF_REPLY_H

#include <stdbool.h>

#include "libprobe/self/helper/message.h"
#include "probe/target.h"

/*
 * Sends a reply: an error (NULL: none), a report and a result. If the socket is closed, does
 * nothing.
 */
void reply_send(int socket, const struct probe_error *error, const struct probe_report *report,
	const void *result, size_t result_bytes);

/*
 * Reads a reply. Returns false if the message is not a complete reply. Otherwise *error_ret is the
 * sent error, the sent report is added to `report`, and the result is set.
 */
bool reply_take(struct message *message, struct probe_error **error_ret,
	struct probe_report *report, void *result, size_t result_bytes);

#endif
