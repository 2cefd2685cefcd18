/* SPDX-License-Identifier: MIT */
/* What a copy of the process reports through a socket. */
#ifndef LIBPROBE_SELF_REPLY_H
#define LIBPROBE_SELF_REPLY_H

#include <stdbool.h>

#include "probe/target.h"

/* Sends an error or success (NULL), a report and a result. A closed socket is ignored. */
void reply_send(int fd, const struct probe_error *error, const struct probe_report *report,
	const void *result, size_t result_bytes);

/* What has been received. Initialise with {0}. */
struct reply {
	char *bytes;
	size_t length, room;
};
void reply_deinit(struct reply *reply);

/* Reads what is available. Returns false at the end; *error_ret is then the error, or NULL. */
bool reply_read(struct reply *reply, int fd, struct probe_error **error_ret);

/*
 * Whether the reply is complete. If so, *error_ret is the error that was sent, the report is
 * added to, and the result is set.
 */
bool reply_take(const struct reply *reply, struct probe_error **error_ret,
	struct probe_report *report, void *result, size_t result_bytes);

#endif
