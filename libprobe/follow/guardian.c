/* SPDX-License-Identifier: MIT */
/*
 * fanotify(7) asks its listener whether a file may be executed (FAN_OPEN_EXEC_PERM). The thread
 * waits in execve(2) for the answer, and the kernel sets no time limit. So the listener is not this
 * process, which may be stopped (SIGSTOP), but a small process, the guardian:
 *
 *	thread        execve(FILE): waits
 *	guardian      reads the event, tells us, and answers when we say so, but after HOLD_NS
 *	              in any case
 *	we            trace the thread (PTRACE_SEIZE), and say so: the thread continues in
 *	              execve(2), and the event of the new program stops it
 *
 * The guardian may be stopped, too. It has a timer that kills it (SIGKILL also ends a stopped
 * process), and resets the timer whenever it wakes up. When the guardian is dead, the kernel
 * answers "yes" to all waiting threads. The guardian has a session of its own, so that Ctrl-Z does
 * not stop it with us. When we die, it ends.
 *
 *	we are dead                  no thread waits
 *	we are stuck                 threads wait HOLD_NS at most, and only the first ones,
 *	                             until we say something again
 *	the guardian is stopped      threads wait DEAD_NS at most
 *	the guardian is dead         no thread waits
 *
 * Only the files themselves are marked, so no other program ever waits.
 *
 * Each event comes with an open file. If the kernel cannot open the file for the listener, it
 * refuses the execve(2): for example if the listener has no free descriptor, or a file server is
 * gone. So the guardian reads no more events than it has descriptors for, and accesses no file
 * system that may not answer. To check whether a path leads to another file now, it asks only the
 * kernel's cache (RESOLVE_CACHED).
 *
 * Sources: fanotify(7), fanotify_mark(2), timer_create(2), signal(7), openat2(2); fanotify_read()
 * in fs/notify/fanotify/fanotify_user.c of Linux.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fanotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/procfs.h"
#include "libprobe/follow/follow.h"

enum {
	HOLD_NS = 500000000,
	DEAD_NS = 1000000000,
	BEAT_MS = 200,	 /* longest sleep of the guardian */
	START_MS = 2000, /* time limit for the guardian's start */
	HELD_MAX = 64,	 /* threads held at once; further threads are not held */
	OWN_FILES = 16	 /* descriptors that are not those of held threads or of events */
};

/* ---- The guardian ---------------------------------------------------------------------- */

struct held {
	uint32_t id; /* 0 if the slot is free */
	int fd;
	uint64_t until_ns;
};

/* The state of the guardian's process. */
struct watchman {
	const char *const *files;
	struct file_id *marked; /* the file at each path when it was marked */
	size_t file_count;
	int group, channel;
	timer_t timer;
	uint32_t last_id, missed;
	size_t at_once; /* limit for held threads, and for the events that one read may return */
	bool stuck;	/* the controller did not answer in time, and has said nothing since */
	struct held held[HELD_MAX];
};

static void put_off_death(const struct watchman *w)
{
	const struct itimerspec in = {.it_value = {.tv_sec = DEAD_NS / 1000000000}};

	if (timer_settime(w->timer, 0, &in, NULL) < 0)
		_exit(1);
}

static void answer(const struct watchman *w, int fd)
{
	const struct fanotify_response response = {.fd = fd, .response = FAN_ALLOW};

	/* If the answer cannot be written, exit, which also releases the thread. */
	if (write(w->group, &response, sizeof(response)) < 0 && errno != ENOENT)
		_exit(1);
	close(fd);
}

static void let_go(const struct watchman *w, struct held *held)
{
	held->id = 0;
	answer(w, held->fd);
}

