/* SPDX-License-Identifier: MIT */
/*
 * Stops the threads of a target, and runs system calls in them, for a change. The target runs
 * between two stops of a change.
 */
#include <sys/syscall.h>
#include <time.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/procfs.h"
#include "libprobe/registry/registry.h"

enum { MOMENT_NS = 100000 };

struct probe_error *change_check_program(const struct change *change)
{
	return target_is_there(change->target)
		       ? NULL
		       : probe_error_new(PROBE_ERROR_NOT_FOUND,
				 "process %d has become another program meanwhile, or has ended",
				 change->pid);
}

/*
 * A change that has written or mapped nothing can be given up, and repeated later. If it has
 * written something, it must be completed, or the next change would believe that its steps are done
 * and that its memory is a leftover. After waiting in vain for threads, it can only be undone.
 */
static bool may_fail(const struct change *change)
{
	return !change->begun && !change->waited;
}

static uint64_t begin_wait(struct change *change)
{
	change->wait_ns = clock_monotonic_ns();
	return patience_for_threads(change->target, may_fail(change));
}

static struct probe_error *end_wait(struct change *change, struct probe_error *error)
{
	error = patience_after(change->target, may_fail(change), change->wait_ns, error);
	change->waited |= error != NULL;
	return error;
}

static struct probe_error *find_rooms(struct change *c)
{
	c->rooms_known = true;
	/*
	 * A held target was just started or checked before, so no killed controller's frames are in
	 * it. They are not removed while all threads are stopped.
	 */
	return c->target->held || c->stopped
		       ? rooms_find(c->pid, c->mem, &c->maps, &c->modules, false, &c->rooms)
		       : end_wait(c, control_find_rooms(c->pid, c->target->lender, begin_wait(c),
					     c->mem, &c->maps, &c->modules, &c->rooms));
}

struct probe_error *change_remove_frames(struct change *change, size_t *count_ret)
{
	struct probe_error *error = rooms_find(
		change->pid, change->mem, &change->maps, &change->modules, false, &change->rooms);
	size_t left = change->rooms.left_count;

	*count_ret = 0;
	if (error || !left)
		return error;
	error = find_rooms(change);
	*count_ret = left - change->rooms.left_count;
	return error;
}

/* Lets the target run between two stops, which would otherwise add up to a long one. */
static void let_run(const struct change *change)
{
	uint64_t since = clock_monotonic_ns() - change->resumed_ns;

	if (change->resumed_ns && since < MOMENT_NS)
		nanosleep(&(struct timespec){.tv_nsec = MOMENT_NS - since}, NULL);
}

/*
 * Resumes the threads and notes how long they were stopped. A thread stopped on our processor would
 * have to wait for us, so we sleep. It then continues at once, and we wake up on another processor.
 */
static void resume(struct change *change)
{
	uint64_t ns = control_resume(&change->control);

	if (ns > change->stop_ns)
		change->stop_ns = ns;
	change->resumed_ns = clock_monotonic_ns();
	nanosleep(&(struct timespec){.tv_nsec = 1}, NULL);
}

struct probe_error *change_stop(struct change *change)
{
	struct probe_error *error;

	if (change->target->held) {
		change->control = change->target->control;
		change->control.seccomp = &change->seccomp;
		return NULL;
	}
	let_run(change);
	error = control_stop(
		change->pid, change->target->lender, begin_wait(change), &change->control);
	error = end_wait(change, error);
	change->control.seccomp = &change->seccomp;
	change->stopped = !error;
	change->target->shares_memory |= change->control.guests != NULL;
	error = error ?: change_check_program(change);
	if (error)
		change_resume(change);
	return error;
}

void change_resume(struct change *change)
{
	if (!change->stopped)
		return;
	change->stopped = false;
	resume(change);
}

struct probe_error *change_judge(struct change *change)
{
	struct probe_error *error = NULL;
	bool stop;

	if (!change->seccomp.count || change->seccomp.judged)
		return NULL;
	stop = !change->stopped && seccomp_can_read();
	if (stop)
		error = change_stop(change);
	error = error ?: seccomp_judge(&change->seccomp);
	if (stop)
		change_resume(change);
	return error;
}

/* Checks that some thread may make calls of this kind. */
static struct probe_error *check_filters(struct change *change, enum seccomp_kind kind)
{
	struct probe_error *error = change_judge(change);
	AUTO_DIR DIR *threads = error ? NULL : procfs_threads(change->pid);
	bool found = !threads;
	pid_t tid;

	change->seccomp.wanted = kind;
	while (!found && (tid = procfs_next_thread(change->pid, threads)))
		found = seccomp_may_run(&change->seccomp, tid);
	return error || found ? error : seccomp_error(&change->seccomp, kind);
}

static struct probe_error *run_stopped(
	struct change *c, const char *what, struct control_call *calls, size_t count)
{
	struct probe_error *error = control_run_and_leave(
		&c->control, &c->rooms, &c->gadgets, c->prepared, calls, count);

	for (size_t i = 0; i < count && !error; i++)
		if (calls[i].result < 0 && calls[i].result >= -4095)
			return probe_error_system(
				-calls[i].result, "process %d: cannot %s", c->pid, what);
	return error;
}

struct probe_error *change_find_gadgets(struct change *c)
{
	struct probe_error *error = NULL;

	if (!c->gadgets.call)
		c->gadgets = c->target->gadgets;
	if (!c->gadgets.call)
		error = gadgets_find(c->pid, &c->maps, &c->modules, &c->gadgets);
	if (error)
		c->gadgets = (struct arch_gadgets){0};
	return error;
}

