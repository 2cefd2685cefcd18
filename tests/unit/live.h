/* SPDX-License-Identifier: MIT */
/*
 * A target whose every hit is known: a child of the test that hits its probes on command, in
 * several threads.
 */
#ifndef UNIT_LIVE_H
#define UNIT_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/target.h"

enum {
	THREADS = 4,
	HITS = 20000, /* of each thread */
	KINDS = 10,
	ROUNDS = 500,
	DEPTH = 5,
	REQUESTS = 1000,
	LEFT = 5 /* requests that never end */
};

extern const char *const live_names[3];

/* The arguments of the i-th live:value: this, i % KINDS, and the name i % 3. */
long live_value(long i);

struct live {
	pid_t pid;
	int commands, replies;
	struct probe_target *target;
	struct probe_session *session;
	struct probe_row *rows;
	size_t count;
};

/* Fails the test where there is an error. */
void live_ok(struct probe_error *error);

/* *state is a struct live, whose target is there. */
int live_setup(void **state);
int live_teardown(void **state);

/*
 * What the target does, all of it before this returns:
 *	v	live:value, HITS times in each of THREADS threads
 *	o	live:value, HITS times in order, in one thread on one processor
 *	r	live:op__start and op__done, DEPTH deep, ROUNDS times in each thread; then
 *		an end without a begin, and a begin without an end
 *	1	live:op__start, once, with argument 1
 *	f	the same, and once more in a forked child, with argument 2
 *	q	REQUESTS begins in one thread; all but LEFT end in another, and one more
 */
void live_order(struct live *l, char command);

/* Begins a session of probes that match. */
struct probe_error *live_begin(struct live *l, const char *pattern,
	const struct probe_session_options *options, struct probe_report *report);
void live_end_session(struct live *l);

/* A session over one command, and its rows. */
void live_gather(struct live *l, const char *pattern, const struct probe_session_options *options,
	char command);

const struct probe_session_probe *live_probe(const struct live *l, const char *name);

/* Follows the records of a flight recorder, which must be in order; `data` is this. */
struct live_flight {
	uint64_t count, last_time;
	long last;
};
bool live_follow(const struct probe_hit *hit, void *data);

#endif
