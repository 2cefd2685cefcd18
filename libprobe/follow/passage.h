/* SPDX-License-Identifier: MIT */
/* One thread's way into another program, as a tracer sees it. */
#ifndef LIBPROBE_FOLLOW_PASSAGE_H
#define LIBPROBE_FOLLOW_PASSAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/process.h"
#include "libprobe/follow/leaf.h"
#include "libprobe/registry/target.h"
#include "libprobe/ptrace/restart.h"
#include "libprobe/ptrace/yield.h"

enum passage_state {
	PASSAGE_THROUGH,  /* it runs through execve(2) by itself */
	PASSAGE_SEIZED,	  /* it has been asked to stop */
	PASSAGE_CALL,	  /* it runs to execve(2), and through it */
	PASSAGE_PROGRAM,  /* the new program is there; execve(2) returns */
	PASSAGE_LOADER,	  /* its loader works */
	PASSAGE_LEAF,	  /* a leaf (leaf.h): it runs to its end */
	PASSAGE_STOPPING, /* a leaf that has run for a while, and has been asked to stop */
	PASSAGE_HELD,	  /* it has stopped where its probes are to be switched on */
	PASSAGE_LEAVING,  /* it is released when it next stops */
	PASSAGE_OVER	  /* it is not traced, or has ended */
};

struct passage {
	pid_t pid, tid;
	enum passage_state state;
	/* Called at execve(), with the address of the path: may it be followed? NULL: yes. */
	bool (*may_follow)(pid_t tid, uint64_t path);
	struct files *files;	    /* borrowed; may be NULL */
	struct yield *yield;	    /* borrowed; shared by all that one thread traces */
	bool called;		    /* execve(2) has been entered */
	bool returning;		    /* the next stop of the loader is after a system call */
	bool thread_ready;	    /* the loader has set the thread pointer */
	bool has_run;		    /* it was a leaf, and has run since its loader was done */
	bool nothing_lost;	    /* it was a leaf, or has ended where it was traced */
	pid_t stray;		    /* what a leaf has started, released after it; 0: nothing */
	bool is_ending;		    /* it has been released where its process ends */
	bool is_leaf;		    /* it runs as a leaf, or did until it was asked to stop */
	bool is_again;		    /* as in struct control_thread */
	int calls;		    /* of the loader */
	uint64_t argument;	    /* the first one of its last call, where the result hides it */
	struct leaf leaf;	    /* if is_leaf */
	uint64_t unseen_ns;	    /* how long a held one has run code that was not looked at */
	struct probe_error *told;   /* what was lost at its end; NULL: nothing. Owned */
	uint64_t deadline_ns;	    /* of the state (CLOCK_MONOTONIC) */
	struct restart_seen seen;   /* when it was asked to stop, if arch_process.hidden_call */
	struct arch_registers regs; /* of a held one */
	struct spawn_facts facts;
};

/*
 * Begins to trace a thread of process `pid` that goes to execve(2): through it, with `may_go`, or
 * asked to stop, and may_follow() decides. PASSAGE_OVER: it must not be traced, or is gone.
 */
void passage_begin(struct passage *passage, pid_t pid, pid_t tid, bool may_go);

/* Its execve(2) has failed, and it goes to the next one: the same again. */
void passage_again(struct passage *passage, bool may_go);

/*
 * Handles the stops that have been reported, and lets the thread run on after each except the last
 * one, that of PASSAGE_HELD. Does not wait: for the next stop, it gives up the processor a few
 * times at most, unless others want it. A held passage may end here, too, if its process was
 * killed. Returns whether there was a stop.
 */
bool passage_step(struct passage *passage);

/* Releases it: now if it has stopped, otherwise as soon as it stops. */
void passage_leave(struct passage *passage);

/*
 * Its deadline has passed: a thread on its way through execve(2) is asked to stop, a leaf is
 * held, any other is released.
 */
void passage_expire(struct passage *passage);

/* Is its memory another one than that of the process that it came from, or gone? */
bool passage_is_through(const struct passage *passage);

/* Of one that is over: did it end as a leaf, so that it may still look as if it ran? */
bool passage_lingers(const struct passage *passage, uint64_t now_ns);

/*
 * Makes a target of a held passage; the target then owns the process. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *passage_take(
	struct passage *passage, struct probe_target *target);

#endif
