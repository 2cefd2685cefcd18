/* SPDX-License-Identifier: MIT */
/*
 * The order in which a command changes several processes. One user's processes must not delay those
 * of other users, but a process with many threads takes long, and some threads do not stop. So the
 * next process belongs to the user whose changes have taken the least time so far, including the
 * estimated time to stop the threads. Our own user's time is not counted.
 *
 * A process belongs to its real user id, so that nobody can give it to another user by executing a
 * set-user-ID program.
 */
#include <stdlib.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/procfs.h"
#include "probe/trace.h"

/* The unit for counting threads. Processes with the same count keep their order. */
enum { STEP_THREADS = 64, STEP_NS = 20000000 };

struct waiting {
	long user;
	size_t first; /* index of the first process that belongs to the same user */
	/* Time spent for this user; only counted in the user's first process. */
	uint64_t spent_ns;
	uint64_t threads_ns; /* estimated time to stop the process's threads */
	/* tried: it had its turn in this round; ended: it needs no more turns */
	bool tried, ended;
	struct probe_error *busy;
};

static uint64_t when(const struct waiting *all, size_t index)
{
	return all[all[index].first].spent_ns + all[index].threads_ns;
}

static void take_turn(struct waiting *all, size_t index, const struct probe_turn *turn,
	struct probe_patience *patience)
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

/* Changes each unfinished process once. Returns true if another controller has locked any. */
static bool take_round(struct waiting *all, size_t count, const struct probe_turn *turn,
	struct probe_patience *patience)
{
	bool any = false;

	for (size_t i = 0; i < count; i++)
		all[i].tried = all[i].ended;
	for (;;) {
		size_t next = count;

		for (size_t i = 0; i < count; i++)
			if (!all[i].tried && (next == count || when(all, i) < when(all, next)))
				next = i;
		if (next == count)
			return any;
		take_turn(all, next, turn, patience);
		any |= !all[next].ended;
	}
}

void probe_take_turns(size_t count, const struct probe_turn *turn)
{
	AUTO_FREE struct waiting *all = calloc(count + 1, sizeof(*all));
	struct probe_patience patience = {0};
	bool any;

	for (size_t i = 0; i < count && !all; i++)
		turn->end(turn->data, i, turn->change(turn->data, i, NULL));
	if (!all)
		return;
	for (size_t i = 0; i < count; i++) {
		struct waiting *its = &all[i];
		pid_t pid = turn->pid(turn->data, i);
		long threads = procfs_status_number(pid, "Threads:");

		its->user = procfs_status_number(pid, "Uid:");
		its->threads_ns = threads > 0 ? (uint64_t)threads / STEP_THREADS * STEP_NS : 0;
		while (all[its->first].user != its->user)
			its->first++;
	}
	do
		any = take_round(all, count, turn, &patience);
	while (any && probe_patience_wait(&patience));
	for (size_t i = 0; i < count; i++)
		if (all[i].busy)
			turn->end(turn->data, i, all[i].busy);
}
