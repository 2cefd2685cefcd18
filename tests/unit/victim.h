/* SPDX-License-Identifier: MIT */
/* Forked processes for tests that change other processes. */
#ifndef TESTS_VICTIM_H
#define TESTS_VICTIM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "libprobe/ptrace/ptrace.h"

/* What a victim and the test share; zeroed for each victim. */
struct shared {
	_Atomic uint64_t ready;	   /* set by the victim when it is where it shall be */
	_Atomic uint64_t progress; /* counts while it runs */
	_Atomic uint64_t signals;  /* that were handled */
	_Atomic uint64_t failure;  /* what it found wrong; 0: nothing */
	_Atomic int64_t result;
	_Atomic int64_t elapsed_ns;
	_Atomic uint64_t over; /* set by the test: it may exit */
	int pipe[2];	       /* from the test to the victim */
};

struct victim {
	pid_t pid;
	struct shared *shared;
	struct maps maps;
	struct modules modules;
	struct arch_gadgets gadgets;
	struct prepared *prepared;
	struct rooms rooms;
	int mem;
};

/* Forks a process that runs `body` and exits; waits until it says that it is ready. */
void victim_start(struct victim *victim, void (*body)(struct shared *shared));
/* Kills it; it must still have been alive. */
void victim_end(struct victim *victim);
/* Lets it exit by itself, which must be with status 0 and without a failure noted. */
void victim_join(struct victim *victim);

/* Runs calls in a stopped thread, and removes their frame. */
struct probe_error *control_run(struct control *control, const struct rooms *rooms,
	const struct arch_gadgets *gadgets, struct prepared *prepared, struct control_call *calls,
	size_t count);

/* Fails the test where there is an error. */
void assert_done(struct probe_error *error);

/* Waits until a word has (at least) a value. */
void await(const _Atomic uint64_t *word, uint64_t value);
/* Waits until the victim's first thread is in this state: 'S' while a system call waits. */
void await_state(const struct victim *victim, char state);
void sleep_ms(unsigned int ms);
/* Of CLOCK_MONOTONIC. */
int64_t now_ns(void);

#endif
