/* SPDX-License-Identifier: MIT */
/*
 * A thread that is waiting for a processor when it is asked to stop keeps waiting, as it would
 * without us, and its pause begins only when it stops. The same is true while it makes a system
 * call for us:
 *
 *	asked                     stopped   seen          call          ended
 *	  |--- no processor -----------|------|-----------|--|--|---------|
 *	                               |======= the pause ===|  |=========|
 *
 * The kernel does not report when a thread stopped. But the scheduler counts how long each thread
 * has been ready to run without a processor. We subtract the growth of that number. But part of it
 * may lie before the stop or after it, so we subtract at most the time for which we let the thread
 * run, less what that takes if there is a processor (HANDOVER_NS), and less the time for which we
 * had no processor ourselves and may have seen the thread's stop late. What is unknown counts as
 * pause.
 *
 * Source: Documentation/scheduler/sched-stats.rst of Linux, /proc/<pid>/schedstat.
 */
#include <stdio.h>
#include <stdlib.h>

#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/base/clock.h"
#include "libprobe/ptrace/ptrace.h"

enum {
	HANDOVER_NS = 20000, /* to a thread on another processor and back, measured: 5 to 20 us */
	LOOKS = 64	     /* threads; for the others, the whole stop counts */
};

static uint64_t read_waited_ns(const char *path)
{
	char text[96], *second, *end;
	uint64_t waited;

	if (!file_read(path, text, sizeof(text)))
		return PAUSE_UNKNOWN;
	strtoull(text, &second, 10); /* how long it ran */
	waited = strtoull(second, &end, 10);
	return end != second ? waited : PAUSE_UNKNOWN;
}

static uint64_t waited_ns(pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
	return read_waited_ns(path);
}

static uint64_t own_waited_ns(void)
{
	return read_waited_ns("/proc/thread-self/schedstat");
}

void pause_look(struct control *control)
{
	for (size_t i = 0; i < control->count && i < LOOKS; i++) {
		struct control_thread *thread = &control->threads[i];

		thread->pause.waited_ns = waited_ns(thread->pid, thread->tid);
	}
	control->waited_ns = own_waited_ns();
}

void pause_let(struct pause *pause, uint64_t begun_ns)
{
	uint64_t ns = clock_monotonic_ns() - begun_ns;

	if (ns > HANDOVER_NS)
		pause->let_ns += ns - HANDOVER_NS;
}

uint64_t pause_ns(const struct pause *pause, uint64_t waited_ns, uint64_t own_ns)
{
	uint64_t whole = pause->ended_ns - pause->asked_ns;
	uint64_t let = pause->let_ns, waited;

	if (pause->waited_ns == PAUSE_UNKNOWN || waited_ns == PAUSE_UNKNOWN ||
		waited_ns < pause->waited_ns || own_ns >= let)
		return whole;
	waited = waited_ns - pause->waited_ns;
	let -= own_ns;
	return whole - (waited < let ? waited : let);
}

/* The thread whose pause may be the longest; NULL if none can be longer than `than`. */
static struct control_thread *find_longest(struct control *control, uint64_t than)
{
	struct control_thread *found = NULL;

	for (size_t i = 0; i < control->count; i++) {
		struct pause *pause = &control->threads[i].pause;

		if (pause->ended_ns && pause->ended_ns - pause->asked_ns > than) {
			found = &control->threads[i];
			than = pause->ended_ns - pause->asked_ns;
		}
	}
	return found;
}

/* How long this thread has waited since pause_look(). */
static uint64_t own_since(const struct control *control)
{
	uint64_t now = own_waited_ns();

	return control->waited_ns == PAUSE_UNKNOWN || now == PAUSE_UNKNOWN
		       ? PAUSE_UNKNOWN
		       : now - control->waited_ns;
}

/* Reads few files: most threads have not waited for a processor. */
uint64_t pause_longest(struct control *control)
{
	uint64_t own = PAUSE_UNKNOWN, longest = 0;
	struct control_thread *thread;

	while ((thread = find_longest(control, longest))) {
		uint64_t ns, waited = PAUSE_UNKNOWN;

		/* Otherwise nothing may be subtracted. */
		if (thread->pause.waited_ns != PAUSE_UNKNOWN && thread->pause.let_ns) {
			if (own == PAUSE_UNKNOWN)
				own = own_since(control);
			waited = waited_ns(thread->pid, thread->tid);
		}
		ns = pause_ns(&thread->pause, waited, own);
		longest = ns > longest ? ns : longest;
		thread->pause.ended_ns = 0;
	}
	return longest;
}
