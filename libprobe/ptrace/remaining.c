/* SPDX-License-Identifier: MIT */
/*
 * A wait that is restarted after a stop (restart.c) would get its whole limit again, and an event
 * loop's timers would be late. epoll_wait(2) and epoll_pwait(2) have their limit, in milliseconds,
 * in a register, where we put the remaining time, if three things are known for sure.
 *
 * When the wait began: for a sleeping thread, the scheduler's se.exec_start
 * (/proc/PID/task/TID/sched) is when it fell asleep, by the clock of its processor, which leaves
 * out interrupts and the hypervisor's time. To read that clock, we move to the processor and read
 * our own se.exec_start. The wait may seem shorter than it was, never longer.
 *
 * That it is still the same wait: the counters in /proc/PID/task/TID/schedstat change whenever the
 * thread gets a processor. We read them before the thread's state, and again right before the
 * interrupt. At most BETWEEN_NS lie between that and the interrupt, in which the thread can hardly
 * be woken, run its loop, and make the same call again.
 *
 * That the program does not need the register, which the kernel preserves: the code after the call
 * must be the C library's, which keeps to the ABI, and must not use it (struct arch,
 * argument_dies).
 *
 * Once a thread was asked to stop, its files are not read.
 *
 * Sources: proc_pid_syscall(5), sched(7); kernel/sched/debug.c, fair.c, stats.h of Linux.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "arch/arch.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)
#define BETWEEN_NS UINT64_C(50000)

enum {
	LOOKS = 256, /* threads that are examined in one stop */
	WAITS = 64,  /* waits that are noted; each holds a descriptor until the interrupt */
	/* The rates of the two clocks differ by less than 1/1000 (adjtimex(2)). */
	CLOCK_DRIFT = 1000,
	MARGIN_MS = 2,
	LIMIT = 3, /* index of the argument that is the time limit */
	CODE_BYTES = 256,
	COUNTERS_BYTES = 72
};

struct remaining_wait {
	pid_t tid;
	int counters; /* descriptor of schedstat, or -1 */
	char seen[COUNTERS_BYTES];
	uint64_t number, args[6], sp, pc;
	int left_ms;
	bool is_proven;
};

struct remaining {
	struct remaining_wait waits[WAITS];
	size_t count;
	cpu_set_t home; /* affinity mask of this thread before it moved; valid if has_moved */
	bool has_moved;
};

/* ---- What a thread is doing ----------------------------------------------------- */

/* Reads a file of a thread in /proc. Returns false if it is unreadable. */
static bool read_of(const struct control_thread *thread, const char *name, char *text, size_t size)
{
	return file_read(procfs_path("/proc/%d/task/%d/%s", thread->pid, thread->tid, name).text,
		text, size);
}

/*
 * Returns true if the thread sleeps in a wait whose limit is in a register. Also sets was_asleep.
 */
static bool read_wait(struct control_thread *thread, struct remaining_wait *wait)
{
	const struct arch_process *arch = arch_process();
	unsigned long long args[6], sp, pc;
	bool has_limit = false;
	char text[256];
	long number;

	if (!read_of(thread, "syscall", text, sizeof(text)))
		return false;
	thread->was_asleep = strcmp(text, "running\n") != 0;
	if (sscanf(text, "%ld %llx %llx %llx %llx %llx %llx %llx %llx", &number, &args[0], &args[1],
		    &args[2], &args[3], &args[4], &args[5], &sp, &pc) != 9 ||
		(int32_t)args[LIMIT] <= 0)
		return false;
	for (size_t i = 0; i < arch->limited_wait_count; i++)
		has_limit |= number == arch->limited_waits[i];
	if (!has_limit)
		return false;
	wait->number = (uint64_t)number;
	for (int i = 0; i < 6; i++)
		wait->args[i] = args[i];
	wait->sp = sp;
	wait->pc = pc;
	return true;
}

