/* SPDX-License-Identifier: MIT */
/*
 * How we notice that a process we do not trace has called execve(2):
 *
 * - A descriptor of /proc/PID/mem refers to the memory that the process had when it was opened. If
 *   that memory has been replaced (or the process has ended), reading returns no byte and no error.
 *   This check costs one system call.
 * - The kernel gives every program 16 random bytes; AT_RANDOM in the auxiliary vector holds their
 *   address. fork(2) copies them, so a child whose bytes differ from its parent's is another
 *   program. A child of vfork(2) has its parent's memory until it calls execve().
 *
 * A process whose parent has ended gets another parent. Either we know the process already, or we
 * need not follow it.
 *
 * Sources: proc_pid_mem(5), getauxval(3); fs/proc/base.c, mem_rw(), of Linux.
 */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/error.h"
#include "libprobe/base/permission.h"
#include "libprobe/base/procfs.h"
#include "libprobe/follow/follow.h"

/* ==== Seek ==================================================================================== */

/*
 * Finding wanted processes that nobody follows. Root has a guardian (guardian.c), which holds
 * threads that execute one of the files. Without root's rights, the kernel does not report a new
 * process. It offers:
 *
 *	inotify(7)	execve(2) opens the program's file, and IN_OPEN comes before the new program
 *			is mapped. The event does not say who opens the file, nor why.
 *	/proc		which program each process runs now
 *
 * So if the files are known, we search repeatedly for some milliseconds after one of them was
 * opened, and seldom at other times. We also search beside a guardian, for threads that it could
 * not hold. If the files are unknown, we search all processes at short intervals, and use a small
 * part of our time for it.
 *
 * If a process is missing in one search and present in the next, it has begun between the two. It
 * has also begun after the last search at which no file had been opened.
 */

enum {
	LOOK_NS = 2000000, /* minimum time between two searches of all processes */
	/* minimum time between two searches, as a multiple of a search's duration */
	LOOK_SHARE = 20,
	SELDOM_NS = 100000000, /* time between two searches if the opening of a file wakes us */
	/* Limit between a file's opening and the new program */
	EAGER_NS = 5000000,
	/* Time between two searches after a file was opened. */
	EAGER_LOOK_NS = 200000,
	EVENT_BYTES = 4096
};

struct seek {
	struct probe_newcomers newcomers;
	char **files; /* files of `newcomers`; owned */
	/*
	 * Watches the files; -1 if there is a guardian, if no files are known, or if one cannot be
	 * watched.
	 */
	int inotify;
	bool has_looked;
	uint64_t next_ns, looked_ns;
	uint64_t quiet_ns; /* time of the last search at which no file had been opened */
	uint64_t eager_until_ns;
};

/* ---- The files ---------------------------------------------------------------------- */

/* Watches the files at all paths. Called again later, because a replaced file has another inode. */
static bool watch_files(const struct seek *seek)
{
	for (size_t i = 0; i < seek->newcomers.file_count; i++)
		if (inotify_add_watch(seek->inotify, seek->files[i], IN_OPEN) < 0)
			return false;
	return seek->newcomers.file_count > 0;
}

/* Without inotify, processes are found later. */
static void open_inotify(struct seek *seek)
{
	seek->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (seek->inotify < 0 || watch_files(seek))
		return;
	close(seek->inotify);
	seek->inotify = -1;
}

/* ---- The processes ------------------------------------------------------------------- */

/* Makes the next search come soon, for children that a newcomer forked before it was found. */
static void seek_hurry(struct seek *seek)
{
	uint64_t soon = clock_monotonic_ns() + LOOK_NS;

	if (soon < seek->next_ns)
		seek->next_ns = soon;
}

/* ==== Watch =================================================================================== */

enum {
	SCAN_NS = 2000000, /* minimum time between two searches for children */
	/* minimum time between two scans, as a multiple of a scan's duration */
	SCAN_SHARE = 20
};

/* Identifies a program, to notice the next one in its process. */
struct image {
	uint64_t address;
	uint8_t random[16];
};

