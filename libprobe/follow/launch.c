/* SPDX-License-Identifier: MIT */
/*
 * Follows a thread from the gate at libc's execve() to a held program:
 *
 *   gate      a thread waits; the futex on which it waits tells which thread
 *   seize     we trace the thread from now on, and the gate opens
 *   passage   the thread runs through execve(2) and the loader (libprobe/follow/stages.c)
 *   held      a session is started in the program, and nothing is traced any more
 *
 * Many threads are followed at once. When a thread has stopped, we let it continue, whatever the
 * other threads do: its parent may wait for it in vfork(2), and another thread may depend on the
 * parent. We wait for each thread by its id, and take no other events, because the program that
 * uses this library has children of its own.
 *
 * If the controller dies in the meantime, the kernel detaches it from the threads, and they
 * continue as if nothing had happened. If the controller is stopped while it follows threads, a
 * timer continues it (libprobe/ptrace/tracee.c). A thread whose execve() has failed comes to the
 * gate again (execvp(3) tries one folder of PATH after the other), or is released. The struct
 * probe_watch finds programs that were released early, like any program that did not come through a
 * gate.
 *
 * Sources: ptrace(2), "execve(2) under ptrace"; proc_pid_syscall(5).
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "arch/arch.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/follow/follow.h"

/* ==== Spawn =================================================================================== */

/* The child's message to its parent when it gives up. */
struct failure {
	int err;	  /* errno of execve(2) */
	uint16_t machine; /* EM_* of a program that the kernel does not execute, or EM_NONE */
};

static uint16_t machine_of(const char *path)
{
	Elf32_Ehdr header; /* an Elf64_Ehdr begins with the same members, as far as e_machine */
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool is_program = fd >= 0 && read(fd, &header, sizeof(header)) == sizeof(header) &&
			  memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;

	return is_program ? header.e_machine : EM_NONE;
}

/*
 * Executes a program like execvp(3), but execvp() gives a program of another machine (ENOEXEC) to a
 * shell. For such a program, returns its machine. Returns EM_NONE if execvp() should be called.
 */
static uint16_t execute(char *const argv[])
{
	bool is_path = strchr(argv[0], '/');
	const char *at = is_path ? "" : getenv("PATH");
	char path[PATH_MAX];

	while (at) {
		int length = (int)strcspn(at, ":");

		if (snprintf(path, sizeof(path), "%.*s%s%s", length, at, length ? "/" : "",
			    argv[0]) < (int)sizeof(path)) {
			execv(path, argv);
			if (errno == ENOEXEC)
				return machine_of(path);
		}
		at = at[length] ? at + length + 1 : NULL;
	}
	return EM_NONE;
}

static void child_run(char *const argv[], int go, int failed)
{
	struct failure failure = {0};
	char byte;

	/* The parent writes a byte when it traces us. */
	if (read(go, &byte, 1) != 1)
		_exit(127);
	failure.machine = execute(argv);
	if (failure.machine == EM_NONE)
		execvp(argv[0], argv);
	failure.err = failure.machine == EM_NONE ? errno : ENOEXEC;
	byte = 0;
	if (write(failed, &failure, sizeof(failure)) < 0)
		byte = 1;
	_exit(127 + byte);
}

/* Returns the error for an ended child; `info` is waitid(2)'s. */
static struct probe_error *ended(const char *name, const siginfo_t *info)
{
	if (info->si_code == CLD_EXITED)
		return error_numbered(PROBE_ERROR_ENDED, W_EXITCODE(info->si_status, 0),
			"%s exited with status %d before its libraries were loaded", name,
			info->si_status);
	return error_numbered(PROBE_ERROR_ENDED, info->si_status,
		"%s was killed by SIG%s before its libraries were loaded", name,
		sigabbrev_np(info->si_status));
}

/* Follows the seized child until it is held. Waits for no other process. */
static struct probe_error *run_to_hold(
	struct probe_target *target, struct passage *passage, const char *name, int failed)
{
	siginfo_t info = {0};
	struct failure failure;