static bool read_counters(int fd, char *text)
{
	ssize_t length = pread(fd, text, COUNTERS_BYTES - 1, 0);

	text[length > 0 ? length : 0] = '\0';
	return length > 0;
}

/* Returns se.exec_start in ns from the text of a sched file, or 0 if unknown. */
static uint64_t last_ran_ns(const char *text)
{
	const char *at = strstr(text, "\nse.exec_start");
	unsigned long long ms;
	unsigned int ns;
	int from = 0, to = 0;

	if (!at || sscanf(at, " se.exec_start : %llu.%n%u%n", &ms, &from, &ns, &to) != 2 ||
		to - from != 6 || ms > UINT64_MAX / NS_PER_MS - 1)
		return 0;
	return ms * NS_PER_MS + ns;
}

/* ---- The time that is left -------------------------------------------------------- */

int remaining_ms(int limit_ms, uint64_t begun_ns, uint64_t now_ns)
{
	uint64_t limit_ns = (uint64_t)limit_ms * NS_PER_MS, waited, left;

	if (!begun_ns || now_ns < begun_ns)
		return limit_ms;
	waited = now_ns - begun_ns;
	if (waited > limit_ns + NS_PER_S) /* impossible: the wait would have ended before */
		return limit_ms;
	waited -= waited / CLOCK_DRIFT;
	left = waited < limit_ns ? limit_ns - waited : 0;
	left = (left + NS_PER_MS - 1) / NS_PER_MS + MARGIN_MS;
	return left < (uint64_t)limit_ms ? (int)left : limit_ms;
}

/* Returns the scheduler's clock of a processor in ns; 0 if we may not run there. */
static uint64_t clock_of_ns(struct remaining *r, int cpu)
{
	char text[1024];
	cpu_set_t there;

	CPU_ZERO(&there);
	CPU_SET(cpu, &there);
	if (!r->has_moved && sched_getaffinity(0, sizeof(r->home), &r->home) < 0)
		return 0;
	if (sched_setaffinity(0, sizeof(there), &there) < 0)
		return 0;
	r->has_moved = true;
	sched_yield(); /* makes the scheduler account our time */
	return file_read("/proc/thread-self/sched", text, sizeof(text)) ? last_ran_ns(text) : 0;
}

static bool measure(
	struct remaining *r, const struct control_thread *thread, struct remaining_wait *wait)
{
	int limit = (int32_t)wait->args[LIMIT], cpu = procfs_thread_cpu(thread->pid, thread->tid);
	uint64_t begun, now;
	char text[1024];

	if (cpu < 0 || cpu >= CPU_SETSIZE || !read_of(thread, "sched", text, sizeof(text)))
		return false;
	begun = last_ran_ns(text);
	now = begun ? clock_of_ns(r, cpu) : 0;
	wait->left_ms = remaining_ms(limit, begun, now);
	return wait->left_ms < limit;
}

/* ---- The code after the call -------------------------------------------------------- */

bool remaining_is_libc(const char *path)
{
	static const char *const forms[] = {
		"libc.so.6%.0s", "libc-2.%.0s", "ld-musl-%s.so.1", "libc.musl-%s.so.1"};
	const char *slash = strrchr(path, '/');
	char name[64];

	for (size_t i = 0; slash && i < sizeof(forms) / sizeof(*forms); i++) {
		snprintf(name, sizeof(name), forms[i], arch_process()->musl);
		if (strncmp(slash + 1, name, strlen(name)) == 0)
			return true;
	}
	return false;
}

static bool may_change(pid_t pid, const struct maps *maps, uint64_t pc)
{
	const struct mapping *mapping = maps_find(maps, pc);
	uint8_t code[CODE_BYTES];
	size_t length;

	if (!mapping || !mapping->executable || mapping->writable ||
		!remaining_is_libc(mapping->path))
		return false;
	length = mapping->end - pc < sizeof(code) ? mapping->end - pc : sizeof(code);
	length = memory_read(pid, pc, code, length);
	return arch_host()->argument_dies && arch_host()->argument_dies(code, length);
}

