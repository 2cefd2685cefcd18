/* SPDX-License-Identifier: MIT */
/*
 * The event loop of the commands that stay with a process: run, trace, record and top.
 *
 *     loop_open(&loop, NULL);
 *     while (!loop.over) {
 *             handle all events that are due
 *             loop_watch(&loop, probe_session_fd(session), POLLIN, &wanted);
 *             loop_until(&loop, timer.next_ns);
 *             loop_sleep(&loop);
 *     }
 *
 * Each round registers again the events that end its sleep, because processes come and go all
 * the time. There are no callbacks, except for a command's own signals: a sleep only sets the
 * flags that were registered.
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
	pid_t child; /* process id of the program that we started; 0 if there is no program */
	/* Handles the command's own signals; `data` is passed through. */
	void (*take_signal)(int signal, void *data);
	void *data;

	bool over;	  /* end the command; set by signals and by the command */
	bool interrupted; /* a signal has set `over` */

	int signal_fd;
	struct pollfd *fds; /* for the next sleep; the first descriptor is signal_fd */
	bool **ready;	    /* flag of each descriptor, or NULL */
	size_t count, room;
	uint64_t until_ns; /* end of the next sleep, CLOCK_MONOTONIC */
	bool no_memory;	   /* a descriptor was not registered */
};

/*
 * From this call on, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD and the signals in `own` (ends
 * with 0; may be NULL) are blocked, and loop_sleep() reads them. SIGPIPE and SIGXFSZ become
 * errors of write(2). Call it after starting a program, because the program would inherit these
 * settings. Errors: PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *loop_open(struct loop *loop, const int *own);
/* Closes the loop. Signals stay blocked. */
void loop_close(struct loop *loop);

/*
 * Ends the next sleep when a descriptor has one of the poll(2) events `events`, an error or a
 * hang-up, and then sets *ready. A negative `fd` is ignored; `ready` may be NULL.
 */
void loop_watch(struct loop *loop, int fd, short events, bool *ready);
/*
 * Ends the next sleep when a process exits, and then sets *exited. Does nothing if *exited is
 * already set.
 */
void loop_watch_exit(struct loop *loop, int pidfd, const struct probe_target *target, bool *exited);
/* Ends the next sleep at this time at the latest, CLOCK_MONOTONIC. */
void loop_until(struct loop *loop, uint64_t ns);

/*
 * Sleeps until a registered event or a signal, and then drops all registrations. A signal that
 * ends the command sets loop->over. Errors: PROBE_ERROR_MEMORY, after a sleep that watched only
 * the events that were registered.
 */
PROBE_MUST_CHECK struct probe_error *loop_sleep(struct loop *loop);

/* Waits until the child has ended, and forwards signals to it. Returns its exit status. */
int loop_wait_child(struct loop *loop);

#endif
