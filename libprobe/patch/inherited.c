/* SPDX-License-Identifier: MIT */
/*
 * Removes copies of sessions from processes that were forked from a target.
 *
 * A forked process inherits patched code and a copy of the registry. A session that ends finds its
 * target's children (session/look.c), but daemons fork twice, or the target itself may have ended.
 * So all processes are examined, once no session of this process goes on: then every session that
 * names us as its owner is a copy. A process forked in the middle of a change may have unlisted
 * memory of ours.
 *
 * Reading a process's maps may take for ever, if it waits for a disk or a server. They are read
 * only if its auxiliary vector is a target's: fork(2) copies it, execve(2) makes a new one.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/patch/patch.h"
#include "libprobe/base/procfs.h"

enum {
	IMAGES_MAX = 65536,
	/* maximum number of extra passes made because a process ended before it was examined */
	ENDED_PASSES = 20
};
/* Limit for examining processes, which may fork without end. */
#define PATIENCE_NS UINT64_C(1000000000)

static struct {
	pthread_mutex_t lock;
	size_t going_on;
	/* AT_RANDOM of each target, which identifies its image; sorted; owned */
	uint64_t *images;
	size_t image_count;
	/* too many images to store: treat each as that of a target */
	bool any_image;
	/* Targets in which a session could not be ended. Such a session is no copy. */
	pid_t *failed;
	size_t failed_count;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint64_t inherited_image(pid_t pid)
{
	uint64_t image;

	return auxv_read_image(pid, &image) ? image : 0;
}

/* ---- Copies ----------------------------------------------------------------------------- */

static bool is_copy(const struct reg_session *session)
{
	return session->owner == getpid() &&
	       session->owner_start == procfs_start_time(session->owner);
}

/*
 * Returns true if a process, which is not stopped, has copies of sessions, or memory of ours
 * without a session.
 */
static bool has_copies(pid_t pid)
{
	AUTO(registry_deinit) struct registry registry = {0};
	AUTO(maps_deinit) struct maps maps = {0};
	struct probe_error *error = maps_read(pid, &maps);
	bool ours = !error && shared_any(&maps), found;

	if (ours)
		error = registry_load(pid, &maps, &registry);
	found = ours && !error && !registry.session_count;
	for (size_t i = 0; !error && i < registry.session_count; i++)
		found = found || is_copy(&registry.sessions[i]);
	probe_error_free(error);
	return found;
}

static struct probe_error *retire_copies(struct change *c)
{
	struct orphans orphans;
	size_t frames;
	struct probe_error *error = change_remove_frames(c, &frames) ?: orphans_remove(c, &orphans);

	if (error)
		return error;
	for (size_t i = 0; i < c->registry.session_count; i++)
		if (is_copy(&c->registry.sessions[i]))
			registry_retire(&c->registry, &c->registry.sessions[i]);
	return uninstall_unreferenced(c);
}

static struct probe_error *remove_from(struct probe_target *target)
{
	AUTO(change_end) struct change c;
	struct probe_error *error = change_begin(target, &c);
	bool any;

	/*
	 * If a session with this target has begun in the meantime, it is no copy: remove nothing.
	 */
	pthread_mutex_lock(&all.lock);
	any = all.going_on > 0;
	pthread_mutex_unlock(&all.lock);
	return error || any ? error : retire_copies(&c);
}

struct probe_error *inherited_remove(struct probe_target *target)
{
	if (!has_copies(target->pid))
		return NULL;

	AUTO(change_end) struct change c;
	struct probe_error *error = change_begin(target, &c);
	bool inherited = false;

	if (!error && c.registry.guard)
		error = registry_is_inherited(&c.registry, c.pid, &inherited);
	return error || !inherited ? error : retire_copies(&c);
}

static struct probe_error *remove_copies(pid_t pid, struct probe_patience *patience)
{
	struct probe_target *target;
	struct probe_error *error = probe_target_open(pid, NULL, &target);

