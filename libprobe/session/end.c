/* SPDX-License-Identifier: MIT */
/*
 * The end of a session, in the target and in children that were forked with its code; and of
 * sessions of many processes, each of which is stopped, and perhaps searched (libprobe/busy).
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libprobe/ptrace/ptrace.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/worker.h"
#include "libprobe/follow/follow.h"
#include "libprobe/patch/patch.h"
#include "libprobe/session/session.h"
#include "libprobe/registry/registry.h"

/* Address space for an end without memory: libc's text, tables. */
enum { RESERVE_BYTES = 8 << 20 };

struct probe_error *session_reserve(struct probe_session *s)
{
	void *reserve = mmap(NULL, RESERVE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (reserve == MAP_FAILED)
		return probe_error_no_memory();
	s->reserve = reserve;
	return NULL;
}

static void reserve_release(struct probe_session *s)
{
	if (s->reserve)
		munmap(s->reserve, RESERVE_BYTES);
	s->reserve = NULL;
}

/*
 * No hit comes any more. Those that wait, the last of their threads, are not a part of the session;
 * and its children end with it. Before, hits wait, or are counted as lost: what is recorded later
 * must not follow a gap that nobody knows of.
 */
static void let_go(void *data)
{
	struct probe_session *s = data;

	((struct data_header *)s->rings.base)->guard = 0;
	gate_leave(&s->wait);
}

/*
 * Ends a session in one process: the target, or a child that has a copy of its registry. `again`:
 * what a failed attempt left behind is removed as well.
 */
static struct probe_error *end_in(struct probe_session *s, struct probe_target *target, bool again)
{
	AUTO_CHANGE struct change c;
	struct probe_error *error = change_begin(target, &c);
	struct reg_session *session;

	if (error)
		return error;
	session = registry_session(&c.registry, s->id);
	/* The process may run another program by now, or have been repaired. */
	if (session && session->stamp == s->rings.layout.stamp) {
		if (s->wait.shared && target == s->target) {
			c.restored = let_go;
			c.restored_data = s;
		}
		registry_retire(&c.registry, session);
		error = uninstall_unreferenced(&c);
		if (!error && target == s->target)
			session_note_left(s, &c.registry);
	} else if (c.lost) {
		error = uninstall_unreferenced(&c);
	}
	if (!error && again)
		error = change_reread(&c);
	if (!error && again)
		error = install_heal(&c);
	c.lost = c.lost && !s->lost;
	s->lost |= c.lost;
	return probe_error_first(error, report_memory(&s->report, &c));
}

static struct probe_error *stop_in(struct probe_session *s, struct probe_target *target)
{
	struct probe_error *error = end_in(s, target, false);

	if (!error || (error->code != PROBE_ERROR_MEMORY && error->code != PROBE_ERROR_SYSTEM))
		return error;
	probe_error_free(error);
	reserve_release(s);
	return end_in(s, target, true);
}

static bool is_busy(const struct probe_error *error)
{
	return error && error->code == PROBE_ERROR_BUSY;
}

/*
 * Removes the probes of children that were forked during the session: they were patched as their
 * parent was. Returns an error if another process has locked one of them. If a child cannot be
 * cleaned now, its next command does so, because the session's owner is dead by then.
 */
static struct probe_error *stop_in_children(struct probe_session *s, pid_t pid)
{
	pid_t *children = children_apart(pid);
	struct probe_error *busy = NULL;

	for (size_t i = 0; children && children[i]; i++) {
		struct probe_target *child;
		struct probe_error *error = probe_target_open(children[i], NULL, &child);

		if (!error) {
			probe_target_set_patience(child, s->target->patience);
			error = stop_in(s, child);
			probe_target_close(child);
		}
		if (is_busy(error))
			busy = probe_error_first(busy, error);
		else
			probe_error_free(error);
		busy = probe_error_first(busy, stop_in_children(s, children[i]));
	}
	free(children);
	return busy;
}

static void close_gates(struct probe_session *s)
{
	if (s->options.watch)
		launches_remove(watch_launches(s->options.watch), &s->exec_gate);
	gate_shut(&s->exec_gate.gate);
	gate_shut(&s->gate);
	gate_close(&s->exec_gate.gate);
	gate_close(&s->gate);
}

/* Its hits wait no longer. */
static void close_wait(struct probe_session *s)
{
	gate_close(&s->wait);
	if (s->event >= 0)
		close(s->event);
	s->event = -1;
}

/* Fails at once if the target cannot be changed just now. It can then be called again. */
static struct probe_error *stop_session(struct probe_session *session, bool is_last_try)
{
	struct probe_error *error, *busy, *lapse;

	if (session->stopped)
		return NULL;
	if (!is_last_try && probe_target_frozen(session->target))
		return patience_after(session->target, true, clock_monotonic_ns(),
			probe_error_new(
				PROBE_ERROR_BUSY, "process %d is frozen", session->target->pid));
	lapse = session_note_lapse(session);
	close_gates(session);
	error = stop_in(session, session->target);
	close_wait(session);
	/* From here on, forked children run no inherited stub. */
	if (session->rings.base)
		((struct data_header *)session->rings.base)->guard = 0;
	busy = stop_in_children(session, session->target->pid);
	if (error &&
		(error->code == PROBE_ERROR_NOT_FOUND || !probe_target_alive(session->target))) {
		probe_error_free(error);
		error = NULL;
	}
	if (!is_last_try && (is_busy(error) || (!error && busy))) {
		probe_error_free(lapse);
		return probe_error_first(error, busy);
	}
	probe_error_free(busy);
	session->stopped = !error;
	lapse = probe_error_first(
		lapse, inherited_end(&session->goes_on, error ? session->target->pid : 0,
			       &session->report));
	session_update_counts(session);
	return probe_error_first(error, lapse);
}

struct probe_error *probe_session_stop(struct probe_session *session)
{
	struct probe_error *error;

