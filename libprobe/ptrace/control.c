/* SPDX-License-Identifier: MIT */
/*
 * A stop: seize, interrupt, wait, (work), detach.
 *
 * PTRACE_SEIZE attaches without stopping the thread, so all threads are seized first; only
 * PTRACE_INTERRUPT begins the pause. The list of threads is complete only if all of them were
 * stopped while it was read, so it is read until no new thread can appear.
 *
 * A thread may stop first for a signal. We pass the signal on at once, and the thread stops again
 * before it runs the handler's first instruction.
 *
 * Sources: ptrace(2); kernel/ptrace.c and kernel/signal.c of Linux.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/array.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/base/permission.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"

/* ==== Seize =================================================================================== */

/* Sources: ptrace(2); fs/proc/base.c of Linux. */

#define LEAVING_NS UINT64_C(1000000000)

enum { SEIZE_MOMENT_NS = 100000 };

/*
 * Returns true if the thread is one of the first `known`. The kernel keeps the order of threads, so
 * the search begins at *hint, behind the thread found last.
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
 * Attaches to a thread. A killed controller releases the target's lock shortly before its threads
 * (do_exit() in kernel/exit.c), so this function waits for a tracer that is ending, and tries once
 * more if the thread has no tracer.
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
		nanosleep(&(struct timespec){.tv_nsec = SEIZE_MOMENT_NS}, NULL);
	}
	return true;
}

/* Attaches to a thread and appends it. If the thread is gone or dead, *attached_ret is false. */
static struct probe_error *seize_thread(
	struct control *control, pid_t pid, pid_t tid, bool *attached_ret)
{
	*attached_ret = false;
	/* Make room before attaching: a thread without room in the array would never be resumed. */
	if (!ARRAY_ROOM(control->threads, control->count))
		return probe_error_no_memory();
	if (!try_seize(tid)) {
		int err = errno;
		char state = procfs_thread_state(pid, tid);

		if (err == ESRCH || !state || strchr("ZXx", state))
			return NULL;
		if (err == EPERM)
			return permission_trace_error(pid);
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

/* Sends PTRACE_INTERRUPT, without waiting for the stop. */
static void seize_ask_to_stop(struct control_thread *thread)
{
	/* Read the call as late as possible: a call that begins later goes unnoticed. */
	if (arch_process()->hidden_call)
		restart_look(thread->pid, thread->tid, &thread->seen);
	thread->pause.asked_ns = clock_monotonic_ns();
	if (thread->wait)
		remaining_interrupt(thread->wait);
	else
		ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL);
}

/*
 * Returns true if all tasks of a process are attached or passed over. Stopped threads create no
 * tasks, and the kernel's workers create only workers. The link count of `folder`, /proc/PID/task,
 * is the number of tasks plus two (proc_task_getattr()); it is read first, so a task that ends
 * later makes a difference.
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

/*
 * Attaches to the new threads of a process. Increases *new_ret if there were new threads, or if
 * there may be more. (If a listed thread ends, the kernel, which walks by position in
 * proc_task_readdir(), may leave out the next one, and the ended thread may have created another.)
 */
static struct probe_error *seize_process(
	struct control *control, pid_t pid, enum seize_then then, size_t *new_ret)
{
	size_t known = control->count, hint = 0;
	struct probe_error *error = NULL;
	AUTO_DIR DIR *threads = procfs_threads(pid);
	pid_t tid;

	/* ESRCH means that the process ended during open(2). */
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
		if (error || attached)
			continue;
		if (!ARRAY_ADD(control->passed, control->passed_count,
			    (struct control_passed){pid, tid}))
			error = probe_error_no_memory();
	}
	*new_ret += control->count - known;
	if (!error)
		*new_ret += !has_all(control, pid, dirfd(threads));
	return error;
}

/*
 * Attaches to every new thread of the process and of those that share its memory, except kernel
 * workers (procfs_is_worker()) and ended threads. If *new_ret is 0 and all threads are stopped, the
 * list is complete. After an error, threads stay attached.
 *
 * Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_PERMISSION, PROBE_ERROR_SYSTEM.
 */
