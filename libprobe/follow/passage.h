/* SPDX-License-Identifier: MIT */
/* The way of one thread into another program, as a tracer sees it. */
#ifndef LIBPROBE_FOLLOW_PASSAGE_H
#define LIBPROBE_FOLLOW_PASSAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/process.h"
#include "libprobe/target/target.h"

enum passage_state {
	PASSAGE_SEIZED,	 /* it has been asked to stop */
	PASSAGE_CALL,	 /* it runs to execve(2), and through it */
	PASSAGE_PROGRAM, /* the new program is there; execve(2) returns */
	PASSAGE_LOADER,	 /* its loader works */
	PASSAGE_HELD,	 /* it has stopped where its probes are to be switched on */
	PASSAGE_LEAVING, /* it is let go when it next stops */
	PASSAGE_OVER	 /* it is not traced, or has ended */
};

struct passage {
	pid_t pid, tid;
	enum passage_state state;
	/*
	 * Whether execve() may be followed, with its arguments in the registers; asked at
	 * the call. NULL: whatever it does up to execve(2) is followed.
	 */
	bool (*may_follow)(pid_t tid, const struct arch_registers *regs);
	struct files *files;	    /* borrowed; may be NULL */
	bool called;		    /* execve(2) has been entered */
	bool returning;		    /* the next stop of the loader is behind a system call */
	bool thread_ready;	    /* the loader has told the kernel of its thread */
	bool early;		    /* it is held before its loader works: file.passed_over */
	int calls;		    /* of the loader */
	uint64_t deadline_ns;	    /* of the state (CLOCK_MONOTONIC) */
	struct arch_registers regs; /* of a held one */
	struct spawn_facts facts;
};

/*
 * Begins to trace a thread of process `pid`, and asks it to stop. PASSAGE_OVER: it may
 * not be traced, or is gone.
 */
void passage_begin(struct passage *passage, pid_t pid, pid_t tid);

/*
 * Takes the stops that there are, and lets it run on after each but the last one, that
 * of PASSAGE_HELD. Never waits. A passage that is held may end by this, too: killed.
 */
void passage_step(struct passage *passage);

/* Lets it go: now, where it has stopped, or else as soon as it does. */
void passage_leave(struct passage *passage);

/* Has it another memory than the process that it came from? */
bool passage_is_through(const struct passage *passage);

/* Makes a held one a target, whose it is then. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *passage_take(
	struct passage *passage, struct probe_target *target);

#endif
