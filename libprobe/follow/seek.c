/* SPDX-License-Identifier: MIT */
/*
 * Root has a guardian (guardian.c), who holds what executes one of the files. Without rights,
 * nobody tells us that a process has been started. What there is:
 *
 *	inotify(7)	execve(2) opens the program's file: IN_OPEN comes before the new program is
 *			there. It does not say who opens the file, nor why.
 *	/proc		which program each process runs now
 *
 * So if the files are known, we look when one of them has been opened, again and again for some
 * milliseconds, and otherwise seldom; also beside a guardian, for what he could not hold. If they
 * are not, we look at all processes at short intervals, in a small part of our time.
 *
 * What is not there at one look and there at the next has begun in between, and after the file was
 * last known to be closed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/error.h"
#include "libprobe/follow/follow.h"
#include "libprobe/base/procfs.h"

enum {
	LOOK_NS = 2000000,	/* at least, between two looks at all processes */
	LOOK_SHARE = 20,	/* and so many times as long as one takes */
	SELDOM_NS = 100000000,	/* if an opened file wakes us */
	EAGER_NS = 5000000,	/* from there to the new program, mostly much less */
	EAGER_LOOK_NS = 200000, /* between two looks meanwhile */
	EVENT_BYTES = 4096
};

struct seek {
	struct probe_newcomers newcomers;
	char **files; /* of newcomers; owned */
	int inotify;  /* -1: there is a guardian, or there are no files, or one cannot be watched */
	struct guardian *guardian; /* or NULL */
	bool has_looked;
	uint64_t next_ns, looked_ns;
	uint64_t quiet_ns; /* no file had been opened since the last look */
	uint64_t eager_until_ns;
};

/* ---- The files ---------------------------------------------------------------------- */

/* A file that was replaced has another inode: watching a path again is the same, or the new one. */
static bool watch_files(const struct seek *seek)
{
	for (size_t i = 0; i < seek->newcomers.file_count; i++)
		if (inotify_add_watch(seek->inotify, seek->files[i], IN_OPEN) < 0)
			return false;
	return seek->newcomers.file_count > 0;
}

static bool any_opened(const struct seek *seek)
{
	char events[EVENT_BYTES];
	bool any = false;

	while (seek->inotify >= 0 && read(seek->inotify, events, sizeof(events)) > 0)
		any = true;
	return any;
}

static struct probe_error *copy_files(struct seek *seek)
{
	size_t count = seek->newcomers.file_count;

	seek->files = calloc(count + 1, sizeof(*seek->files));
	for (size_t i = 0; seek->files && i < count; i++) {
		seek->files[i] = strdup(seek->newcomers.files[i]);
		if (!seek->files[i])
			return probe_error_no_memory();
	}
	return seek->files ? NULL : probe_error_no_memory();
}

/* Without it, looking takes longer. */
static void open_inotify(struct seek *seek)
{
	seek->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (seek->inotify < 0 || watch_files(seek))
		return;
	close(seek->inotify);
	seek->inotify = -1;
}

struct probe_error *seek_create(const struct probe_newcomers *newcomers, struct seek **ret)
{
	struct seek *seek = calloc(1, sizeof(*seek));
	struct probe_error *error;

	if (!seek)
		return probe_error_no_memory();
	seek->newcomers = *newcomers;
	seek->inotify = -1;
	error = copy_files(seek);
	if (error) {
		seek_free(seek);
		return error;
	}
	seek->guardian = geteuid() == 0 ? guardian_start((const char *const *)seek->files,
						  seek->newcomers.file_count)
					: NULL;
	if (!seek->guardian)
		open_inotify(seek);
	seek->looked_ns = seek->quiet_ns = clock_monotonic_ns();
	*ret = seek;
	return NULL;
}

void seek_free(struct seek *seek)
{
	if (!seek)
		return;
	for (size_t i = 0; seek->files && seek->files[i]; i++)
		free(seek->files[i]);
	free(seek->files);
	guardian_end(seek->guardian);
	if (seek->inotify >= 0)
		close(seek->inotify);
	free(seek);
}

int seek_fd(const struct seek *seek)
{
	return seek->guardian ? guardian_fd(seek->guardian) : seek->inotify;
}

void seek_hold_none(struct seek *seek)
{
	guardian_end(seek->guardian);
	seek->guardian = NULL;
}

struct guardian *seek_guardian(const struct seek *seek)
{
	return seek->guardian;
}

/* ---- The processes ------------------------------------------------------------------- */

void seek_hurry(struct seek *seek)
{
	uint64_t soon = clock_monotonic_ns() + LOOK_NS;

	if (soon < seek->next_ns)
		seek->next_ns = soon;
}

static void look_at_all(
	const struct seek *seek, const struct seek_visitor *visitor, uint64_t since_ns)
{
	DIR *processes = procfs_processes();
	pid_t pid;

	while ((pid = procfs_next_id(processes))) {
		if (pid == getpid() || visitor->is_known(visitor->data, pid) ||
			!seek->newcomers.is_wanted(pid, seek->has_looked, seek->newcomers.data))
			continue;
		if (!visitor->take(visitor->data, pid, since_ns))
			break;
	}
	if (processes)
		closedir(processes);
}

static void plan_next(struct seek *seek, uint64_t began_ns)
{
	uint64_t now = clock_monotonic_ns(), pause = LOOK_SHARE * (now - began_ns);

	if (now < seek->eager_until_ns)
		pause = EAGER_LOOK_NS;
	else if (seek->inotify >= 0 || seek->guardian)
		pause = SELDOM_NS;
	else if (pause < LOOK_NS)
		pause = LOOK_NS;
	seek->next_ns = now + pause;
}

bool seek_look(struct seek *seek, const struct seek_visitor *visitor)
{
	static const struct timespec moment = {.tv_nsec = EAGER_LOOK_NS};
	uint64_t now = clock_monotonic_ns(), since = seek->looked_ns;
	bool opened = any_opened(seek), eager = now < seek->eager_until_ns;

	if (seek->guardian && guardian_is_gone(seek->guardian)) {
		seek_hold_none(seek);
		open_inotify(seek);
	}
	/* What has been opened after this look began is read at the next one. */
	if (opened)
		seek->eager_until_ns = now + EAGER_NS;
	if (seek->inotify >= 0 && seek->quiet_ns > since)
		since = seek->quiet_ns;
	if (!opened && !eager)
		seek->quiet_ns = now;
	if (!opened && now < seek->next_ns) {
		if (eager)
			nanosleep(&moment, NULL);
		return eager;
	}
	if (seek->inotify >= 0 && !opened && !eager)
		watch_files(seek);
	if (seek->guardian)
		guardian_renew(seek->guardian);
	look_at_all(seek, visitor, since);
	seek->has_looked = true;
	seek->looked_ns = now;
	plan_next(seek, now);
	return clock_monotonic_ns() < seek->eager_until_ns;
}
