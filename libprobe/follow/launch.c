/* SPDX-License-Identifier: MIT */
/*
 * From the gate at libc's execve() to a program that is held:
 *
 *   gate      a thread waits; which one is told by the futex that it waits for
 *   seize     it is traced from here on, and the gate opens
 *   passage   through execve(2) and its loader (libprobe/follow/passage.c)
 *   held      a session is started in it, and nobody is traced any more
 *
 * Many are on the way at once. Each goes on when it has stopped, whatever the others do: a
 * child of vfork(2) has its parent stand still, which may hold whom we wait for. We look at
 * those that we know by their ids, and take nobody else's events: the program that uses
 * this library has children of its own.
 *
 * A controller that dies on the way lets them go (the kernel detaches), and they
 * knew nothing. An execve() that fails is followed to its return, and let go:
 * execvp(3) tries one folder of PATH after the other. Who is let go on the way is found by
 * the struct probe_watch, like any program that did not come through a gate.
 *
 * Under a tracer without privileges, the kernel ignores the bits and capabilities
 * by which a file would run as somebody else. So such a file is not followed, but
 * let go before it runs.
 *
 * Sources: ptrace(2), "execve(2) under ptrace"; proc_pid_syscall(5).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/clock.h"
#include "libprobe/follow/launch.h"
#include "libprobe/process/memory.h"
#include "libprobe/process/procfs.h"
#include "libprobe/sandbox/seccomp.h"

enum {
	RUN_NS = 3000000, /* others wait for our caller, too */
	AWAKE_NS = 30000, /* behind a stop */
	LET_GO_NS = 2000000000,
	PROGRAM_PATH_MAX = 4096,
	INTERPRETER_MAX = 256 /* of a script: BINPRM_BUF_SIZE */
};

/* ---- What may be followed --------------------------------------------------------------- */

/*
 * Would the kernel ignore a file's set-user-ID bit or capabilities because of a tracer? If unknown:
 * true.
 */
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