	/* WNOWAIT keeps the exit status for the code that waits for the program later. */
	while (passage->state < PASSAGE_HELD) {
		if (waitid(P_PID, (id_t)passage->pid, &info,
			    WEXITED | WSTOPPED | WNOWAIT | __WALL) < 0 &&
			errno != EINTR)
			break;
		passage_step(passage);
	}
	if (passage->state == PASSAGE_HELD)
		return passage_take(passage, target);
	if (read(failed, &failure, sizeof(failure)) == sizeof(failure)) {
		const struct arch *arch = arch_of_args(failure.machine);

		if (failure.machine == EM_NONE || arch == arch_host())
			return probe_error_system(failure.err, "%s", name);
		return error_numbered(PROBE_ERROR_SYSTEM, ENOEXEC,
			"%s is a program for another machine%s%s%s, which this one does not "
			"execute",
			name, arch ? " (" : "", arch ? arch->name : "", arch ? ")" : "");
	}
	/* The child may have ended after the last stop. */
	waitid(P_PID, (id_t)passage->pid, &info, WEXITED | WNOWAIT | WNOHANG | __WALL);
	return ended(name, &info);
}

static struct probe_error *start_child(
	char *const argv[], int go[2], int failed[2], struct probe_target *target)
{
	struct yield yield = {0};
	struct passage passage = {.yield = &yield};
	siginfo_t info = {0};
	int err;

	target->pid = fork();
	if (target->pid < 0)
		return probe_error_system(errno, "cannot start a process");
	if (target->pid == 0) {
		close(go[1]);
		child_run(argv, go[0], failed[1]);
	}
	target->spawned = true;
	cleanup_fd(&failed[1]);
	passage_begin(&passage, target->pid, target->pid, true);
	if (passage.state == PASSAGE_OVER) {
		err = errno;
		/* The child waits for our byte, so another process has ended it. */
		if (waitid(P_PID, (id_t)target->pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
			info.si_pid)
			return ended(argv[0], &info);
		return probe_error_system(err, "cannot trace the program");
	}
	if (write(go[1], "", 1) != 1)
		return probe_error_system(errno, "cannot start the program");
	return run_to_hold(target, &passage, argv[0], failed[0]);
}

struct probe_error *probe_target_spawn(char *const argv[], struct probe_target **ret)
{
	int go[2] = {-1, -1}, failed[2] = {-1, -1};
	struct probe_error *error;
	struct probe_target *target;

	if (!argv[0])
		return probe_error_new(PROBE_ERROR_USAGE,
			"no program to start: the first argument is its name or path");
	error = seccomp_check_own();
	if (error)
		return error;
	target = target_create(0, 0);
	if (!target)
		return probe_error_no_memory();
	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(failed, O_CLOEXEC) < 0)
		error = probe_error_system(errno, "cannot make a pipe");
	error = error ?: start_child(argv, go, failed, target);
	for (int i = 0; i < 2; i++) {
		cleanup_fd(&go[i]);
		cleanup_fd(&failed[i]);
	}
	if (error) {
		if (target->pid > 0)
			worker_end_child(target->pid, 0, &(int){0});
		target->spawned = false;
		probe_target_close(target);
		return error;
	}
	*ret = target;
	return NULL;
}

/* ==== Rights ================================================================================== */

/*
 * When a tracer without privileges traces a process, the kernel ignores set-user-ID and
 * capabilities of files that it executes: the program would run as the wrong user.
 *
 * Source: ptrace(2), "execve(2) under ptrace"; execve(2).
 */

enum {
	RIGHTS_PATH_MAX = 4096,
	SEEN_PATH_MAX = RIGHTS_PATH_MAX + 64,
	INTERPRETER_MAX = 256, /* bytes that the kernel reads of a script: BINPRM_BUF_SIZE */
	/*
	 * Maximum length of a chain of scripts that interpret each other; the kernel allows five.
	 */
	SCRIPTS_MAX = 6
};