struct watched {
	pid_t pid;
	uint64_t start_time;
	struct image image;
	/* /proc/PID/mem of an added process; -1 for a child, whose `image` is compared. */
	int mem;
	bool is_child;	  /* the process was found as a child, not added */
	bool is_newcomer; /* the process was found by probe_watch_seek(), and is not examined yet */
	bool seen;	  /* the process was seen in this round */
	bool denied;	  /* it has been reported that the process is unreadable */
	uint64_t checked_ns; /* when the process was last seen to run this program */
};

struct probe_watch {
	struct launches launches;
	struct seek *seek; /* may be NULL */
	int wake;	   /* an epoll descriptor of launches.event and seek's descriptor, or -1 */
	bool children, finished;
	struct watched *items;
	size_t count;
	size_t at; /* index of the process that this round examines next */
	bool full; /* this round also examines children */
	uint64_t round_ns, scanned_ns, next_scan_ns;
	/* Number of newcomers that ended untraced, and are not reported yet. */
	size_t ended;
};

/* ---- Programs --------------------------------------------------------------------- */

enum image_state {
	IMAGE_READ,
	IMAGE_GONE,  /* the process has ended, or is in the middle of execve(2) */
	IMAGE_DENIED /* the process is unreadable, because it runs another user's program */
};

static enum image_state image_read(pid_t pid, struct image *ret)
{
	struct auxv auxv;

	*ret = (struct image){0};
	/* An ended main thread has no memory: read that of another thread. */
	pid = procfs_living(pid);
	/* The files of an exiting process belong to root, too. */
	if (auxv_read(pid, &auxv) < 0)
		return errno != ENOENT && procfs_status_number(pid, "VmSize:") >= 0 ? IMAGE_DENIED
										    : IMAGE_GONE;
	/* execve(2) has mapped the program, but not written the vector yet. */
	if (auxv.bytes > 0 && auxv.items[0][0] == AT_NULL)
		return IMAGE_GONE;
	ret->address = auxv_value(&auxv, AT_RANDOM);
	/*
	 * A 32-bit program: its vector's address has no meaning for us, but differs from a 64-bit
	 * one's. Or the process has ended: then the vector is empty when it is read again.
	 */
	if (ret->address && memory_read(pid, ret->address, ret->random, sizeof(ret->random)) !=
				    sizeof(ret->random))
		auxv_read(pid, &auxv);
	return auxv.bytes > 0 ? IMAGE_READ : IMAGE_GONE;
}

static bool image_same(const struct image *a, const struct image *b)
{
	return a->address == b->address && memcmp(a->random, b->random, sizeof(a->random)) == 0;
}

/* ---- The processes ------------------------------------------------------------------ */

struct probe_error *probe_watch_create(bool children, struct probe_watch **ret)
{
	struct probe_watch *watch = calloc(1, sizeof(*watch));
	struct probe_error *error;

	if (!watch)
		return probe_error_no_memory();
	watch->children = children;
	watch->wake = -1;
	error = launches_init(&watch->launches);
	if (error)
		probe_watch_free(watch);
	else
		*ret = watch;
	return error;
}

int probe_watch_fd(const struct probe_watch *watch)
{
	if (watch->finished)
		return -1;
	return watch->wake < 0 ? watch->launches.event : watch->wake;
}

static bool wake_for(struct probe_watch *watch, int fd)
{
	return fd < 0 || epoll_ctl(watch->wake, EPOLL_CTL_ADD, fd,
				 &(struct epoll_event){.events = EPOLLIN}) == 0;
}

struct probe_error *probe_watch_seek(
	struct probe_watch *watch, const struct probe_newcomers *newcomers)
{
	struct seek *seek = calloc(1, sizeof(*seek));
	struct guardian *guardian;

