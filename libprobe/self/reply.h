/* SPDX-License-Identifier: MIT */
/* What a copy of the process tells it through a pipe. */
#ifndef LIBPROBE_SELF_REPLY_H
#define LIBPROBE_SELF_REPLY_H

#include <stdbool.h>

#include "probe/target.h"

/* Sends an error or success (NULL), a report and a result; an end of the pipe is no error. */
void reply_send(int fd, const struct probe_error *error, const struct probe_report *report,
	const void *result, size_t result_bytes);

/* What has been received. Initialise with {0}. */
struct reply {
	char *bytes;
	size_t length, room;
};
void reply_deinit(struct reply *reply);

/*
 * Reads what there is. False: that was all. Errors set *error_ret (else NULL), and are an
 * end.
 */
bool reply_read(struct reply *reply, int fd, struct probe_error **error_ret);

/*
 * Is it whole? Then *error_ret is what was sent, the report is added to, and the result
 * set.
 */
bool reply_take(const struct reply *reply, struct probe_error **error_ret,
	struct probe_report *report, void *result, size_t result_bytes);

#endif