/*
 * Returns true if a file has a set-user-ID or set-group-ID bit, or capabilities, or if that is
 * unknown. Copies its start to `interpreter`.
 */
static bool changes_user(const char *path, char interpreter[INTERPRETER_MAX])
{
	struct stat st;
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t length = fd < 0 ? -1 : pread(fd, interpreter, INTERPRETER_MAX - 1, 0);
	bool changes = stat(path, &st) < 0
			       ? errno != ENOENT
			       : (st.st_mode & (S_ISUID | S_ISGID)) ||
					 getxattr(path, "security.capability", NULL, 0) >= 0;

	interpreter[length > 0 ? length : 0] = '\0';
	return changes;
}

/* Reads a path in a process. Returns false if it is unreadable or too long. */
static bool rights_read_path(pid_t pid, uint64_t address, char text[RIGHTS_PATH_MAX])
{
	size_t page = sysconf(_SC_PAGESIZE), length = 0;

	/* The next page may not be mapped. */
	while (length < RIGHTS_PATH_MAX) {
		size_t left = page - (address + length) % page;
		size_t room = RIGHTS_PATH_MAX - length;
		size_t got = memory_read(
			pid, address + length, text + length, left < room ? left : room);

		if (memchr(text + length, '\0', got))
			return true;
		if (!got)
			return false;
		length += got;
	}
	return false;
}

static void path_seen_by(pid_t pid, const char *name, char path[SEEN_PATH_MAX])
{
	snprintf(path, SEEN_PATH_MAX, "/proc/%d/%s/%s", pid, name[0] == '/' ? "root" : "cwd", name);
}

/*
 * Returns true if the program will keep its rights, judged by its files. *executes_ret is true if
 * execve(2) will likely succeed.
 */
static bool looks_safe(pid_t pid, uint64_t address, bool *executes_ret)
{
	char text[RIGHTS_PATH_MAX], path[SEEN_PATH_MAX], first[INTERPRETER_MAX];

	*executes_ret = true;
	if (!rights_read_path(pid, address, text))
		return false;
	path_seen_by(pid, text, path);
	for (unsigned int i = 0; i < SCRIPTS_MAX; i++) {
		const char *interpreter = first + 2;

		if (changes_user(path, first))
			return false;
		*executes_ret &= access(path, X_OK) == 0;
		if (strncmp(first, "#!", 2) != 0) {
			*executes_ret &= memcmp(first, ELFMAG, SELFMAG) == 0;
			return true;
		}
		interpreter += strspn(interpreter, " \t");
		first[interpreter - first + strcspn(interpreter, " \t\n")] = '\0';
		path_seen_by(pid, interpreter, path);
	}
	return false;
}

/*
 * Returns true if the program at this path keeps its rights under tracing, because we are root, or
 * because neither the file nor a script's interpreter changes the user. False if unknown.
 */
static bool rights_stay(pid_t pid, uint64_t address)
{
	bool executes;

	return geteuid() == 0 || looks_safe(pid, address, &executes);
}

/* ==== Hold ==================================================================================== */

/*
 * Begins to trace a thread while a guardian holds it in execve(2).
 *
 * Both ptrace(2) and execve(2) take the thread's cred_guard_mutex, below called the lock. Since
 * Linux 6.8 execve(2) opens the program's file before it takes the lock, but the interpreter of a
 * script after it; older kernels open all files after it. If we seized a thread that holds the
 * lock, we would wait for the guardian, which waits for us. So:
 *
 *	the file is the program's	seize, then release: execve(2) stops for certain
 *	the file is an interpreter's,	release, then seize: we wait for the lock, which the kernel
 *	or this is unknown		releases before the event of execve(2); mostly in time
 *
 * The guardian reports a thread before the thread sleeps. Only when the thread sleeps can we read
 * which file it executes. If other threads want the processor, it takes a while until the thread
 * sleeps.
 *
 * A thread that we seize too late is released at its next system call, and found by searching.
 *
 * To find out whether the file is the program's, we read the path that the thread has passed to
 * execve(2). We look the path up without accessing any file system (RESOLVE_CACHED), because the
 * kernel has just looked it up itself.
 *
 * Sources: fs/exec.c, kernel/ptrace.c of Linux; proc_pid_syscall(5); openat2(2).
 */

