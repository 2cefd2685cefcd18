/* SPDX-License-Identifier: MIT */
/*
 * Following what a target does: a stub holds its thread until this process has
 * done what has to be done first.
 *
 * - Libraries that are opened: at the function that the loader calls for
 *   debuggers, whenever its list of libraries has changed and before their
 *   constructors run.
 * - Programs that are started: at libc's execve(), see libprobe/follow/launch.h.
 */
#ifndef LIBPROBE_FOLLOW_GATE_H
#define LIBPROBE_FOLLOW_GATE_H

#include <linux/futex.h>
#include <stdbool.h>

#include "arch/layout.h"
#include "libprobe/base/worker.h"
#include "libprobe/patch/install.h"

struct gate {
	struct probe_gate *shared; /* in the session's data; NULL: it is not open */
	int event;		   /* readable when a thread waits; borrowed */
	struct worker waiter;	   /* turns the futex into that descriptor */
	bool waiting, ending;
	uint32_t owned;			/* the waiter's death ends its turns: so far it has none */
	uint32_t opened;		/* the waiter may look at the gate, or end */
	uint32_t ended;			/* the waiter looks at the gate no more */
	uint32_t owner;			/* its thread id */
	struct robust_list_head robust; /* of the waiter: all turns, one after the other */
	struct robust_list turns[GATE_TURNS];
	uint32_t flips; /* a bit for each turn: its GATE_FLIP */
	uint32_t taken; /* the last number that gate_take() has seen */
	bool armed;	/* by us: those who are not served in time disarm it */
	bool lapsed;	/* they did */
};

enum gate_place {
	GATE_LIBRARIES, /* in the loader */
	GATE_EXEC	/* in libc */
};

/*
 * Puts a gate's stub into a session, with the target's state read and locked.
 * With `children`, forked children are held there as well.
 * Errors: PROBE_ERROR_UNSUPPORTED (there is no such function, as in a static
 * program), PROBE_ERROR_REFUSED, and those of attaching.
 */
PROBE_MUST_CHECK struct probe_error *gate_attach(struct change *change, uint32_t session,
	const struct probe_request *request, enum gate_place place, bool children);

/*
 * Lets that function of the loader call one of the process itself: `describe`, as in struct
 * install, says which, for a new session of the caller. Errors: the same.
 */
PROBE_MUST_CHECK struct probe_error *gate_attach_call(struct change *change, uint64_t caller,
	void (*describe)(const void *data, const struct reg_session *session, uint32_t slot,
		uint32_t number, struct arch_stub *stub),
	const void *data, uint32_t *session_ret);

/*
 * Will the program next come to the gate of libraries to report what is mapped already? It will if
 * it is held in its loader: the loader has begun to map libraries (RT_ADD), maps them all before it
 * sets the thread up, and reports them once they are relocated. Under LD_AUDIT the thread is set up
 * earlier.
 */
bool gate_is_expected(struct change *change);
/*
 * Is the loader changing its list? Then libraries may be mapped in part; whoever maps them comes to
 * the gate when they are whole.
 */
bool gate_list_changes(struct change *change);

/*
 * Starts the thread that will wait at a gate, which takes a moment; gate_close() ends it. Errors:
 * PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *gate_prepare(struct gate *gate);
/*
 * Begins to wait at a prepared gate, in this process's mapping of the session's data.
 * `event` is an eventfd(2), which does not block; gates may share it.
 */
void gate_open(struct gate *gate, struct probe_gate *shared, int event);

/* Clear and set the readiness of such a descriptor; clear it before looking at its gates. */
void gate_clear(int event);
void gate_raise(int event);

/* Is a thread waiting? */
bool gate_take(struct gate *gate);
/* How many threads have ever arrived, and whether one waits now. Without a gate: 0, none. */
uint32_t gate_arrivals(const struct gate *gate);
bool gate_is_busy(const struct gate *gate);
/* How many threads wait that gate_take() has seen. */
uint32_t gate_waiting(const struct gate *gate);
/* May one of those wait in this turn? Others in it have been released, and are about to leave. */
bool gate_holds_turn(const struct gate *gate, uint32_t turn);
/*
 * Has a thread gone on since the last call because nobody served it in time (struct probe_gate)?
 * Others after it were not held. From here on they are again.
 */
bool gate_has_lapsed(struct gate *gate);
/* Releases the threads that gate_take() has seen. */
void gate_release(struct gate *gate);
/* While a gate is shut off, no thread is held, and those that were are released. */
void gate_arm(struct gate *gate, bool armed);
/* Asks the waiter to end. If several gates are closed, shut them all first. */
void gate_shut(struct gate *gate);
/* From now on, nobody waits at it. */
void gate_leave(struct gate *gate);
/* Releases all threads from now on, and ends the waiter. */
void gate_close(struct gate *gate);

#endif