	if (!seek)
		return probe_error_no_memory();
	watch->seek = seek;
	seek->newcomers = *newcomers;
	seek->inotify = -1;
	seek->files = calloc(newcomers->file_count + 1, sizeof(*seek->files));
	if (!seek->files)
		return probe_error_no_memory();
	for (size_t i = 0; i < newcomers->file_count; i++) {
		seek->files[i] = strdup(newcomers->files[i]);
		if (!seek->files[i])
			return probe_error_no_memory();
	}
	guardian = geteuid() == 0
			   ? guardian_start((const char *const *)seek->files, newcomers->file_count)
			   : NULL;
	watch->launches.guardian = guardian;
	if (!guardian)
		open_inotify(seek);
	seek->looked_ns = seek->quiet_ns = clock_monotonic_ns();
	watch->wake = epoll_create1(EPOLL_CLOEXEC);
	if (watch->wake < 0 || !wake_for(watch, watch->launches.event) ||
		!wake_for(watch, guardian ? guardian->channel : seek->inotify))
		return probe_error_system(errno, "cannot wait for processes");
	return NULL;
}

struct launches *watch_launches(struct probe_watch *watch)
{
	return &watch->launches;
}

static void drop(struct probe_watch *watch, size_t i)
{
	cleanup_fd(&watch->items[i].mem);
	watch->items[i] = watch->items[--watch->count];
}

void probe_watch_free(struct probe_watch *watch)
{
	struct seek *seek = watch ? watch->seek : NULL;

	if (!watch)
		return;
	while (watch->count)
		drop(watch, watch->count - 1);
	launches_deinit(&watch->launches);
	for (size_t i = 0; seek && seek->files && seek->files[i]; i++)
		free(seek->files[i]);
	if (seek) {
		free(seek->files);
		cleanup_fd(&seek->inotify);
	}
	free(seek);
	cleanup_fd(&watch->wake);
	free(watch->items);
	free(watch);
}

static struct watched *find(struct probe_watch *watch, pid_t pid)
{
	for (size_t i = 0; i < watch->count; i++)
		if (watch->items[i].pid == pid)
			return &watch->items[i];
	return NULL;
}

/* Returns NULL if memory is short. */
static struct watched *add(struct probe_watch *watch, pid_t pid)
{
	if (!ARRAY_ROOM(watch->items, watch->count))
		return NULL;
	watch->items[watch->count] = (struct watched){
		.pid = pid, .start_time = procfs_start_time(pid), .mem = -1, .seen = true};
	return &watch->items[watch->count++];
}

static int open_mem(pid_t pid)
{
	return open(procfs_path("/proc/%d/mem", pid).text, O_RDONLY | O_CLOEXEC);
}

struct probe_error *probe_watch_add(struct probe_watch *watch, const struct probe_target *target)
{
	struct watched *w = find(watch, target->pid);

	if (!w)
		w = add(watch, target->pid);
	if (!w)
		return probe_error_no_memory();
	cleanup_fd(&w->mem);
	w->start_time = target->start_time;
	/* The process may have executed another program since the target was opened. */
	w->mem = target->mem < 0 ? open_mem(target->pid) : fcntl(target->mem, F_DUPFD_CLOEXEC, 0);
	if (w->mem < 0 && (errno == EACCES || errno == EPERM))
		return permission_trace_error(target->pid);
	if (w->mem < 0)
		return errno == ENOENT ? procfs_no_process(target->pid)
				       : probe_error_system(errno, "/proc/%d/mem", target->pid);
	image_read(target->pid, &w->image);
	w->checked_ns = clock_monotonic_ns();
	return NULL;
}

void probe_watch_pass_over(struct probe_watch *watch, const struct probe_target *target)
{
	if (target->held)
		leaf_pass_over(target->pid, watch->launches.files);
}

/* ---- Looking ------------------------------------------------------------------------ */

/*
 * Returns true if a process runs another program, which is loaded. *error_ret says, once, that the
 * process is unreadable.
 */
static bool has_changed(
	struct probe_watch *watch, struct watched *w, uint64_t now, struct probe_error **error_ret)
{
	struct image image;
	enum image_state state;

