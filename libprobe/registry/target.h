/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_REGISTRY_TARGET_H
#define LIBPROBE_REGISTRY_TARGET_H

#include "arch/stub.h"
#include "libprobe/ptrace/control.h"
#include "probe/target.h"

/* What the system calls of a held program's loader revealed about its threads. */
struct spawn_facts {
	bool known; /* the loader has set the thread pointer up */
	bool has_rseq;
	int32_t rseq_offset;
	uint32_t rseq_signature;
};

/* A thread of the target that waits for us, and makes system calls when it is asked. */
struct target_proxy {
	pid_t tid;
	/*
	 * Sets the result; false: the thread is gone. After a call it stays where it is until the
	 * next one.
	 */
	bool (*call)(void *data, struct control_call *call);
	void *data;
};

/* The process that held the lock when a change had to wait. */
struct lock_holder {
	bool is_stranger; /* its user is neither root nor ours */
	uint64_t looked_ns;
	unsigned int misses; /* looks in a row that found no holder */
	char name[64];	     /* for messages */
};

/* A copy of some text, in the list of its target. */
struct target_text {
	struct target_text *next;
	char text[];
};

/* A module in which probes have been enabled (libprobe/patch/later.h). */
struct target_module {
	uint64_t start, inode;
	uint32_t dev_major, dev_minor;
};

struct probe_target {
	pid_t pid;
	uint64_t start_time; /* tells this process from a later one with its pid */
	int mem;	     /* of the program that it was when it was first changed, or -1 */
	uint64_t image;	     /* that program's AT_RANDOM, or 0 */
	bool spawned, held;
	/*
	 * Held since its execve(2): it has one thread, and shares its memory with no process, so
	 * nothing changes there.
	 */
	bool alone;
	bool hurry;    /* others wait for us: fail if the target cannot be changed at once */
	bool late;     /* found while others were traced; must not delay them */
	bool attached; /* it is held, and was running before: probe_target_attach() */
	bool dropped;  /* and probes were switched off since */
	struct control control; /* while held: all its threads, stopped */
	/* Or NULL: see probe_target_on_wait(). */
	bool (*on_wait)(pid_t pid, unsigned int seconds, const char *holder, void *data);
	void *on_wait_data;
	struct probe_patience *patience; /* or NULL: probe_target_set_patience(); borrowed */
	struct lock_holder holder;
	/* Not 0: a process in its memory that waits for us and runs nothing else meanwhile. */
	pid_t lender;
	bool shares_memory;		  /* with another process, as a stop has found */
	const struct target_proxy *proxy; /* owned by libprobe/self, or NULL */
	struct spawn_facts facts;
	struct arch_gadgets gadgets; /* known, and there; `call` 0: they are to be found */
	struct arch_thread model;    /* what threads_model() finds, if model_known */
	bool model_known;
	struct files *files; /* that it shares with other processes, or NULL */
	bool odd_threads;    /* libc's model of threads is not right for all (threads.c) */
	bool no_counter;     /* a thread may not read the processor's time stamp counter */
	bool dispatches;     /* it handles a thread's system calls itself (dispatch.h) */
	/* How often one of these was noticed: an attempt that failed because of it is repeated. */
	unsigned int lessons;
	/* In a row: libraries closed too early (libprobe/patch/closed.h). */
	unsigned int closings;
	/* The file that tells how often its control group ran out of memory, or NULL. */
	char *events;
	uint64_t kills;		   /* as it said when a session began */
	struct target_text *texts; /* what target_string() handed out */
	struct target_module *served;
	size_t served_count;
};

/* NULL without memory; pid 0: for a process that will be started. */
struct probe_target *target_create(pid_t pid, uint64_t start_time);

/*
 * Is there still the program that was changed first? Not after execve(2), and not when the process
 * has ended.
 */
bool target_is_there(const struct probe_target *target);

/* A copy that lives as long as the target; NULL without memory. */
const char *target_string(struct probe_target *target, const char *text);

/*
 * Continues a target that is held. Returns whether a thread may have been stopped in code that is
 * no longer needed, which a repair collects: probe_target_release().
 */
bool target_let_go(struct probe_target *target);
/* Of a target that is not held: probe_target_close(). */
void target_free(struct probe_target *target);

/* Notes, once, the values that probe_target_fate() compares with (fate.c). */
void fate_begin(struct probe_target *target);

#endif
