/* SPDX-License-Identifier: MIT */
/*
 * A process that is forked inherits patched code, and a copy of the registry. The end of a session
 * finds such processes as children of its target (session/end.c). But a daemon forks twice and its
 * parent ends, or the target itself has ended. So all processes are looked at that have begun
 * since. What is a copy there? While sessions of this process go on, they cannot be told from
 * copies; when none does any more, each one that names this process as its owner is a copy.
 */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/patch/install.h"
#include "libprobe/process/procfs.h"
#include "libprobe/repair/inherited.h"
#include "libprobe/target/target.h"

enum { PASSES = 4 /* over all processes: one may be forked while others are looked at */ };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t going_on;	     /* sessions of this process */
static uint64_t began_ticks; /* when the first of them did: see procfs_start_time() */

static uint64_t now_ticks(void)
{
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * hz + (uint64_t)t.tv_nsec * hz / 1000000000;
}

static bool any_goes_on(void)
{
	bool any;

	pthread_mutex_lock(&lock);
	any = going_on > 0;
	pthread_mutex_unlock(&lock);
	return any;
}

/* ---- Copies ----------------------------------------------------------------------------- */

static bool is_copy(const struct reg_session *session)
{
	return session->owner == getpid() &&
	       session->owner_start == procfs_start_time(session->owner);
}

/* Stops nothing. */
static bool has_copies(pid_t pid)
{
	struct registry registry = {0};
	struct maps maps = {0};
	struct probe_error *error = maps_read(pid, &maps);
	bool any = false;

	if (!error)
		error = registry_load(pid, &maps, &registry);
	for (size_t i = 0; !error && i < registry.session_count; i++)
		any = any || is_copy(&registry.sessions[i]);
	probe_error_free(error);
	registry_deinit(&registry);
	maps_deinit(&maps);
	return any;
}

static struct probe_error *retire_copies(struct probe_target *target)
{
	AUTO_CHANGE struct change c;
	struct probe_error *error = change_begin(target, &c);

	/* One that has begun meanwhile, with the same target, is no copy. */
	if (error || any_goes_on())
		return error;
	for (size_t i = 0; i < c.registry.session_count; i++)
		if (is_copy(&c.registry.sessions[i]))
			registry_retire(&c.registry, &c.registry.sessions[i]);
	return uninstall_unreferenced(&c);
}

/* If it fails, the next command for that process does it: the owner is dead by then. */
static void remove_copies(pid_t pid)
{
	struct probe_target *target;
	struct probe_error *error = probe_target_open(pid, NULL, &target);

	if (!error) {
		error = retire_copies(target);
		probe_target_close(target);
	}
	probe_error_free(error);
}

/* False: there were none. */
static bool look_at_all(uint64_t since_ticks)
{
	DIR *processes = procfs_processes();
	bool any = false;
	pid_t pid;

	while ((pid = procfs_next_id(processes))) {
		if (pid == getpid() || procfs_start_time(pid) < since_ticks || !has_copies(pid))
			continue;
		remove_copies(pid);
		any = true;
	}
	if (processes)
		closedir(processes);
	return any;
}

/* ---- Sessions ----------------------------------------------------------------------------- */

void inherited_begin(bool *goes_on_ret)
{
	pthread_mutex_lock(&lock);
	if (going_on++ == 0)
		began_ticks = now_ticks();
	pthread_mutex_unlock(&lock);
	*goes_on_ret = true;
}

/* Was it the last one? Then *since_ret is when the first of them began. */
static bool leave(bool *goes_on, uint64_t *since_ret)
{
	bool last;

	if (!*goes_on)
		return false;
	*goes_on = false;
	pthread_mutex_lock(&lock);
	last = --going_on == 0;
	*since_ret = began_ticks;
	pthread_mutex_unlock(&lock);
	return last;
}

void inherited_forget(bool *goes_on)
{
	uint64_t since;

	leave(goes_on, &since);
}

void inherited_end(bool *goes_on)
{
	uint64_t since;

	if (!leave(goes_on, &since))
		return;
	for (int pass = 0; pass < PASSES && look_at_all(since); pass++)
		;
}