	if (w->mem >= 0 && memory_is_there(w->mem)) {
		w->checked_ns = now;
		return false;
	}
	/* A followed program has run no code yet. */
	if (launches_have(&watch->launches, w->pid))
		return false;
	state = image_read(w->pid, &image);
	if (state == IMAGE_DENIED && !w->denied) {
		w->denied = true;
		*error_ret = permission_trace_error(w->pid);
	}
	if (state != IMAGE_READ)
		return false;
	if (w->mem < 0 && !w->is_newcomer && image_same(&image, &w->image)) {
		w->checked_ns = now;
		return false;
	}
	if (program_is_loading(w->pid, watch->launches.files))
		return false;
	w->image = image;
	return true;
}

/* Opens the program that a process has executed, and watches it. */
static struct probe_error *take(
	struct probe_watch *watch, struct watched *w, uint64_t now, struct probe_watch_event *ret)
{
	struct probe_error *error;
	uint64_t age;

	cleanup_fd(&w->mem);
	w->mem = open_mem(w->pid);
	ret->is_child = w->is_child;
	ret->is_newcomer = w->is_newcomer;
	if (w->is_newcomer)
		seek_hurry(watch->seek);
	w->is_newcomer = false;
	/* The process did not exist before its start, so its age limits the unseen time. */
	age = procfs_age_ns(w->pid);
	ret->unseen_ns = now - w->checked_ns < age ? now - w->checked_ns : age;
	w->checked_ns = now;
	error = probe_target_open(w->pid, NULL, &ret->target);
	if (!error) {
		ret->target->files = files_hold(watch->launches.files);
		ret->target->late = true;
	}
	/* Remove incompletely inherited sessions, or hits would count twice. */
	if (!error && ret->is_newcomer)
		error = inherited_remove(ret->target);
	if (error && ret->target) {
		probe_target_close(ret->target);
		ret->target = NULL;
	}
	if (!error || (error->code != PROBE_ERROR_NOT_FOUND && !procfs_is_zombie(w->pid) &&
			      (kill(w->pid, 0) == 0 || errno != ESRCH)))
		return error;
	watch->ended += ret->is_newcomer;
	probe_error_free(error);
	return NULL;
}

/* Takes the next held program, and watches its process from now on. */
static bool take_held(struct probe_watch *watch, struct probe_watch_event *ret)
{
	struct watched *w;
	bool known;

	ret->target = launches_take(&watch->launches, &ret->unseen_ns, &ret->is_newcomer);
	if (!ret->target)
		return false;
	ret->held = true;
	w = find(watch, ret->target->pid);
	/* A watched process that has ended may have had the same pid. */
	known = w && w->start_time == ret->target->start_time;
	/* It may be a newcomer that was not reported yet. */
	if (known)
		ret->is_newcomer = w->is_newcomer;
	ret->is_child = !ret->is_newcomer && (!known || w->is_child);
	if (w) {
		watch->ended += !known && w->is_newcomer && !w->denied;
		w->is_newcomer = false;
		w->is_child &= known;
	}
	/* After an error, the next program of this process goes unnoticed. */
	probe_error_free(probe_watch_add(watch, ret->target));
	return true;
}

/* Returns false if memory is short. */
static bool add_children(struct probe_watch *watch, size_t parent)
{
	AUTO_FREE pid_t *children = children_of(watch->items[parent].pid);
	bool ok = true;

	for (size_t i = 0; children && children[i] && ok; i++) {
		struct watched *w = find(watch, children[i]);

		if (w) {
			w->seen = true;
			continue;
		}
		w = add(watch, children[i]);
		ok = w != NULL;
		if (!ok)
			break;
		/* The child runs its parent's program. */
		w->is_child = true;
		w->image = watch->items[parent].image;
		w->checked_ns = watch->scanned_ns;
	}
	return ok;
}

