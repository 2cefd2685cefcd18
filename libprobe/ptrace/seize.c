/* SPDX-License-Identifier: MIT */
/* Sources: ptrace(2); fs/proc/base.c of Linux. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <time.h>

#include "libprobe/base/array.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"

#define LEAVING_NS UINT64_C(1000000000)

enum { MOMENT_NS = 100000 };

/*
 * Is it one of the first `known` threads? The kernel lists them in the same order every time, so
 * the next one is usually at *hint, which is advanced.
 */
static bool has_thread(const struct control *control, size_t known, pid_t tid, size_t *hint)
{
	for (size_t i = 0; i < known; i++) {
		size_t at = (*hint + i) % known;

		if (control->threads[at].tid == tid) {
			*hint = at + 1;
			return true;
		}
	}
	return false;
}

/*
 * Makes room for one more thread. Called before it is attached to: a thread that is not listed
 * would never be resumed.
 */
static struct probe_error *make_room(struct control *control)
{
	return ARRAY_ROOM(control->threads, control->count) ? NULL : probe_error_no_memory();
}

/*
 * A controller that is killed gives back the lock of its target a moment before the target's
 * threads (do_exit() in the kernel's kernel/exit.c). So a tracer that is ending is waited for. If
 * there is none, it may have left just now: this is tried once more.
 */
static bool try_seize(pid_t tid)
{
	uint64_t end = clock_monotonic_ns() + LEAVING_NS;
	bool was_free = false;

	while (ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD) < 0) {
		int err = errno;
		long tracer = err == EPERM ? procfs_status_number(tid, "TracerPid:") : -1;
		bool stays = tracer > 0 && procfs_thread_state(tracer, tracer) &&
			     !procfs_is_exiting(tracer);

		if (tracer < 0 || stays || (!tracer && was_free) || clock_monotonic_ns() >= end) {
			errno = err;
			return false;
		}
		was_free = !tracer;
		nanosleep(&(struct timespec){.tv_nsec = MOMENT_NS}, NULL);
	}
	return true;
}

struct probe_error *seize_thread(struct control *control, pid_t pid, pid_t tid, bool *attached_ret)
{
	struct probe_error *error = make_room(control);

	*attached_ret = false;
	if (error)
		return error;
	if (!try_seize(tid)) {
		int err = errno;
		char state = procfs_thread_state(pid, tid);

		if (err == ESRCH || !state || strchr("ZXx", state))
			return NULL;
		if (err == EPERM)
			return procfs_permission_error(pid);
		return probe_error_system(err, "cannot trace thread %d of process %d", tid, pid);
	}
	*attached_ret = true;
	control->threads[control->count++] = (struct control_thread){.tid = tid,
		.pid = pid,
		.is_running = true,
		.seen = {.number = -1},
		.pause = {.waited_ns = PAUSE_UNKNOWN}};
	return NULL;
}

void seize_ask_to_stop(struct control_thread *thread)
{
	/* As late as possible: what it does from here on is not seen. */
	if (arch_process()->hidden_call)
		restart_look(thread->pid, thread->tid, &thread->seen);
	thread->pause.asked_ns = clock_monotonic_ns();
	if (thread->wait)
		remaining_interrupt(thread->wait);
	else
		ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL);
}

/*
 * Does the kernel count as many tasks of a process as we have attached to or passed over? Stopped
 * threads create no tasks, and the kernel's workers create only workers. The link count of the open
 * folder is the number of tasks plus two (proc_task_getattr() in fs/proc/base.c). The tasks that
 * were passed over are counted after that, so one that ends in between makes the numbers differ.
 */
static bool has_all(const struct control *control, pid_t pid, int folder)
{
	struct stat status;
	size_t count = 0;

	if (fstat(folder, &status) < 0)
		return false;
	for (size_t i = 0; i < control->count; i++)
		count += control->threads[i].pid == pid;
	for (size_t i = 0; i < control->passed_count; i++)
		count += control->passed[i].pid == pid &&
			 procfs_thread_state(pid, control->passed[i].tid) != 0;
	return status.st_nlink == count + 2;
}

static struct probe_error *pass_over(struct control *control, pid_t pid, pid_t tid)
{
	if (!ARRAY_ROOM(control->passed, control->passed_count))
		return probe_error_no_memory();
	control->passed[control->passed_count++] = (struct control_passed){pid, tid};
	return NULL;
}

/*
 * Attaches to every thread of a process that is not attached yet. *new_ret grows if there are more,
 * or may be: the kernel goes through its list by position, so if a thread leaves it after it was
 * listed, the next one can be left out (proc_task_readdir()); and one that was listed may have
 * created another before it ended.
 */
static struct probe_error *seize_process(
	struct control *control, pid_t pid, enum seize_then then, size_t *new_ret)
{
	size_t known = control->count, hint = 0;
	struct probe_error *error = NULL;
	DIR *threads = procfs_threads(pid);
	pid_t tid;

	/* ESRCH: it ended while the name was looked up. */
	if (!threads && (errno == ENOENT || errno == ESRCH))
		return pid == control->pid ? procfs_no_process(pid) : NULL;
	if (!threads)
		return probe_error_system(errno, "/proc/%d/task", pid);
	while (!error && (tid = procfs_next_id(threads))) {
		bool attached = false;

		if (has_thread(control, known, tid, &hint))
			continue;
		if (!procfs_is_worker(pid, tid))
			error = seize_thread(control, pid, tid, &attached);
		if (!error && attached && then == SEIZE_ASK)
			seize_ask_to_stop(&control->threads[control->count - 1]);
		if (!error && !attached)
			error = pass_over(control, pid, tid);
	}
	*new_ret += control->count - known;
	if (!error)
		*new_ret += !has_all(control, pid, dirfd(threads));
	closedir(threads);
	return error;
}

struct probe_error *seize_new(struct control *control, enum seize_then then, size_t *new_ret)
{
	struct probe_error *error;

	*new_ret = 0;
	control->passed_count = 0;
	error = seize_process(control, control->pid, then, new_ret);
	for (size_t i = 0; !error && control->guests && control->guests[i]; i++)
		error = seize_process(control, control->guests[i], then, new_ret);
	return error;
}

bool seized_all(const struct control *control, int folder)
{
	return has_all(control, control->pid, folder);
}
