/* SPDX-License-Identifier: MIT */
/*
 * A process that is forked inherits patched code, and a copy of the registry. The end of a session
 * finds such processes as children of its target (session/end.c). But a daemon forks twice and its
 * parent ends, or the target itself has ended. So all processes are looked at that have begun
 * since. What is a copy there? While sessions of this process go on, they cannot be told from
 * copies; when none does any more, each one that names this process as its owner is a copy.
 */
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/patch/install.h"
#include "libprobe/process/auxv.h"
#include "libprobe/process/procfs.h"
#include "libprobe/repair/inherited.h"
#include "libprobe/target/target.h"

enum {
	PASSES = 4, /* over all processes: one may be forked while others are looked at */
	IMAGES_MAX = 65536
};

/* The sessions of this process. */
static struct {
	pthread_mutex_t lock;
	size_t going_on;
	uint64_t began_ticks; /* when the first of them did: see procfs_start_time(); or 0 */
	uint64_t *images;     /* AT_RANDOM of their targets, in order, each once; owned */
	size_t image_count;
	bool any_image; /* there are too many */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

	pthread_mutex_lock(&all.lock);
	any = all.going_on > 0;
	pthread_mutex_unlock(&all.lock);
	return any;
}

static uint64_t image_of(pid_t pid)
{
	struct auxv auxv;

	return auxv_read(procfs_living(pid), &auxv) > 0 ? auxv_value(&auxv, AT_RANDOM) : 0;
}

/* With the lock. */
static void add_image(uint64_t image)
{
	size_t at = array_search(all.images, all.image_count, sizeof(image), 0, image);

	if (!image || (at < all.image_count && all.images[at] == image))
		return;
	if (all.image_count == IMAGES_MAX || !ARRAY_ROOM(all.images, all.image_count)) {
		all.any_image = true;
		return;
	}
	memmove(&all.images[at + 1], &all.images[at], (all.image_count - at) * sizeof(image));
	all.images[at] = image;
	all.image_count++;
}

/* May a process be a fork of a target? */
static bool has_image(pid_t pid)
{
	uint64_t image = image_of(pid);
	bool found;

	pthread_mutex_lock(&all.lock);
	found = image &&
		(all.any_image || array_find(all.images, all.image_count, sizeof(image), 0, image));
	pthread_mutex_unlock(&all.lock);
	return found;
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
		if (pid == getpid() || procfs_start_time(pid) < since_ticks || !has_image(pid) ||
			!has_copies(pid))
			continue;
		remove_copies(pid);
		any = true;
	}
	if (processes)
		closedir(processes);
	return any;
}

/* ---- Sessions ----------------------------------------------------------------------------- */

void inherited_begin(pid_t pid, bool *goes_on_ret)
{
	uint64_t image = image_of(pid);

	pthread_mutex_lock(&all.lock);
	all.going_on++;
	if (!all.began_ticks)
		all.began_ticks = now_ticks();
	add_image(image);
	pthread_mutex_unlock(&all.lock);
	*goes_on_ret = true;
}

/* Does none go on any more? Then *since_ret is when the first of them began. */
static bool leave(bool *goes_on, uint64_t *since_ret)
{
	bool last;

	if (!*goes_on)
		return false;
	*goes_on = false;
	pthread_mutex_lock(&all.lock);
	last = --all.going_on == 0;
	*since_ret = all.began_ticks;
	pthread_mutex_unlock(&all.lock);
	return last;
}

void inherited_forget(bool *goes_on)
{
	uint64_t since;

	leave(goes_on, &since);
}

/* There are no copies, unless others go on: what theirs would be known by is kept. */
static void begin_anew(void)
{
	pthread_mutex_lock(&all.lock);
	if (!all.going_on) {
		free(all.images);
		all.images = NULL;
		all.image_count = 0;
		all.any_image = false;
		all.began_ticks = 0;
	}
	pthread_mutex_unlock(&all.lock);
}

void inherited_end(bool *goes_on)
{
	uint64_t since;

	if (!leave(goes_on, &since))
		return;
	for (int pass = 0; pass < PASSES && look_at_all(since); pass++)
		;
	begin_anew();
}
