/* SPDX-License-Identifier: MIT */
/*
 * The event loop of the commands that stay with a process: run, trace, record and top.
 *
 *	loop_open(&loop, NULL);
 *	while (!loop.over) {
 *		do what is due
 *		loop_watch(&loop, probe_session_fd(session), POLLIN, &wanted);
 *		loop_until(&loop, timer.next_ns);
 *		loop_sleep(&loop);
 *	}
 *
 * Each round sets up again what ends its sleep: what there is to wait for changes all the time,
 * as processes come and go. Nothing runs without the command: a sleep sets the flags that it
 * was given, and only a command's own signals call a function.
 */
#ifndef CLI_LOOP_H
#define CLI_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/error.h"
#include "probe/target.h"

struct pollfd;

/* Initialise with {.signal_fd = -1}. */
struct loop {
	pid_t child; /* the program that we started, once it runs; 0: none */
	/* Takes the signals that only this command has; `data` is for it. */
	void (*take_signal)(int signal, void *data);
	void *data;

	bool over;	  /* the command is to end: set by signals, and by the command */
	bool interrupted; /* by a signal */

	int signal_fd;
	struct pollfd *fds; /* of the next sleep; the first is signal_fd */
	bool **ready;	    /* for each of them, or NULL */
	size_t count, room;
	uint64_t until_ns; /* CLOCK_MONOTONIC */
	bool no_memory;	   /* some descriptor was left out */
};

/*
 * From here on no signal ends us at once: SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD and those of
 * `own` (ends with 0; NULL: none) are blocked, and read by loop_sleep(). SIGPIPE and SIGXFSZ are
 * errors of write(2). Call it after starting a program, which would inherit all of this. Errors:
 * PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *loop_open(struct loop *loop, const int *own);
/* Signals stay blocked. */
void loop_close(struct loop *loop);

/*
 * Ends the next sleep when a descriptor (negative: none) has one of poll(2)'s events, or its
 * other side is gone; *ready, if not NULL, becomes true then.
 */
void loop_watch(struct loop *loop, int fd, short events, bool *ready);
/* The same for the end of a process, unless *exited says that it has been seen. */
void loop_watch_exit(struct loop *loop, int pidfd, const struct probe_target *target, bool *exited);
/* Ends the next sleep at this time of CLOCK_MONOTONIC at the latest. */
void loop_until(struct loop *loop, uint64_t ns);

/*
 * Sleeps until something of this has come, or a signal; it is forgotten then. Signals that end
 * a command set loop->over. Errors: PROBE_ERROR_MEMORY, after a sleep for what there was room.
 */
PROBE_MUST_CHECK struct probe_error *loop_sleep(struct loop *loop);

/* Waits until the child has ended, and hands signals on. Returns its exit status. */
int loop_wait_child(struct loop *loop);

#endif
