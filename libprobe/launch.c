/* SPDX-License-Identifier: MIT */
/*
 * From the gate at libc's execve() to a program that is held:
 *
 *   gate      a thread waits; which one is told by the futex that it waits for
 *   seize     it is traced from here on, and the gate opens
 *   execve    its event: the new program is there, nothing of it has run
 *   loader    as in libprobe/spawn.c
 *   hold      a session is started in it, and nobody is traced any more
 *
 * A controller that dies on the way lets it go (the kernel detaches), and it
 * knew nothing. An execve() that fails is followed to its return, and let go:
 * execvp(3) tries one folder of PATH after the other.
 *
 * Under a tracer without privileges, the kernel ignores the bits and capabilities
 * by which a file would run as somebody else. So such a file is not followed, but
 * let go before it runs.
 *
 * When a thread that is not the first one calls execve(), it takes over the id of
 * the first one with the event, and its own is gone.
 *
 * Sources: ptrace(2), "execve(2) under ptrace"; proc_pid_syscall(5).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/children.h"
#include "libprobe/launch.h"
#include "libprobe/memory.h"
#include "libprobe/procfs.h"

enum {
	FIND_TRIES = 50,
	FIND_WAIT_NS = 100000, /* between arriving at the gate and waiting there */
	WAIT_NS = 100000,
	PROGRAM_PATH_MAX = 4096,
	INTERPRETER_MAX = 256 /* of a script: BINPRM_BUF_SIZE */
};

/* ---- Who waits -------------------------------------------------------------------- */

struct waiter {
	pid_t pid, tid;
	bool wanted; /* to be followed */
	bool traced;
	int deliver; /* the signal that it was stopped by */
};

struct waiters {
	struct waiter *items;
	size_t count;
};

/* Does a thread wait for a futex at this address? */
static bool is_waiting(pid_t pid, pid_t tid, uint64_t address)
{
	char path[64], text[128];
	unsigned long long word;
	long number;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	return procfs_read(path, text, sizeof(text)) &&
	       sscanf(text, "%ld %llx", &number, &word) == 2 &&
	       (number == SYS_futex || number == SYS_restart_syscall) && word == address;
}

/*
 * One of each process: another one that waits would only get in the way of the
 * first, whose execve(2) ends it.
 */
static void find_in(struct waiters *waiters, pid_t pid, bool wanted, uint64_t address)
{
	DIR *threads = procfs_threads(pid);
	pid_t tid;

	while ((tid = procfs_next_thread(threads))) {
		struct waiter *items;

		if (!is_waiting(pid, tid, address))
			continue;
		items = reallocarray(waiters->items, waiters->count + 1, sizeof(*items));
		if (!items)
			break;
		waiters->items = items;
		items[waiters->count++] = (struct waiter){.pid = pid, .tid = tid, .wanted = wanted};
		wanted = false;
	}
	if (threads)
		closedir(threads);
}

static void find_below(struct waiters *waiters, pid_t pid, bool children, uint64_t address)
{
	pid_t *pids = children_of(pid);

	for (size_t i = 0; pids && pids[i]; i++) {
		find_in(waiters, pids[i], children, address);
		/* Who has memory of its own waits only if it is to be followed. */
		if (children)
			find_below(waiters, pids[i], children, address);
	}
	free(pids);
}

/* All that have arrived, once they wait. */
static void find_waiters(
	struct waiters *waiters, pid_t pid, bool children, uint32_t expected, uint64_t address)
{
	for (int i = 0; i < FIND_TRIES; i++) {
		if (i)
			nanosleep(&(struct timespec){.tv_nsec = FIND_WAIT_NS}, NULL);
		waiters->count = 0;
		find_in(waiters, pid, true, address);
		if (waiters->count < expected)
			find_below(waiters, pid, children, address);
		if (waiters->count >= expected)
			return;
	}
}

/* ---- What may be followed --------------------------------------------------------------- */

/* Would the kernel take rights from a file because of a tracer? Unknown ones count. */
static bool changes_user(const char *path, char interpreter[INTERPRETER_MAX])
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t length = fd < 0 ? -1 : pread(fd, interpreter, INTERPRETER_MAX - 1, 0);
	bool changes = stat(path, &st) < 0
			       ? errno != ENOENT
			       : (st.st_mode & (S_ISUID | S_ISGID)) ||
					 getxattr(path, "security.capability", NULL, 0) >= 0;

	if (fd >= 0)
		close(fd);
	interpreter[length > 0 ? length : 0] = '\0';
	return changes;
}

