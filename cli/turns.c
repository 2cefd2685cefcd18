/* SPDX-License-Identifier: MIT */
/*
 * Commands change several processes one after the other. No user's processes may keep those of
 * other users waiting, but a change takes longer the more threads, mappings and probes a process
 * has, and some threads do not stop. So the users share the time: the next process belongs to the
 * user whose changes have taken the least time so far. Time that our own user's take is not
 * counted. A process with many threads has the time that stopping them takes added, so that it
 * comes after smaller ones.
 *
 * The user is the real one: nobody can give a process away by executing a set-user-ID program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/processes.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/procfs.h"

/* Fewer threads than a step has make no difference: processes keep the order that they came in. */
enum { STEP_THREADS = 64, STEP_NS = 20000000 };

struct waiting {
	long user;
	size_t first;	     /* of all processes, the first of that user */
	uint64_t spent_ns;   /* in the first: by all of that user */
	uint64_t threads_ns; /* roughly what stopping its threads takes */
	bool tried, ended;   /* tried: in this round */
	struct probe_error *busy;
};

static void look_at(struct waiting *all, size_t index, pid_t pid)
{
	struct waiting *its = &all[index];
	long threads = procfs_status_number(pid, "Threads:");

	its->user = procfs_status_number(pid, "Uid:");
	its->threads_ns = threads > 0 ? (uint64_t)threads / STEP_THREADS * STEP_NS : 0;
	while (all[its->first].user != its->user)
		its->first++;
}

static uint64_t when(const struct waiting *all, size_t index)
{
	return all[all[index].first].spent_ns + all[index].threads_ns;
}

/* The one whose turn it is, or `count`. */
static size_t next_turn(const struct waiting *all, size_t count)
{
	size_t next = count;

	for (size_t i = 0; i < count; i++)
		if (!all[i].tried && (next == count || when(all, i) < when(all, next)))
			next = i;
	return next;
}

static void take_turn(
	struct waiting *all, size_t index, const struct turn *turn, struct probe_patience *patience)
{
	struct waiting *its = &all[index];
	uint64_t begin_ns = clock_monotonic_ns();
	struct probe_error *error = turn->change(turn->data, index, patience);

	if (its->user != (long)getuid())
		all[its->first].spent_ns += clock_monotonic_ns() - begin_ns;
	probe_error_free(its->busy);
	its->busy = NULL;
	its->tried = true;
	if (error && error->code == PROBE_ERROR_BUSY) {
		its->busy = error;
		return;
	}
	its->ended = true;
	turn->end(turn->data, index, error);
}

/* Everything that has not ended, once. Returns whether something is locked. */
static bool take_round(
	struct waiting *all, size_t count, const struct turn *turn, struct probe_patience *patience)
{
	bool any = false;
	size_t next;

	for (size_t i = 0; i < count; i++)
		all[i].tried = all[i].ended;
	while ((next = next_turn(all, count)) < count) {
		take_turn(all, next, turn, patience);
		any |= !all[next].ended;
	}
	return any;
}

void processes_take_turns(size_t count, const struct turn *turn)
{
	struct waiting *all = calloc(count + 1, sizeof(*all));
	struct probe_patience patience = {0};
	bool any;

	for (size_t i = 0; i < count; i++) {
		if (all)
			look_at(all, i, turn->pid(turn->data, i));
		else
			turn->end(turn->data, i, turn->change(turn->data, i, NULL));
	}
	if (!all)
		return;
	do
		any = take_round(all, count, turn, &patience);
	while (any && probe_patience_wait(&patience));
	for (size_t i = 0; i < count; i++)
		if (all[i].busy)
			turn->end(turn->data, i, all[i].busy);
	free(all);
}
