/* SPDX-License-Identifier: MIT */
/* What the seccomp filters of a target's threads do to the system calls that we need. */
#ifndef LIBPROBE_PROCESS_SECCOMP_H
#define LIBPROBE_PROCESS_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/error.h"

/* Purposes of the calls that a target's threads make for us; bits. */
enum seccomp_kind {
	SECCOMP_MAP = 1,     /* one borrowed thread maps memory ... */
	SECCOMP_UNMAP = 2,   /* ... or unmaps it */
	SECCOMP_ASK = 4,     /* stubs check a pointer, or get the thread's id */
	SECCOMP_WAIT = 8,    /* stubs wait at a gate */
	SECCOMP_TIME = 16,   /* whether the processor's counter is readable; stubs get the time */
	SECCOMP_NAME = 32,   /* stubs get the name of their thread */
	SECCOMP_CPU = 64,    /* stubs get the number of their processor */
	SECCOMP_STACK = 128, /* stubs ask which pages of a stack are in memory */
	SECCOMP_ALL = 255,
	SECCOMP_KINDS = 8
};

/*
 * Purposes of the calls that probectl makes itself; further bits. Without the first nothing
 * works. The others are optional, and are not made if they would kill us.
 */
enum seccomp_own {
	SECCOMP_OWN_TRACE = 256,
	SECCOMP_OWN_KCMP = 512,	     /* finds out which processes share memory */
	SECCOMP_OWN_URGENT = 1024,   /* raises our priority while threads are stopped */
	SECCOMP_OWN_MOVE = 2048,     /* runs on a certain processor, or lets others run */
	SECCOMP_OWN_REMOVE = 4096,   /* frees the memory of rings */
	SECCOMP_OWN_TAKE = 8192,     /* takes files that a target has made */
	SECCOMP_OWN_ALARM = 16384,   /* has us continued while we hold threads */
	SECCOMP_OWN_DIRECT = 32768,  /* asks how a file may be written past the page cache */
	SECCOMP_OWN_CACHED = 65536,  /* identifies files without asking their file systems */
	SECCOMP_OWN_PAGES = 131072,  /* finds out which pages a target has */
	SECCOMP_OWN_MEMORY = 262144, /* reads and writes memory without opening /proc/PID/mem */
	SECCOMP_OWN_END = 524288
};

/* Which pages a process has: the number of that ioctl(2), of its pagemap, since Linux 6.7. */
#define SECCOMP_PAGEMAP_SCAN UINT64_C(0xc0606610)

/* Placeholders for arguments that are known only when the call is made. */
#define SECCOMP_ADDRESS UINT64_C(0x10000) /* an address of mapped memory */
#define SECCOMP_FILE UINT64_C(1000)	  /* the descriptor that memfd_create(2) returned */

/* One of these calls, with the arguments that filters examine. */
struct seccomp_call {
	const char *name;
	unsigned int kinds;
	int number;
	uint64_t args[6];
	long wanted; /* its result if that is an error; 0: anything except an error */
};

extern const struct seccomp_call seccomp_calls[];
extern const size_t seccomp_call_count;

/* A thread with filters, or in strict mode. */
struct seccomp_thread {
	pid_t tid;
	long filters;	      /* their number; -1: unknown (Linux before 5.9) */
	bool strict;	      /* it may call only read, write, exit and rt_sigreturn */
	unsigned int allowed; /* kinds; 0 until judged */
};

/* What is known of a target. */
struct seccomp {
	pid_t pid;
	struct seccomp_thread *threads;
	size_t count; /* 0: no thread is restricted */
	bool strict;  /* one of them is in strict mode */
	bool judged;
	unsigned int allowed;	      /* kinds that every thread may call */
	unsigned int wanted;	      /* kinds for which a thread is borrowed */
	char why[SECCOMP_KINDS][224]; /* for each kind: why some thread may not make the calls */
};

/*
 * Finds the threads of a process that have filters. Stops nothing, and does not look at what
 * the filters allow. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *seccomp_look(pid_t pid, struct seccomp *ret);
/* The same of a process that has but one thread. */
PROBE_MUST_CHECK struct probe_error *seccomp_look_at_main(pid_t pid, struct seccomp *ret);
void seccomp_deinit(struct seccomp *seccomp);

/* Stubs are not to make calls of these kinds, and why; of several reasons the first one stays. */
void seccomp_deny(struct seccomp *seccomp, unsigned int kinds, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Whether this process may read the filters of a thread it has stopped. */
bool seccomp_can_read(void);

/*
 * Finds out what each thread may call: by reading its filters if we may; otherwise by trying
 * the calls in a child of this process, if it has the same filters. What cannot be known is not
 * allowed. If seccomp_can_read(), the calling thread must have stopped all threads. Errors:
 * PROBE_ERROR_SYSTEM (no child).
 */
PROBE_MUST_CHECK struct probe_error *seccomp_judge(struct seccomp *seccomp);

/* Whether this thread may be borrowed for `wanted`. `seccomp` is judged, or NULL: any may. */
bool seccomp_may_run(const struct seccomp *seccomp, pid_t tid);

/* Why some thread may not make calls of a kind. */
const char *seccomp_why(const struct seccomp *seccomp, enum seccomp_kind kind);

/* The error for a kind of call that is not allowed. */
struct probe_error *seccomp_error(const struct seccomp *seccomp, enum seccomp_kind kind)
	__attribute__((returns_nonnull, warn_unused_result));

/*
 * Whether a thread has got filters since. `seccomp` is the last state seen, and is updated.
 * Does not judge.
 */
bool seccomp_has_grown(struct seccomp *seccomp);

/* ---- Our own filters (seccomp_own.c) ----------------------------------------------------- */

/*
 * Finds out what this thread's own filters allow, if it has got any since the last call.
 * Errors: PROBE_ERROR_PERMISSION if they prevent all tracing, naming the call;
 * PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *seccomp_check_own(void);

/* Whether we may make calls of this kind, according to seccomp_check_own(); before that, yes. */
bool seccomp_may_call(enum seccomp_own kind);

/* The outcome of calls of one kind in a child of ours. */
struct seccomp_trial {
	bool allowed;
	const char *name; /* of the call that is not allowed */
	int err;	  /* its errno; 0: it killed the child */
};

/*
 * Makes the calls of a kind, of either enum, in a child of this process. Errors:
 * PROBE_ERROR_SYSTEM (no child).
 */
PROBE_MUST_CHECK struct probe_error *seccomp_try(unsigned int kind, struct seccomp_trial *ret);

/* Whether threads of a process with `filters` filters have the same ones as this thread. */
bool seccomp_is_same(pid_t pid, long filters);

/* ---- Running a filter (seccomp_run.c) ---------------------------------------------------- */

/*
 * Runs one filter as the kernel does (classic BPF on struct seccomp_data).
 * Returns its verdict; SECCOMP_RET_KILL_PROCESS for a program that is malformed.
 */
uint32_t seccomp_run(
	const struct sock_filter *program, size_t length, const struct seccomp_data *data);

#endif