/* Reports and remembers a thread. Returns false if it cannot be held. */
static bool hold(struct watchman *w, int fd, pid_t tid)
{
	struct guardian_event event = {.tid = tid};
	struct held *place = w->held;

	while (place < w->held + w->at_once && place->id)
		place++;
	if (w->stuck || place == w->held + w->at_once || tid <= 0 ||
		!cached_identify(fd, &event.file))
		return false;
	event.until_ns = clock_monotonic_ns() + HOLD_NS;
	if (++w->last_id == GUARDIAN_RENEW)
		w->last_id++;
	event.id = w->last_id;
	if (send(w->channel, &event, sizeof(event), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return false;
	*place = (struct held){event.id, fd, event.until_ns};
	return true;
}

static void take_events(struct watchman *w)
{
	struct fanotify_event_metadata events[HELD_MAX], *event = events;
	ssize_t length = read(w->group, events, w->at_once * sizeof(*events));

	for (; FAN_EVENT_OK(event, length); event = FAN_EVENT_NEXT(event, length))
		if (event->fd >= 0 && !hold(w, event->fd, event->pid)) {
			w->missed++;
			answer(w, event->fd);
		}
}

/* Asks the kernel to report executions of a descriptor's file. */
static bool mark_file(const struct watchman *w, int fd)
{
	return fanotify_mark(w->group, FAN_MARK_ADD, FAN_OPEN_EXEC_PERM, AT_FDCWD,
		       procfs_path("/proc/self/fd/%d", fd).text) == 0;
}

/*
 * Marks the files at the paths again, because a replaced file has no mark, even with the same inode
 * number.
 */
static void mark_again(const struct watchman *w)
{
	for (size_t i = 0; i < w->file_count; i++) {
		struct file_id file;
		AUTO_FD int fd = cached_open(AT_FDCWD, w->files[i], 0);

		if (fd >= 0 && cached_identify(fd, &file) &&
			(file_id_same(&file, &w->marked[i]) || !file_is_distant(&file)) &&
			mark_file(w, fd))
			w->marked[i] = file;
	}
}

/* Reads a message of the controller. */
static void take_word(struct watchman *w)
{
	uint32_t id;
	ssize_t length = recv(w->channel, &id, sizeof(id), MSG_DONTWAIT);

	if (length == 0)
		_exit(0);
	if (length != sizeof(id))
		return;
	w->stuck = false;
	if (id == GUARDIAN_RENEW)
		mark_again(w);
	for (int i = 0; i < HELD_MAX && id != GUARDIAN_RENEW; i++)
		if (w->held[i].id == id)
			let_go(w, &w->held[i]);
}

/* Marks all files. No thread waits yet, so it may access file systems. */
static bool mark_all(struct watchman *w)
{
	bool ok = true;

	w->marked = calloc(w->file_count, sizeof(*w->marked));
	for (size_t i = 0; w->marked && ok && i < w->file_count; i++) {
		AUTO_FD int fd = open(w->files[i], O_PATH | O_CLOEXEC);

		ok = fd >= 0 && cached_identify(fd, &w->marked[i]) &&
		     !file_is_distant(&w->marked[i]) && mark_file(w, fd);
	}
	return w->marked && ok;
}

/* Start the timer first, so that no thread waits without a limit. */
static int begin(struct watchman *w)
{
	struct sigevent kill = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
	struct rlimit files;

	setsid();
	prctl(PR_SET_NAME, "probectl-guard");
	if (timer_create(CLOCK_MONOTONIC, &kill, &w->timer) < 0)
		return errno;
	put_off_death(w);
	w->group = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK | FAN_REPORT_TID,
		O_RDONLY | O_CLOEXEC | O_LARGEFILE);
	if (w->group < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0)
		return errno ? errno : EINVAL;
	/* Each held thread, and each event, needs a descriptor. */
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur < OWN_FILES + 2)
		return errno ? errno : EINVAL;
	w->at_once = (files.rlim_cur - OWN_FILES) / 2;
	if (w->at_once > HELD_MAX)
		w->at_once = HELD_MAX;
	return mark_all(w) ? 0 : errno ? errno : EINVAL;
}

/* Becomes the guardian. While the controller lives, only SIGKILL ends it. */
static _Noreturn void watch(struct watchman *w)
{
	struct guardian_event first = {0}, missed = {0};
	sigset_t all;
	int err;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	if (w->channel != 0)
		dup2(w->channel, 0);
	w->channel = 0;
	if (syscall(SYS_close_range, 1, ~0U, 0) < 0)
		_exit(1);
	err = begin(w);
	first.tid = err;
	if (send(w->channel, &first, sizeof(first), MSG_NOSIGNAL) < 0 || err)
		_exit(1);
	for (;;) {
		struct pollfd fds[] = {
			{.fd = w->channel, .events = POLLIN}, {.fd = w->group, .events = POLLIN}};

		poll(fds, 2, BEAT_MS);
		put_off_death(w);
		if (fds[0].revents)
			take_word(w);
		if (fds[1].revents)
			take_events(w);
		for (int i = 0; i < HELD_MAX; i++)
			if (w->held[i].id && clock_monotonic_ns() >= w->held[i].until_ns) {
				w->stuck = true;
				let_go(w, &w->held[i]);
			}
		missed.missed = w->missed;
		if (w->missed &&
			send(w->channel, &missed, sizeof(missed), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			w->missed = 0;
	}
}

/* ---- Starting the guardian -------------------------------------------------------------- */

/* Forks twice: the guardian must not be a child of the program, which may wait for all. */
static bool start(struct watchman *w)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		child = fork();
		if (child == 0)
			watch(w);
		_exit(child < 0);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct guardian *guardian_start(const char *const *files, size_t count)
{
	struct watchman w = {.files = files, .file_count = count};
	struct guardian *guardian = calloc(1, sizeof(*guardian));
	struct guardian_event first;
	int pair[2];
	bool begun;

	if (!guardian || !count ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		free(guardian);
		return NULL;
	}
	w.channel = pair[1];
	begun = start(&w);
	close(pair[1]);
	guardian->channel = pair[0];
	/* Its first message says whether it could begin. */
	if (begun && poll(&(struct pollfd){.fd = pair[0], .events = POLLIN}, 1, START_MS) > 0 &&
		recv(pair[0], &first, sizeof(first), MSG_DONTWAIT) == sizeof(first) && !first.tid)
		return guardian;
	guardian_end(guardian);
	return NULL;
}

/* ---- The controller's side ---------------------------------------------------------------- */

void guardian_end(struct guardian *guardian)
{
	if (!guardian)
		return;
	close(guardian->channel);
	free(guardian);
}

bool guardian_next(struct guardian *guardian, struct guardian_event *ret)
{
	ssize_t length;

	do {
		length = recv(guardian->channel, ret, sizeof(*ret), MSG_DONTWAIT);
		if (length == sizeof(*ret))
			guardian->missed += ret->missed;
	} while (length == sizeof(*ret) && !ret->id);
	guardian->gone |= length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR);
	return length == sizeof(*ret);
}

size_t guardian_missed(struct guardian *guardian)
{
	size_t missed = guardian->missed;

	guardian->missed = 0;
	return missed;
}

void guardian_say(struct guardian *guardian, uint32_t id)
{
	if (send(guardian->channel, &id, sizeof(id), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
		errno != EAGAIN)
		guardian->gone = true;
}
