/* SPDX-License-Identifier: MIT */
/* Which threads hit, and which processes they belong to. */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/hash.h"
#include "libprobe/report/report.h"

static bool same_thread(const struct summary_thread *thread, const struct probe_event *event)
{
	return thread->hits && thread->pid == event->pid && thread->tid == event->tid;
}

static size_t home_of(const struct probe_summary *summary, pid_t pid, pid_t tid)
{
	return hash_word(0, (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid) &
	       (summary->thread_room - 1);
}

static bool grow(struct probe_summary *summary)
{
	struct summary_thread *before = summary->threads;
	size_t room = summary->thread_room;

	summary->threads = calloc(room ? 2 * room : 64, sizeof(*summary->threads));
	if (!summary->threads) {
		summary->threads = before;
		return false;
	}
	summary->thread_room = room ? 2 * room : 64;
	for (size_t i = 0; i < room; i++) {
		size_t at = home_of(summary, before[i].pid, before[i].tid);

		if (!before[i].hits)
			continue;
		while (summary->threads[at].hits)
			at = (at + 1) & (summary->thread_room - 1);
		summary->threads[at] = before[i];
	}
	free(before);
	summary->last_thread = NULL;
	memset(summary->recent, 0, sizeof(summary->recent));
	return true;
}

/* The event's thread; NULL: there is no room for it. False without memory. */
static bool find_thread(
	struct probe_summary *summary, const struct probe_event *event, struct summary_thread **ret)
{
	struct summary_thread *thread;
	size_t at;

	*ret = NULL;
	if (2 * (summary->thread_count + 1) > summary->thread_room && !grow(summary))
		return false;
	at = home_of(summary, event->pid, event->tid);
	while (summary->threads[at].hits && !same_thread(&summary->threads[at], event))
		at = (at + 1) & (summary->thread_room - 1);
	thread = &summary->threads[at];
	if (!thread->hits) {
		if (summary->thread_count == SUMMARY_THREADS_MAX)
			return true;
		summary->thread_count++;
		thread->pid = event->pid;
		thread->tid = event->tid;
	}
	*ret = summary->last_thread = thread;
	return true;
}

static void take_comm(struct summary_thread *thread, const struct probe_event *event)
{
	if (!event->comm ||
		(event->texts && event->texts == thread->texts && event->comm == thread->comm_at))
		return;
	if (strcmp(thread->comm, event->comm) != 0)
		strncpy(thread->comm, event->comm, sizeof(thread->comm) - 1);
	thread->comm_at = event->comm;
	thread->texts = event->texts;
}

struct probe_error *threads_hit(struct probe_summary *summary, const struct probe_event *event)
{
	struct summary_thread *thread = summary->last_thread;

	if (!thread || !same_thread(thread, event)) {
		if (!find_thread(summary, event, &thread))
			return probe_error_no_memory();
		if (!thread) {
			summary->other_thread_hits++;
			return NULL;
		}
	}
	thread->hits++;
	take_comm(thread, event);
	return NULL;
}

/* ---- What there was -------------------------------------------------------------------- */

static int thread_order(const void *a, const void *b)
{
	const struct summary_thread *left = *(const struct summary_thread *const *)a;
	const struct summary_thread *right = *(const struct summary_thread *const *)b;

	if (left->hits != right->hits)
		return left->hits > right->hits ? -1 : 1;
	if (left->pid != right->pid)
		return left->pid < right->pid ? -1 : 1;
	return left->tid < right->tid ? -1 : left->tid > right->tid;
}

const struct summary_thread **threads_sorted(const struct probe_summary *summary)
{
	const struct summary_thread **sorted =
		calloc(summary->thread_count + 1, sizeof(struct summary_thread *));
	size_t count = 0;

	for (size_t i = 0; sorted && i < summary->thread_room; i++) {
		if (summary->threads[i].hits)
			sorted[count++] = &summary->threads[i];
	}
	if (sorted)
		qsort(sorted, count, sizeof(struct summary_thread *), thread_order);
	return sorted;
}

static int by_pid(const void *a, const void *b)
{
	const struct summary_thread *left = *(const struct summary_thread *const *)a;
	const struct summary_thread *right = *(const struct summary_thread *const *)b;

	if (left->pid != right->pid)
		return left->pid < right->pid ? -1 : 1;
	return left->tid < right->tid ? -1 : left->tid > right->tid;
}

static int process_order(const void *a, const void *b)
{
	const struct summary_process *left = a, *right = b;

	if (left->hits != right->hits)
		return left->hits > right->hits ? -1 : 1;
	return left->pid < right->pid ? -1 : left->pid > right->pid;
}

struct summary_process *threads_processes(const struct probe_summary *summary, size_t *count_ret)
{
	struct summary_process *processes = calloc(summary->thread_count + 1, sizeof(*processes));
	const struct summary_thread **threads = threads_sorted(summary);
	size_t count = 0;

	if (!processes || !threads) {
		free(processes);
		free(threads);
		return NULL;
	}
	qsort(threads, summary->thread_count, sizeof(struct summary_thread *), by_pid);
	for (size_t i = 0; i < summary->thread_count; i++) {
		const struct summary_thread *thread = threads[i];
		struct summary_process *process;

		if (!count || processes[count - 1].pid != thread->pid)
			processes[count++] =
				(struct summary_process){.pid = thread->pid, .comm = thread->comm};
		process = &processes[count - 1];
		process->hits += thread->hits;
		process->threads++;
		if (thread->tid == thread->pid)
			process->comm = thread->comm;
	}
	free(threads);
	qsort(processes, count, sizeof(*processes), process_order);
	*count_ret = count;
	return processes;
}