static void forget_ended(struct probe_watch *watch)
{
	for (size_t i = 0; i < watch->count;) {
		const struct watched *w = &watch->items[i];
		bool has_hits = watch->seek && !w->is_child;
		struct image image = w->image;
		/* While the memory exists, the process has not ended. */
		bool is_there = w->mem >= 0 && memory_is_there(w->mem);
		bool has_ended = !is_there && procfs_start_time(w->pid) != w->start_time;
		/* Its parent may never wait for it. */
		bool is_dead = w->mem >= 0 && !is_there && procfs_is_zombie(w->pid);

		if ((w->seen && w->is_child) || !(has_ended || (has_hits && is_dead))) {
			i++;
			continue;
		}
		/* A newcomer that we may not read was already reported. */
		watch->ended += w->is_newcomer && !w->denied;
		drop(watch, i);
		if (!has_hits)
			continue;
		/* Its forked children must be found again, as newcomers. */
		for (size_t k = watch->count; k-- > 0;)
			if (watch->items[k].is_child && watch->items[k].mem < 0 &&
				image_same(&watch->items[k].image, &image))
				drop(watch, k);
		seek_hurry(watch->seek);
	}
}

/*
 * Forgets ended processes, and finds new children, unless newcomers are sought, which include them.
 * Returns false if memory is short.
 */
static bool scan(struct probe_watch *watch)
{
	bool ok = true;

	for (size_t i = 0; i < watch->count; i++)
		watch->items[i].seen = false;
	for (size_t i = 0; i < watch->count && ok && !watch->seek; i++)
		ok = add_children(watch, i);
	forget_ended(watch);
	watch->scanned_ns = watch->round_ns;
	return ok;
}

/* ---- Newcomers ---------------------------------------------------------------------- */

/*
 * Returns true if `pid` was forked from `other` with all its sessions; also if it has just ended. A
 * process forked while they were being made may have their data, even the registry, but not stubs
 * at all sites.
 */
static bool has_sessions_of(pid_t pid, pid_t other)
{
	static const char ours[] = "/memfd:probectl";
	AUTO(registry_deinit) struct registry registry = {0}, all = {0};
	AUTO(maps_deinit) struct maps its = {0}, others = {0};
	struct probe_error *unread = maps_read(other, &others), *error = maps_read(pid, &its);
	bool has_ended =
		error && (error->code == PROBE_ERROR_STATE || error->code == PROBE_ERROR_NOT_FOUND);
	size_t count = 0, shared = 0;
	bool alike = has_ended;

	error = error ?: registry_load(pid, &its, &registry);
	if (!unread)
		unread = registry_load(other, &others, &all);
	for (size_t i = 0; !unread && i < others.count; i++) {
		const struct mapping *m = &others.items[i], *same = maps_find(&its, m->start);

		if (!m->is_shared || !m->deleted || strncmp(m->path, ours, strlen(ours)) != 0)
			continue;
		count++;
		shared += has_ended || (same && same->inode == m->inode &&
					       registry_has_data(&registry, m->start));
	}
	if (!error && !unread && count && shared == count)
		error = site_all_alike(&all, pid, other, &alike);
	probe_error_free(unread);
	probe_error_free(error);
	return count && shared == count && alike;
}

/*
 * Adds a found process, which is reported once its libraries are loaded. Returns false if memory is
 * short.
 */
static bool take_newcomer(struct probe_watch *watch, pid_t pid, uint64_t since_ns)
{
	struct watched *w;
	struct image image;
	enum image_state state = image_read(pid, &image);
	bool is_child = false;

	/* The process is a kernel thread, or has just ended. */
	if (state == IMAGE_GONE)
		return true;
	/* Its hits go to a watched process from which it was forked. */
	for (size_t i = 0; i < watch->count && state == IMAGE_READ && !is_child; i++)
		is_child = watch->items[i].image.address &&
			   image_same(&watch->items[i].image, &image) &&
			   has_sessions_of(pid, watch->items[i].pid);
	w = add(watch, pid);
	if (!w)
		return false;
	w->is_child = is_child;
	w->is_newcomer = !is_child;
	w->image = is_child ? image : (struct image){0};
	w->checked_ns = since_ns;
	return true;
}