	if (!error) {
		probe_target_set_patience(target, patience);
		error = remove_from(target);
		probe_target_close(target);
	}
	return error;
}

/* ---- Processes ---------------------------------------------------------------------------- */

/* A search of all processes, repeated until it finds nothing new. */
struct looking {
	uint64_t end_ns;
	struct probe_report *report;
	struct probe_error *error; /* the first error of the search; owned */
	/* processes that need not be examined again; owned */
	pid_t *seen;
	size_t seen_count;
	/* copies were found in a process that may have forked */
	bool again;
	/* a process ended unexamined: it may have had copies, and may have forked */
	bool ended;
	struct probe_patience patience;
	bool busy;	/* a process with copies is locked by another controller */
	bool last_look; /* waiting is over: report locked processes instead of trying them again */
};

static bool has_ended(pid_t pid)
{
	return !procfs_start_time(pid) || procfs_is_zombie(pid);
}

pid_t *inherited_heirs(uint64_t image)
{
	AUTO_DIR DIR *processes = procfs_processes();
	pid_t *heirs = NULL, pid = 0;
	size_t count = 0;

	do {
		pid = procfs_next_id(processes);
		if (pid && inherited_image(pid) != image)
			continue;
		if (!ARRAY_ADD(heirs, count, pid)) {
			free(heirs);
			heirs = NULL;
			break;
		}
	} while (pid);
	return heirs;
}

void inherited_count(const uint64_t *images, size_t count, size_t *ret)
{
	AUTO_DIR DIR *processes = procfs_processes();
	pid_t pid;

	memset(ret, 0, count * sizeof(*ret));
	while ((pid = procfs_next_id(processes))) {
		uint64_t image = inherited_image(pid);

		for (size_t i = 0; i < count; i++)
			ret[i] += image && images[i] == image && !has_ended(pid);
	}
}

/*
 * Removes the copies in a process. If that fails, the next command removes them, because their
 * owner is dead by then. Returns false if the process is locked: the caller tries again after all
 * other processes.
 */
static bool try(struct looking *looking, pid_t pid)
{
	struct probe_error *error, *noted = NULL;

	if (clock_monotonic_ns() < looking->end_ns)
		error = remove_copies(pid, &looking->patience);
	else
		error = probe_error_new(PROBE_ERROR_STATE, "others have taken too long");
	if (error && error->code == PROBE_ERROR_BUSY && !looking->last_look) {
		probe_error_free(error);
		return false;
	}
	/* After its end or execve(2), a process has no copies. */
	if (error && !has_ended(pid) && has_copies(pid))
		noted = report_note(looking->report,
			"process %d, which a traced process has forked, keeps its probes until "
			"`probectl repair -p %d`: %s",
			pid, pid, error->message);
	looking->error = probe_error_first(looking->error, noted);
	probe_error_free(error);
	return true;
}

static void look_at(struct looking *looking, pid_t pid)
{
	uint64_t image;
	bool found;

	if (pid == getpid())
		return;
	for (size_t i = 0; i < looking->seen_count; i++)
		if (looking->seen[i] == pid)
			return;
	image = inherited_image(pid);
	pthread_mutex_lock(&all.lock);
	found = all.any_image || array_find(all.images, all.image_count, sizeof(image), 0, image);
	pthread_mutex_unlock(&all.lock);
	if (image && !found)
		return;
	found = image && has_copies(pid);
	if ((!found && !has_ended(pid)) || !ARRAY_ADD(looking->seen, looking->seen_count, pid))
		return;
	if (found && !try(looking, pid)) {
		looking->busy = true;
		looking->seen_count--;
		return;
	}
	looking->again = looking->again || found;
	looking->ended = looking->ended || !found;
}

static void look_once(struct looking *looking)
{
	AUTO_DIR DIR *processes = procfs_processes();
	pid_t pid;

	looking->again = looking->ended = looking->busy = false;
	while ((pid = procfs_next_id(processes)))
		look_at(looking, pid);
}

/* ---- Sessions ----------------------------------------------------------------------------- */

void inherited_begin(pid_t pid, bool *goes_on_ret)
{
	uint64_t image = inherited_image(pid);
	size_t at;

	pthread_mutex_lock(&all.lock);
	all.going_on++;
	at = array_search(all.images, all.image_count, sizeof(image), 0, image);
	if (!image || (at < all.image_count && all.images[at] == image)) {
		/* the target has no image, or the list has it */
	} else if (all.image_count == IMAGES_MAX || !ARRAY_ROOM(all.images, all.image_count)) {
		all.any_image = true;
	} else {
		memmove(&all.images[at + 1], &all.images[at],
			(all.image_count++ - at) * sizeof(image));
		all.images[at] = image;
	}
	pthread_mutex_unlock(&all.lock);
	*goes_on_ret = true;
}

/*
 * Counts a session as ended. If it could not be ended, `failed` is its target, else 0. Returns true
 * if no session goes on.
 */
static bool leave(bool *goes_on, pid_t failed)
{
	bool last;

	if (!*goes_on)
		return false;
	*goes_on = false;
	pthread_mutex_lock(&all.lock);
	last = --all.going_on == 0;
	if (failed)
		(void)ARRAY_ADD(all.failed, all.failed_count, failed);
	pthread_mutex_unlock(&all.lock);
	return last;
}

void inherited_forget(bool *goes_on)
{
	leave(goes_on, 0);
}

struct probe_error *inherited_end(bool *goes_on, pid_t failed, struct probe_report *report)
{
	struct looking looking = {
		.end_ns = clock_monotonic_ns() + PATIENCE_NS, .report = report, .again = true};

	if (!leave(goes_on, failed))
		return NULL;
	pthread_mutex_lock(&all.lock);
	for (size_t i = 0; i < all.failed_count; i++)
		(void)ARRAY_ADD(looking.seen, looking.seen_count, all.failed[i]);
	pthread_mutex_unlock(&all.lock);
	for (int ended = 0; (looking.again || (looking.ended && ended++ < ENDED_PASSES)) &&
			    clock_monotonic_ns() < looking.end_ns;)
		look_once(&looking);
	/* The locks of users were already waited for when the sessions ended. */
	while (looking.busy) {
		looking.last_look = !looking.patience.is_longer ||
				    !probe_patience_wait(&looking.patience) ||
				    clock_monotonic_ns() >= looking.end_ns;
		look_once(&looking);
	}
	free(looking.seen);
	pthread_mutex_lock(&all.lock);
	if (!all.going_on) {
		free(all.images);
		all.images = NULL;
		all.image_count = 0;
		free(all.failed);
		all.failed = NULL;
		all.failed_count = 0;
		all.any_image = false;
	}
	pthread_mutex_unlock(&all.lock);
	return looking.error;
}