	probe_sessions_stop(&session, 1, &error);
	return error;
}

/* ---- Many sessions --------------------------------------------------------------------------- */

enum {
	WORKERS_MIN = 2, /* even with one CPU: a thread often waits for a stop */
	WORKERS_MAX = 8,
	SHARE = 4 /* sessions for each thread that is started */
};

/* What the threads work on. A session is taken by whoever gets its number first. */
struct stopping {
	struct probe_session *const *sessions;
	struct probe_error **errors;
	size_t count;
	atomic_size_t next;
};

/*
 * May other threads change other processes meanwhile? Not if processes share what is known of their
 * files, or memory, where one registry is that of both; and only one thread may use a held process.
 */
static bool is_independent(const struct probe_session *s)
{
	const struct probe_target *target = s->target;

	return !s->options.watch && !target->files && !target->held && !target->shares_memory;
}

/* Sessions of one process belong to the first of them. */
static bool is_first(const struct stopping *all, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (all->sessions[i]->target == all->sessions[index]->target)
			return false;
	return true;
}

static bool is_process_independent(const struct stopping *all, size_t first)
{
	for (size_t i = first; i < all->count; i++)
		if (all->sessions[i]->target == all->sessions[first]->target &&
			!is_independent(all->sessions[i]))
			return false;
	return true;
}

static void *stop_independent(void *data)
{
	struct stopping *all = data;
	size_t first;

	while ((first = atomic_fetch_add(&all->next, 1)) < all->count) {
		if (!is_first(all, first) || !is_process_independent(all, first))
			continue;
		for (size_t i = first; i < all->count; i++)
			if (all->sessions[i]->target == all->sessions[first]->target)
				all->errors[i] = stop_session(all->sessions[i], false);
	}
	return NULL;
}

/* (sched_getaffinity(2) may be forbidden to us.) */
static size_t workers_for(size_t count)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	size_t most = cpus < WORKERS_MIN   ? WORKERS_MIN
		      : cpus > WORKERS_MAX ? WORKERS_MAX
					   : (size_t)cpus;

	return count / SHARE < most ? count / SHARE : most;
}

static void stop_with_workers(struct stopping *all)
{
	struct worker workers[WORKERS_MAX];
	size_t wanted = workers_for(all->count), started = 0;

	/* This thread is one of them, and does all if no other can be started. */
	while (started + 1 < wanted && worker_start(&workers[started], stop_independent, all) == 0)
		started++;
	if (started)
		stop_independent(all);
	for (size_t i = 0; i < started; i++)
		worker_join(&workers[i]);
}

/* Repeats the changes that failed only for now. Returns true if a target still cannot be changed.
 */
static bool stop_busy(struct stopping *all, bool is_last_try)
{
	bool any = false;

	for (size_t i = 0; i < all->count; i++) {
		if (!is_busy(all->errors[i]))
			continue;
		probe_error_free(all->errors[i]);
		all->errors[i] = stop_session(all->sessions[i], is_last_try);
		any |= is_busy(all->errors[i]);
	}
	return any;
}

/*
 * Waits last, when the probes of all others are off, for processes that are locked or frozen, or
 * have a thread that cannot stop.
 */
void probe_sessions_stop(
	struct probe_session *const *sessions, size_t count, struct probe_error **errors)
{
	struct stopping all = {.sessions = sessions, .errors = errors, .count = count};
	struct probe_patience patience = {0};
	bool any_busy = false;

	for (size_t i = 0; i < count; i++) {
		errors[i] = NULL;
		probe_target_set_patience(sessions[i]->target, &patience);
	}
	stop_with_workers(&all);
	/*
	 * Stops sessions that need this thread, and repeats failed stops, except those that have
	 * waited for a thread.
	 */
	for (size_t i = 0; i < count; i++) {
		if (!errors[i] || (!is_busy(errors[i]) && errors[i]->code != PROBE_ERROR_STATE)) {
			probe_error_free(errors[i]);
			errors[i] = stop_session(sessions[i], false);
		}
		any_busy |= is_busy(errors[i]);
	}
	while (any_busy && probe_patience_wait(&patience))
		any_busy = stop_busy(&all, false);
	if (any_busy)
		stop_busy(&all, true);
	for (size_t i = 0; i < count; i++)
		probe_target_set_patience(sessions[i]->target, NULL);
}

/* ---- Its memory ------------------------------------------------------------------------------ */

void probe_session_free(struct probe_session *session)
{
	if (!session)
		return;
	inherited_forget(&session->goes_on);
	close_gates(session);
	close_wait(session);
	probe_report_deinit(&session->report);
	rings_close(&session->rings);
	if (session->opened && session->view.base)
		munmap((void *)session->view.base, session->view.layout.data_size);
	if (session->view.served)
		served_end(session->view.served);
	if (session->data >= 0)
		close(session->data);
	for (size_t i = 0; i < session->site_count; i++)
		free(session->sites[i].bound);
	session_watch_deinit(&session->watch);
	asked_deinit(&session->asked);
	seccomp_deinit(&session->seccomp);
	unwinder_free(session->unwinder);
	naming_free(session->naming);
	keys_deinit(session);
	reserve_release(session);
	free(session->left);
	free(session->sites);
	free(session->known);
	free(session->probes);
	free(session->patterns);
	free(session->matched);
	free(session->notes);
	if (session->dead && session->view.file >= 0)
		close(session->view.file);
	free(session);
}