/* Searches all processes, if it is time to. Returns true if it should be called again soon. */
static bool seek_look(struct probe_watch *watch)
{
	static const struct timespec moment = {.tv_nsec = EAGER_LOOK_NS};
	struct seek *seek = watch->seek;
	struct guardian **guardian = &watch->launches.guardian;
	uint64_t now = clock_monotonic_ns(), since = seek->looked_ns, pause;
	bool opened = false, eager = now < seek->eager_until_ns;
	char events[EVENT_BYTES];
	AUTO_DIR DIR *processes = NULL;
	pid_t pid;

	while (seek->inotify >= 0 && read(seek->inotify, events, sizeof(events)) > 0)
		opened = true;
	/* If the guardian has ended, watch the files. */
	if (*guardian && (*guardian)->gone) {
		guardian_end(*guardian);
		*guardian = NULL;
		open_inotify(seek);
		wake_for(watch, seek->inotify);
	}
	/* The next search notices files opened from now on. */
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
	if (*guardian)
		guardian_say(*guardian, GUARDIAN_RENEW);
	processes = procfs_processes();
	while ((pid = procfs_next_id(processes)))
		if (pid != getpid() && !find(watch, pid) && !launches_have(&watch->launches, pid) &&
			seek->newcomers.is_wanted(pid, seek->has_looked, seek->newcomers.data) &&
			!take_newcomer(watch, pid, since))
			break;
	seek->has_looked = true;
	seek->looked_ns = now;
	pause = LOOK_SHARE * (clock_monotonic_ns() - now);
	now = clock_monotonic_ns();
	if (now < seek->eager_until_ns)
		pause = EAGER_LOOK_NS;
	else if (seek->inotify >= 0 || *guardian)
		pause = SELDOM_NS;
	else if (pause < LOOK_NS)
		pause = LOOK_NS;
	seek->next_ns = now + pause;
	return now < seek->eager_until_ns;
}

/* ---- The watch ------------------------------------------------------------------------ */

/*
 * A round examines every process once, in several calls if it finds programs. Children, which take
 * several system calls each, are not examined in every round.
 */
struct probe_error *probe_watch_next(struct probe_watch *watch, struct probe_watch_event *ret)
{
	struct probe_error *error = NULL;
	uint64_t now, pause;

	*ret = (struct probe_watch_event){0};
	launches_run(&watch->launches);
	error = launches_told(&watch->launches, false);
	if (error || take_held(watch, ret))
		return error;
	if (watch->seek && watch->at == 0 && seek_look(watch))
		gate_raise(watch->launches.event);
	if (watch->at == 0) {
		watch->round_ns = clock_monotonic_ns();
		watch->full = watch->children && watch->round_ns >= watch->next_scan_ns;
		if (watch->full && !scan(watch))
			return probe_error_no_memory();
	}
	while (watch->at < watch->count && !error && !ret->target) {
		struct watched *w = &watch->items[watch->at++];

		now = clock_monotonic_ns();
		if ((w->mem >= 0 || w->is_newcomer || watch->full) &&
			has_changed(watch, w, now, &error))
			error = take(watch, w, now, ret);
	}
	if (error || ret->target)
		return error;
	now = clock_monotonic_ns();
	pause = SCAN_SHARE * (now - watch->round_ns);
	if (watch->full)
		watch->next_scan_ns = now + (pause > SCAN_NS ? pause : SCAN_NS);
	watch->at = 0;
	watch->full = false;
	return NULL;
}

struct probe_error *probe_watch_finish(struct probe_watch *watch)
{
	struct probe_error *error;
	size_t ended = watch->ended;

	/* Release all threads: the caller may wait for one of them, such as its reader. */
	if (!watch->finished) {
		launches_end(&watch->launches);
		watch->finished = true;
	}
	error = launches_told(&watch->launches, true);
	if (error || !ended)
		return error;
	watch->ended = 0;
	return probe_error_new(PROBE_ERROR_ENDED,
		"%zu process%s that came had ended before %s probes could be switched on: %s hits "
		"are missing",
		ended, ended == 1 ? "" : "es", ended == 1 ? "its" : "their",
		ended == 1 ? "its" : "their");
}

void probe_watch_untraced(struct probe_watch *watch, const struct probe_watch_event *event)
{
	watch->ended += event->is_newcomer && !probe_target_alive(event->target);
}
