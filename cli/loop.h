/* SPDX-License-Identifier: MIT */
/*
 * The event loop of the commands that stay with a process: run, trace, record and top.
 *
 *     loop_open(&loop, NULL);
 *     while (!loop.over) {
 *             handle all events that are due
 *             loop_watch(&loop, probe_trace_fd(trace), POLLIN, NULL);
 *             loop_until(&loop, timer.next_ns);
 *             loop_sleep(&loop);
 *     }
 *
 * In each round, the command registers all events that shall end the sleep of this round, because
 * processes come and go all the time. The sleep sets the flags of the events that have occurred.
 * There are no callbacks, except for signals that have a meaning for this command only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/cli.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/error.h"

struct pollfd;

/* Initialise with {.signal_fd = -1}. */
struct loop {
	pid_t child; /* process id of the program that we started, or 0 */
	/* Handles the signals that only this command uses. `data` is passed on to the function. */
	void (*take_signal)(int signal, void *data);
	void *data;

	bool over;	  /* the command must end; set by signals and by the command itself */
	bool interrupted; /* `over` was set by a signal */

	int signal_fd;
	/* The descriptors to watch in the next sleep; the first one is signal_fd. */
	struct pollfd *fds;
	bool **ready; /* for each descriptor, the flag to set, or NULL */
	size_t count;
	uint64_t until_ns; /* latest end of the next sleep, CLOCK_MONOTONIC */
	bool no_memory;	   /* a descriptor could not be registered, because memory is short */
};

/*
 * Opens the loop. Blocks SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD and the signals in `own` (ends
 * with 0; may be NULL), which loop_sleep() then reads. SIGPIPE and SIGXFSZ become errors of
 * write(2). Start programs before, so that they do not inherit this. Errors: PROBE_ERROR_SYSTEM,
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *loop_open(struct loop *loop, const int *own);
/* Closes the loop. Signals stay blocked. */
void loop_close(struct loop *loop);

/*
 * Makes the next sleep end, and sets *ready, when a descriptor has one of the poll(2) events, an
 * error or a hang-up. `fd` may be negative, and `ready` NULL.
 */
void loop_watch(struct loop *loop, int fd, short events, bool *ready);
/* Makes the next sleep end at this time at the latest, CLOCK_MONOTONIC. */
void loop_until(struct loop *loop, uint64_t ns);

/*
 * Sleeps until a registered event or a signal, and drops all registrations. A signal that ends the
 * command sets loop->over. Returns PROBE_ERROR_MEMORY if some events could not be registered.
 */
PROBE_MUST_CHECK struct probe_error *loop_sleep(struct loop *loop);

/* Waits for the end of the child, and forwards signals to it. Returns its exit status. */
int loop_wait_child(struct loop *loop);