static struct probe_error *seize_new(struct control *control, enum seize_then then, size_t *new_ret)
{
	struct probe_error *error;

	*new_ret = 0;
	control->passed_count = 0;
	error = seize_process(control, control->pid, then, new_ret);
	for (size_t i = 0; !error && control->guests && control->guests[i]; i++)
		error = seize_process(control, control->guests[i], then, new_ret);
	return error;
}

/* ==== Pause =================================================================================== */

/*
 * A thread may be waiting for a processor when it is asked to stop. It would wait without us, too,
 * so its pause begins only when it stops. It may also wait for a processor while it makes a system
 * call for us:
 *
 *	asked                     stopped   seen          call          ended
 *	  |--- no processor -----------|------|-----------|--|--|---------|
 *	                               |======= the pause ===|  |=========|
 *
 * The kernel does not report when a thread stopped. But the scheduler counts how long each thread
 * has been ready to run without a processor, and we subtract the growth of that counter. Part of
 * the growth may lie before or after the stop. So we subtract no more than the time in which we let
 * the thread run. From that time we first take off what a stop takes when a processor is free
 * (HANDOVER_NS), and the time in which we had no processor ourselves, because we may have noticed
 * the thread's stop late. If a time is unknown, the whole stop counts as pause.
 *
 * Source: Documentation/scheduler/sched-stats.rst of Linux, /proc/<pid>/schedstat.
 */

enum {
	/* Time from us to a thread on another processor and back; measured: 5 to 20 us. */
	HANDOVER_NS = 20000,
	/* Threads whose counter is read; for other threads, the whole stop counts as pause. */
	PAUSE_LOOKS = 64
};

static uint64_t read_waited_ns(const char *path)
{
	char text[96], *second, *end;
	uint64_t waited;

	if (!file_read(path, text, sizeof(text)))
		return PAUSE_UNKNOWN;
	strtoull(text, &second, 10); /* skips the first number, the time that the thread ran */
	waited = strtoull(second, &end, 10);
	return end != second ? waited : PAUSE_UNKNOWN;
}

static uint64_t waited_ns(pid_t pid, pid_t tid)
{
	return read_waited_ns(procfs_path("/proc/%d/task/%d/schedstat", pid, tid).text);
}

static uint64_t own_waited_ns(void)
{
	return read_waited_ns("/proc/thread-self/schedstat");
}