/* Finds everything that calls need; done before a thread is stopped. */
static struct probe_error *prepare_calls(struct change *c)
{
	if (!c->prepared)
		c->prepared = control_prepared();
	if (!c->prepared)
		return probe_error_no_memory();
	if (!c->rooms_known) {
		struct probe_error *error = find_rooms(c);

		if (error)
			return error;
	}
	return change_find_gadgets(c);
}

struct probe_error *change_run_in(struct change *change, size_t thread, const char *what,
	struct control_call *calls, size_t count)
{
	struct control all = change->control;
	struct probe_error *error = prepare_calls(change);

	if (error)
		return error;
	change->begun = true;
	change->control.threads = &all.threads[thread];
	change->control.count = 1;
	error = run_stopped(change, what, calls, count);
	control_clear(&change->rooms, change->prepared);
	change->control.threads = all.threads;
	change->control.count = all.count;
	return error;
}

static bool must_borrow(const struct change *c)
{
	return !c->stopped && !c->borrowed && !c->target->held;
}

/* Returns true if a thread can make calls without being stopped. Call change_judge() first. */
static bool may_ask(const struct change *c)
{
	const struct probe_target *target = c->target;

	return target->proxy && must_borrow(c) && !target->dispatches &&
	       (!c->seccomp.count || seccomp_may_run(&c->seccomp, target->proxy->tid));
}

/* Makes calls in the proxy thread, like control_run_and_leave(). */
static struct probe_error *ask(
	struct change *c, const char *what, struct control_call *calls, size_t count)
{
	const struct target_proxy *proxy = c->target->proxy;

	for (size_t i = 0; i < count; i++) {
		if (!proxy->call(proxy->data, &calls[i]))
			return probe_error_new(PROBE_ERROR_NOT_FOUND,
				"process %d does not answer its copy any more", c->pid);
		if (calls[i].result < 0 && calls[i].result >= -4095)
			return probe_error_system(
				-calls[i].result, "process %d: cannot %s", c->pid, what);
		if (!control_succeeded(&calls[i]) ||
			(calls[i].then && !calls[i].then(calls[i].data, proxy->tid)))
			break;
	}
	return NULL;
}

/* If a call failed because execve(2) has replaced the program, returns that error instead. */
static struct probe_error *explain(const struct change *c, struct probe_error *error)
{
	struct probe_error *reason = error ? change_check_program(c) : NULL;

	if (!reason)
		return error;
	probe_error_free(error);
	return reason;
}

/*
 * Stops one thread. If execve(2) has replaced the program, calls fail, because their gadgets and
 * stack frame are gone. AT_RANDOM is compared only then, to keep the stop short.
 */
static struct probe_error *take_thread(struct change *c)
{
	struct control_coming coming = {prepared_touch, &c->rooms, &c->gadgets, c->prepared};
	bool is_first = !c->resumed_ns;
	struct probe_error *error;

	let_run(c);
	error = end_wait(c, control_borrow(c->pid, &c->seccomp, begin_wait(c),
				    is_first ? &coming : NULL, &c->control));
	c->control.seccomp = &c->seccomp;
	return explain(c, error);
}

/* Makes calls in a thread, resumes it, and then removes the calls' stack frames from its memory. */
static struct probe_error *run_some(
	struct change *c, const char *what, struct control_call *calls, size_t count)
{
	bool borrow = must_borrow(c);
	struct probe_error *error = NULL;

	if (!borrow && c->target->held)
		c->control = c->target->control;
	c->control.seccomp = &c->seccomp;
	error = borrow ? take_thread(c) : NULL;
	if (error)
		return error;
	error = run_stopped(c, what, calls, count);
	if (borrow)
		resume(c);
	control_clear(&c->rooms, c->prepared);
	return explain(c, error);
}

struct probe_error *change_borrow(struct change *c)
{
	struct probe_error *error = NULL;

	if (must_borrow(c) && c->seccomp.count)
		error = check_filters(c, SECCOMP_MAP);
	if (error || !must_borrow(c) || may_ask(c))
		return error;
	error = prepare_calls(c) ?: take_thread(c);
	c->borrowed = !error;
	return error;
}

void change_give_back(struct change *change)
{
	if (!change->borrowed)
		return;
	change->borrowed = false;
	resume(change);
}

/*
 * If no thread is stopped or borrowed, stops one for each call. All calls put their frames in the
 * same rooms (rooms_find()), because one may unmap the memory of another's.
 */
struct probe_error *change_run(
	struct change *change, const char *what, struct control_call *calls, size_t count)
{
	size_t done = 0, some = must_borrow(change) ? 1 : count;
	enum seccomp_kind kind = SECCOMP_UNMAP;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < count; i++)
		if (calls[i].number != SYS_munmap && calls[i].number != SYS_close)
			kind = SECCOMP_MAP;
	if (change->seccomp.count)
		error = check_filters(change, kind);
	if (!error && may_ask(change)) {
		change->begun = true;
		return ask(change, what, calls, count);
	}
	error = error ?: prepare_calls(change);
	if (error)
		return error;
	while (!error && done < count) {
		error = run_some(change, what, &calls[done], some);
		/* Some calls may have been made before one failed. */
		change->begun |= !change->waited;
		done += some;
		if (!control_succeeded(&calls[done - 1]))
			break;
	}
	return error;
}