/* ---- Looking ---------------------------------------------------------------------------- */

/* Notes a wait. The counters are read first: while they stay the same, it is the same wait. */
static bool look(struct remaining *r, struct control_thread *thread, struct remaining_wait *wait)
{
	unsigned long long ran, waited, times;

	*wait = (struct remaining_wait){.tid = thread->tid, .counters = -1};
	/* Read the wait before opening a file, too, because most threads are in no such call. */
	if (!read_wait(thread, wait))
		return false;
	wait->counters =
		open(procfs_path("/proc/%d/task/%d/schedstat", thread->pid, thread->tid).text,
			O_RDONLY | O_CLOEXEC);
	/* The counters are zero if the kernel does not count. */
	if (wait->counters >= 0 && read_counters(wait->counters, wait->seen) &&
		sscanf(wait->seen, "%llu %llu %llu", &ran, &waited, &times) == 3 && ran && times &&
		read_wait(thread, wait) && measure(r, thread, wait))
		return true;
	cleanup_fd(&wait->counters);
	return false;
}

/* Drops waits after which the program's code needs the register. */
static void keep_fit(struct remaining *r, struct control_thread *threads, const size_t *indexes)
{
	bool known = false, fit = false;
	AUTO(maps_deinit) struct maps maps = {0};
	uint64_t pc = 0;
	pid_t pid = threads[indexes[0]].pid;
	struct probe_error *error = maps_read(pid, &maps);

	for (size_t i = 0; i < r->count; i++) {
		struct control_thread *thread = &threads[indexes[i]];
		struct remaining_wait *wait = &r->waits[i];

		if (!known || wait->pc != pc)
			fit = !error && may_change(pid, &maps, wait->pc);
		known = true;
		pc = wait->pc;
		if (fit)
			thread->wait = wait;
		else
			cleanup_fd(&wait->counters);
	}
	probe_error_free(error);
}

struct remaining *remaining_look(struct control_thread *threads, size_t count)
{
	struct remaining *r;
	size_t indexes[WAITS] = {0};

	if (!count || !seccomp_may_call(SECCOMP_OWN_MOVE) || !(r = calloc(1, sizeof(*r))))
		return NULL;
	for (size_t i = 0; i < count && i < LOOKS && r->count < WAITS; i++)
		if (look(r, &threads[i], &r->waits[r->count]))
			indexes[r->count++] = i;
	if (r->has_moved)
		sched_setaffinity(0, sizeof(r->home), &r->home);
	if (r->count)
		keep_fit(r, threads, indexes);
	return r;
}

void remaining_free(struct remaining *remaining)
{
	for (size_t i = 0; remaining && i < remaining->count; i++)
		cleanup_fd(&remaining->waits[i].counters);
	free(remaining);
}

/* ---- At the stop ------------------------------------------------------------------------ */

void remaining_interrupt(struct remaining_wait *wait)
{
	uint64_t begun = clock_monotonic_ns();
	char now[COUNTERS_BYTES];
	bool same = read_counters(wait->counters, now) && strcmp(now, wait->seen) == 0;

	ptrace(PTRACE_INTERRUPT, wait->tid, NULL, NULL);
	wait->is_proven = same && clock_monotonic_ns() - begun < BETWEEN_NS;
	cleanup_fd(&wait->counters); /* now, because the rest of the stop may need a descriptor */
}

void remaining_apply(const struct remaining_wait *wait, struct arch_registers *regs)
{
	bool same = wait->is_proven && arch_get(regs, ARCH_CALL) == wait->number &&
		    arch_get(regs, ARCH_PC) == wait->pc && arch_get(regs, ARCH_SP) == wait->sp;

	for (int i = 0; i <= LIMIT; i++)
		same = same && arch_get(regs, ARCH_ARG0 + i) == wait->args[i];
	if (same)
		arch_set(regs, ARCH_ARG0 + LIMIT, (uint64_t)wait->left_ms);
}