/* Reads the scheduler's counters, before threads are asked to stop. */
static void pause_look(struct control *control)
{
	for (size_t i = 0; i < control->count && i < PAUSE_LOOKS; i++) {
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

/* Returns the thread whose pause may be longest, or NULL if none can be longer than `than`. */
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

/*
 * Returns the longest pause in ns, right after the threads have continued. Reads only a few
 * counters: most threads did not wait, and soon no pause is longer.
 */
static uint64_t pause_longest(struct control *control)
{
	uint64_t own = PAUSE_UNKNOWN, longest = 0;
	struct control_thread *thread;

	while ((thread = find_longest(control, longest))) {
		uint64_t ns, waited = PAUSE_UNKNOWN;

		/* The thread did not run between the request and the end of the pause. */
		if (thread->pause.waited_ns != PAUSE_UNKNOWN && thread->pause.let_ns) {
			if (own == PAUSE_UNKNOWN && control->waited_ns != PAUSE_UNKNOWN) {
				/* How long this thread has waited since pause_look(). */
				own = own_waited_ns();
				own -= own == PAUSE_UNKNOWN ? 0 : control->waited_ns;
			}
			waited = waited_ns(thread->pid, thread->tid);
		}
		ns = pause_ns(&thread->pause, waited, own);
		longest = ns > longest ? ns : longest;
		thread->pause.ended_ns = 0;
	}
	return longest;
}

/* ==== Control ================================================================================= */

#define PASS_NS UINT64_C(2000000000) /* time in which a resumed thread must stop again */
/* The end of an error message: what an unstoppable thread may be waiting for. */
#define UNSTOPPABLE                                                                                \
	"what it started with vfork(2), for a device, or for its control group to be thawed"

enum {
	LOOK_NS = 1000000,
	MOMENT_NS = 100000, /* a thread needs less than this for two calls */
	LET_GO_TRIES = 100,
	/* Maximum number of times the list of threads is read while new threads keep appearing. */
	PASSES_MAX = 100,
	/* maximum number of times a thread is sought while those found cannot make calls */
	UNABLE_PASSES = 50,
	STACK_BYTES = 32 << 10
};

void control_calm(struct control *control)
{
	urgent_end(control->attributes);
	control->attributes = NULL;
	control_signals_give(&control->signals);
}

/* ---- Stopping --------------------------------------------------------------- */

static void drop_thread(struct control *control, size_t i)
{
	control->threads[i] = control->threads[--control->count];
}

/* Prepare the restart of an interrupted call at once, in case we die. */
static bool read_registers(struct control_thread *thread)
{
	if (!registers_read(thread->tid, &thread->regs))
		return false;
	thread->is_again = false;
	if (!restart_wait(&thread->regs, &thread->seen))
		return true;
	thread->is_again = arch_process()->hidden_call != 0;
	if (thread->wait)
		remaining_apply(thread->wait, &thread->regs);
	return registers_write(thread->tid, &thread->regs);
}

/* Detaches from late threads that have stopped by now. Returns true if no late thread is left. */
static bool let_late_go(struct control *control)
{
	for (size_t i = 0; i < control->count;) {
		struct control_thread *thread = &control->threads[i];
		int status = 0;
		pid_t pid = control_wait(thread->tid, &status);

		if (!pid) {
			i++;
			continue;
		}
		if (pid == thread->tid && WAIT_EVENT_OF(status) == PTRACE_EVENT_STOP)
			read_registers(thread);
		if (pid == thread->tid)
			ptrace(PTRACE_DETACH, thread->tid, NULL, wait_signal_of(status));
		drop_thread(control, i);
	}
	return control->count == 0;
}

/* Detaches from the stopped threads that are in a system call, or from those that are not. */
static void detach(struct control *control, bool in_call)
{
	for (size_t i = 0; i < control->count; i++) {
		struct control_thread *thread = &control->threads[i];

		if (thread->is_running ||
			((int64_t)arch_get(&thread->regs, ARCH_CALL) >= 0) != in_call)
			continue;
		if (thread->regs_changed)
			registers_write(thread->tid, &thread->regs);
		if (thread->is_again)
			settle_detach(&control->signals, thread);
		else
			reap_or_detach(thread->tid);
		thread->pause.ended_ns = clock_monotonic_ns();
	}
}

/*
 * Detaches from all stopped threads, first from those that were running in user space, because
 * these notice a pause. Returns the longest pause.
 */
static uint64_t release_stopped(struct control *control)
{
	uint64_t longest;

	detach(control, false);
	detach(control, true);
	longest = pause_longest(control);
	control_calm(control);
	for (size_t i = 0; i < control->count;) {
		if (control->threads[i].is_running)
			i++;
		else
			drop_thread(control, i);
	}
	return longest;
}

/*
 * Threads that the calling thread has asked to stop, and that have not stopped yet. Only the thread
 * that traces them can detach from them, once they have stopped. When that thread ends, the kernel
 * detaches.
 */
static _Thread_local struct control late;

static void move_threads(struct control *from, pid_t pid, struct control *to)
{
	for (size_t i = 0; i < from->count;) {
		if ((pid && from->threads[i].pid != pid) || !ARRAY_ROOM(to->threads, to->count)) {
			i++;
			continue;
		}
		to->threads[to->count] = from->threads[i];
		to->threads[to->count++].wait = NULL;
		drop_thread(from, i);
	}
}

void control_let_late_go(void)
{
	if (!late.threads || !let_late_go(&late))
		return;
	free(late.threads);
	late.threads = NULL;
}

/* Detaches from all threads; running ones must stop first. Returns the longest pause. */
uint64_t control_resume(struct control *control)
{
	uint64_t longest = release_stopped(control);

	longest = longest > control->longest_ns ? longest : control->longest_ns;
	for (size_t i = 0; i < control->count; i++)
		ptrace(PTRACE_INTERRUPT, control->threads[i].tid, NULL, NULL);
	for (int i = 0; i < LET_GO_TRIES && !let_late_go(control); i++)
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	move_threads(control, 0, &late);
	free(control->threads);
	free(control->passed);
	free(control->guests);
	remaining_free(control->remaining);
	*control = (struct control){
		.pid = control->pid, .lender = control->lender, .seccomp = control->seccomp};
	return longest;
}

/* Touches the part of our stack that the stop will use. */
static __attribute__((noinline)) void touch_stack(void)
{
	uint8_t bytes[STACK_BYTES];

	explicit_bzero(bytes, sizeof(bytes));
}

/* Returns the only thread, or the only one that is not asleep; or NULL. */
static const struct control_thread *busiest(const struct control *control)
{
	const struct control_thread *found = control->count == 1 ? control->threads : NULL;

	for (size_t i = 0; i < control->count && control->count > 1; i++) {
		if (control->threads[i].was_asleep)
			continue;
		if (found)
			return NULL;
		found = &control->threads[i];
	}
	return found;
}

static void get_ready(struct control *control)
{
	const struct control_thread *near;

	remaining_free(control->remaining);
	control->remaining = remaining_look(control->threads, control->count);
	near = busiest(control);
	if (near)
		nearby_move(near->pid, near->tid);
	pause_look(control);
	touch_stack();
	control_signals_take(&control->signals);
	control->attributes = urgent_begin();
	/*
	 * Touch the memory as late as possible, so that it is still in this processor's caches
	 * during the stop.
	 */
	if (control->coming)
		control->coming->touch(control->pid, control->coming);
	control->coming = NULL;
}

/*
 * Interrupts all threads: first threads with a known wait, which is checked once more, then other
 * sleeping threads, and last those that run, because only these lose time.
 */
static void ask_all_to_stop(struct control *control)
{
	for (int round = 0; round < 3; round++)
		for (size_t i = 0; i < control->count; i++) {
			struct control_thread *thread = &control->threads[i];

			if ((thread->wait ? 0 : thread->was_asleep ? 1 : 2) == round)
				seize_ask_to_stop(thread);
		}
}

/*
 * Waits until the threads from index `from` on have stopped, and reads their registers. Returns
 * false if a thread does not stop (its is_running stays set); the threads after it may run, too.
 */
static bool await_stops(struct control *control, size_t from)
{
	uint64_t begun = clock_monotonic_ns();
	bool all = true;

	for (size_t i = from; i < control->count && all;) {
		struct control_thread *thread = &control->threads[i];
		enum wait_result result = wait_for_interrupt(thread->tid, begun, &control->signals);

		pause_let(&thread->pause, thread->pause.asked_ns);
		thread->is_running = result == WAIT_TIMEOUT;
		if (thread->is_running)
			all = false;
		else if (result == WAIT_GONE || !read_registers(thread))
			drop_thread(control, i);
		else
			i++;
	}
	return all;
}

/* ---- Threads that cannot stop ---------------------------------------------------------------- */

/* Returns a thread that cannot stop for longer than other threads may be kept stopped, or 0. */
static pid_t blocked_thread(pid_t pid)
{
	AUTO_DIR DIR *threads = procfs_threads(pid);
	pid_t tid;

	while ((tid = procfs_next_thread(pid, threads))) {
		uint64_t end = clock_monotonic_ns() + WAIT_BLOCKED_NS;
		bool blocked;

		while ((blocked = wait_is_blocked(tid)) && clock_monotonic_ns() < end)
			nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
		if (blocked)
			return tid;
	}
	return 0;
}

static struct probe_error *cannot_stop(pid_t pid, pid_t tid)
{
	return probe_error_new(PROBE_ERROR_BUSY,
		"thread %d of process %d cannot stop: it waits for " UNSTOPPABLE
		": try again later",
		tid, pid);
}

/* Waits until every thread can stop. All threads run in the meantime. */
static struct probe_error *await_unblocked(struct control *control, struct patience *patience)
{
	pid_t tid = 0;

	for (;;) {
		if (!let_late_go(control))
			tid = control->threads[0].tid;
		else if (!tid || !wait_is_blocked(tid))
			tid = blocked_thread(control->pid);
		if (!tid)
			return NULL;
		if (patience_is_over(patience))
			break;
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	}
	control_resume(control);
	return cannot_stop(control->pid, tid);
}

/* ---- Stopping all --------------------------------------------------------------------------- */

static void drop_lender(struct control *control)
{
	size_t count = 0;

	for (size_t i = 0; control->guests && control->guests[i]; i++)
		if (control->guests[i] != control->lender)
			control->guests[count++] = control->guests[i];
	if (count) {
		control->guests[count] = 0;
		return;
	}
	free(control->guests);
	control->guests = NULL;
}

static size_t guest_count(const struct control *control)
{
	size_t count = 0;

	while (control->guests && control->guests[count])
		count++;
	return count;
}

/*
 * Adds guests (processes that share the memory) that were started during the stop: ids are given in
 * order, so only those after *last_pid are new. Adds their number to *new_ret.
 */
static struct probe_error *add_new_guests(
	struct control *control, int loadavg, long *last_pid, size_t *new_ret)
{
	long now = procfs_last_pid(loadavg);
	size_t before = guest_count(control);

	if (now != *last_pid &&
		!children_add_sharing(control->pid, *last_pid, now, &control->guests))
		return probe_error_no_memory();
	drop_lender(control);
	*last_pid = now;
	*new_ret += guest_count(control) - before;
	return NULL;
}

/* Tries once to stop all threads. If that fails, resumes all and sets *again_ret. */
static struct probe_error *stop_all(struct control *control, bool *again_ret)
{
	struct probe_error *error = NULL;
	size_t added, stopped = 0;
	AUTO_FD int loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	AUTO_FD int folder = procfs_open_threads(control->pid);
	int passes;
	long last_pid = procfs_last_pid(loadavg);

	*again_ret = false;
	free(control->guests);
	control->guests = children_sharing(control->pid);
	drop_lender(control);
	error = seize_new(control, SEIZE_LET_RUN, &added);
	get_ready(control);
	/* Look for new guests before the stop, to find fewer during it. */
	error = error ?: add_new_guests(control, loadavg, &last_pid, &added);
	if (!error)
		ask_all_to_stop(control);
	for (passes = 0; !error && added && passes < PASSES_MAX; passes++) {
		if (!await_stops(control, stopped)) {
			*again_ret = true;
			break;
		}
		stopped = control->count;
		added = 0;
		if (control->guests || !has_all(control, control->pid, folder))
			error = seize_new(control, SEIZE_ASK, &added);
		error = error ?: add_new_guests(control, loadavg, &last_pid, &added);
	}
	if (!error && !*again_ret && !added && !control->count)
		error = probe_error_new(
			PROBE_ERROR_NOT_FOUND, "process %d has ended", control->pid);
	if (!error && *again_ret) {
		release_stopped(control);
	} else if (error || added) {
		/* Release the running threads, too, because some were not asked to stop yet. */
		control_resume(control);
		*again_ret = !error;
	}
	return error;
}

struct probe_error *control_stop(pid_t pid, pid_t lender, uint64_t patience_ns, struct control *ret)
{
	struct patience patience = patience_of(patience_ns);
	struct probe_error *error;
	uint64_t pause = LOOK_NS;
	bool again;

	*ret = (struct control){.pid = pid, .lender = lender};
	control_let_late_go();
	move_threads(&late, pid, ret);
	for (;; pause *= 2) {
		error = await_unblocked(ret, &patience) ?: stop_all(ret, &again);
		if (error || !again)
			return error;
		if (patience_is_over(&patience)) {
			control_resume(ret);
			return probe_error_new(PROBE_ERROR_BUSY,
				"threads of process %d come and go faster than they can be "
				"stopped: try again later",
				pid);
		}
		/* After each failed try, let the threads run longer. */
		nanosleep(&(struct timespec){pause / 1000000000, pause % 1000000000}, NULL);
	}
}

/* ---- Borrowing one thread ---------------------------------------------------- */

/* Stops one thread. If it is gone, control->count is 0. If it cannot stop, is_running stays set. */
static struct probe_error *stop_one(struct control *control, pid_t tid)
{
	bool attached;
	struct probe_error *error = seize_thread(control, control->pid, tid, &attached);

	if (error || !attached)
		return error;
	get_ready(control);
	ask_all_to_stop(control);
	if (!await_stops(control, 0))
		control_calm(control);
	return NULL;
}

/* Returns why no thread can be borrowed, or NULL if another try may succeed. */
static struct probe_error *give_up(pid_t pid, int unable_passes, struct patience *patience)
{
	if ((!procfs_start_time(pid) && !procfs_no_room(errno)) || procfs_is_zombie(pid))
		return procfs_no_process(pid);
	if (unable_passes >= UNABLE_PASSES || (unable_passes && patience_is_over(patience)))
		return probe_error_new(PROBE_ERROR_STATE,
			"no thread of process %d can make system calls for probectl just now: each "
			"runs 32-bit code, or hands its calls to a handler of the program "
			"(PR_SET_SYSCALL_USER_DISPATCH): try again",
			pid);
	if (!patience_is_over(patience))
		return NULL;
	return probe_error_new(PROBE_ERROR_BUSY,
		"no thread of process %d can stop: each waits for " UNSTOPPABLE ": try again later",
		pid);
}

struct probe_error *control_borrow(pid_t pid, const struct seccomp *seccomp, uint64_t patience_ns,
	const struct control_coming *coming, struct control *ret)
{
	struct patience patience = patience_of(patience_ns);
	struct choose_unable unable = {.count = 0};
	struct probe_error *error = NULL;
	int passes = 0;

	*ret = (struct control){.pid = pid, .seccomp = seccomp, .coming = coming};
	control_let_late_go();
	move_threads(&late, pid, ret);
	while (!error) {
		pid_t tid = 0;

		if (let_late_go(ret))
			error = choose_thread(pid, seccomp, &unable, &tid);
		if (!error && tid)
			error = stop_one(ret, tid);
		if (!error && ret->count && !ret->threads[0].is_running) {
			/* The thread has stopped. If it cannot make calls, release it. */
			ret->threads[0].may_run = control_can_run(ret, &ret->threads[0]);
			if (ret->threads[0].may_run)
				return NULL;
			unable.tids[unable.count++] = ret->threads[0].tid;
			release_stopped(ret);
		}
		if (!tid && unable.count) { /* no thread was able to: try all of them once more */
			unable.count = 0;
			passes++;
		}
		error = error ?: give_up(pid, passes, &patience);
		if (!error && (ret->count || !unable.count))
			nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	}
	control_resume(ret);
	return error;
}

struct probe_error *control_let_pass(
	struct control *control, const struct arch_registers *registers)
{
	uint64_t deadline = clock_monotonic_ns() + PASS_NS;
	pid_t tid = control->threads[0].tid;
	struct probe_error *error;

	control->threads[0].regs = *registers;
	control->threads[0].regs_changed = true;
	control->longest_ns = release_stopped(control);
	do {
		nanosleep(&(struct timespec){.tv_nsec = MOMENT_NS}, NULL);
		if (!let_late_go(control))
			continue;
		error = stop_one(control, tid);
		if (error || !control->count || !control->threads[0].is_running)
			return error;
	} while (clock_monotonic_ns() < deadline);
	return cannot_stop(control->pid, tid);
}
