/* SPDX-License-Identifier: MIT */
/*
 * A thread that waits at a gate sleeps in futex(2), in one of its turns. /proc/PID/task/TID/syscall
 * shows the address. Those of forked children wait for the same memory at the same address.
 *
 * Between taking its number and sleeping, a thread may have to wait for a processor. So a thread
 * that is not found is waited for as long as any thread runs that could be it. A thread that was
 * killed on that way still has its number, and is never found.
 *
 * Sources: proc_pid_syscall(5); futex(2).
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "libprobe/base/array.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/follow/follow.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"

enum {
	FIND_NS = 500000000,	 /* between arriving at the gate and waiting there, at the most */
	FIND_IDLE_NS = 10000000, /* the same, while no thread runs that could be on that way */
	FIND_LOOKS = 50,	 /* at the least: we may get the processor as rarely as they do */
	FIND_PAUSE_NS = 100000	 /* between two looks */
};

/*
 * The turn of the gate in which a thread waits, and its stack pointer; or -1. `address` is of the
 * first turn. *runs_ret: it is in no system call, or does not sleep there. (-1 stands for a page
 * fault.)
 */
static int turn_of(pid_t pid, pid_t tid, uint64_t address, bool *runs_ret, unsigned long long *sp)
{
	enum { TURN_BYTES = sizeof(((struct probe_gate *)NULL)->turns[0]) };
	char path[64], text[128];
	unsigned long long word;
	long number;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	if (!file_read(path, text, sizeof(text)))
		return -1;
	*runs_ret |= strncmp(text, "running", strlen("running")) == 0 || text[0] == '-';
	*sp = 0;
	if (sscanf(text, "%ld %llx %*x %*x %*x %*x %*x %llx", &number, &word, sp) < 2 ||
		(number != SYS_futex && number != SYS_restart_syscall) || word < address ||
		word - address >= GATE_TURNS * TURN_BYTES)
		return -1;
	return (int)((word - address) / TURN_BYTES);
}

static void look_at(
	struct waiters *waiters, const struct waiters_place *place, pid_t pid, pid_t tid)
{
	unsigned long long sp;
	int turn = turn_of(pid, tid, place->address, &waiters->others_run, &sp);

	if (turn < 0 || (place->leave_out && place->leave_out(place->data, turn, pid, tid)))
		return;
	if (!ARRAY_ROOM(waiters->items, waiters->count))
		return;
	waiters->items[waiters->count++] = (struct waiter){.pid = pid, .tid = tid, .sp = sp};
}

static void find_in(struct waiters *waiters, const struct waiters_place *place, pid_t pid)
{
	DIR *threads = procfs_threads(pid);
	pid_t tid;

	while ((tid = procfs_next_thread(pid, threads)))
		look_at(waiters, place, pid, tid);
	if (threads)
		closedir(threads);
}

static void find_below(struct waiters *waiters, const struct waiters_place *place, pid_t pid)
{
	pid_t *pids = children_of(pid);

	for (size_t i = 0; pids && pids[i]; i++) {
		find_in(waiters, place, pids[i]);
		/* A process with memory of its own waits only if children are held. */
		if (place->children)
			find_below(waiters, place, pids[i]);
	}
	free(pids);
}

/* Most have one thread, and so have their children. False: there are more. */
static bool find_main_threads(
	struct waiters *waiters, const struct waiters_place *place, uint32_t wanted)
{
	pid_t *pids = children_of_thread(place->pid, place->pid);

	/* Most wait for a child. */
	for (size_t i = 0; pids && pids[i] && waiters->count < wanted; i++)
		look_at(waiters, place, pids[i], pids[i]);
	free(pids);
	if (waiters->count < wanted)
		look_at(waiters, place, place->pid, place->pid);
	return waiters->count >= wanted;
}

bool waiters_find(struct waiters *waiters, struct gate *gate, struct waiters_place *place)
{
	static const struct timespec pause = {.tv_nsec = FIND_PAUSE_NS};
	uint64_t now = clock_monotonic_ns(), patience;

	if (!gate_take(gate)) {
		place->since_ns = 0;
		return true;
	}
	if (!place->since_ns) {
		place->since_ns = now;
		place->looks = 0;
	}
	if (!find_main_threads(waiters, place, gate_waiting(gate))) {
		waiters->count = 0;
		find_in(waiters, place, place->pid);
		find_below(waiters, place, place->pid);
	}
	/* More may have come, and been found: they are released with the rest. */
	gate_take(gate);
	patience = waiters->others_run ? FIND_NS : FIND_IDLE_NS;
	if (waiters->count < gate_waiting(gate) &&
		(now - place->since_ns < patience || place->looks < FIND_LOOKS)) {
		place->looks++;
		nanosleep(&pause, NULL);
		return false;
	}
	place->since_ns = 0;
	return true;
}