/* Reads a path; false if there is none, or it is too long. */
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
static bool may_follow(pid_t pid, const struct arch_registers *regs)
{
	char text[PROGRAM_PATH_MAX], path[PROGRAM_PATH_MAX + 64], first[INTERPRETER_MAX];
	char second[INTERPRETER_MAX];
	const char *interpreter = first + 2;

	if (geteuid() == 0)
		return true;
	if (!read_path(pid, arch_get(regs, ARCH_ARG0), text))
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

/* ---- At the gates ------------------------------------------------------------------- */

static void begin(struct launches *l, struct launch_gate *gate, const struct waiter *waiter)
{
	struct launch *items = array_grow(l->items, l->count, sizeof(*items));
	struct launch *launch;

	if (!items)
		return;
	l->items = items;
	launch = &items[l->count];
	*launch = (struct launch){
		.gate = gate, .passage = {.may_follow = may_follow, .files = l->files}};
	passage_begin(&launch->passage, waiter->pid, waiter->tid);
	l->count += launch->passage.state != PASSAGE_OVER;
}

/* Is it being followed already? It may have left the gate, or be about to. `tid` 0: any thread. */
static bool is_on_way(const void *data, pid_t pid, pid_t tid)
{
	const struct launches *l = data;

	for (size_t i = 0; i < l->count; i++) {
		const struct passage *p = &l->items[i].passage;

		if (p->pid == pid && (!tid || p->tid == tid) && !passage_is_through(p))
			return true;
	}
	return false;
}

/*
 * Should it be followed? Only one thread of each process is: the execve(2) of the first ends the
 * others.
 */
static bool is_wanted(
	const struct launches *l, const struct launch_gate *gate, const struct waiter *waiter)
{
	return (gate->place.children || waiter->pid == gate->place.pid) &&
	       !is_on_way(l, waiter->pid, 0);
}

/* Opens a gate once each thread that waits there is traced; false while one is not found yet. */
static bool serve(struct launches *l, struct launch_gate *gate)
{
	struct waiters waiters = {0};
	bool all;

	gate->place.leave_out = is_on_way;
	gate->place.data = l;
	all = waiters_find(&waiters, &gate->gate, &gate->place);
	for (size_t i = 0; all && i < waiters.count; i++)
		if (is_wanted(l, gate, &waiters.items[i]))
			begin(l, gate, &waiters.items[i]);
	if (all && gate->gate.shared && gate_waiting(&gate->gate))
		gate_release(&gate->gate);
	free(waiters.items);
	return all;
}

struct probe_error *launches_add(struct launches *launches, struct launch_gate *gate)
{
	struct launch_gate **gates =
		array_grow(launches->gates, launches->gate_count, sizeof(*gates));

	if (!gates)
		return probe_error_no_memory();
	launches->gates = gates;
	gates[launches->gate_count++] = gate;
	return NULL;
}

static void drop(struct launches *l, size_t i)
{
	l->count--;
	memmove(&l->items[i], &l->items[i + 1], (l->count - i) * sizeof(*l->items));
}

/*
 * Lets go the threads that came through a gate (NULL: all) and have not executed another program.
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
		if (launch->passage.state == PASSAGE_OVER)
			drop(l, i);
		else
			any = true;
	}
	return any;
}

static void let_all_go(struct launches *l, const struct launch_gate *gate)
{
	uint64_t end = clock_monotonic_ns() + LET_GO_NS;
	struct control_signals signals;

	control_signals_take(&signals);
	while (let_go(l, gate) && clock_monotonic_ns() < end)
		control_signals_wait(&signals);
	control_signals_give(&signals);
}

void launches_remove(struct launches *launches, const struct launch_gate *gate)
{
	size_t i = 0;

	while (i < launches->gate_count && launches->gates[i] != gate)
		i++;
	if (i == launches->gate_count)
		return;
	launches->gates[i] = launches->gates[--launches->gate_count];
	let_all_go(launches, gate);
	for (i = 0; i < launches->count; i++)
		if (launches->items[i].gate == gate)
			launches->items[i].gate = NULL;
}

/* ---- On the way --------------------------------------------------------------------- */

struct progress {
	bool any;   /* not all have arrived */
	bool held;  /* one has arrived */
	bool moved; /* one has stopped and goes on */
};

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
		if (p->state == PASSAGE_OVER)
			drop(l, i);
	}
	return progress;
}

static bool serve_all(struct launches *l)
{
	bool all = true;

	gate_clear(l->event);
	for (size_t i = 0; i < l->gate_count; i++)
		all &= serve(l, l->gates[i]);
	return all;
}

/*
 * Most stops follow the last one within microseconds; sleeping and being woken takes longer.
 * Threads that share the processor with us run first.
 */
static void wait_for_stop(struct control_signals *signals, uint64_t moved_ns)
{
	if (clock_monotonic_ns() - moved_ns < AWAKE_NS && seccomp_may_call(SECCOMP_OWN_MOVE))
		sched_yield();
	else
		control_signals_wait(signals);
}

void launches_run(struct launches *launches)
{
	uint64_t now = clock_monotonic_ns(), end = now + RUN_NS, moved = now;
	struct control_signals signals;
	struct progress progress;
	bool all;

	control_signals_take(&signals);
	for (;;) {
		all = serve_all(launches);
		progress = step_all(launches);
		now = clock_monotonic_ns();
		if (progress.moved)
			moved = now;
		if (progress.held || (all && !progress.any) || now >= end)
			break;
		if (all)
			wait_for_stop(&signals, moved);
	}
	control_signals_give(&signals);
	if (progress.held || progress.any || !all)
		gate_raise(launches->event);
}

struct probe_target *launches_take(struct launches *launches)
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
	free(launches->items);
	free(launches->gates);
	files_release(launches->files);
	if (launches->event >= 0)
		close(launches->event);
}
