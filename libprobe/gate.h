/* SPDX-License-Identifier: MIT */
/*
 * Following the libraries that a target opens: a stub at the function that its
 * loader calls for debuggers, whenever its list of libraries has changed and
 * before their constructors run, holds the thread until this process has
 * probed what is new.
 */
#ifndef LIBPROBE_GATE_H
#define LIBPROBE_GATE_H

#include <pthread.h>
#include <stdbool.h>

#include "arch/layout.h"
#include "libprobe/attach.h"

struct gate {
	struct probe_gate *shared; /* in the session's data; NULL: there is no gate */
	int event;		   /* readable when a thread waits, or -1 */
	pthread_t waiter;	   /* turns the futex into that descriptor */
	bool waiting, ending;
	uint32_t taken; /* the last number that gate_take() has seen */
};

/*
 * Puts the gate's stub into a session, with the target's state read and
 * locked. Errors: PROBE_ERROR_UNSUPPORTED (the loader has no such function, as
 * in a static program), and those of attaching.
 */
PROBE_MUST_CHECK struct probe_error *gate_attach(
	struct change *change, uint32_t session, const struct probe_request *request);

/* Begins to wait at the gate in this process's mapping of the session's data. */
PROBE_MUST_CHECK struct probe_error *gate_open(struct gate *gate, struct probe_gate *shared);

/* Is a thread waiting? Takes the descriptor's readiness away. */
bool gate_take(struct gate *gate);
/* Lets the threads go that gate_take() has seen. */
void gate_release(struct gate *gate);
/* Lets everyone go from now on, and ends the waiter. */
void gate_close(struct gate *gate);

#endif