/* Reads a path; false where there is none, or too long a one. */
static bool read_path(pid_t pid, uint64_t address, char text[PROGRAM_PATH_MAX])
{
	size_t page = sysconf(_SC_PAGESIZE), length = 0;

	/* Page by page: the next one may not be mapped. */
	while (length < PROGRAM_PATH_MAX) {
		size_t left = page - (address + length) % page;
		size_t room = PROGRAM_PATH_MAX - length;
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

/* Of the file, and of the interpreter that it names if it is a script. */
static bool may_follow(pid_t pid, uint64_t name)
{
	char text[PROGRAM_PATH_MAX], path[PROGRAM_PATH_MAX + 64], first[INTERPRETER_MAX];
	char second[INTERPRETER_MAX];
	const char *interpreter = first + 2;

	if (geteuid() == 0)
		return true;
	if (!read_path(pid, name, text))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/%s/%s", pid, text[0] == '/' ? "root" : "cwd", text);
	if (changes_user(path, first))
		return false;
	if (strncmp(first, "#!", 2) != 0)
		return true;
	interpreter += strspn(interpreter, " \t");
	first[interpreter - first + strcspn(interpreter, " \t\n")] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/root/%s", pid, interpreter);
	return !changes_user(path, second);
}

/* ---- Following ---------------------------------------------------------------------------- */

/*
 * Waits for the next stop of a thread, or of what it has become; returns the id
 * that stopped, or -1 when it is gone.
 */
static pid_t wait_either(const struct waiter *w, int *status_ret)
{
	if (w->tid == w->pid)
		return control_wait(w->pid, status_ret, 0);
	for (;;) {
		pid_t id = control_wait(w->tid, status_ret, WNOHANG);

		if (id < 0)
			id = control_wait(w->pid, status_ret, WNOHANG);
		if (id)
			return id;
		nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
	}
}

static void seize(struct waiter *w)
{
	int status;

	if (ptrace(PTRACE_SEIZE, w->tid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC) < 0 ||
		ptrace(PTRACE_INTERRUPT, w->tid, NULL, NULL) < 0 ||
		control_wait(w->tid, &status, 0) != w->tid)
		return;
	w->traced = true;
	/* A signal may have come first; the interrupt follows. */
	if (!(status >> 16))
		w->deliver = WSTOPSIG(status);
	if (status >> 16 != PTRACE_EVENT_STOP || WSTOPSIG(status) == SIGTRAP)
		return;
	/* Stopped like its process, which it stays. */
	w->traced = false;
	ptrace(PTRACE_DETACH, w->tid, NULL, NULL);
}

/* Is a stop behind, or before, a system call that is no part of the way to execve()? */
static bool is_astray(const struct waiter *w, bool *entered)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, w->tid, NULL, &regs) < 0)
		return true;
	if (regs.orig_rax == SYS_futex || regs.orig_rax == SYS_restart_syscall)
		return false;
	if (regs.orig_rax != SYS_execve || *entered) /* the second stop: it has failed */
		return true;
	*entered = true;
	return !may_follow(w->tid, regs.rdi);
}

/* From the gate to the event of execve(); false where it does not come, and all is let go. */
static bool follow_to_exec(struct waiter *w)
{
	bool entered = false;
	int deliver = w->deliver;

	for (;;) {
		int status;
		pid_t id;

		if (ptrace(PTRACE_SYSCALL, w->tid, NULL, (long)deliver) < 0)
			return false;
		id = wait_either(w, &status);
		if (id < 0)
			return false;
		deliver = 0;
		if (status >> 16 == PTRACE_EVENT_EXEC)
			return true;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			if (is_astray(w, &entered))
				break;
		} else if (status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP) {
			break; /* it is stopped like its process, and stays so */
		} else if (!(status >> 16)) {
			deliver = WSTOPSIG(status);
		}
	}
	ptrace(PTRACE_DETACH, w->tid, NULL, NULL);
	return false;
}

static void hold(struct launches *launches, pid_t pid)
{
	struct probe_target **items =
		reallocarray(launches->items, launches->count + 1, sizeof(*items));
	struct probe_target *target = calloc(1, sizeof(*target));
	struct probe_error *error = NULL;

	if (items)
		launches->items = items;
	if (items && target) {
		target->pid = pid;
		target->mem = -1;
		error = spawn_hold(target, "a program");
		if (!error) {
			launches->items[launches->count++] = target;
			return;
		}
	}
	probe_error_free(error);
	free(target);
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
}

void launch_catch(
	struct launches *launches, pid_t pid, bool children, struct gate *gate, uint64_t shared)
{
	struct waiters waiters = {0};

	find_waiters(&waiters, pid, children, gate_waiting(gate),
		shared + offsetof(struct probe_gate, released));
	for (size_t i = 0; i < waiters.count; i++)
		if (waiters.items[i].wanted)
			seize(&waiters.items[i]);
	gate_release(gate);
	for (size_t i = 0; i < waiters.count; i++)
		if (waiters.items[i].traced && follow_to_exec(&waiters.items[i]))
			hold(launches, waiters.items[i].pid);
	free(waiters.items);
}

struct probe_target *launch_take(struct launches *launches)
{
	struct probe_target *first;

	if (!launches->count)
		return NULL;
	first = launches->items[0];
	launches->count--;
	memmove(launches->items, launches->items + 1, launches->count * sizeof(*launches->items));
	return first;
}

void launches_deinit(struct launches *launches)
{
	struct probe_target *target;

	while ((target = launch_take(launches)))
		probe_target_close(target);
	free(launches->items);
	*launches = (struct launches){0};
}
