/* SPDX-License-Identifier: MIT */
/* What the seccomp filters of a target's threads would do to the system calls that we need. */
#ifndef LIBPROBE_SANDBOX_SECCOMP_H
#define LIBPROBE_SANDBOX_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/error.h"

/* Calls that a target's threads make for us, by what they are for; bits. */
enum seccomp_kind {
	SECCOMP_MAP = 1,   /* in one thread that is borrowed: memory is mapped ... */
	SECCOMP_UNMAP = 2, /* ... or given back */
	SECCOMP_ASK = 4,   /* in stubs: can this pointer be followed, which thread is this */
	SECCOMP_WAIT = 8,  /* in stubs: at a gate */
	SECCOMP_TIME = 16, /* may the thread read the processor's counter; in stubs: the time */
	SECCOMP_ALL = 31,
	SECCOMP_KINDS = 5
};

/*
 * Calls that probectl makes itself; further bits. Without those of the first kind nothing
 * can be done; the others make something better, and are not made where they would kill us.
 */
enum seccomp_own {
	SECCOMP_OWN_TRACE = 32,
	SECCOMP_OWN_KCMP = 64,	  /* which processes share their memory */
	SECCOMP_OWN_URGENT = 128, /* to go first while threads stand still */
	SECCOMP_OWN_MOVE = 256,	  /* to read the clock of another processor */
	SECCOMP_OWN_REMOVE = 512, /* to give back what rings have taken */
	SECCOMP_OWN_END = 1024
};

/* What stands for an argument that is known only when the call is made. */
#define SECCOMP_ADDRESS UINT64_C(0x10000) /* of memory that is mapped */
#define SECCOMP_FILE UINT64_C(1000)	  /* the descriptor that memfd_create(2) returned */

/* One of all those calls, with the arguments that filters look at. */
struct seccomp_call {
	const char *name;
	unsigned int kinds;
	int number;
	uint64_t args[6];
	long wanted; /* its result, where that is an error; 0: anything but an error */
};

extern const struct seccomp_call seccomp_calls[];
extern const size_t seccomp_call_count;

/* A thread that is under filters, or under strict seccomp. */
struct seccomp_thread {
	pid_t tid;
	long filters;	      /* how many; -1: the kernel does not say (before 5.9) */
	bool strict;	      /* read, write, exit and rt_sigreturn are all that it may call */
	unsigned int allowed; /* kinds; 0 until it is judged */
};

/* What is known of a target. */
struct seccomp {
	pid_t pid;
	struct seccomp_thread *threads;
	size_t count; /* 0: all threads may call what they like */
	bool strict;  /* one of them is */
	bool judged;
	unsigned int allowed;	      /* kinds that every thread may call */
	unsigned int wanted;	      /* kinds for which a thread is to be borrowed */
	char why[SECCOMP_KINDS][224]; /* of each kind, in their order: why some thread may not */
};

/*
 * Looks which threads of a process are under filters. Nothing is stopped, and
 * nothing is known of what the filters allow. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *seccomp_look(pid_t pid, struct seccomp *ret);
void seccomp_deinit(struct seccomp *seccomp);

/* May this process read filters? Those of a thread that it has stopped. */
bool seccomp_can_read(void);

/*
 * Finds out what each thread may call: by reading its filters, where we may; else by
 * trying the calls in a child of this process, where the filters are the same as our
 * own. What cannot be known is not allowed. Where seccomp_can_read(), all threads have
 * to be stopped by the calling thread. Errors: PROBE_ERROR_SYSTEM (no child).
 */
PROBE_MUST_CHECK struct probe_error *seccomp_judge(struct seccomp *seccomp);

/* May this thread be borrowed for what is wanted? `seccomp` is judged, or NULL: any may. */
bool seccomp_may_run(const struct seccomp *seccomp, pid_t tid);

/* Why some thread may not make calls of a kind. */
const char *seccomp_why(const struct seccomp *seccomp, enum seccomp_kind kind);

/* The error where a kind of call is not allowed. */
struct probe_error *seccomp_error(const struct seccomp *seccomp, enum seccomp_kind kind)
	__attribute__((returns_nonnull, warn_unused_result));

/*
 * Has a thread come under filters since? `seccomp` is what was seen of the process
 * last, and is renewed. Does not judge.
 */
bool seccomp_has_grown(struct seccomp *seccomp);

/* ---- Our own filters (seccomp_own.c) ----------------------------------------------------- */

/*
 * Finds out what the filters of this thread let us do, if it has come under any since the last
 * time. Errors: PROBE_ERROR_PERMISSION where they keep us from tracing anything, which says the
 * call; PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *seccomp_check_own(void);

/* May we make calls of this kind? As seccomp_check_own() has found; before that, yes. */
bool seccomp_may_call(enum seccomp_own kind);

/* What calls of a kind came to in a child of ours. */
struct seccomp_trial {
	bool allowed;
	const char *name; /* of the call that is not allowed */
	int err;	  /* its errno; 0: the child was killed for it */
};

/*
 * Makes the calls of a kind, of either enum, in a child of this process. Errors:
 * PROBE_ERROR_SYSTEM (there is no child).
 */
PROBE_MUST_CHECK struct probe_error *seccomp_try(unsigned int kind, struct seccomp_trial *ret);

/* Have threads of a process that are under `filters` filters the same ones as this thread? */
bool seccomp_is_same(pid_t pid, long filters);

/* ---- Running a filter (seccomp_run.c) ---------------------------------------------------- */

/*
 * Runs one filter as the kernel does (classic BPF on struct seccomp_data).
 * Returns its verdict; SECCOMP_RET_KILL_PROCESS for a program that is malformed.
 */
uint32_t seccomp_run(
	const struct sock_filter *program, size_t length, const struct seccomp_data *data);

#endif
