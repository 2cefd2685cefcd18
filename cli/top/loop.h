/* SPDX-License-Identifier: MIT */
/* What the loop of `probectl top` and its keys share. */
#ifndef CLI_TOP_LOOP_H
#define CLI_TOP_LOOP_H

#include "cli/top/top.h"

struct top_loop {
	const struct top_options *options;
	struct top_model model;
	struct top_view view;
	struct top_frame frame;
	struct top_program program;
	pid_t child; /* it, once it runs; or 0 */
	struct top_source *source;
	struct top_screen *screen; /* NULL: lines */
	struct top_keys keys;
	char clock[16];
	char *message; /* owned; until the next key, or for some seconds */

	sigset_t signals;
	int signal_fd;
	struct pollfd *fds;
	/* When what is due, on CLOCK_MONOTONIC; UINT64_MAX: never. */
	uint64_t next_ns, end_ns, escape_ns, message_ns;

	bool stale; /* the screen does not show what it should */
	bool over;
	bool interrupted;	   /* by a signal */
	bool gone;		   /* nobody sees any more what we write */
	struct probe_error *error; /* what ended it */
};

/* Does what a key says (commands.c). */
void loop_key(struct top_loop *loop, const struct top_key *key);

/* Shows a message (owned from here on; NULL: none) in place of another one. */
void loop_say(struct top_loop *loop, char *message);

#endif