enum {
	LINUX_MAJOR = 6,
	LINUX_MINOR = 8,
	EVENTS_MAX = 64,
	/* How long to wait for a reported thread to sleep: a tenth of HOLD_NS. */
	QUEUED_NS = 50000000
};

static void launches_begin(
	struct launches *launches, pid_t pid, pid_t tid, const struct file_id *file);

/*
 * Returns the address of the path passed to execve(2), or 0. *running_ret is true if the thread
 * does not sleep yet.
 */
static uint64_t path_address(pid_t tid, bool *running_ret)
{
	char text[256] = "";
	unsigned long address;
	long call;

	if (file_read(procfs_path("/proc/%d/syscall", (int)tid).text, text, sizeof(text)) &&
		sscanf(text, "%ld %lx", &call, &address) == 2)
		return call == SYS_execve ? address : 0;
	*running_ret = strncmp(text, "running", strlen("running")) == 0;
	return 0;
}

/*
 * Returns true if the thread certainly does not hold the lock. *running_ret is true if it does not
 * sleep yet.
 */
static bool may_be_seized(const struct guardian_event *event, bool *running_ret)
{
	char name[RIGHTS_PATH_MAX];
	uint64_t address = procfs_kernel_is_since(LINUX_MAJOR, LINUX_MINOR)
				   ? path_address(event->tid, running_ret)
				   : 0;
	AUTO_FD int folder = -1, fd = -1;
	struct file_id file;

	if (!address || !rights_read_path(event->tid, address, name))
		return false;
	/* Open the path as the thread sees it, using only the kernel's cache. */
	folder = open(procfs_path("/proc/%d/%s", event->tid, name[0] == '/' ? "root" : "cwd").text,
		O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return false;
	fd = cached_open(folder, name, name[0] == '/' ? RESOLVE_IN_ROOT : 0);
	return fd >= 0 && cached_identify(fd, &file) && file_id_same(&file, &event->file);
}

/*
 * Handles a reported thread. If its file is unknown because it does not sleep yet, does nothing and
 * returns false, unless `at_once`.
 */
static bool serve_event(struct launches *launches, struct guardian *guardian,
	const struct guardian_event *event, bool at_once)
{
	bool running = false, seized;
	pid_t pid;

	/* Too late: the guardian has released the thread. */
	if (clock_monotonic_ns() >= event->until_ns) {
		launches->missed++;
		return true;
	}
	pid = (pid_t)procfs_status_number(event->tid, "Tgid:");
	seized = pid > 0 && may_be_seized(event, &running);
	if (running && !at_once)
		return false;
	if (seized)
		launches_begin(launches, pid, event->tid, &event->file);
	guardian_say(guardian, event->id);
	if (pid > 0 && !seized)
		launches_begin(launches, pid, event->tid, &event->file);
	return true;
}

/* Follows the threads that a guardian holds into their programs. */
static void hold_serve(struct launches *launches, struct guardian *guardian)
{
	static const struct timespec a_moment = {.tv_nsec = 100 * 1000};
	const uint64_t last_ns = clock_monotonic_ns() + QUEUED_NS;
	struct guardian_event events[EVENTS_MAX];
	size_t count = 0, left;
	bool at_once;

	do {
		at_once = clock_monotonic_ns() >= last_ns;
		while (count < EVENTS_MAX && guardian_next(guardian, &events[count]))
			count++;
		left = 0;
		for (size_t i = 0; i < count; i++)
			if (!serve_event(launches, guardian, &events[i], at_once))
				events[left++] = events[i];
		count = left;
		if (count)
			nanosleep(&a_moment, NULL);
	} while (count);
	launches->missed += guardian_missed(guardian);
}

/* ==== Launch ================================================================================== */

enum {
	/* Limit of launches_run(): other processes wait for its caller, too. */
	RUN_NS = 3000000,
	AWAKE_NS = 30000, /* how long to stay awake after a stop */
	LET_GO_NS = 2000000000
};

/* ---- At the gates ------------------------------------------------------------------- */

/*
 * Returns true if a thread may run through execve(2) without a stop. Its program must keep its
 * rights under tracing, and execve(2) must be likely to succeed: if it failed, a thread that does
 * not stop there could execute another, unchecked file. If this returns false, may_follow() decides
 * at the call.
 */
static bool may_be_followed(const struct waiter *waiter)
{
	uint16_t offset = arch_process()->gate_argument;
	uint64_t path;
	bool executes;

	return geteuid() == 0 || (offset && waiter->sp &&
					 memory_read(waiter->tid, waiter->sp + offset, &path,
						 sizeof(path)) == sizeof(path) &&
					 looks_safe(waiter->tid, path, &executes) && executes);
}

struct at_gate {
	const struct launches *launches;
	const struct launch_gate *gate;
};

/* Begins to follow a thread. Returns NULL if it cannot be followed. */
static struct launch *begin(
	struct launches *l, struct launch_gate *gate, pid_t pid, pid_t tid, bool may_go)
{
	struct launch *launch;

	if (!ARRAY_ROOM(l->items, l->count))
		return NULL;
	alarm_set(&l->alarm);
	launch = &l->items[l->count];
	*launch = (struct launch){.gate = gate,
		.passage = {.may_follow = rights_stay, .files = l->files, .yield = &l->yield}};
	passage_begin(&launch->passage, pid, tid, may_go);
	if (launch->passage.state == PASSAGE_OVER)
		return NULL;
	l->count++;
	return launch;
}

/* Follows a thread in execve(2) of a sought file, unless its process is already followed. */
static void launches_begin(
	struct launches *launches, pid_t pid, pid_t tid, const struct file_id *file)
{
	struct launch *launch;

	if (launches_have(launches, pid))
		return;
	launch = begin(launches, NULL, pid, tid, true);
	if (!launch) {
		launches->missed++;
		return;
	}
	launch->is_sought = true;
	launch->file = *file;
}

/* Returns the passage of a process before its execve(2), or NULL. */
static struct passage *find_on_way(const struct launches *l, pid_t pid)
{
	for (size_t i = 0; i < l->count; i++) {
		struct passage *p = &l->items[i].passage;

		if (p->pid == pid && !passage_is_through(p))
			return p;
	}
	return NULL;
}

/*
 * Returns true if a followed thread is leaving the gate, false if it waits there again after a
 * failed execve(2). Its turn tells which, unless two waiting threads have the same turn.
 */
static bool is_on_way(const void *data, int turn, pid_t pid, pid_t tid)
{
	const struct at_gate *at = data;
	const struct passage *p = find_on_way(at->launches, pid);
	const struct gate *gate = &at->gate->gate;

	return p && p->tid == tid &&
	       !(p->state == PASSAGE_THROUGH && gate_waiting(gate) < GATE_TURNS &&
		       gate_holds_turn(gate, (uint32_t)turn));
}

/* Traces the threads at a gate, then opens it. Returns false if a thread was not found yet. */
static bool serve(struct launches *l, struct launch_gate *gate)
{
	const struct at_gate at = {l, gate};
	struct waiters waiters = {0};
	bool all;

	gate->place.leave_out = is_on_way;
	gate->place.data = &at;
	all = waiters_find(&waiters, &gate->gate, &gate->place);
	gate->place.data = NULL;
	/* The first execve(2) ends a process's other threads. */
	for (size_t i = 0; all && i < waiters.count; i++) {
		const struct waiter *waiter = &waiters.items[i];
		struct passage *p = find_on_way(l, waiter->pid);

		if (p && p->tid == waiter->tid)
			passage_again(p, may_be_followed(waiter));
		else if (!p && (gate->place.children || waiter->pid == gate->place.pid))
			begin(l, gate, waiter->pid, waiter->tid, may_be_followed(waiter));
	}
	if (all && gate->gate.shared && gate_waiting(&gate->gate))
		gate_release(&gate->gate);
	free(waiters.items);
	return all;
}

struct probe_error *launches_add(struct launches *launches, struct launch_gate *gate)
{
	return ARRAY_ADD(launches->gates, launches->gate_count, gate) ? NULL
								      : probe_error_no_memory();
}

static void drop(struct launches *l, size_t i)
{
	probe_error_free(l->items[i].passage.told);
	l->count--;
	memmove(&l->items[i], &l->items[i + 1], (l->count - i) * sizeof(*l->items));
}

/*
 * Begins to release the threads of `gate`, or of all gates, before their execve(2). Returns true if
 * one is left.
 */
static bool let_go(struct launches *l, const struct launch_gate *gate)
{
	bool any = false;

	for (size_t i = l->count; i-- > 0;) {
		struct launch *launch = &l->items[i];

		if (gate && (launch->gate != gate || passage_is_through(&launch->passage)))
			continue;
		if (launch->passage.state != PASSAGE_LEAVING)
			passage_leave(&launch->passage);
		else
			passage_step(&launch->passage);
		if (launch->passage.state != PASSAGE_OVER)
			any = true;
		else if (!launch->passage.told)
			drop(l, i);
	}
	return any;
}

static void let_all_go(struct launches *l, const struct launch_gate *gate)
{
	uint64_t end = clock_monotonic_ns() + LET_GO_NS;
	struct control_signals signals = {0};

	control_signals_take(&signals);
	while (let_go(l, gate) && clock_monotonic_ns() < end)
		control_signals_wait(&signals);
	control_signals_give(&signals);
}

/* Counts gates not served in time: one thread left unseen, and later ones were not held. */
static void count_lapses(struct launches *l)
{
	for (size_t i = 0; i < l->gate_count; i++)
		l->missed += gate_has_lapsed(&l->gates[i]->gate);
}

void launches_remove(struct launches *launches, const struct launch_gate *gate)
{
	size_t i = 0;

	while (i < launches->gate_count && launches->gates[i] != gate)
		i++;
	if (i == launches->gate_count)
		return;
	count_lapses(launches);
	launches->gates[i] = launches->gates[--launches->gate_count];
	let_all_go(launches, gate);
	for (i = 0; i < launches->count; i++)
		if (launches->items[i].gate == gate)
			launches->items[i].gate = NULL;
}

/* ---- Following ---------------------------------------------------------------------- */

struct progress {
	bool any;   /* some thread is still on its way to being held */
	bool held;  /* some thread is held */
	bool moved; /* some thread has stopped and continued */
};

/*
 * Returns true if a sought program started without being held, so that it may have run wanted code.
 */
static bool is_missed(const struct launch *launch)
{
	struct file_id now;
	AUTO_FD int fd = -1;

	if (!launch->is_sought || launch->passage.nothing_lost)
		return false;
	fd = open(procfs_path("/proc/%d/exe", (int)launch->passage.pid).text, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return true;
	return cached_identify(fd, &now) && file_id_same(&now, &launch->file);
}

/* Advances every passage as far as it can go. */
static struct progress step_all(struct launches *l)
{
	uint64_t now = clock_monotonic_ns();
	struct progress progress = {0};

	for (size_t i = l->count; i-- > 0;) {
		struct passage *p = &l->items[i].passage;

		progress.moved |= passage_step(p);
		if (now >= p->deadline_ns && p->state < PASSAGE_LEAVING)
			passage_expire(p);
		progress.held |= p->state == PASSAGE_HELD;
		progress.any |= p->state < PASSAGE_HELD;
		if (p->state == PASSAGE_OVER && !p->told && !passage_lingers(p, now)) {
			l->missed += is_missed(&l->items[i]);
			drop(l, i);
		}
	}
	return progress;
}

void launches_run(struct launches *launches)
{
	uint64_t now = clock_monotonic_ns(), end = now + RUN_NS, moved = now;
	struct control_signals signals = {0};
	struct progress progress;
	bool all;

	if (!launches->count)
		alarm_unset(&launches->alarm);
	control_signals_take(&signals);
	for (;;) {
		gate_clear(launches->event);
		count_lapses(launches);
		if (launches->guardian)
			hold_serve(launches, launches->guardian);
		all = true;
		for (size_t i = 0; i < launches->gate_count; i++)
			all &= serve(launches, launches->gates[i]);
		progress = step_all(launches);
		now = clock_monotonic_ns();
		if (progress.moved)
			moved = now;
		if (progress.held || (all && !progress.any) || now >= end)
			break;
		/* Yield at first, because most stops come within microseconds. */
		if (all && (now - moved >= AWAKE_NS || !yield_once(&launches->yield)))
			control_signals_wait(&signals);
	}
	control_signals_give(&signals);
	if (progress.held || progress.any || !all)
		gate_raise(launches->event);
}

void launches_end(struct launches *launches)
{
	struct guardian *guardian = launches->guardian;
	struct guardian_event event;

	count_lapses(launches);
	/*
	 * Count the threads that were not held. Threads whose time has not passed are released at
	 * that moment, and do not count.
	 */
	while (guardian && guardian_next(guardian, &event))
		launches->missed += clock_monotonic_ns() >= event.until_ns;
	launches->missed += guardian ? guardian_missed(guardian) : 0;
	launches->guardian = NULL;
	let_all_go(launches, NULL);
	alarm_unset(&launches->alarm);
	guardian_end(guardian);
}

struct probe_error *launches_told(struct launches *launches, bool at_end)
{
	size_t before = launches->missed_told;

	for (size_t i = 0; i < launches->count; i++) {
		struct passage *passage = &launches->items[i].passage;
		struct probe_error *told = passage->told;

		if (!told)
			continue;
		passage->told = NULL;
		return told;
	}
	if (launches->missed == before || (launches->missed < 2 * before && !at_end))
		return NULL;
	launches->missed_told = launches->missed;
	return probe_error_new(PROBE_ERROR_ENDED,
		"%zu or more processes have started while too many others did, or while probectl "
		"was stopped or busy, or another tool (also probectl) had them: those that have "
		"ended since have not been seen",
		launches->missed);
}

struct probe_target *launches_take(
	struct launches *launches, uint64_t *unseen_ns_ret, bool *is_sought_ret)
{
	for (size_t i = 0; i < launches->count; i++) {
		struct passage *passage = &launches->items[i].passage;
		struct probe_target *target;
		struct probe_error *error;

		if (passage->state != PASSAGE_HELD)
			continue;
		target = target_create(0, 0);
		error = target ? passage_take(passage, target) : probe_error_no_memory();
		if (!error) {
			*unseen_ns_ret = passage->unseen_ns;
			*is_sought_ret = launches->items[i].is_sought;
			drop(launches, i);
			return target;
		}
		probe_error_free(error);
		free(target);
		passage_leave(passage);
	}
	return NULL;
}

bool launches_have(const struct launches *launches, pid_t pid)
{
	for (size_t i = 0; i < launches->count; i++)
		if (launches->items[i].passage.pid == pid)
			return true;
	return false;
}

bool launches_depend(const struct launches *launches, struct launch_gate *gate)
{
	for (size_t i = 0; i < launches->count; i++)
		if (launches->items[i].gate == gate &&
			!passage_is_through(&launches->items[i].passage))
			return true;
	return gate_take(&gate->gate);
}

struct probe_error *launches_init(struct launches *launches)
{
	*launches = (struct launches){.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	return launches->event < 0 ? probe_error_system(errno, "cannot make an event descriptor")
				   : files_create(&launches->files);
}

void launches_deinit(struct launches *launches)
{
	let_all_go(launches, NULL);
	while (launches->count)
		drop(launches, launches->count - 1);
	alarm_deinit(&launches->alarm);
	guardian_end(launches->guardian);
	free(launches->items);
	free(launches->gates);
	files_release(launches->files);
	cleanup_fd(&launches->event);
}
