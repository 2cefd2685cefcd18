/* SPDX-License-Identifier: MIT */
/* What a session prints, passed on a line at a time, behind the session's name. */
#ifndef CLI_AGENT_RELAY_H
#define CLI_AGENT_RELAY_H

#include <stdbool.h>
#include <stddef.h>

#include "libprobe/base/error.h"

struct loop;

/* A longer line is cut into several. Less than PIPE_BUF: a write that poll(2) allows is whole. */
enum { RELAY_LINE_BYTES = 2048, RELAY_LAST_BYTES = 240 };

/* Initialise with {.fd = -1, .to = ...}. */
struct relay {
	int fd; /* of the pipe, at its end for reading; -1: all of it has been passed on */
	int to; /* our own output; blocking, and borrowed */
	bool ended, failed; /* our output cannot be written: that has been said */
	size_t length;
	char bytes[RELAY_LINE_BYTES];
	char last[RELAY_LAST_BYTES]; /* the last line, without its newline */
};

/* Makes the pipe; *write_ret is for the session, and closed by an exec. Errors: _SYSTEM. */
PROBE_MUST_CHECK struct probe_error *relay_open(struct relay *relay, int *write_ret);

/*
 * Passes on what is there, as far as our output takes it at once. `over`: the session has ended,
 * and what the pipe then holds is the rest, even if others still have its other end.
 */
void relay_pass(struct relay *relay, const char *name, bool over);

/* Ends the next sleep when there is more to be done. */
void relay_watch(const struct relay *relay, struct loop *loop);

void relay_close(struct relay *relay);

#endif
